"""The findings: counts by hand, sentences that follow the results, figures with their rows."""

import re
from pathlib import Path

import pytest

from pcer.auditing.verdict import Verdict
from pcer_studies import Study
from pcer_studies.__main__ import main, study_pages
from pcer_studies.claims import findings
from pcer_studies.claims.facts import (
    COSTS,
    cost_rows,
    gap_rows,
    setting_rows,
    standing_out_from,
)
from pcer_studies.claims.noise import CLIPPED_MEAN, tail_of_mean
from pcer_studies.claims.quantities import COMPAS
from tests.worlds.studies import shipped_study, study_of, tree_of, tree_of_rates

DOCS = Path(__file__).parents[2] / "studies" / "docs"


def facts_of(study: Study) -> findings.Facts:
    return findings.Facts(
        study, setting_rows(study), gap_rows(study), cost_rows(study), []
    )


def words(parts: list[str]) -> str:
    return " ".join("\n".join(parts).split())


def test_a_planted_truth_is_found_by_every_cost(remembered):
    for row in cost_rows(remembered):
        assert row.resolved == (True, True)
        assert row.more_exposed == row.configuration.groups[1]
    limit = tail_of_mean(standing_out_from(72) * CLIPPED_MEAN, spread=1.0, n=50)
    assert limit == pytest.approx(
        0.05 / 72, rel=0.02
    )  # the level over the number of tests


def test_where_nothing_is_remembered_nothing_is_found_and_sentences_say_so(forgotten):
    facts = facts_of(forgotten)
    assert not any(row.resolved for row in facts.gaps)
    assert {row.more_exposed for row in facts.costs} == {None}
    for row in (*facts.costs, *facts.settings):
        assert {"none_detected", "outcomes_differ"} <= set(row.statements)
        assert not {"exposure_differs", "ratio_differs", "double_disadvantage"} & {
            *row.statements
        }
    sections = (findings.opening, findings.people_section, findings.method_section)
    told = words([part for section in sections for part in section(facts)])
    assert "| LiRA | 0/24 | 0/20 | 0/12 | 0/12 | 0/12 |" in told
    assert (
        f"**12 settings**: 12 {Verdict.NONE_DETECTED.words}. Exposure differs in 0, out"
        in told
    )
    assert "**No alarm holds** in any setting." in told
    assert (
        "no group is shown to be easier to recognise, and Non-White is worse served"
        in told
    )
    assert "made-up groups with an alarm: not given." in told


def test_no_group_is_named_without_its_verdict_made_up_groups_and_bounds(remembered):
    """COMPAS with planted made-up groups and receipts; found stands beside allowed."""
    release = remembered.release("compas", "race")
    tree = release.model_dump() | {"version": 2}
    groups = tree["subject"]["groups"]
    epsilons = dict.fromkeys(run["epsilon"] for run in tree["runs"])
    flips = {"groups": groups, "n_draws": 200, "n_shown": 3, "n_double": 0}
    tree["placebo"] = [
        {"epsilon": e, "proxy": proxy, **flips} for e in epsilons for proxy in COSTS
    ]
    tree["bounds"] = [
        {
            "epsilon": e,
            "group": group,
            "kind": kind,
            "mode": "refreshed",
            "accountant": "rdp",
        }
        | {"mean": e * (0.5 + 0.2 * g), "standard_error": 0.01 * e, "nominal": 1.1 * e}
        | ({"allowed_advantage": (0.2, 0.03)[g]} if kind == "realised" else {})
        for e in filter(None, epsilons)
        for g, group in enumerate(groups)
        for kind in ("receipt", "realised")
    ]
    releases = {("compas", "race"): type(release).model_validate(tree)}
    facts = facts_of(Study(remembered.folder, releases, None))
    for paragraph in findings.people_section(facts)[2:-2]:
        sentences = re.split(r"(?<=[.]) (?=At|The two)", paragraph)[1:]
        assert "differ by at most" in sentences[-1]
        for sentence in sentences[:-1]:
            assert any(f": {verdict.words}" in sentence for verdict in Verdict), (
                sentence
            )
            assert re.search(r"an alarm: \d+( to \d+)? of 200", sentence), sentence
    told = findings.placebos_told(facts)
    assert (
        "In 6 of 6 settings at least one of them raised an alarm, 1.5% of all draws"
        in told
    )
    assert "in 0 at least 19 of 200" in told
    told = words(findings.allowed_section(facts))
    assert "in 5 of 10 groups and settings; in 5 it is above beyond its error." in told
    assert "differs beyond its error in 5 of 5 private settings" in told


@pytest.mark.parametrize("is_pooled", [False, True])
def test_the_command_writes_the_pages_without_sharper_costs_or_their_errors(
    is_pooled, tmp_path, capsys
):
    tree = tree_of(COMPAS)
    tree["pooled_exposure"] = [
        row | {"standard_error": None} if row["epsilon"] == 1.0 else row
        for row in tree["pooled_exposure"]
        if is_pooled
    ]
    study_of(tmp_path, tree)
    assert main([str(tmp_path), str(tmp_path / "docs")]) == 0
    written = capsys.readouterr().out.splitlines()
    names = ("claims.md", "findings.md", "figures/findings-verdicts.svg")
    assert {f"wrote {tmp_path / 'docs' / name}" for name in names} <= set(written)
    page = (tmp_path / "docs" / "findings.md").read_text(encoding="utf-8")
    assert "These releases carry no receipts." in page
    assert "nan" not in page


def test_the_command_says_what_it_needs_in_one_sentence(tmp_path, capsys):
    study_of(tmp_path, tree_of_rates(COMPAS, sizes=False))
    for arguments, said in (
        ([], "folder"),
        ([tmp_path], "folder"),
        ([tmp_path, tmp_path / "docs"], "no release holds group sizes"),
    ):
        assert main([*map(str, arguments)]) == 2
        (sentence,) = capsys.readouterr().err.splitlines()
        assert said in sentence


@pytest.mark.slow
def test_the_pages_follow_from_the_shipped_study():
    for name, content in study_pages(shipped_study()).items():
        written = (DOCS / name).read_bytes()
        assert written == (
            content if isinstance(content, bytes) else content.encode()
        ), name
