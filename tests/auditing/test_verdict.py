"""One list of verdicts: what is derived from it, and that nothing lacks a verdict's words."""

from pathlib import Path

import pcer
from pcer.auditing.file import audit_schema
from pcer.auditing.verdict import BUDGET_VERDICTS, GRID_VERDICTS, Verdict, strongest
from pcer.report import finding_svg

ROOT = Path(__file__).parents[2]


def test_every_list_of_verdicts_is_the_one_list():
    """A disparity is read without a label only where a cost was seen."""
    page, tree = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8"), audit_schema()
    assert f"in the order *{', '.join(v.words for v in BUDGET_VERDICTS)}*" in page
    assert tree["properties"]["verdict"]["enum"] == list(BUDGET_VERDICTS)
    assert tree["$defs"]["Algorithm1"]["properties"]["verdict"]["enum"] == list(GRID_VERDICTS)
    for k, verdict in enumerate(BUDGET_VERDICTS):
        assert strongest(reversed(BUDGET_VERDICTS[k:])) is verdict
        assert verdict.voids == (k > 3)
    assert BUDGET_VERDICTS[3] is Verdict.NO_DISPARITY_SHOWN
    assert not any(verdict.voids for verdict in GRID_VERDICTS)


def test_every_verdict_has_its_words_everywhere():
    release = pcer.read_release(ROOT / "tests" / "releases" / "counts.release.json")
    found = pcer.audit(release, pcer.Plan(resamples=10, null_draws=10))
    for verdict in BUDGET_VERDICTS:
        budgets = [one.model_copy(update={"verdict": verdict}) for one in found.budgets]
        audit = found.model_copy(update={"verdict": verdict, "budgets": budgets})
        assert finding_svg(audit).count("<title>") == 1 + 2 * len(audit.subject.groups)
        assert verdict.advice("benefit").endswith(".")
