"""Every output says the two answers: JUnit, JSON, page, terminal, opinion, LaTeX, model card.

For every release of the repository, and for 500 that are drawn in every shape.
"""

import math
import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape as escape_html
from html import unescape
from itertools import combinations, product
from typing import Any, get_args
from xml.etree import ElementTree

import numpy as np
import pytest

import pcer
from pcer import wording
from pcer.auditing import sentences
from pcer.auditing.record import Audit, SettingResult, strongest
from pcer.auditing.sentences import headline
from pcer.auditing.sentences.rows import Row
from pcer.cli.audit import print_audits
from pcer.measuring.plan import GUARDED, SETTING_VERDICTS, Benefit
from pcer.release.attack_kinds import ATTACK_KINDS, attack_kind
from pcer.release.file import Release, parse_release
from pcer.report import to_junit, to_latex_tables, to_markdown_page, to_report
from pcer.report.formats.latex import latex_text
from pcer.report.formats.markdown import MARKUP, markdown_text
from tests.pages import ROOT, SAMPLES, Html, renamed
from tests.worlds.releases import World, simulate

FILES = [*SAMPLES, ROOT / "tests/releases/forest.release.json"]
N_DRAWN, CHUNK, FAMILY, PAGES = 500, 50, 3, 25
# Most of them run in `make test-more`.
QUICK = pcer.Plan(resamples=20, null_draws=1)


def plain(text: str) -> str:
    """Text without line breaks and the marks that isolate names."""
    return re.sub(r"\s+", " ", re.sub("[\u2066-\u2069\u00ad\u200b]", "", text)).strip()


def check_object(audit: Audit) -> None:
    """The parts of the audit agree among themselves."""
    assert audit.verdict is strongest(setting.verdict for setting in audit.settings)
    assert (audit.told.verdict, audit.told.headline) == (audit.verdict, audit.headline)
    pairs = [pair for setting in audit.settings for pair in setting.pairs]
    for setting in audit.settings:
        assert setting.verdict is strongest(pair.verdict for pair in setting.pairs)
        assert bool(setting.named) == setting.verdict.is_alarm
        check_rows(audit, setting)
    for pair in pairs:
        exposure, outcomes, double = (
            pair.exposure,
            pair.outcomes,
            pair.double_disadvantage,
        )
        assert (exposure.answer == "differs") == (exposure.group is not None)
        assert (outcomes.answer == "differ") == (outcomes.group is not None)
        assert (pair.ratio.answer == "differs") == (pair.ratio.group is not None)
        for answer in (exposure, outcomes, double, pair.ratio):
            assert answer.downgraded is None or answer.group is None
        assert double.group is None or double.group == exposure.group == outcomes.group
        if any(one.caps_verdict for one in audit.declarations):
            assert (exposure.answer, outcomes.answer) == ("cannot_tell", "cannot_tell")
    assert audit.attacks[0].attack == audit.attack


def check_rows(audit: Audit, setting: SettingResult) -> None:
    """Each of six questions is answered as the numbers say, and headlines agree."""
    said = sentences.of(audit, setting)
    spotting, easier, serving, both, delta, trust = said.rows
    six = setting.answers
    assert spotting.answer == wording.say("level", setting.level)
    assert spotting.is_alarm == (setting.level in ("often", "almost_always"))
    clear = {"clear", "far"}
    exposures = [pair.exposure for pair in setting.pairs]
    errors = [pair.wrongly for pair in setting.pairs]
    assert easier.is_alarm == any(one.size in clear for one in exposures)
    assert serving.is_alarm == any(one.size in clear for one in errors)
    assert not (both.is_alarm)
    assert not (delta.is_alarm)
    assert not (trust.is_alarm)
    differs = {one.group for one in exposures if one.answer == "differs"}
    named = re.split(": |; | and |, ", easier.answer)
    assert differs <= {*named} or "more group" in easier.answer
    assert bool(differs) == (
        not easier.answer.startswith(("Not shown", "No:", "Cannot"))
    )
    assert both.answer.startswith("Yes: ") == (six.both.answer == "yes")
    for row in said.rows:
        assert row.answer
        for figure in row.figures:
            check_names_its_attack(audit, row, figure)
    n_words = headline.n_words(said.headline, audit.subject.groups)
    assert n_words <= headline.MOST_WORDS
    weak = said.headline.startswith("This file cannot tell whether anybody")
    assert weak <= (setting.level == "cannot_tell")
    if " of 100 times" in said.headline:
        assert "coin" in said.headline


ATTACKS = {attack.label for attack in ATTACK_KINDS.values()} | {"their attack"}


def check_names_its_attack(audit: Audit, row: Row, figure: str) -> None:
    """A figure about exposure names the attack that it is of."""
    is_of_exposure = row.question in (
        wording.say("question", "spotting"),
        wording.say("question", "easier"),
    )
    if is_of_exposure and re.search(r"\d of 100|: (not )?shown\.$|\(p ", figure):
        assert any(attack in figure for attack in ATTACKS), figure


def check_junit(audits: Sequence[Audit]) -> None:
    """Every rule fails where it holds, every setting has its headline; the suite the strongest."""
    root = ElementTree.fromstring(to_junit(audits, GUARDED))
    for audit, suite in zip(audits, root.findall("testsuite"), strict=True):
        said = {one.get("name"): one.get("value") for one in suite.iter("property")}
        assert said["verdict"] == audit.verdict.value
        rules, headlines = (
            suite.findall("testcase"),
            [each.headline for each in audit.settings],
        )
        bare = ElementTree.fromstring(to_junit([audit], [])).iter("testcase")
        assert [case.findtext("system-out") for case in bare] == headlines
        failed = {
            case.get("name") for case in rules if case.find("failure") is not None
        }
        assert failed == {
            f"fail_on: {one}" for one in GUARDED if one in audit.statements()
        }
        assert len(rules) == len(GUARDED)


def check_text(audit: Audit, text: str, *, escape=str, has_rows=True) -> None:
    """A rendered text has the headline and the six answers."""
    text = plain(text)
    assert plain(escape(audit.headline)) in text
    for row in sentences.of(audit, audit.told).rows if has_rows else ():
        assert plain(escape(row.question)) in text
        assert plain(escape(row.answer)) in text


NUMBER = re.compile(r"[+−]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[+−]\d+)?")
OF_SETTINGS = ("accuracy", "parity gap", "odds gap")
Named = dict[tuple[str, str, str], list[tuple[float, float]]]
"""By column, setting and group: values as they are printed, each with half its last digit."""


def markdown_tables(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Titles and cells, heads first."""
    for title, lines in re.findall(r"### (.+)\n\n((?:\|.*\n?)+)", text):
        rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines.splitlines()]
        cells = [
            [re.sub(r"\\(.)", r"\1", cell).strip() for cell in row] for row in rows
        ]
        yield title, [cells[0], *cells[2:]]


def html_tables(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    for table in re.findall(r"<table.*?</table>", text, re.DOTALL):
        title = re.search(r"<caption.*?>(.*?)</caption>", table, re.DOTALL)
        rows = re.findall(r"<tr.*?>(.*?)</tr>", table, re.DOTALL)
        cells = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
        yield (
            plain(title[1]) if title else "",
            [
                [plain(unescape(re.sub("<.*?>", " ", cell))) for cell in row]
                for row in cells
            ],
        )


def amount(text: str) -> tuple[float, float]:
    """A printed number and half of its last digit."""
    value = text.replace("−", "-").replace(",", "")
    digits, _, power = value.partition("e")
    last_digit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    return float(value), 0.5 * last_digit


def add_named(found: Named, audit: Audit, title: str, rows: list[list[str]]) -> None:
    """What a table says about settings; tables of single attacks and floors have other names."""
    heads = [re.split(r" ?[\[±]", head)[0] for head in rows[0]]
    if (
        heads[0] not in ("setting", "ε", "group")
        or "attack" in heads
        or "Floor" in title
    ):
        return
    pair = audit.settings[0].pairs[0].groups
    for row in rows[1:]:
        at = dict(zip(heads, row, strict=True))
        setting = at.get("setting", at.get("ε", title.rpartition(": ")[2]))
        setting = re.sub("ε = ", "", setting).replace("no-DP", "none")
        who = at.get("group", at.get("groups", "")).rpartition(" − ")[2]
        for head, cell in at.items():
            values = NUMBER.findall(re.split(r"[\[±(]", cell)[0])
            if head in ("setting", "ε", "group", "groups", "p") or not values:
                continue
            several = head in ("R", "δ", "PCER") and len(pair) == len(values)
            names = [f"{head} {name}" for name in pair] if several else [head]
            for name, value in zip(names, values, strict=False):
                key = name, setting, "" if head in OF_SETTINGS else who
                found.setdefault(key, []).append(amount(value))


def check_numbers(audit: Audit, page: str = "") -> None:
    """Values under one name agree within their rounding; sentences have those of the tables."""
    found, everything = Named(), to_markdown_page([audit], "full")
    tables = [*markdown_tables(to_markdown_page([audit])), *markdown_tables(everything)]
    tables += [*markdown_tables(to_markdown_page([audit], "paper")), *html_tables(page)]
    for title, rows in tables:
        add_named(found, audit, title, rows)
    for name, values in found.items():
        for (one, first), (other, second) in combinations(values, 2):
            assert abs(one - other) <= 1.001 * (first + second), (name, values)
    check_bounds(audit, everything)


def check_bounds(audit: Audit, text: str) -> None:
    """What is said to be the most is the end of an interval that the audit has."""
    scale = audit.attack_kind.scale
    per_success = scale.per_success or scale.per_unit
    pairs = [pair for setting in audit.settings for pair in setting.pairs]
    ends = []
    for setting in audit.settings:
        for group in setting.groups.values():
            if group.exposure.interval is not None:
                ends += [50 + per_success * end for end in group.exposure.interval]
    for pair in pairs:
        for one in (pair.exposure, pair.outcomes, pair.wrongly):
            ends += [100 * abs(end) for end in one.difference.interval or ()]
        for found in pair.exposure.by_attack:
            per_unit = attack_kind(found.attack).scale.per_unit
            for end in found.difference.interval or ():
                ends.append(per_unit * abs(end))
    if audit.next_setting is not None:
        ends += map(abs, audit.next_setting.accuracy_lost)
    for setting in audit.settings:
        for group in setting.groups.values():
            if group.exposure.upper_bound is not None:
                ends.append(scale.per_unit * group.exposure.upper_bound)
    for value, half in map(amount, re.findall(r"\bat most ([\d.]*\d)", text)):
        assert any(abs(value - end) <= 1.001 * half for end in ends), value


def check_opinion(audit: Audit) -> None:
    """The six answers stand in it, and it always asks for something."""
    text = re.sub(r"\\(.)", r"\1", audit.opinion())
    for row in sentences.of(audit, audit.told).rows:
        assert f"{row.question} **{row.answer}.**" in text
    _, _, asked = text.partition("## What to ask for")
    assert len([line for line in asked.splitlines() if line]) >= 4


def html_text(text: str) -> str:
    """Text as a notebook shows it, names isolated."""
    return escape_html(text)


def check_all(audits: Sequence[Audit], printed: str) -> None:
    """Every output but the page."""
    for audit in audits:
        check_object(audit)
        check_numbers(audit)
        check_opinion(audit)
    check_junit(audits)
    markdown, latex = to_markdown_page(audits), to_latex_tables(audits)
    for audit in audits if len(audits) == 1 else ():
        shown = [w for w in markdown.split() if not MARKUP.fullmatch(w)]
        assert len(shown) <= 400
        check_text(audit, printed)
        check_text(audit, audit._repr_html_(), escape=html_text)
        check_text(audit, markdown, escape=markdown_text)
        check_text(audit, latex, escape=latex_text)
        check_text(audit, audit.card(), escape=markdown_text)
    for audit in audits:
        numbers = audit.metrics()
        is_alarming = any(row.is_alarm for row in sentences.of(audit, audit.told).rows)
        assert numbers["pcer_alarm"] == is_alarming
        assert all(map(math.isfinite, numbers.values()))
        assert markdown_text(audit.headline) in markdown
        assert latex_text(audit.headline) in latex


# Releases of every shape that the format allows. Not a picture of the world: shapes are
# drawn so that every verdict, every cap and every missing number occurs often. Counts
# come from random splits in which some groups are remembered.

GROUPS = ("women", "men", "under 30", "over 60", "newcomers", "the rest")
MODELS = ("forest", "linear", "tree")
BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0, None)
POOLED = (
    "lira_advantage",
    "paired_confidence",
    "paired_gap",
    "rmia_advantage",
    "their_attack",
)
SOMETIMES = {"benefit_covariance": 0.0, "null_error": 0.01, "separation": 0.5}

Tree, Rng = dict[str, Any], np.random.Generator


def any_release(
    rng: Rng, *, data_digest: str | None = None
) -> tuple[Release, pcer.Plan]:
    """Draw a release and a plan that it can be audited by."""
    names = list(GROUPS[: pick(rng, 2, 2, 2, 2, 3, 3, 6)])
    few, many = pick(rng, (30, 80), (100, 600), (2_000, 9_000), (20_000, 60_000))
    sizes = rng.integers(few, many, len(names)).tolist()
    models = pick(rng, (None,), (None,), MODELS[:1], MODELS[:2], MODELS)
    n_budgets = pick(rng, 1, 1, 1, 2, 2, 6) if len(models) == 1 else pick(rng, 1, 1, 2)
    budgets = [BUDGETS[k] for k in sorted(rng.permutation(len(BUDGETS))[:n_budgets])]
    shape = {"sizes": sizes, "budgets": budgets, "n_seeds": pick(rng, 1, 2, 3, 5)}
    # Now and then all seeds are of one split: each gets the same right, but for whom it
    # remembers.
    shape |= {
        "reseed": pick(rng, lambda world, trained, right, rng: right, *[None] * 9)
    }
    tree, runs = Tree(), list[Tree]()
    for model in models:
        tree = renamed(_simulated(shape, rng), names).to_tree()
        runs += [
            run | {"model": model, "split": f"{model} {run['split']}"}
            for run in tree["runs"]
        ]
    tree |= {"version": 4, "runs": runs, "provenance": {"data_digest": data_digest}}
    about = {
        "attribute": pick(rng, "sex", "age", "origin"),
        "n_missing_group": pick(rng, 0, 17),
    }
    tree["subject"] |= about | {"outcome": pick(rng, "benefit", "harm")}
    tree["subject"] |= pick(
        rng, {}, {"people": "workers", "positive_means": "are promoted"}
    )
    tree["training"] = {"split_kind": pick(rng, *["random"] * 8, "other", None)}
    if rng.random() < 0.15:
        units = {
            name: size * rng.uniform(0.3, 1)
            for name, size in zip(names, sizes, strict=True)
        }
        tree["training"] |= {"unit_of_split": "person", "effective_units": units}
    if rng.random() < 0.1:
        tree["training"]["stratified_by"] = pick(
            rng, "both", "group"
        )  # which it was not
    form = pick(
        rng, *["counts"] * 7, "rates", "rates", "no sizes", "some coarse", "no benefit"
    )
    for run, name in product(
        runs, names[form == "some coarse" :] if form != "counts" else ()
    ):
        tables = run["groups"][name]
        run["groups"][name] = {
            part: _rates(tables[part], part, form) for part in tables
        }
    settings = [{"model": model, "epsilon": e} for model in models for e in budgets]
    _add_attacks(tree, settings, rng)
    tree["placebo"] = list(_placebo(tree, settings, rng)) if rng.random() < 0.5 else []
    benefits = ("positive_rate", *get_args(Benefit))
    said = {
        "floor": pick(rng, 0.001, 0.001, 0.05),
        "equal_within": pick(rng, None, None, 1, 10),
    }
    said |= {"benefit": pick(rng, *benefits) if form == "counts" else benefits[0]}
    said |= {"attack": pick(rng, "sharpest", "sharpest", "overfitting_gap")}
    plan = pcer.Plan(resamples=1, null_draws=1, **said)
    return parse_release(tree, file="any"), plan


def pick(rng: Rng, *options: Any) -> Any:
    """One of them; what is named twice is drawn twice as often."""
    return options[rng.integers(len(options))]


def _simulated(shape: Tree, rng: Rng) -> Tree:
    """One model, right about some and remembering some; settings share their splits."""
    n = len(shape["sizes"])
    right = rng.choice([0.6, 0.8, 0.95, 1.0], n, p=[0.35, 0.35, 0.2, 0.1])
    remembered = pick(rng, 0.0, 0.02, 0.3, 1.0) * rng.choice([0.0, 0.2, 1.0], n)
    gaps, shares = ((1 - right) * remembered).tolist(), rng.uniform(0.1, 0.6, n)
    world = World(
        **shape, label_shares=shares, right=[(r, r) for r in right.tolist()], gaps=gaps
    )
    return simulate(world, rng).to_tree()


def _rates(cells: Tree, part: str, form: str) -> Tree:
    """What a release shows of counts that it does not hold."""
    n = sum(cells.values())
    rates: Tree = {"n": n, "accuracy": (cells["tp"] + cells["tn"]) / n}
    if part == "test" and form != "no benefit":
        rates["positive_rate"] = (cells["tp"] + cells["fp"]) / n
    left = {"some coarse": {"n"}, "no sizes": rates.keys() - {"n"}}
    return {name: rates[name] for name in left.get(form, rates)}


def _add_attacks(tree: Tree, settings: list[Tree], rng: Rng) -> None:
    """Attacks on every model, and over all of them; some without an error or for some only."""
    if rng.random() < 0.3:
        for run in tree["runs"]:
            for g, tables in enumerate(run["groups"].values()):
                value = float(rng.normal(0.03 * g, 0.01))
                tables["exposure"] = {
                    "auc_advantage": {"value": value, "standard_error": 0.01}
                }
    tree["pooled_exposure"] = []
    for attack in POOLED[: pick(rng, *[0] * 8, 1, 2, 3, 4, 5)]:
        error = pick(rng, None, *[0.002, 0.02] * 5)
        base = rng.choice([0.0, 0.01, 0.1], len(GROUPS))
        kept = settings[: pick(rng, 1, *[None] * 4)]
        for setting, (g, name) in product(kept, enumerate(tree["subject"]["groups"])):
            row = {"group": name, "attack": attack, "standard_error": error}
            row["value"] = float(rng.normal(base[g], error or 0.02))
            row |= {key: pick(rng, value, None) for key, value in SOMETIMES.items()}
            tree["pooled_exposure"].append(setting | row)


def _placebo(tree: Tree, settings: list[Tree], rng: Rng) -> Any:
    """Placebo groups that say nothing against an alarm, or much."""
    speaks = bool(rng.random() < 0.5)

    def either(
        often: Any, otherwise: Any, chance: float, *, always: bool = False
    ) -> Any:
        return often if (speaks or always) and rng.random() < chance else otherwise

    attacks = {row["attack"] for row in tree["pooled_exposure"]} | {"overfitting_gap"}
    pairs = combinations(tree["subject"]["groups"], 2)
    for setting, attack, pair in product(settings, sorted(attacks), pairs):
        yield setting | {
            **{
                "attack": attack,
                "groups": [*pair],
                "n_draws": 200,
                "n_permutations": 9_999,
            },
            **{
                "n_ratio": either(40, 9, 0.5),
                "n_double": either(40, 2, 0.5),
                "n_any": 12,
            },
            **{"n_exposure": either(40, 9, 0.3), "p_value": either(0.3, 0.001, 0.3)},
            "exposure_p_value": either(0.3, 0.001, 0.3),
            "exposure_p_value_within_labels": either(0.3, 0.001, 0.5, always=True),
        }


@cache
def drawn(chunk: int) -> list[tuple[Release, Audit]]:
    """Releases of every shape and their audits; the last few are one family."""
    made = [
        any_release(np.random.default_rng([14, chunk, k]))
        for k in range(CHUNK - FAMILY)
    ]
    alone = [(release, pcer.audit(release, plan)) for release, plan in made]
    rng = np.random.default_rng([14, chunk])
    together = [any_release(rng, data_digest="same")[0] for _ in range(FAMILY)]
    plan = pcer.Plan(resamples=1, null_draws=1, attack="overfitting_gap")
    return alone + list(zip(together, pcer.audit(together, plan), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(N_DRAWN // CHUNK))
def test_drawn_releases_speak_with_one_voice(chunk, capsys):
    audited = [audit for _, audit in drawn(chunk)]
    for group in [*([one] for one in audited[:-FAMILY]), audited[-FAMILY:]]:
        print_audits(group)
        check_all(group, capsys.readouterr().out)
    for release, audit in drawn(chunk)[:: N_DRAWN // PAGES]:
        page = to_report([audit], [release])
        check_text(audit, Html(page).text, has_rows=False)
        check_numbers(audit, page)


@pytest.mark.slow
def test_the_drawn_ones_have_every_verdict_and_every_cap():
    settings = [
        b for chunk in range(4) for _, audit in drawn(chunk) for b in audit.settings
    ]
    assert {setting.verdict for setting in settings} == set(SETTING_VERDICTS)
    assert len({setting.reason for setting in settings}) >= 8
    reasons = " ".join(
        pair.exposure.downgraded or "" for b in settings for pair in b.pairs
    )
    assert all(why in reasons for why in ("made-up groups", "randomly drawn"))


@pytest.mark.parametrize(
    "path", FILES, ids=lambda path: path.name.removesuffix(".release.json")
)
def test_releases_of_the_repository_speak_with_one_voice(path, capsys):
    release = pcer.read_release(path)
    audit = pcer.audit(release, QUICK)
    print_audits([audit])
    page = to_report([audit], [release])
    check_all([audit], capsys.readouterr().out)
    check_text(audit, Html(page).text, has_rows=False)
    check_numbers(audit, page)
