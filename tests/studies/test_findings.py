"""The findings: counts by hand, sentences that follow the results, figures with their rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pcer.auditing.verdict import Verdict
from pcer_studies import Study
from pcer_studies.__main__ import main, study_pages
from pcer_studies.claims.facts import (
    COSTS,
    cost_rows,
    gap_rows,
    setting_rows,
    standing_out_from,
)
from pcer_studies.claims.findings import (
    Facts,
    allowed_section,
    coins_told,
    method_section,
    opening,
    people_section,
    write_findings,
)
from pcer_studies.claims.noise import CLIPPED_MEAN, tail_of_mean
from pcer_studies.claims.rules import COMPAS
from tests.worlds.studies import Truth, all_planted, shipped_study

ROOT = Path(__file__).parents[2]


def facts_of(study: Study) -> Facts:
    return Facts(study, setting_rows(study), gap_rows(study), cost_rows(study), [])


def words(parts: list[str]) -> str:
    return " ".join("\n".join(parts).split())


def test_a_planted_truth_is_found_by_every_cost(remembered):
    for row in cost_rows(remembered):
        assert row.resolved == (True, True)
        assert row.more_exposed == row.configuration.groups[1]


def test_where_nothing_is_remembered_nothing_is_found(forgotten):
    assert not any(row.resolved for row in gap_rows(forgotten))
    for row in cost_rows(forgotten):
        assert row.verdict is Verdict.NOT_RESOLVED
        assert row.more_exposed is None


def test_the_limit_is_where_the_tail_is_the_level_over_the_number_of_tests():
    ratio = standing_out_from(72)
    assert tail_of_mean(ratio * CLIPPED_MEAN, spread=1.0, n=50) == pytest.approx(
        0.05 / 72, rel=0.02
    )


# Sentences follow the results.


def test_sentences_of_a_study_in_which_nothing_is_seen(forgotten):
    facts = facts_of(forgotten)
    told = words([*opening(facts), *people_section(facts), *method_section(facts)])
    assert "| LiRA | 0/24 | 0/20 | 0/12 | 0/12 | 0/12 |" in told
    assert "**12 settings**: 12 not resolved." in told
    assert "**No alarm holds** in any setting." in told
    assert "At ε 0.1, 0.5, 1, 5, 10, no-DP: not resolved; coin flips not given." in told


def test_no_group_is_named_without_its_verdict_coin_flips_and_limits(facts):
    """Every sentence that names a group names a verdict and its coin flips; limits follow."""
    for paragraph in people_section(facts)[2:-2]:
        sentences = re.split(r"(?<=[.]) (?=At|The two)", paragraph)[1:]
        assert "differ by at most" in sentences[-1]
        for sentence in sentences[:-1]:
            assert any(f": {verdict.words}" in sentence for verdict in Verdict), sentence
            assert re.search(r"coin flips \d+( to \d+)? of 200", sentence), sentence


def with_coins_and_bounds(release, *, n_shown: int, allowed: float):
    """The release with coin flips and receipts, planted."""
    tree = release.model_dump()
    groups = tree["subject"]["groups"]
    epsilons = dict.fromkeys(run["epsilon"] for run in tree["runs"])
    tree["version"] = 2
    tree["placebo"] = [
        {"epsilon": e, "proxy": proxy, "groups": groups, "n_draws": 200}
        | {"n_shown": n_shown, "n_double": 0}
        for e in epsilons
        for proxy in COSTS
    ]
    tree["bounds"] = [
        {"epsilon": e, "group": group, "kind": kind, "mode": "refreshed", "accountant": "rdp"}
        | {"mean": e * (0.5 + 0.2 * g), "standard_error": 0.01 * e, "nominal": 1.1 * e}
        | ({"allowed_advantage": allowed} if kind == "realised" else {})
        for e in epsilons
        if e is not None
        for g, group in enumerate(groups)
        for kind in ("receipt", "realised")
    ]
    return type(release).model_validate(tree)


def with_everything(remembered, **planted):
    """One configuration with coin flips and receipts."""
    key = "compas", "race"
    releases = {key: with_coins_and_bounds(remembered.releases[key], **planted)}
    return facts_of(Study(remembered.folder, releases, None))


@pytest.fixture(scope="module")
def facts(remembered):
    return with_everything(remembered, n_shown=3, allowed=0.2)


def test_coin_flips_are_counted_and_found_stands_beside_allowed(facts, remembered):
    told = coins_told(facts)
    assert "In 6 of 6 settings at least one of them alarms, 1.5 % of all draws" in told
    assert "(19 of 200) in 0." in told
    told = words(allowed_section(facts))
    assert "Found is below allowed in 10 of 10 groups and settings." in told
    assert "at most this share is found: 25 % at ε 0.1, 25 % at ε 0.5" in told
    assert "differs beyond its error in 5 of 5 private settings" in told
    other = with_everything(remembered, n_shown=30, allowed=0.03)
    assert "15.0 % of all draws" in coins_told(other)
    assert "(19 of 200) in 6." in coins_told(other)
    told = words(allowed_section(other))
    assert "in 5 of 10 groups and settings; in 5 it is above beyond its error." in told


def test_a_study_without_sharper_costs_is_told_by_the_gap(tmp_path):
    study = all_planted(tmp_path, Truth(n_seeds=3), [COMPAS])
    tree = study.release("compas", "race").model_dump()
    tree["pooled_exposure"] = []
    release = type(study.release("compas", "race")).model_validate(tree)
    page, figures = write_findings(Study(tmp_path, {("compas", "race"): release}, None))
    assert "These releases carry no receipts." in page
    assert sorted(figures) == ["findings-gaps.svg", "findings-verdicts.svg"]


# Pages.


def test_the_command_writes_the_pages(tmp_path, capsys):
    study = all_planted(tmp_path, Truth(n_seeds=2), [COMPAS])
    assert main([str(study.folder), str(tmp_path / "docs")]) == 0
    printed = capsys.readouterr().out.splitlines()
    for name in ("claims.md", "findings.md", "figures/findings-verdicts.svg"):
        assert (tmp_path / "docs" / name).stat().st_size
        assert f"wrote {tmp_path / 'docs' / name}" in printed


@pytest.mark.parametrize("arguments", [[], ["one"], ["nowhere", "docs"]])
def test_the_command_says_what_it_needs(arguments, capsys):
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert len(told.strip().splitlines()) == 1
    assert "folder" in told


@pytest.fixture(scope="module")
def shipped() -> dict[str, str | bytes]:
    return study_pages(shipped_study())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["claims.md", "findings.md"])
def test_the_documents_follow_from_the_shipped_study(name, shipped):
    assert (ROOT / "studies" / "docs" / name).read_text(encoding="utf-8") == shipped[name]


@pytest.mark.slow
def test_the_figures_follow_from_the_shipped_study(shipped):
    for name, content in shipped.items():
        if name.endswith(".svg"):
            assert (ROOT / "studies" / "docs" / name).read_bytes() == content, name
