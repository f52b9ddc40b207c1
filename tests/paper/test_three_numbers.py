"""Algorithm 1 from what the paper's auditor gets: three rates a group and budget."""

import re

import pytest

import pcer
from pcer.report import to_markdown_page, verify_report
from tests.auditing.made import of_rates

SETTINGS = {1.0: ((0.01, 0.02), (0.30, 0.25)), None: ((0.04, 0.08), (0.32, 0.22))}


@pytest.fixture(scope="module")
def found():
    return pcer.audit(of_rates(SETTINGS, ("men", "women")))


def test_its_numbers_are_those_of_a_calculator(found):
    of_paper = {one.epsilon: one.pairs[0] for one in found.published[0].settings}
    for epsilon, (gaps, rates) in SETTINGS.items():
        by_floor = [
            rates[0] / max(gaps[0], f) - rates[1] / max(gaps[1], f)
            for f in found.plan.floors
        ]
        means = [row.mean for row in of_paper[epsilon].floors]
        assert means == pytest.approx(by_floor, rel=1e-6)
    chosen = [row.budgets for row in found.published[0].algorithm1.equitable_budget]
    assert chosen == [[None], [None], [None], [1.0]]


def test_the_headline_says_what_is_there_and_what_sizes_would_add(found):
    assert found.headline == (
        "Without group sizes this file cannot tell whether anybody can be spotted in "
        "the training data. Rates are 22 to 32 of 100; sizes would show whether that "
        "is more than chance."
    )
    assert {pair.outcomes.answer for s in found.settings for pair in s.pairs} == {
        "cannot_tell"
    }
    assert any("Sizes would add intervals" in sentence for sentence in found.trust)


def test_no_output_says_that_outcomes_are_missing_or_have_intervals(found, tmp_path):
    path = tmp_path / "report.html"
    found.save_html(path)
    page = re.sub(r"<[^>]*>", " ", path.read_text(encoding="utf-8"))
    texts = [page, str(found), to_markdown_page([found]), found.opinion()]
    for text in texts:
        assert "not give the outcomes" not in text
        assert "not given" not in text
        assert "intervals allow for" not in text
    assert verify_report(path, []) is None


def test_a_release_with_sizes_says_nothing_of_them():
    sized = pcer.audit(of_rates(SETTINGS, ("men", "women"), n=(700, 300)))
    assert "group sizes" not in sized.headline
    assert any("intervals allow for" in sentence for sentence in sized.trust)
