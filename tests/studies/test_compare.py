"""Published beside ours: our numbers against loops, the rule of comparison against simulation."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from statistics import mean, stdev

import numpy as np
import pytest
from scipy.stats import binomtest, pearsonr

import pcer
from pcer_studies import BUDGETS, CONFIGURATIONS, numbers, published_figures
from pcer_studies.numbers import FIGURES, OurNumber, error_of_count, our_number, study_means
from pcer_studies.published import key_at
from pcer_studies.tables.cells import EXPECTED, Compared, compare, find_limits, to_csv, to_page
from pcer_studies.tables.layout import Bold, paper_tables
from tests.worlds.studies import study_of, tree_of, tree_of_rates

COMPAS = CONFIGURATIONS[2]
N_SEEDS = 4


@pytest.fixture(scope="module")
def comparisons(study):
    return compare(study)


def find(comparisons, name, **fields) -> Compared:
    (figure,) = published_figures(name=name, **fields)
    (one,) = [one for one in comparisons if one.published == figure]
    return one


def by_hand(release, epsilon, *, group=0, floor=0.001) -> dict[str, list[float]]:
    """Every quantity, one value per seed, by loops over the release's runs."""
    found = {}
    for run in sorted(release.runs, key=lambda run: run.seed):
        if run.budget != epsilon:
            continue
        tables = [run.groups[name] for name in release.subject.groups]
        tests = [table.test for table in tables]
        rates = [(t.tp + t.fp) / t.n for t in tests]
        gaps = [
            max(0, (t.train.tp + t.train.tn) / t.train.n - (t.test.tp + t.test.tn) / t.test.n)
            for t in tables
        ]
        tprs, fprs = [t.tp / (t.tp + t.fn) for t in tests], [t.fp / (t.fp + t.tn) for t in tests]
        aucs = [t.exposure["auc_advantage"].value for t in tables]
        by_gap = [rate / max(gap, floor) for rate, gap in zip(rates, gaps, strict=True)]
        by_attack = [rate / max(auc, floor) for rate, auc in zip(rates, aucs, strict=True)]
        for quantity, value in {
            "accuracy": sum(t.tp + t.tn for t in tests) / sum(t.n for t in tests),
            "demographic_parity_gap": abs(rates[0] - rates[1]),
            "equalized_odds_gap": max(abs(tprs[0] - tprs[1]), abs(fprs[0] - fprs[1])),
            "overfitting_gap": gaps[group],
            "positive_rate": rates[group],
            "pcer": by_gap[group],
            "attack_auc": 0.5 + aucs[group],
            "pcer_disparity": by_gap[0] - by_gap[1],
            "pcer_disparity_auc": by_attack[0] - by_attack[1],
        }.items():
            found.setdefault(quantity, []).append(value)
    return found


PER_GROUP = ("overfitting_gap", "positive_rate", "pcer", "attack_auc")


@pytest.mark.parametrize(("group", "floor"), [(0, 0.001), (1, 0.001), (0, 0.01)])
def test_our_numbers_against_loops(study, group, floor):
    release = study.release("compas", "race")
    for epsilon in BUDGETS:
        for quantity, values in by_hand(release, epsilon, group=group, floor=floor).items():
            if floor != 0.001 and quantity != "pcer_disparity":
                continue
            name = COMPAS.groups[group] if quantity in PER_GROUP else None
            found = our_number(study, key_at(COMPAS, epsilon, quantity, group=name, floor=floor))
            expected = mean(values), stdev(values)
            assert (found.value, found.std) == pytest.approx(expected, rel=1e-9), quantity
            error = stdev(values) / math.sqrt(N_SEEDS)
            if quantity == "pcer_disparity":
                error = (found.ci[1] - found.ci[0]) / 3.92
            assert found.standard_error == pytest.approx(error), quantity


def test_numbers_of_seeds_are_compared_out_of_fifty(study, comparisons):
    release = study.release("compas", "race")
    values = by_hand(release, 1.0)["pcer_disparity"]
    above, below = sum(v > 0 for v in values), sum(v < 0 for v in values)
    wanted = key_at(COMPAS, 1.0, "n_positive_seeds")
    found = our_number(study, wanted)
    assert (found.value, found.n_seeds) == (above, N_SEEDS)
    assert found.standard_error == error_of_count(above, N_SEEDS)
    assert our_number(study, replace(wanted, quantity="n_negative_seeds")).value == below
    found = our_number(study, replace(wanted, quantity="sign_test_p"))
    assert found.value == pytest.approx(binomtest(above, above + below).pvalue)
    assert found.standard_error is None
    below = sum(v < 0 for v in by_hand(release, 0.1)["pcer_disparity"])
    found = find(comparisons, "compas_negative_seeds_0.1").ours
    assert found.value == below * 50 / N_SEEDS
    assert found.standard_error == 12.5 * error_of_count(below, N_SEEDS)


def test_the_rule_at_its_edge(comparisons):
    one = find(comparisons, "tab:compas-race", quantity="accuracy", budgets=(5.0,))
    allowed = 1.96 * math.hypot(0.008 / math.sqrt(50), 0.001) + 0.0005
    for difference, within in ((0.999, True), (1.001, False), (-0.999, True), (-1.001, False)):
        value = 0.679 + difference * allowed
        near = replace(one, ours=OurNumber(value=value, standard_error=0.001))
        assert near.allowed == pytest.approx(allowed)
        assert near.within is within


def test_expected_shares_against_simulation():
    """Two studies of one truth, 50 seeds each: how often the rule, without rounding, agrees."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 4_000, 50))
    errors = [draw.std(axis=1, ddof=1) / math.sqrt(50) for draw in (first, second)]
    difference = np.abs(first.mean(axis=1) - second.mean(axis=1))
    both = (difference <= 1.96 * np.hypot(*errors)).mean()
    alone = (difference <= 1.96 * errors[1]).mean()
    assert both == pytest.approx(EXPECTED[True], abs=0.015)
    assert alone == pytest.approx(EXPECTED[False], abs=0.02)


def test_agreement_of_a_study_against_loops(study):
    """The error of the mean advantage: datasets are resampled alone, all in one together."""
    gaps, advantages, pairs = [], [], []
    by_seed = dict.fromkeys((one.dataset for one in CONFIGURATIONS), 0)
    for one, epsilon in ((one, epsilon) for one in CONFIGURATIONS for epsilon in BUDGETS):
        release = study.release(one.dataset, one.attribute)
        for group in (0, 1):
            values = by_hand(release, epsilon, group=group)
            gaps.append(mean(values["overfitting_gap"]))
            advantages.append(mean(values["attack_auc"]) - 0.5)
            by_seed[one.dataset] += np.array(values["attack_auc"])
        pairs.append([mean(values[name]) for name in ("pcer_disparity", "pcer_disparity_auc")])
    means, resampled = study_means(study)
    found = {name: numbers.figure(means, resampled, name, BUDGETS) for name in FIGURES}
    first, second = np.array(pairs).T
    for name, expected in {
        "auc_advantage_mean": mean(advantages),
        "auc_advantage_largest": max(advantages),
        "gap_advantage_correlation": pearsonr(gaps, advantages)[0],
        "overfitting_gap_mean": mean(gaps),
        "sign_agreements": sum(a * b > 0 for a, b in pairs),
        "disparity_correlation": pearsonr(first, second)[0],
        "share_understated": mean(abs(b) >= abs(a) for a, b in pairs),
        "median_ratio": np.median(np.abs(second / first)),
    }.items():
        assert found[name][0] == pytest.approx(expected), name
    last = sum(a * b > 0 for a, b in pairs[len(BUDGETS) - 1 :: len(BUDGETS)])
    assert numbers.figure(means, None, "sign_agreements", BUDGETS[-1:]) == (last, None)
    assert all(error >= 0 for _, error in found.values())
    variance = sum(seeds.var() / N_SEEDS for seeds in by_seed.values())
    _, error = numbers.study_figure(study, "auc_advantage_mean", BUDGETS)
    assert error == pytest.approx(math.sqrt(variance) / 72, rel=0.1)


def test_limits_of_compas(comparisons):
    limits = find_limits(comparisons)
    assert len(limits) == 6 + 6 + 5
    one = find(comparisons, "tab:compas-race", quantity="pcer_disparity", budgets=(5.0,))
    for value, distance in ((-150, 0), (-106, 0), (-100, 6), (-250, 20), (-81, 25), (-80.9, 25.1)):
        (limit,) = find_limits([replace(one, ours=OurNumber(value=value))])
        assert limit.distance == pytest.approx(distance)
        assert limit.is_met is (distance <= 25)
    strongest = find(comparisons, "tab:compas-race", quantity="accuracy", budgets=(0.1,))
    assert find_limits([strongest])[0].allowed == 0.02
    weak = find(comparisons, "tab:compas-race", quantity="pcer_disparity", budgets=(0.1,))
    assert find_limits([weak]) == []


# What a study does not know is said to be unknown, and is never taken for 0.


def test_a_part_of_the_study_leaves_the_rest_open(tmp_path):
    """And so does a release of rates: without labels there are no equalized odds."""
    tree = tree_of_rates(COMPAS, sizes=True)
    tree["subject"]["n_records"] = None
    comparisons = compare(study_of(tmp_path, tree))
    done = {one.published.key.dataset for one in comparisons if one.ours is not None}
    assert done == {"compas"}
    assert find(comparisons, "sign_agreements").note == "needs all six configurations"
    assert find(comparisons, "acs_sex_best_pcer").note == "not run in this study"
    assert find(comparisons, "n_records_compas").within is None
    name = "compas_odds_gap_low"
    one = find(comparisons, name)
    assert one.ours.value is one.difference is one.within is None
    lines = csv.DictReader(io.StringIO(to_csv(comparisons)))
    assert [(row["ours"], row["within"]) for row in lines if row["key"] == name] == [("", "")]
    unknown = "| equalized odds gap (smallest over budgets) | 0.228 | – | – | – | – |"
    assert unknown in to_page(comparisons)


def test_an_attack_that_was_not_run_on_every_model_gives_no_number(tmp_path):
    tree = tree_of(COMPAS)
    run = next(run for run in tree["runs"] if run["epsilon"] == 1.0)
    for cell in run["groups"].values():
        cell["exposure"] = {}
    study = study_of(tmp_path, tree)
    for quantity in ("attack_auc", "pcer_disparity_auc"):
        for printed in published_figures(configuration=COMPAS, quantity=quantity, budgets=(1.0,)):
            (one,) = [c for c in compare(study) if c.published == printed]
            assert one.ours.value is one.difference is one.within is None
    row = paper_tables(study)[-1].blocks[0][3]
    assert (row[1], *row[4:6], *row[7:]) == ("1.0", *"––––")
    assert not any(isinstance(cell, Bold) for cell in row)


@pytest.mark.parametrize("lacks", ["attacks", "a budget"])
def test_a_release_without_attacks_or_all_budgets_is_refused_in_one_sentence(tmp_path, lacks):
    tree, said = tree_of(COMPAS), "auc_advantage"
    if lacks == "attacks":
        for cell in (cell for run in tree["runs"] for cell in run["groups"].values()):
            cell["exposure"] = {}
        tree["pooled_exposure"] = []
    else:
        said = r"compas \(race\) has no models of epsilon 5"
        for name in ("runs", "pooled_exposure"):
            tree[name] = [row for row in tree[name] if row["epsilon"] != 5.0]
    with pytest.raises(pcer.InputError, match=said):
        compare(study_of(tmp_path, tree))
