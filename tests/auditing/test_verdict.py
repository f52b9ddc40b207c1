"""One list of verdicts: what is derived from it, and that nothing lacks a verdict's words."""

from __future__ import annotations

from pathlib import Path

import pcer
from pcer.auditing.file import audit_schema
from pcer.auditing.verdict import BUDGET_VERDICTS, GRID_VERDICTS, Verdict, strongest
from pcer.report import finding_svg

ROOT = Path(__file__).parents[2]


def test_the_docs_name_the_order_of_strength():
    page = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    assert f"in the order *{', '.join(v.words for v in BUDGET_VERDICTS)}*" in page


def test_the_strongest_is_the_first_of_the_list():
    for k, verdict in enumerate(BUDGET_VERDICTS):
        assert strongest(reversed(BUDGET_VERDICTS[k:])) is verdict


def test_files_hold_the_verdicts_of_the_list():
    tree = audit_schema()
    assert tree["properties"]["verdict"]["enum"] == list(BUDGET_VERDICTS)
    assert tree["$defs"]["Algorithm1"]["properties"]["verdict"]["enum"] == list(GRID_VERDICTS)


def test_a_disparity_is_read_without_a_label_only_where_a_cost_was_seen():
    read = [verdict for verdict in BUDGET_VERDICTS if not verdict.voids]
    assert read == [*BUDGET_VERDICTS[: BUDGET_VERDICTS.index(Verdict.NO_DISPARITY_SHOWN) + 1]]
    assert len(read) == 4
    assert not any(verdict.voids for verdict in GRID_VERDICTS)


def test_every_verdict_has_its_words_everywhere():
    release = pcer.read_release(ROOT / "tests" / "releases" / "counts.release.json")
    found = pcer.audit(release, pcer.Plan(resamples=10, null_draws=10))
    for verdict in BUDGET_VERDICTS:
        budgets = [one.model_copy(update={"verdict": verdict}) for one in found.budgets]
        audit = found.model_copy(update={"verdict": verdict, "budgets": budgets})
        assert finding_svg(audit).count("<title>") == 1 + 2 * len(audit.subject.groups)
        assert verdict.advice("benefit").endswith(".")
