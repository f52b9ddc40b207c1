"""Headline, account, JUnit, JSON, page, terminal, Markdown and LaTeX say what the audit says.

For every release of the repository, and for 500 that are drawn in every shape.
"""

import re
from collections.abc import Sequence
from functools import cache
from itertools import combinations, product
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import pcer
from pcer.auditing.file import Audit
from pcer.auditing.verdict import BUDGET_VERDICTS, FailOn, Verdict, strongest
from pcer.cli.audit import print_audits
from pcer.release.format import Release, parse_release
from pcer.release.proxies import proxy_named
from pcer.report import to_junit, to_latex_tables, to_markdown_page, to_report
from pcer.report.table import latex_text, markdown_text
from tests.pages import ROOT, SAMPLES, Html, renamed
from tests.worlds.releases import World, simulate

FILES = [*SAMPLES, ROOT / "tests/releases/version-2.release.json"]
N_DRAWN, CHUNK, FAMILY, PAGES = 500, 50, 3, 25
# Most of them run in `make test-more`.
CHUNKS = [pytest.param(k, marks=pytest.mark.slow if k else ()) for k in range(N_DRAWN // CHUNK)]
QUICK = pcer.Plan(resamples=20, null_draws=1)
ALARMS = (Verdict.DOUBLE_DISADVANTAGE, Verdict.DISPARITY_SHOWN)

CLAIMS = {
    Verdict.DOUBLE_DISADVANTAGE: (
        r"(?:one group is|\d+ groups are) doubly disadvantaged(?:, by [^(]+)? \((.+?)\)"
    ),
    Verdict.DISPARITY_SHOWN: (
        r"(?:one group receives|\d+ groups receive) less for (?:its|their) privacy cost "
        r"\((.+?)\): |privacy costs are shared unequally: "
    ),
    Verdict.EQUAL_WITHIN_MARGIN: r"privacy costs are equal within ()",
    Verdict.NO_DISPARITY_SHOWN: r"no group is shown to pay more for what it receives()",
    Verdict.FLOOR_DOMINATED: r"so little that it lies below the floor()",
    Verdict.NOT_RESOLVED: r"(?:not shown to remember anyone|Nothing can be concluded)()",
    Verdict.INSUFFICIENT_DATA: r"This release cannot tell()",
}
"""What a headline says under each verdict, and whom it names."""
FEWER = r"(?:One group receives|\d+ groups receive) fewer positive predictions for .*?\((.+?)\)"
BOTH = r"(?:one group|\d+ groups) bears? both a higher cost and .*?predictions \((.+?)\)"
"""The same in the account."""


def names_in(found: str) -> set[str]:
    """Groups of "women", "women and men", "women, men and over 60"."""
    return set(re.split(r", | and ", found)) - {""}


def plain(text: str) -> str:
    """Text without line breaks and the marks that isolate names."""
    return re.sub(r"\s+", " ", re.sub("[\u2066-\u2069\u00ad\u200b]", "", text)).strip()


def check_object(audit: Audit) -> None:
    """The parts of the audit agree among themselves."""
    assert audit.verdict is strongest(budget.verdict for budget in audit.budgets)
    assert audit.told.verdict is audit.verdict
    assert audit.worse_off == audit.told.worse_off
    pairs = [pair for budget in audit.budgets for pair in budget.pairs]
    for budget in audit.budgets:
        shared = budget.verdict is Verdict.DISPARITY_SHOWN and audit.subject.outcome == "harm"
        assert bool(budget.worse_off) == (budget.verdict in ALARMS and not shared)
        assert set(budget.worse_off) <= set(audit.subject.groups)
        assert bool(budget.double_disadvantage) == (budget.verdict is Verdict.DOUBLE_DISADVANTAGE)
        assert budget.verdict in ALARMS or not any(p.disparity_shown for p in budget.pairs)
    for pair in pairs:
        answer = pair.exposure_answer
        assert pair.disparity_shown == (pair.lower_ratio is not None)
        assert pair.more_exposed == answer.group
        assert (answer.answer == "differs") == (answer.group is not None)
        assert answer.downgraded is None or answer.group is None
        assert pair.double_disadvantage in (None, answer.group)
        if any(one.caps_verdict for one in audit.declarations):
            assert (pair.more_exposed, pair.better_off) == (None, None)
    main = audit.costs[0]
    assert (main.cost, main.is_main) == (audit.cost, True)
    if {pair.exposure_answer.attack for pair in pairs} == {audit.cost} == {audit.plan.cost}:
        for what in ("double_disadvantage", "lower_ratio", "more_exposed"):
            assert {*getattr(main, what)} == {getattr(pair, what) for pair in pairs} - {None}


def check_headline(audit: Audit) -> None:
    """The headline is of the verdict and of no other, and its subject are the worse off."""
    searched = {verdict: re.search(claim, audit.headline) for verdict, claim in CLAIMS.items()}
    said = {verdict: found for verdict, found in searched.items() if found}
    assert list(said) == [audit.verdict], audit.headline
    assert names_in(said[audit.verdict].group(1) or "") == set(audit.worse_off)


def check_account(audit: Audit) -> None:
    """The account names whom the verdict names, and claims nothing that the verdict does not."""
    text, told = " ".join(audit.account), audit.told
    unequal, both = re.search(FEWER, text), re.search(BOTH, text)
    lower = {pair.lower_ratio for pair in told.pairs} - {None}
    named = lower if audit.verdict in ALARMS else set()
    assert names_in(unequal.group(1) if unequal else "") == named
    doubled = names_in(both.group(1)) if both else set()
    assert set(told.double_disadvantage) <= doubled
    assert bool(doubled) == (audit.verdict is Verdict.DOUBLE_DISADVANTAGE)
    is_resolved = any(group.resolved for group in told.groups.values())
    assert ("remembers anyone's record cannot be told" in text) == (not is_resolved)
    assert not (is_resolved and audit.verdict is Verdict.NOT_RESOLVED)
    # Other costs never speak louder than the verdict: its own is not among those that alarm.
    carried = next((one for one in audit.trust if "costs that the release carries" in one), "")
    if not any(budget.verdict in ALARMS for budget in audit.budgets):
        alarming = names_in(carried.rpartition(": ")[2].rstrip("."))
        assert proxy_named(audit.cost).short not in alarming


def check_junit(audits: Sequence[Audit]) -> None:
    """Every setting fails by its verdict, and names its groups; the suite says the strongest."""
    root = ElementTree.fromstring(to_junit(audits, [one.value for one in FailOn]))
    for audit, suite in zip(audits, root.findall("testsuite"), strict=True):
        said = {one.get("name"): one.get("value") for one in suite.iter("property")}
        assert said["verdict"] == audit.verdict.value
        assert said["worse off"] == ", ".join(audit.worse_off)
        failures = [case.find("failure") for case in suite.findall("testcase")]
        for budget, failure in zip(audit.budgets, failures, strict=False):
            assert failure is not None
            words, _, groups = failure.get("message", "").partition(": ")
            assert words.replace(" ", "_") == budget.verdict.value
            assert [one for one in groups.split(", ") if one] == budget.worse_off
        assert audit.headline in (suite.findtext("system-out") or "")


def check_text(audit: Audit, text: str, *, escape=str) -> None:
    """A rendered text has the headline and the verdict's words, and no claim beyond them."""
    text = plain(text)
    assert plain(escape(audit.headline)) in text
    assert audit.verdict.words in text
    for name in audit.worse_off:
        assert escape(name) in text
    if not any(pair.disparity_shown for budget in audit.budgets for pair in budget.pairs):
        assert not re.search(CLAIMS[Verdict.DISPARITY_SHOWN], text)
    if Verdict.DOUBLE_DISADVANTAGE.value not in audit.outcomes():
        assert not re.search(CLAIMS[Verdict.DOUBLE_DISADVANTAGE], text)
        assert not re.search(r"bears? both a higher cost", text)


def check_all(audits: Sequence[Audit], printed: str) -> None:
    """Every output but the page."""
    for audit in audits:
        check_object(audit)
        check_headline(audit)
        check_account(audit)
    check_junit(audits)
    markdown, latex = to_markdown_page(audits), to_latex_tables(audits)
    for audit in audits if len(audits) == 1 else ():
        check_text(audit, printed)
        check_text(audit, markdown, escape=markdown_text)
        check_text(audit, latex, escape=latex_text)
    for audit in audits:
        assert plain(audit.title.partition(": ")[2]) in plain(printed)
        assert markdown_text(audit.title) in markdown
        assert latex_text(audit.title) in latex


# Releases of every shape that the format allows. Not a picture of the world: shapes are drawn so
# that every verdict, every cap and every missing number occurs often. Counts come from random
# splits in which some groups are remembered.

GROUPS = ("women", "men", "under 30", "over 60", "newcomers", "the rest")
MODELS = ("forest", "linear", "tree")
BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0, None)
POOLED = ("lira_advantage", "paired_confidence", "paired_gap", "rmia_advantage", "their_attack")
SOMETIMES = {"benefit_covariance": 0.0, "null_error": 0.01, "separation": 0.5}

Tree, Rng = dict[str, Any], np.random.Generator


def any_release(rng: Rng, *, data_digest: str | None = None) -> tuple[Release, pcer.Plan]:
    """Draw a release and a plan that it can be audited by."""
    names = list(GROUPS[: pick(rng, 2, 2, 2, 2, 3, 3, 6)])
    few, many = pick(rng, (30, 80), (100, 600), (2_000, 9_000), (20_000, 60_000))
    sizes = rng.integers(few, many, len(names)).tolist()
    models = pick(rng, (None,), (None,), MODELS[:1], MODELS[:2], MODELS)
    n_budgets = pick(rng, 1, 1, 1, 2, 2, 6) if len(models) == 1 else pick(rng, 1, 1, 2)
    budgets = [BUDGETS[k] for k in sorted(rng.permutation(len(BUDGETS))[:n_budgets])]
    shape = {"sizes": sizes, "budgets": budgets, "n_seeds": pick(rng, 1, 2, 3, 5)}
    # Now and then all seeds are of one split: each gets the same right, but for whom it remembers.
    shape |= {"reseed": pick(rng, lambda world, trained, right, rng: right, *[None] * 9)}
    tree, runs = Tree(), list[Tree]()
    for model in models:
        tree = renamed(_simulated(shape, rng), names).to_tree()
        runs += [run | {"model": model, "split": f"{model} {run['split']}"} for run in tree["runs"]]
    tree |= {"version": 3, "runs": runs, "provenance": {"data_digest": data_digest}}
    about = {"attribute": pick(rng, "sex", "age", "origin"), "n_missing_group": pick(rng, 0, 17)}
    tree["subject"] |= about | {"outcome": pick(rng, "benefit", "harm")}
    tree["training"] = {"split_kind": pick(rng, *["random"] * 8, "other", None)}
    if rng.random() < 0.15:
        units = {name: size * rng.uniform(0.3, 1) for name, size in zip(names, sizes, strict=True)}
        tree["training"] |= {"unit_of_split": "person", "effective_units": units}
    if rng.random() < 0.1:
        tree["training"]["stratified_by"] = pick(rng, "both", "group")  # which it was not
    form = pick(rng, *["counts"] * 7, "rates", "rates", "no sizes", "some coarse", "no benefit")
    for run, name in product(runs, names[form == "some coarse" :] if form != "counts" else ()):
        tables = run["groups"][name]
        run["groups"][name] = {part: _rates(tables[part], part, form) for part in tables}
    settings = [{"model": model, "epsilon": e} for model in models for e in budgets]
    _add_costs(tree, settings, rng)
    tree["placebo"] = list(_placebo(tree, settings, rng)) if rng.random() < 0.5 else []
    benefits = ("positive_rate", "positive_rate", "true_positive_rate", "precision")
    said = {"floor": pick(rng, 0.001, 0.001, 0.05), "margin": pick(rng, None, None, 0.02, 0.2)}
    said |= {"benefit": pick(rng, *benefits) if form == "counts" else benefits[0]}
    said |= {"cost": pick(rng, "sharpest", "sharpest", "overfitting_gap")}
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
    world = World(**shape, label_shares=shares, right=[(r, r) for r in right.tolist()], gaps=gaps)
    return simulate(world, rng).to_tree()


def _rates(cells: Tree, part: str, form: str) -> Tree:
    """What a release shows of counts that it does not hold."""
    n = sum(cells.values())
    rates: Tree = {"n": n, "accuracy": (cells["tp"] + cells["tn"]) / n}
    if part == "test" and form != "no benefit":
        rates["positive_rate"] = (cells["tp"] + cells["fp"]) / n
    left = {"some coarse": {"n"}, "no sizes": rates.keys() - {"n"}}
    return {name: rates[name] for name in left.get(form, rates)}


def _add_costs(tree: Tree, settings: list[Tree], rng: Rng) -> None:
    """Attacks on every model, and over all of them; some without an error or for some only."""
    if rng.random() < 0.3:
        for run in tree["runs"]:
            for g, tables in enumerate(run["groups"].values()):
                value = float(rng.normal(0.03 * g, 0.01))
                tables["exposure"] = {"auc_advantage": {"value": value, "standard_error": 0.01}}
    tree["pooled_exposure"] = []
    for proxy in POOLED[: pick(rng, *[0] * 8, 1, 2, 3, 4, 5)]:
        error = pick(rng, None, *[0.002, 0.02] * 5)
        base = rng.choice([0.0, 0.01, 0.1], len(GROUPS))
        kept = settings[: pick(rng, 1, *[None] * 4)]
        for setting, (g, name) in product(kept, enumerate(tree["subject"]["groups"])):
            row = {"group": name, "proxy": proxy, "standard_error": error}
            row["value"] = float(rng.normal(base[g], error or 0.02))
            row |= {key: pick(rng, value, None) for key, value in SOMETIMES.items()}
            tree["pooled_exposure"].append(setting | row)


def _placebo(tree: Tree, settings: list[Tree], rng: Rng) -> Any:
    """Coin flips that say nothing against an alarm, or much."""
    speaks = bool(rng.random() < 0.5)

    def either(often: Any, otherwise: Any, chance: float, *, always: bool = False) -> Any:
        return often if (speaks or always) and rng.random() < chance else otherwise

    costs = {row["proxy"] for row in tree["pooled_exposure"]} | {"overfitting_gap"}
    pairs = combinations(tree["subject"]["groups"], 2)
    for setting, proxy, pair in product(settings, sorted(costs), pairs):
        yield setting | {
            **{"proxy": proxy, "groups": [*pair], "n_draws": 200, "n_permutations": 9_999},
            **{"n_shown": either(40, 9, 0.5), "n_double": either(40, 2, 0.5)},
            **{"n_exposure": either(40, 9, 0.3), "p_value": either(0.3, 0.001, 0.3)},
            "exposure_p_value": either(0.3, 0.001, 0.3),
            "exposure_p_value_within_labels": either(0.3, 0.001, 0.5, always=True),
        }


@cache
def drawn(chunk: int) -> list[tuple[Release, Audit]]:
    """Releases of every shape and their audits; the last few are one family."""
    made = [any_release(np.random.default_rng([14, chunk, k])) for k in range(CHUNK - FAMILY)]
    alone = [(release, pcer.audit(release, plan)) for release, plan in made]
    rng = np.random.default_rng([14, chunk])
    together = [any_release(rng, data_digest="same")[0] for _ in range(FAMILY)]
    plan = pcer.Plan(resamples=1, null_draws=1, cost="overfitting_gap")
    return alone + list(zip(together, pcer.audit(together, plan), strict=True))


@pytest.mark.parametrize("chunk", CHUNKS)
def test_drawn_releases_speak_with_one_voice(chunk, capsys):
    audited = [audit for _, audit in drawn(chunk)]
    for group in [*([one] for one in audited[:-FAMILY]), audited[-FAMILY:]]:
        print_audits(group)
        check_all(group, capsys.readouterr().out)
    for release, audit in drawn(chunk)[:: N_DRAWN // PAGES]:
        check_text(audit, Html(to_report([audit], [release])).text)


@pytest.mark.slow
def test_the_drawn_ones_have_every_verdict_and_every_cap():
    budgets = [b for chunk in range(4) for _, audit in drawn(chunk) for b in audit.budgets]
    assert {budget.verdict for budget in budgets} == set(BUDGET_VERDICTS)
    assert len({budget.reason for budget in budgets}) >= 8
    capped = " ".join(pair.capped or "" for budget in budgets for pair in budget.pairs)
    assert all(why in capped for why in ("made-up groups", "randomly drawn"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".release.json"))
def test_releases_of_the_repository_speak_with_one_voice(path, capsys):
    release = pcer.read_release(path)
    audit = pcer.audit(release, QUICK)
    print_audits([audit])
    check_all([audit], capsys.readouterr().out)
    check_text(audit, Html(to_report([audit], [release])).text)
