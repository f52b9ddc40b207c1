"""Headline, account, JUnit, JSON, page, terminal, Markdown and LaTeX say one thing.

Every output is parsed for the verdict and for the groups it names, and must agree with the audit
object: for every release of the repository, and for 500 that are drawn in every shape.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from xml.etree import ElementTree

import numpy as np
import pytest

import pcer
from pcer.auditing.file import Audit
from pcer.auditing.verdict import BUDGET_VERDICTS, FailOn, Verdict, strongest
from pcer.cli.audit import print_audits
from pcer.release.format import Release
from pcer.release.proxies import proxy_named
from pcer.report import to_junit, to_latex_tables, to_markdown_page, to_report
from pcer.report.table import latex_text, markdown_text
from tests.any_release import any_release
from tests.pages import ROOT, SAMPLES, Html

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
    for budget in audit.budgets:
        shared = budget.verdict is Verdict.DISPARITY_SHOWN and audit.subject.outcome == "harm"
        assert bool(budget.worse_off) == (budget.verdict in ALARMS and not shared)
        assert set(budget.worse_off) <= set(audit.subject.groups)
        assert bool(budget.double_disadvantage) == (budget.verdict is Verdict.DOUBLE_DISADVANTAGE)
        for pair in budget.pairs:
            assert pair.disparity_shown == (pair.lower_ratio is not None)
            assert budget.verdict in ALARMS or not pair.disparity_shown
            answer = pair.exposure_answer
            assert (answer.answer == "differs") == (answer.group is not None)
            assert pair.more_exposed == answer.group
            assert answer.downgraded is None or answer.group is None
            assert pair.double_disadvantage in (None, answer.group)
            if any(one.caps_verdict for one in audit.declarations):
                assert (pair.more_exposed, pair.better_off) == (None, None)
    main = audit.costs[0]
    assert (main.cost, main.is_main) == (audit.cost, True)
    pairs = [pair for budget in audit.budgets for pair in budget.pairs]
    if {pair.exposure_answer.attack for pair in pairs} == {audit.cost} == {audit.plan.cost}:
        assert set(main.double_disadvantage) == {p.double_disadvantage for p in pairs} - {None}
        assert set(main.lower_ratio) == {pair.lower_ratio for pair in pairs} - {None}
        assert set(main.more_exposed) == {pair.more_exposed for pair in pairs} - {None}


def check_headline(audit: Audit) -> None:
    """The headline is of the verdict and of no other, and its subject are the worse off."""
    said = {
        verdict: found
        for verdict, pattern in CLAIMS.items()
        if (found := re.search(pattern, audit.headline))
    }
    assert list(said) == [audit.verdict], audit.headline
    assert names_in(said[audit.verdict].group(1) or "") == set(audit.worse_off)


def check_account(audit: Audit) -> None:
    """The account names whom the verdict names, and claims nothing that the verdict does not."""
    text, told = " ".join(audit.account), audit.told
    unequal, both = re.search(FEWER, text), re.search(BOTH, text)
    lower = {pair.lower_ratio for pair in told.pairs} - {None}
    assert names_in(unequal.group(1) if unequal else "") == (
        lower if audit.verdict in ALARMS else set()
    )
    doubled = names_in(both.group(1)) if both else set()
    assert set(told.double_disadvantage) <= doubled
    assert bool(doubled) == (audit.verdict is Verdict.DOUBLE_DISADVANTAGE)
    is_resolved = any(group.resolved for group in told.groups.values())
    assert ("remembers anyone's record cannot be told" in text) == (not is_resolved)
    if audit.verdict is Verdict.NOT_RESOLVED:
        assert not is_resolved


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
    reasons = Counter(budget.reason for budget in budgets)
    assert len(reasons) >= 8
    capped = [pair.capped for budget in budgets for pair in budget.pairs if pair.capped]
    assert any("made-up groups" in why for why in capped)
    assert any("randomly drawn" in why for why in capped)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".release.json"))
def test_releases_of_the_repository_speak_with_one_voice(path, capsys):
    release = pcer.read_release(path)
    audit = pcer.audit(release, QUICK)
    print_audits([audit])
    check_all([audit], capsys.readouterr().out)
    check_text(audit, Html(to_report([audit], [release])).text)


def test_other_costs_never_speak_louder_than_the_verdict():
    """A cost that alarms is named, with what it is; the verdict's cost is not if it does not."""
    for _, audit in drawn(0) + drawn(1):
        sentence = next((one for one in audit.trust if "costs that the release carries" in one), "")
        named = sentence.rpartition(": ")[2].rstrip(".")
        main = proxy_named(audit.cost).short
        if sentence and not any(one.verdict in ALARMS for one in audit.budgets):
            assert main not in names_in(named)
