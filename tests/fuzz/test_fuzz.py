"""A fuzzer: mutated input, what is fed with it, and what counts as an answer."""

import base64
import bz2
import copy
import io
import json
import random
import signal
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pcer
from pcer.auditing.record import parse_plan
from pcer.cli.audit import print_audits
from pcer.data import TablePlan, read_table
from pcer.errors import PcerError, printable
from pcer.files import parse_json
from pcer.measuring.plan import Benefit
from pcer.release.build import ReleaseFacts
from pcer.release.disclosure import Disclosure
from pcer.release.file import parse_release
from pcer.release.panel import carried_attacks, panels
from pcer.report import (
    to_junit,
    to_latex_tables,
    to_markdown_page,
    to_report,
    verify_report,
)
from pcer.report.verify import verify_audit
from pcer.tables import PredictionColumns, releases_from_table
from tests.commands import GOOD, SAMPLES, run
from tests.release.test_file import full_release, release_of
from tests.strategies import holder_of, places

# Structure-aware mutation: trees of plain objects, their JSON text, tables as text,
# pages.

NAMES = [
    *("", " ", "\u200b", "a", "A", "ﬁ", "fi", "epsilon", "groups", "config", "x" * 201),
    *(
        "x" * 5_000,
        "\u202eabc",
        "\x1b[31m",
        "a\nb",
        "a\u2028b",
        "\uffff",
        "\ud800",
        "💥",
    ),
    *(
        "\U000e0041",
        "مجموعة",
        "</script>",
        "{{7*7}}",
        "var(--evil)",
        "var(--ink)",
        r"\u202e",
    ),
    *("'", '"', "`|*_", "%s", "../x", "[bold]x[/bold]", "NaN", "null", "__proto__"),
    *("overfitting_gap", "paired_gap", "lira_advantage", "toString", "constructor"),
]
NUMBERS = [
    *(
        0,
        1,
        -1,
        2,
        3,
        10,
        199,
        200,
        201,
        2**31,
        2**53,
        2**53 + 1,
        2**63 - 1,
        2**63,
        10**15,
        10**16,
    ),
    *(
        0.0,
        -0.0,
        0.5,
        1.0,
        1e-9,
        1e-300,
        5e-324,
        1e16,
        1e300,
        1.7e308,
        -1e300,
        0.1,
        1.5,
        10**400,
    ),
]
VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        [],
        {},
        [None],
        json.loads("[" * 400 + "]" * 400),
        {"a": 1},
        "random",
        "other",
        "benefit",
        "harm",
    ),
    *("counts", "both", "label", "train", "test", {"value": 0.1}),
    *(
        {"tp": 1, "fp": 1, "tn": 1, "fn": 1},
        {"accuracy": 0.5},
        {"accuracy": 0.5, "n": 9},
    ),
    {"accuracy": 0.5, "positive_rate": 0.5, "n": 9},
]
TOKENS = [
    *("NaN", "Infinity", "-Infinity", "1e999", "-0", "1e-999", "9" * 400, "9" * 5_000),
    '"\\ud800"',
]


def mutated(tree: Any, chance: random.Random) -> Any:
    """The tree with one to four changes."""
    changed = copy.deepcopy(tree)
    for _ in range(1 + chance.randrange(4) // 2):
        if found := list(places(changed)):
            _change(changed, chance.choice(found), chance)
    return changed


def mutated_text(tree: Any, chance: random.Random) -> str:
    """JSON of the changed tree, now and then with a change that only a text can have."""
    text = json.dumps(mutated(tree, chance), ensure_ascii=chance.random() < 0.5)
    return broken(text, chance) if chance.random() < 0.15 else text


def broken(text: str, chance: random.Random) -> str:
    """Text with a piece cut out, doubled, replaced or put in."""
    at = chance.randrange(len(text) + 1)
    end = min(len(text), at + chance.choice([0, 1, 1, 2, 10, 300]))
    hostile = chance.choice(TOKENS), chance.choice(NAMES)
    piece = chance.choice(["", text[at:end] * 2, *hostile, '"seed": 0,', "[" * 5_000])
    return text[:at] + piece + text[end:] if chance.random() < 0.8 else text[:at]


def _change(tree: Any, place: tuple[Any, ...], chance: random.Random) -> None:
    """Change one place in one of eight ways."""
    holder, key = holder_of(tree, place), place[-1]
    value, is_list, name = holder[key], isinstance(holder, list), chance.choice(NAMES)
    kind = chance.choice(KINDS)
    if kind == "replace":
        holder[key] = copy.deepcopy(
            chance.choice(chance.choice([NAMES, NUMBERS, VALUES]))
        )
    elif kind == "nudge" and isinstance(value, str):
        holder[key] = value + chance.choice(["", " ", "x", "\u00ad", "é"])
    elif kind == "nudge" and type(value) in (
        int,
        float,
    ):  # mostly plausible: these get far
        holder[key] = chance.choice(
            [value + 1, value - 1, value * 2, value * 10, 0, abs(value) + 3]
        )
    elif kind == "remove":
        del holder[key]
    elif kind == "repeat":
        again = copy.deepcopy(value)
        holder.insert(key, again) if is_list else holder.update({name: again})
    elif kind == "rename":
        chance.shuffle(holder) if is_list else holder.update({name: holder.pop(key)})
    elif kind == "move":  # a copy of another part
        other = chance.choice(list(places(tree)))
        holder[key] = copy.deepcopy(holder_of(tree, other)[other[-1]])
    elif kind == "rename group":
        _rename_group(tree, chance)


def _rename_group(tree: Any, chance: random.Random) -> None:
    """Another name for a group, as honest files would have it: it gets through to every output."""
    try:
        groups = tree["subject"]["groups"]
        old, new = chance.choice(groups), chance.choice(NAMES)
        groups[groups.index(old)] = new
        for run in tree["runs"]:
            run["groups"][new] = run["groups"].pop(old)
    except (AttributeError, IndexError, KeyError, TypeError):
        return  # an earlier change was there


KINDS = [
    *["replace"] * 2,
    *["nudge"] * 3,
    "remove",
    "repeat",
    "rename",
    "move",
    "rename group",
]


def mutated_table(text: str, chance: random.Random) -> str:
    """A table as text with other cells, headers, separators or bytes."""
    lines = text.splitlines()
    for _ in range(1 + chance.randrange(4)):
        row = chance.randrange(len(lines))
        cells = lines[row].split(",")
        at = chance.randrange(len(cells))
        change = chance.randrange(6)
        if change < 3:
            hostile = chance.choice(
                [chance.choice(NAMES), str(chance.choice(NUMBERS)), "", "nan"]
            )
            cells[at] = hostile if change < 2 else f'"{hostile}"'
        elif change == 3:
            cells.insert(at, cells[at])
        elif change == 4 and len(cells) > 1:
            del cells[at]
        lines[row] = ",".join(cells)
        if change == 5:
            lines[row:row] = [lines[row]] * chance.choice([1, 30])
    joined = chance.choice(["\n", "\n", "\n", "\r\n", "\r"]).join(lines) + "\n"
    return broken(joined, chance) if chance.random() < 0.2 else joined


def mutated_parquet(text: str, chance: random.Random) -> bytes:
    """The table in Parquet: columns of other types or names, or other bytes."""
    frame = pd.read_csv(io.StringIO(text))
    for _ in range(chance.randrange(3)):
        name = chance.choice([*frame.columns])
        column = chance.choice(PARQUET_COLUMNS)(frame[name])
        frame = frame.assign(**{name: column})
    if chance.random() < 0.3:
        names = [*frame.columns]
        names[chance.randrange(len(names))] = chance.choice([*NAMES, *names])
        frame.columns = pd.Index(names, dtype=object)
    if chance.random() < 0.1:
        frame = frame.iloc[: chance.choice([0, 1, 30])]
    stream = io.BytesIO()
    with suppress(ValueError, TypeError, UnicodeError, pa.ArrowException):
        table = pa.Table.from_pandas(frame, preserve_index=False)
        pq.write_table(table, stream, compression=chance.choice(["snappy", "none"]))
    data = bytearray(stream.getvalue())
    while data and chance.random() < 0.4:
        at = chance.randrange(len(data))
        if chance.random() < 0.3:
            del data[at : at + chance.choice([1, 4, 1_000])]
        else:
            data[at] = chance.randrange(256)
    return bytes(data)


# What another tool may write in a column's place.
PARQUET_COLUMNS: list[Callable[[pd.Series], Any]] = [
    lambda column: column.astype(str),
    lambda column: column.astype("category"),
    lambda column: [str(value) == str(column.iloc[0]) for value in column],
    lambda column: [None] * len(column),
    lambda column: [value if k % 7 else None for k, value in enumerate(column)],
    lambda column: [[value] for value in column],
    lambda column: [{"value": value} for value in column],
    lambda column: [Decimal(k % 2) for k in range(len(column))],
    lambda column: [str(value).encode() for value in column],
    lambda column: (
        pd.Timestamp("2024-01-01") + pd.to_timedelta(range(len(column)), "D")
    ),
    lambda column: np.where(np.arange(len(column)) % 2, np.inf, np.nan),
    lambda column: np.arange(len(column), dtype=np.uint64) + np.uint64(2**63),
    lambda column: (np.arange(len(column)) % 2).astype(np.float16),
]


# What is fed with it.

SECONDS = 10
"""What one input may take."""
QUICK = {"resamples": 60, "null_draws": 60}
EVERY_RULE = {
    **{"strict": True, "min_splits": 3, "required_attacks": ["lira_advantage"]},
    **{"largest_exposure": 60, "largest_difference": 10, "largest_detectable": 60},
    "fail_on": ["none_detected", "outcomes_differ", "floor_sensitive"],
}
"""A policy that asks for everything."""
PREDICTIONS = "y_true,y_pred,split,sex,seed\n" + "".join(
    f"{k % 2},{k // 2 % 2},{'train' if k % 3 else 'test'},{'mf'[k % 5 > 2]},{k % 2}\n"
    for k in range(240)
)
FACTS = ReleaseFacts(
    dataset="d",
    outcome="harm",
    split_kind="random",
    disclosure=Disclosure(public_data=True),
)
OWN = TablePlan(label="y_true", positive="1", attributes=("sex",), outcome="harm")


@cache
def trees() -> list[dict[str, Any]]:
    """Good releases to begin with."""
    names = ("counts", "rates", "by-hand")
    read = [
        json.loads((SAMPLES / f"{name}.release.json").read_text()) for name in names
    ]
    many = release_of(n_groups=3, n_seeds=3, budgets=(None, 1.0))
    for k, tables in enumerate(many["runs"][0]["groups"].values()):
        for part in ("train", "test"):
            tables[part] = {"tp": 40 + k, "fp": 9, "tn": 50, "fn": 11 + k}
    return [
        *read,
        full_release("counts"),
        full_release("rates"),
        json.loads(json.dumps(many)),
    ]


@cache
def good_page() -> str:
    good = parse_release(trees()[-1], file="x")
    return to_report([pcer.audit(good, parse_plan(QUICK, file="x"))], [good])


@cache
def good_audit() -> Any:
    return json.loads(
        pcer.audit(pcer.read_release(GOOD), parse_plan(QUICK, file="x")).to_json()
    )


def read_one(chance: random.Random, _: Path) -> pcer.Release:
    """One mutated release through the reader."""
    text = mutated_text(chance.choice(trees()), chance)
    return parse_release(parse_json(text, file="x"), file="x")


def audit_one(chance: random.Random, folder: Path) -> None:
    """The first mutated release that is taken, through the audit and every renderer."""
    release = None
    while release is None:
        with suppress(PcerError):
            release = read_one(chance, folder)
    audit = pcer.audit(release, plan_for(release, chance))
    junit, tree = to_junit([audit], ["ratio_differs"]), json.loads(audit.to_json())
    texts = [
        to_markdown_page([audit]),
        to_latex_tables([audit]),
        junit,
        audit.to_json(),
    ]
    with redirect_stdout(io.StringIO()) as terminal:
        print_audits([audit], chance.choice(["summary", "short", "full", "paper"]))
    for text in (*texts, terminal.getvalue()):
        hidden = {one for one in text if printable(one, keep="\n") != one}
        assert not hidden, f"{hidden!r} in an output"
    assert to_report([audit], [release]).endswith("</html>\n")
    assert verify_audit(tree, [release]) is None, "its own audit differs"


def plan_for(release: pcer.Release, chance: random.Random) -> pcer.Plan:
    """A plan that a person may have for it, or a mutated one."""
    attacks = ["overfitting_gap", *carried_attacks(panels(release))]
    benefits = ["positive_rate", *get_args(Benefit)]
    policies = [None, {"strict": True}, {"largest_exposure": 51}, EVERY_RULE]
    options = {
        **QUICK,
        "attack": chance.choice(attacks),
        "benefit": chance.choice(benefits),
        "reference_group": chance.choice([None, *release.subject.groups]),
        "policy": chance.choice(policies),
    }
    if chance.random() < 0.2:
        options = {**mutated(options, chance), **QUICK}
    return parse_plan(options, file="plan")


def page_one(chance: random.Random, folder: Path) -> None:
    """A page with a mutated text or payload through ``verify``: whatever was changed is found."""
    head, start, rest = good_page().partition(
        '<script type="application/json" id="pcer-report">'
    )
    payload, end, tail = rest.partition("</script>")
    carried = json.loads(payload)
    if chance.random() < 0.5:  # what is packed
        release = json.loads(bz2.decompress(base64.b64decode(carried["releases"][0])))
        mutated = mutated_text(release, chance).encode("utf-8", "surrogatepass")
        carried["releases"][0] = base64.b64encode(bz2.compress(mutated)).decode()
        inside = json.dumps(carried)
    else:
        inside = mutated_text(carried, chance).replace("<", "\\u003c")
    text = f"{head}{start}{inside}{end}{tail}"
    text, path = (
        chance.choice([broken(good_page(), chance), text]),
        folder / "page.html",
    )
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    difference = verify_report(path)
    assert difference is not None or text == good_page(), "a changed page agrees"


def table_one(
    chance: random.Random,
    folder: Path,
    *,
    is_own: bool = False,
    is_parquet: bool = False,
) -> None:
    """One mutated table of predictions, or the same as a person's own table."""
    path = folder / "table.csv"
    if is_parquet:
        path = folder / "table.parquet"
        path.write_bytes(mutated_parquet(PREDICTIONS, chance))
    else:
        text = mutated_table(PREDICTIONS, chance)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
    if is_own:
        assert read_table(path, OWN).dataset.n_records > 0
        return
    for made in releases_from_table(
        path, PredictionColumns(attributes=("sex",)), FACTS
    ).values():
        parse_release(json.loads(made.to_json()), file="again")


def exit_code(*arguments: object) -> int:
    """Of a command that says one sentence where it refuses."""
    done = run(*arguments)
    is_told = done.stderr.startswith("pcer: ") and done.stderr.count("\n") == 1
    assert done.returncode in (0, 1, 2 * is_told), (
        f"{done.returncode}: {done.stderr[-300:]!r}"
    )
    return done.returncode


def quick_plan(folder: Path) -> Path:
    path = folder / "plan.toml"
    path.write_text("resamples = 20\n", encoding="utf-8")
    return path


def command_one(chance: random.Random, folder: Path) -> None:
    """One mutated release through the command line."""
    path = folder / "one.release.json"
    path.write_bytes(
        mutated_text(chance.choice(trees()), chance).encode("utf-8", "surrogatepass")
    )
    option = chance.choice(["--json", "--markdown", "--latex", "--junit", "--html"])
    arguments = chance.choice([[], [option, str(folder / "out")], [option, "-"]])
    assert exit_code("audit", path, *arguments, "--plan", quick_plan(folder)) != 1


def verify_one(chance: random.Random, folder: Path) -> None:
    """One mutated audit through the command line: whatever was changed is found."""
    path = folder / chance.choice(["a.json", "a.JSON", "a.html", "a.txt"])
    text = mutated_text(good_audit(), chance)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    code = exit_code("verify", path, GOOD)
    assert code or (path.suffix.lower(), json.loads(text)) == (".json", good_audit())


def policy_one(chance: random.Random, folder: Path) -> None:
    """One mutated policy through the command line."""
    rules, path = mutated(EVERY_RULE, chance).items(), folder / "policy.toml"
    text = "".join(f"{json.dumps(name)} = {json.dumps(rule)}\n" for name, rule in rules)
    text = broken(text, chance) if chance.random() < 0.5 else text
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    exit_code("audit", GOOD, "--policy", path, "--plan", quick_plan(folder))


TARGETS: dict[str, Callable[[random.Random, Path], object]] = {
    "read": read_one,
    "audit": audit_one,
    "command": command_one,
    "page": page_one,
    "verify": verify_one,
    "policy": policy_one,
    "table": table_one,
    "own table": partial(table_one, is_own=True),
    "parquet": partial(table_one, is_parquet=True),
    "own parquet": partial(table_one, is_own=True, is_parquet=True),
}


def outcome(target: str, seed: int, folder: Path) -> str:
    """How one input ends: what is no answer and not one sentence, or takes too long, is told."""

    def stop(*_: object) -> None:
        raise TimeoutError("it takes too long")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        TARGETS[target](random.Random(seed), folder)
        return "answered"
    except PcerError as error:
        text = str(error)
        is_sentence = text and printable(text) == text and len(text) < 4_000
        return "refused" if is_sentence else f"{seed}: not one sentence: {text!r}"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{seed}: {type(error).__name__}: {error!s:.400} ({last.name}:{last.lineno})"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def fuzz(n: dict[str, int], seed: int) -> Counter[tuple[str, str]]:
    """How so many inputs for each target end, from a seed on."""
    start = seed * 100_000_000
    trees(), good_page()  # outside of the time that one input may take
    with tempfile.TemporaryDirectory() as name:
        return Counter(
            (target, outcome(target, k, Path(name)))
            for target, times in n.items()
            for k in range(start, start + times)
        )


SHORT = dict.fromkeys(TARGETS, 4) | {
    "read": 1_000,
    "command": 3,
    "page": 12,
    "verify": 40,
    "policy": 20,
}
LONG = dict.fromkeys(TARGETS, 500) | {"read": 30_000, "command": 60}


@pytest.mark.parametrize("wanted", [SHORT, pytest.param(LONG, marks=pytest.mark.slow)])
def test_nothing_ends_but_in_an_answer_or_one_sentence(wanted):
    ends = fuzz(wanted, seed=3 + (wanted is LONG))
    assert [end for end in ends if end[1] not in ("answered", "refused")] == []
    assert ends["read", "refused"] + ends["read", "answered"] == wanted["read"]
    for target in ("read", "audit", "page"):
        assert ends[target, "answered"] > 0, target
    assert ends["read", "refused"] > 0
