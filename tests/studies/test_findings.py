"""The findings: counts by hand, and sentences that follow the results."""

import re
from itertools import product
from pathlib import Path

import pytest

from pcer.measuring.plan import Verdict
from pcer_studies import Study
from pcer_studies.__main__ import main, study_pages
from pcer_studies.claims.facts import (
    ATTACKS,
    Background,
    attack_rows,
    background_of,
    standing_out_from,
)
from pcer_studies.claims.findings import opening, placebo_sentences
from pcer_studies.claims.method import method_section
from pcer_studies.claims.noise import CLIPPED_MEAN, tail_of_mean
from pcer_studies.claims.people import allowed_section, people_section
from pcer_studies.claims.quantities import COMPAS
from tests.worlds.studies import shipped_study, study_of, tree_of, tree_of_rates

DOCS = Path(__file__).parents[2] / "studies" / "docs"


def on_one_line(paragraphs: list[str]) -> str:
    return " ".join("\n".join(paragraphs).split())


def test_a_planted_truth_is_found_by_every_attack(remembered):
    for row in attack_rows(remembered):
        assert row.detected == (True, True)
        assert row.more_exposed == row.configuration.groups[1]


def test_the_first_gap_stands_out_at_the_level_over_the_number_of_tests():
    p = tail_of_mean(standing_out_from(72) * CLIPPED_MEAN, spread=1.0, n=50)
    assert p == pytest.approx(0.05 / 72, rel=0.02)


def test_where_nothing_is_remembered_nothing_is_found(forgotten):
    background = background_of(forgotten, [])
    assert not any(row.detected for row in background.gaps)
    assert {row.more_exposed for row in background.attacks} == {None}
    for row in (*background.attacks, *background.settings):
        statements = set(row.statements)
        assert {"none_detected", "outcomes_differ"} <= statements
        assert statements.isdisjoint(
            {"exposure_differs", "ratio_differs", "double_disadvantage"}
        )


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        (method_section, "| LiRA | 0/24 | 0/20 | 0/12 | 0/12 | 0/12 |"),
        (
            opening,
            f"**12 settings**: 12 {Verdict.NONE_DETECTED.words}. Exposure differs in "
            "0, out",
        ),
        (opening, "**No alarm holds** in any setting."),
        (
            people_section,
            "no group is shown to be easier to spot, and Non-White is worse served",
        ),
        (people_section, "made-up groups with an alarm: not given."),
    ],
)
def test_where_nothing_is_remembered_sentences_say_so(forgotten, section, sentence):
    assert sentence in on_one_line(section(background_of(forgotten, [])))


@pytest.fixture(scope="module")
def with_receipts(remembered) -> Background:
    """COMPAS alone, with planted made-up groups and receipts."""
    release = remembered.release("compas", "race")
    tree = release.model_dump()
    names = tree["subject"]["groups"]
    epsilons = dict.fromkeys(run["epsilon"] for run in tree["runs"])
    tree["placebo"] = [
        planted_placebo(epsilon, attack, names)
        for epsilon, attack in product(epsilons, ATTACKS)
    ]
    tree["bounds"] = []
    for epsilon in filter(None, epsilons):
        for group, kind in product((0, 1), ("receipt", "realised")):
            bound = planted_bound(epsilon, group, kind)
            tree["bounds"].append({**bound, "group": names[group]})
    releases = {("compas", "race"): type(release).model_validate(tree)}
    return background_of(Study(remembered.folder, releases, None), [])


def planted_placebo(epsilon, attack, names):
    counts = {"n_draws": 200, "n_ratio": 3, "n_double": 0}
    return {"epsilon": epsilon, "attack": attack, "groups": names, **counts}


def planted_bound(epsilon, group, kind):
    """Group 1 spends more, and its training allows less than is found."""
    bound = {
        "epsilon": epsilon,
        "kind": kind,
        "mode": "refreshed",
        "accountant": "rdp",
        "mean": epsilon * (0.5 + 0.2 * group),
        "standard_error": 0.01 * epsilon,
        "nominal": 1.1 * epsilon,
    }
    if kind == "realised":
        bound["allowed_advantage"] = (0.2, 0.03)[group]
    return bound


def test_no_group_is_named_without_its_verdict_made_up_groups_and_bounds(
    with_receipts,
):
    for paragraph in people_section(with_receipts)[2:-2]:
        sentences = re.split(r"(?<=[.]) (?=At|The two)", paragraph)[1:]
        assert "differ by at most" in sentences[-1]
        for sentence in sentences[:-1]:
            named = [verdict for verdict in Verdict if f": {verdict.words}" in sentence]
            assert named, sentence
            assert re.search(r"an alarm: \d+( to \d+)? of 200", sentence), sentence


def test_made_up_groups_with_an_alarm_are_counted(with_receipts):
    sentences = placebo_sentences(with_receipts)
    assert "In 6 of 6 settings at least one of them raised an alarm" in sentences
    assert "1.5% of all draws" in sentences
    assert "in 0 at least 19 of 200" in sentences


def test_found_stands_beside_allowed(with_receipts):
    section = on_one_line(allowed_section(with_receipts))
    assert "in 5 of 10 groups and settings; in 5 it is above beyond its" in section
    assert "differs beyond its error in 5 of 5 private settings" in section


@pytest.mark.parametrize("is_pooled", [False, True])
def test_the_command_writes_the_pages_without_sharper_attacks_or_their_errors(
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
    for arguments, expected in (
        ([], "folder"),
        ([tmp_path], "folder"),
        ([tmp_path, tmp_path / "docs"], "no release holds group sizes"),
    ):
        assert main([*map(str, arguments)]) == 2
        (sentence,) = capsys.readouterr().err.splitlines()
        assert expected in sentence


@pytest.mark.slow
def test_the_pages_follow_from_the_shipped_study():
    for name, content in study_pages(shipped_study()).items():
        if isinstance(content, str):
            content = content.encode()
        assert (DOCS / name).read_bytes() == content, name
