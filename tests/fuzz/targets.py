"""What is fed with mutated input, and what counts as an answer."""

from __future__ import annotations

import io
import json
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pcer
from pcer.auditing.file import parse_plan
from pcer.cli.audit import print_audits
from pcer.errors import PcerError, shown
from pcer.files import parse_json
from pcer.release.format import parse_release
from pcer.release.panel import carried_costs, panels
from pcer.report import to_junit, to_latex_tables, to_markdown_page, to_report, verify_report
from pcer.report.verify import verify_audit
from tests.fuzz.mutate import broken, mutated, mutated_table, mutated_text
from tests.release.test_format import full_release, release_of

SECONDS, MEGABYTES = 10, 2_000
"""What one input may take."""
SAMPLES = Path(__file__).parents[1] / "releases"
QUICK = {"resamples": 60, "null_draws": 60}
EVERY_RULE = {
    "strict": True,
    "min_splits": 3,
    "required_costs": ["lira_advantage"],
    "largest_exposure": 0.1,
    "largest_difference": 0.1,
    "largest_detectable": 0.1,
    "fail_on": ["not_resolved", "floor_sensitive"],
}
"""A policy that asks for everything."""
PREDICTIONS = "y_true,y_pred,split,sex,seed\n" + "".join(
    f"{k % 2},{k // 2 % 2},{'train' if k % 3 else 'test'},{'mf'[k % 5 > 2]},{k % 2}\n"
    for k in range(240)
)


@dataclass
class Findings:
    """What came out: how many of each kind, and what should not have been."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def trees() -> list[dict[str, Any]]:
    """Good releases to begin with."""
    names = ("counts", "rates", "by-hand")
    read = [json.loads((SAMPLES / f"{name}.release.json").read_text()) for name in names]
    many = release_of(n_groups=3, n_seeds=3, budgets=(None, 1.0))
    for k, tables in enumerate(many["runs"][0]["groups"].values()):
        for part in ("train", "test"):
            tables[part] = {"tp": 40 + k, "fp": 9, "tn": 50, "fn": 11 + k}
    return [*read, full_release("counts"), full_release("rates"), json.loads(json.dumps(many))]


@contextmanager
def watched(findings: Findings, what: str, seed: int) -> Iterator[None]:
    """Whatever ends but in an answer or one sentence is a failure; so is what takes too long."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"longer than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
        findings.counts[f"{what}: answered"] += 1
    except PcerError as error:
        findings.counts[f"{what}: refused"] += 1
        text = str(error)
        if not text or shown(text) != text or len(text) >= 4_000:
            findings.failures.append(f"{what} {seed}: not one sentence: {text!r}")
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        findings.failures.append(
            f"{what} {seed}: {type(error).__name__}: {error!s:.200} ({last.name}:{last.lineno})"
        )
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def read_one(seed: int, bases: list[dict[str, Any]], findings: Findings) -> pcer.Release | None:
    """One mutated release through the reader; the release, if it is taken."""
    chance = random.Random(seed)
    text = mutated_text(chance.choice(bases), chance)
    with watched(findings, "read", seed):
        return parse_release(parse_json(text, file="x"), file="x")
    return None


def audit_one(seed: int, release: pcer.Release, findings: Findings) -> None:
    """One accepted release through the audit and every renderer."""
    chance = random.Random(seed)
    with watched(findings, "audit", seed):
        audit = pcer.audit(release, plan_for(release, chance))
        junit, tree = to_junit([audit], ["disparity_shown"]), json.loads(audit.to_json())
        texts = [to_markdown_page([audit]), to_latex_tables([audit]), junit, audit.to_json()]
        with redirect_stdout(io.StringIO()) as terminal:
            print_audits([audit], full=chance.random() < 0.5)
        for text in (*texts, terminal.getvalue()):
            hidden = {one for one in text if shown(one, keep="\n") != one}
            assert not hidden, f"{hidden!r} in an output"
        assert to_report([audit], [release]).endswith("</html>\n")
        assert verify_audit(tree, [release]) is None, "its own audit differs"


def plan_for(release: pcer.Release, chance: random.Random) -> pcer.Plan:
    """A plan that a person may have for it, or a mutated one."""
    costs = ["overfitting_gap", *carried_costs(panels(release))]
    benefits = ["positive_rate", "positive_rate", "true_positive_rate", "precision"]
    options = {
        **QUICK,
        "cost": chance.choice(costs),
        "benefit": chance.choice(benefits),
        "reference_group": chance.choice([None, *release.subject.groups]),
        "policy": chance.choice([None, {"strict": True}, {"largest_exposure": 0.01}, EVERY_RULE]),
    }
    if chance.random() < 0.2:
        options = {**mutated(options, chance), **QUICK}
    return parse_plan(options, file="plan")


def page_one(seed: int, page: str, folder: Path, findings: Findings) -> None:
    """One mutated page through ``verify``: whatever was changed is found."""
    text = broken(page, random.Random(seed))
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    with watched(findings, "page", seed):
        difference = verify_report(path)
        assert difference is not None or text == page, "a changed page agrees"


def table_one(seed: int, folder: Path, findings: Findings) -> None:
    """One mutated table of predictions, and the same text as a person's own table."""
    from pcer.data import TablePlan, read_table
    from pcer.release.build import ReleaseFacts
    from pcer.release.disclosure import DisclosureRule
    from pcer.tables import PredictionColumns, releases_from_table

    path = folder / "table.csv"
    text = mutated_table(PREDICTIONS, random.Random(seed))
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    columns = PredictionColumns(attributes=("sex",))
    rule = DisclosureRule(public=True)
    facts = ReleaseFacts(dataset="d", outcome="harm", split_kind="random", disclosure=rule)
    with watched(findings, "table", seed):
        for made in releases_from_table(path, columns, facts).values():
            parse_release(json.loads(made.to_json()), file="again")
    plan = TablePlan(label="y_true", positive="1", attributes=("sex",), outcome="harm")
    with watched(findings, "own table", seed):
        assert read_table(path, plan).dataset.n_records > 0


def command_one(seed: int, bases: list[dict[str, Any]], folder: Path, findings: Findings) -> None:
    """One mutated release through the command line, in a process of its own."""
    chance = random.Random(seed)
    path = folder / "one.release.json"
    path.write_bytes(mutated_text(chance.choice(bases), chance).encode("utf-8", "surrogatepass"))
    option = chance.choice(["--json", "--markdown", "--latex", "--junit", "--html"])
    arguments = chance.choice([[], [option, str(folder / "out")], [option, "-"]])
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "pcer", "audit", str(path), *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEGABYTES << 20,) * 2),
    )
    seconds, code = time.perf_counter() - began, done.returncode
    said = done.stderr.decode(errors="replace")
    findings.counts[f"command: exit {code}"] += 1
    if code not in (0, 1, 2) or "Traceback" in said or (code == 2) != said.startswith("pcer: "):
        findings.failures.append(f"command {seed}: exit {code}: {said[-300:]!r}")
    if seconds > 3 * SECONDS:
        findings.failures.append(f"command {seed}: {seconds:.0f} s")


def fuzz(n: dict[str, int], seed: int) -> Findings:
    """So many inputs for each target, from a seed on."""
    findings, bases = Findings(), trees()
    audited, start = 0, seed * 100_000_000
    good = parse_release(bases[-1], file="x")
    page = to_report([pcer.audit(good, parse_plan(QUICK, file="x"))], [good])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for k in range(start, start + n["commands"]):
            command_one(k, bases, folder, findings)
        for k in range(start, start + n["pages"]):
            page_one(k, page, folder, findings)
        for k in range(start, start + n["tables"]):
            table_one(k, folder, findings)
    for k in range(start, start + n["releases"]):
        release = read_one(k, bases, findings)
        if release is not None and audited < n["audits"]:
            audited += 1
            audit_one(k, release, findings)
    return findings
