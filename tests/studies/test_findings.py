"""The findings: counts by hand, sentences that follow the results, figures with their rows."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from pcer.auditing.verdict import Verdict
from pcer_studies import BUDGETS, CONFIGURATIONS, Study
from pcer_studies.__main__ import main, study_pages
from pcer_studies.evidence_table import (
    COSTS,
    cost_rows,
    gap_rows,
    n_standing_out,
    standing_out_from,
)
from pcer_studies.findings import Facts, costs_section, double_told, write_findings
from pcer_studies.findings_chart import exposure_points, gap_points, verdict_cells
from pcer_studies.noise import CLIPPED_MEAN, tail_of_mean
from pcer_studies.rules import ADULT_RACE, COMPAS
from tests.planted_study import Truth, all_planted

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "studies" / "paper"


@pytest.fixture(scope="module")
def remembered(tmp_path_factory):
    """Group 1 is remembered more and receives less; every cost shows it."""
    truth = Truth(gaps=(0.03, 0.08), exposure=(0.01, 0.05))
    return all_planted(tmp_path_factory.mktemp("remembered"), truth)


@pytest.fixture(scope="module")
def forgotten(tmp_path_factory):
    """Nobody is remembered."""
    folder = tmp_path_factory.mktemp("forgotten")
    return all_planted(folder, Truth(n_seeds=10), [ADULT_RACE, COMPAS])


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Enough for a page."""
    return all_planted(tmp_path_factory.mktemp("small"), Truth(n_seeds=2), [COMPAS])


@pytest.fixture(scope="module")
def written(remembered):
    return write_findings(remembered)


def facts_of(study: Study) -> Facts:
    return Facts(study, gap_rows(study), cost_rows(study), [])


def words(parts: list[str]) -> str:
    return " ".join("\n".join(parts).split())


def test_there_is_a_row_for_every_gap_and_for_every_setting_and_cost(remembered):
    gaps, costs = gap_rows(remembered), cost_rows(remembered)
    assert len(gaps) == len(CONFIGURATIONS) * len(BUDGETS) * 2 == 72
    assert len(costs) == len(COSTS) * 36


def test_rows_are_the_audits(remembered):
    for row in cost_rows(remembered)[::7]:
        one = row.configuration
        audit = remembered.audit(one.dataset, one.attribute, cost=row.cost)
        (budget,) = [b for b in audit.budgets if b.budget == row.epsilon]
        assert row.verdict is budget.verdict
        assert row.lower_ratio == budget.pairs[0].lower_ratio
        assert row.resolved == tuple(budget.groups[name].resolved for name in one.groups)


def test_rows_of_gaps_are_the_audits(remembered):
    for row in gap_rows(remembered)[::5]:
        one = row.configuration
        audit = remembered.audit(one.dataset, one.attribute)
        (budget,) = [b for b in audit.budgets if b.budget == row.epsilon]
        group = budget.groups[row.group]
        assert row.gap == group.overfitting_gap.mean
        assert row.noise_level == group.null_gap.mean
        assert row.resolved == group.resolved


def test_a_planted_truth_is_found_by_every_cost(remembered):
    for row in cost_rows(remembered):
        assert row.resolved == (True, True)
        assert row.more_exposed == row.configuration.groups[1]


def test_where_nothing_is_remembered_nothing_is_found(forgotten):
    assert not any(row.resolved for row in gap_rows(forgotten))
    for row in cost_rows(forgotten):
        assert row.verdict is Verdict.NOT_RESOLVED
        assert row.more_exposed is row.lower_ratio is row.double is None


def test_our_gaps_by_the_published_gaps_test_keep_its_level(forgotten):
    """Without memorisation the p-values of our mean gaps are spread over 0 to 1."""
    p = np.array([row.gap_p for row in gap_rows(forgotten)])
    assert n_standing_out(p.tolist()) == 0
    assert 0.3 < p.mean() < 0.7


def test_the_limit_is_where_the_tail_is_the_level_over_the_number_of_tests():
    ratio = standing_out_from(72)
    assert tail_of_mean(ratio * CLIPPED_MEAN, spread=1.0, n=50) == pytest.approx(
        0.05 / 72, rel=0.02
    )


def test_holm_over_a_family():
    assert n_standing_out([0.0001, 0.02, 0.03]) == 3  # 3 x 0.0001, 2 x 0.02, then 0.04 again
    assert n_standing_out([0.0001, 0.03, 0.04]) == 1  # 2 x 0.03 is above 0.05


# Sentences follow the results.


def test_sentences_of_a_study_in_which_all_is_seen(remembered):
    told = words(costs_section(facts_of(remembered)))
    assert "| LiRA | 72/72 | 60/60 | 36/36 | " in told
    assert "Sharper costs that name a group name the same one (Adult (sex): Female, " in told
    assert "it is the smaller group in 6 of 6" in told
    assert "With privacy sharper costs show one from ε 0.1 on" in told


def test_sentences_of_a_study_in_which_nothing_is_seen(forgotten):
    told = words(costs_section(facts_of(forgotten)))
    assert "| LiRA | 0/24 | 0/20 | 0/12 | 0/12 | 0/12 |" in told
    assert "They name nobody in Adult (race), COMPAS (race)." in told
    assert "With privacy no sharper cost shows one." in told
    assert "On COMPAS no cost shows the double disadvantage of African-Americans" in told
    assert double_told(facts_of(forgotten)) == "by no cost in any setting."


def test_the_double_disadvantage_of_compas_follows_the_audits(tmp_path):
    """Planted at every budget; then taken away at all budgets with privacy."""
    truth = Truth(exposure=(0.0, 0.05), label_shares=(0.2, 0.6))
    study = all_planted(tmp_path, truth, [COMPAS])
    told = words(costs_section(facts_of(study)))
    assert "is borne out with privacy, at ε 0.1, 0.5, 1, 5, 10" in told
    tree = study.release("compas", "race").model_dump()
    for row in tree["pooled_exposure"]:
        row["value"] = row["value"] if row["epsilon"] is None else 0.0
    release = type(study.release("compas", "race")).model_validate(tree)
    told = words(costs_section(facts_of(Study(tmp_path, {("compas", "race"): release}, None))))
    assert "is real without privacy, but at no budget with privacy do these models show it" in told
    assert re.search(r"\d/10 of the published gaps with privacy stand out from luck", told)


def test_a_study_without_sharper_costs_says_so(tmp_path):
    study = all_planted(tmp_path, Truth(n_seeds=3), [COMPAS])
    tree = study.release("compas", "race").model_dump()
    tree["pooled_exposure"] = []
    release = type(study.release("compas", "race")).model_validate(tree)
    page, figures = write_findings(Study(tmp_path, {("compas", "race"): release}, None))
    assert "The releases of this study carry none." in page
    assert sorted(figures) == ["findings-gaps.svg", "findings-verdicts.svg"]


def test_counts_of_the_page_are_those_of_the_rows(remembered, written):
    page, _ = written
    gaps = gap_rows(remembered)
    published = sum(row.published.stands_out for row in gaps)
    private = [row for row in gaps if row.epsilon != math.inf]
    assert f"Of the 72 published mean gaps **{published}** can be told from split luck" in page
    assert f"{sum(row.published.stands_out for row in private)}/60 with differential" in page
    loud = {row.configuration for row in private if row.published.stands_out}
    for one in CONFIGURATIONS:
        silent = re.search(r"with differential privacy \(none in ([^;]*)\);", page)
        assert (one.name in (silent[1] if silent else "")) == (one not in loud)
    assert f"{72 - published} of 72 published gaps cannot be told from split luck" in page


# Figures.


def test_figures_hold_every_number(remembered):
    gaps, costs = gap_rows(remembered), cost_rows(remembered)
    points = gap_points(gaps)
    assert len(points) == 144
    first = gaps[0].published
    assert points[0]["ratio"] == pytest.approx(first.value / first.noise_level)
    assert points[1]["ratio"] == pytest.approx(gaps[0].gap / gaps[0].noise_level)
    exposed = exposure_points(costs)
    assert len(exposed) == 72
    assert {point["value"] for point in exposed} == {0.01, 0.05}
    assert exposed[0]["high"] - exposed[0]["low"] == pytest.approx(2 * 1.96 * 0.001)
    cells = verdict_cells(costs)
    assert len(cells) == 144
    assert {cell["told"].rstrip("●") for cell in cells} == {"F", "NW", "AA"}


def test_figures_are_drawings_with_the_names_of_groups(written):
    _, figures = written
    assert len(figures) == 3
    for drawing in figures.values():
        assert drawing.startswith(b"<svg ")
    assert "African-American" in figures["findings-exposure.svg"].decode()
    for name in COSTS.values():
        assert name in figures["findings-verdicts.svg"].decode()


# Pages.


def test_the_page_shows_every_figure_and_leads_to_its_neighbours(written):
    page, figures = written
    shown = re.findall(r"!\[[^]]*\]\(([^)]+)\)", page)
    assert sorted(shown) == sorted(f"figures/{name}" for name in figures)
    links = set(re.findall(r"\]\(([^)#]+\.md|[^)]+\.cff)\)", page))
    for target in links - {"claims.md"}:
        assert (ROOT / "docs" / target).exists(), target


def test_the_same_study_gives_the_same_pages_and_the_command_writes_them(small, tmp_path, capsys):
    assert main([str(small.folder), str(tmp_path / "docs")]) == 0
    printed = capsys.readouterr().out.splitlines()
    for name, content in study_pages(small).items():
        written = (tmp_path / "docs" / name).read_bytes()
        assert written == (content.encode() if isinstance(content, str) else content)
        assert f"wrote {tmp_path / 'docs' / name}" in printed


@pytest.mark.parametrize("arguments", [[], ["one"], ["nowhere", "docs"]])
def test_the_command_says_what_it_needs(arguments, capsys):
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert len(told.strip().splitlines()) == 1
    assert "folder" in told


@pytest.fixture(scope="module")
def shipped() -> dict[str, str | bytes]:
    if not list(SHIPPED.glob("*.release.json")):
        pytest.skip("studies/paper holds no releases yet: nothing to make the pages from")
    return study_pages(Study.read(SHIPPED))


@pytest.mark.parametrize("name", ["claims.md", "findings.md"])
def test_the_documents_follow_from_the_shipped_study(name, shipped):
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == shipped[name]


def test_the_figures_follow_from_the_shipped_study(shipped):
    for name, content in shipped.items():
        if name.endswith(".svg"):
            assert (ROOT / "docs" / name).read_bytes() == content, name


def test_the_readme_leads_to_the_documents(shipped):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in ("claims.md", "findings.md"):
        assert f"(docs/{name})" in readme
