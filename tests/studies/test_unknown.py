"""What a study does not know is said to be unknown, and is never taken for 0."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pcer.auditing.words import signed
from pcer_studies import CONFIGURATIONS, Study
from pcer_studies.__main__ import main
from pcer_studies.claims.findings import write_findings
from pcer_studies.claims.judgement import Judgement, judge
from pcer_studies.claims.ledger import CLAIMS
from pcer_studies.claims.rules import correlation, made
from pcer_studies.claims.views import N_DRAWS, OurRun, Paper
from pcer_studies.numbers import our_number
from pcer_studies.protocol import configuration
from pcer_studies.published import NotThere, key_at, published_figures
from pcer_studies.sensitivity.analysis import read_sensitivity
from pcer_studies.sensitivity.page import to_page as to_sensitivity_page
from pcer_studies.tables.cells import compare, to_csv, to_page
from pcer_studies.tables.layout import Bold, paper_tables
from tests.worlds.studies import simulated, write_study

COMPAS, BIOS = configuration("compas", "race"), configuration("bios", "gender")
SHIPPED = Path(__file__).parents[2] / "studies" / "paper"


def tree_of(one, n_seeds=3) -> dict[str, Any]:
    return json.loads(simulated(one, n_seeds=n_seeds).to_json())


def write(folder: Path, *trees: dict[str, Any]) -> Study:
    for tree in trees:
        name = f"{tree['subject']['dataset']}.{tree['subject']['attribute']}.release.json"
        (folder / name).write_text(json.dumps(tree), encoding="utf-8")
    return Study.read(folder)


def with_rates(tree: dict[str, Any], *, sizes: bool) -> dict[str, Any]:
    """The same release with rates in place of counts: labels are unknown, sizes perhaps."""
    for run in tree["runs"]:
        for cell in run["groups"].values():
            for split, counts in (("train", cell["train"]), ("test", cell["test"])):
                n = sum(counts.values())
                rates = {"accuracy": (counts["tp"] + counts["tn"]) / n}
                if split == "test":
                    rates["positive_rate"] = (counts["tp"] + counts["fp"]) / n
                cell[split] = rates | ({"n": n} if sizes else {})
    return tree


def by_run(key: str, run: OurRun):
    claim = next(one for one in CLAIMS if one.key == key)
    return judge(claim, Paper.beside(run.study), run).run


def ours_of(study: Study, name: str, **fields):
    (figure,) = published_figures(name=name, **fields)
    (found,) = [one for one in compare(study) if one.published == figure]
    return found


# A release of rates: without labels no equalized odds, without sizes no test.


def test_a_range_over_unknown_numbers_is_unknown(tmp_path):
    study = write(tmp_path, with_rates(tree_of(COMPAS), sizes=True))
    one = ours_of(study, "compas_odds_gap_low")
    assert one.ours.value is None
    assert (one.difference, one.within) == (None, None)
    comparisons = compare(study)
    lines = csv.DictReader(io.StringIO(to_csv(comparisons)))
    (line,) = [line for line in lines if line["key"] == "compas_odds_gap_low"]
    assert (line["ours"], line["within"]) == ("", "")
    page = to_page(comparisons)
    assert "| equalized odds gap (smallest over budgets) | 0.228 | – | – | – | – |" in page


def test_without_labels_nothing_is_said_of_them(tmp_path):
    run = OurRun(write(tmp_path, with_rates(tree_of(BIOS), sizes=True)))
    side = by_run("B3", run)
    assert side.judgement is Judgement.UNTESTABLE
    assert "labels" in side.why


def test_without_sizes_no_claim_about_costs_is_judged(tmp_path):
    run = OurRun(write(tmp_path, with_rates(tree_of(COMPAS), sizes=False)))
    with pytest.raises(NotThere, match=r"COMPAS \(race\)"):
        run.costs_differ(COMPAS, 1.0)
    assert by_run("G11", run).judgement is Judgement.UNTESTABLE
    assert "detectable" in by_run("G11", run).why


def test_findings_of_a_study_without_sizes_end_in_a_sentence(tmp_path, capsys):
    write(tmp_path, with_rates(tree_of(COMPAS), sizes=False))
    assert main([str(tmp_path), str(tmp_path / "pages")]) == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert "no release holds group sizes" in sentence


# An attack that was not run on every model.


@pytest.fixture
def without_one_attack(tmp_path) -> Study:
    """Of COMPAS at epsilon 1 one model was not attacked."""
    tree = tree_of(COMPAS)
    run = next(run for run in tree["runs"] if run["epsilon"] == 1.0)
    for cell in run["groups"].values():
        cell["exposure"] = {}
    return write(tmp_path, tree)


def test_an_attack_that_was_not_run_gives_no_number(without_one_attack):
    key = key_at(COMPAS, 1.0, "attack_auc", group="Other")
    assert our_number(without_one_attack, key).value is None
    for quantity in ("attack_auc", "pcer_disparity_auc"):
        for figure in published_figures(configuration=COMPAS, quantity=quantity, budgets=(1.0,)):
            (one,) = [c for c in compare(without_one_attack) if c.published == figure]
            assert one.ours.value is one.difference is one.within is None


def test_a_disparity_that_is_unknown_neither_agrees_nor_disagrees(without_one_attack):
    table = paper_tables(without_one_attack)[-1]
    row = table.blocks[0][3]
    assert row[1] == "1.0"
    assert row[4:6] == ("–", "–")
    assert row[7:] == ("–", "–")
    assert not any(isinstance(cell, Bold) for cell in row)


def test_a_cost_without_an_error_is_not_drawn(tmp_path):
    tree = tree_of(COMPAS)
    for row in tree["pooled_exposure"]:
        if row["epsilon"] == 1.0:
            row["standard_error"] = None
    study = write(tmp_path, tree)
    page, figures = write_findings(study)
    assert "nan" not in page
    assert "findings-verdicts.svg" in figures


# Correlations, records, distances.


class Everywhere(OurRun):
    """A run in which nothing varies over budgets."""

    level = 0.25

    def drawn(self, key):
        """The same for every budget."""
        return np.full(1 + N_DRAWS, -self.level if "disparity" in key.quantity else self.level)


class Nought(Everywhere):
    """A run in which every mean is 0."""

    level = 0.0


def numbers(*values):
    return [made("x", lambda view, v=v: np.array([v, v, v]), signed, COMPAS) for v in values]


def test_a_correlation_of_what_does_not_vary_is_not_there():
    points = list(zip(numbers(1.0, 2.0, 3.0), numbers(2.0, 4.0, 6.0), strict=True))
    assert correlation(points, None)[0] == pytest.approx(1.0)
    flat = list(zip(numbers(1.0, 1.0, 1.0), numbers(2.0, 3.0, 5.0), strict=True))
    for few in (flat, points[:2], []):
        with pytest.raises(NotThere, match="correlation"):
            correlation(few, None)


@pytest.fixture(scope="module")
def two_seeds(tmp_path_factory) -> Study:
    return Study.read(write_study(tmp_path_factory.mktemp("two"), n_seeds=2))


@pytest.mark.parametrize(
    ("key", "made_up", "why"),
    [
        *((key, Everywhere, "correlation") for key in ("C13", "G3", "A1", "A4")),
        ("F3", Nought, "a disparity of 0 has no slope over floors"),
        ("T8", Nought, "it divides by a figure that is 0"),
    ],
)
def test_a_claim_about_an_undefined_number_cannot_be_tested(two_seeds, key, made_up, why):
    with np.errstate(invalid="ignore", divide="ignore"):
        side = by_run(key, made_up(two_seeds))
    assert side.judgement is Judgement.UNTESTABLE
    assert why in side.why


def test_a_number_of_records_that_is_not_said_is_not_nought(tmp_path):
    trees = [tree_of(one, n_seeds=1) for one in CONFIGURATIONS[:3]]
    for tree in trees:
        tree["subject"]["n_records"] = None
    study = write(tmp_path, *trees)
    side = by_run("G6", OurRun(study))
    assert side.judgement is Judgement.UNTESTABLE
    assert "records" in side.why
    assert ours_of(study, "n_records_compas").within is None


def test_a_reading_whose_distance_is_unknown_is_not_the_nearest():
    found = read_sensitivity(SHIPPED / "sensitivity.json")
    name = found.results[0].name
    unknown = [
        one.model_copy(update={"distance": None}) if one.name == name else one
        for one in found.results
    ]
    page = to_sensitivity_page(found.model_copy(update={"results": unknown}))
    table = page.partition("### Readings by distance\n")[2].partition("\n###")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert rows[-1].startswith("| named columns (pcer) | 19 | – |")
