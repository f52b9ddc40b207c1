"""Published beside ours: our numbers against loops, the rule of comparison against simulation."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import mean, stdev

import numpy as np
import pytest
from scipy.stats import binomtest, pearsonr

import pcer
from pcer_studies import BUDGETS, CONFIGURATIONS, Study, published_figures
from pcer_studies.numbers import (
    FIGURES,
    Means,
    OurNumber,
    error_of_count,
    figure,
    our_number,
    study_figure,
    study_means,
)
from pcer_studies.published import figures_at, key_at
from pcer_studies.tables.cells import EXPECTED, Compared, compare, find_limits
from tests.worlds.studies import simulated, write_study

COMPAS = CONFIGURATIONS[2]
N_SEEDS = 4


@pytest.fixture(scope="module")
def comparisons(study):
    return compare(study)


def find(comparisons, name, **fields) -> Compared:
    (figure,) = published_figures(name=name, **fields)
    (one,) = [one for one in comparisons if one.published == figure]
    return one


def by_hand(release, epsilon, group_names, quantity, group=None, floor=0.001):
    """One value per seed, by loops over the release's runs."""
    values = []
    for run in sorted(release.runs, key=lambda run: run.seed):
        if run.budget != epsilon:
            continue
        tables = [run.groups[name] for name in group_names]
        rates = [(t.test.tp + t.test.fp) / t.test.n for t in tables]
        gaps = [
            max(0, (t.train.tp + t.train.tn) / t.train.n - (t.test.tp + t.test.tn) / t.test.n)
            for t in tables
        ]
        tprs = [t.test.tp / (t.test.tp + t.test.fn) for t in tables]
        fprs = [t.test.fp / (t.test.fp + t.test.tn) for t in tables]
        aucs = [t.exposure["auc_advantage"].value for t in tables]
        g = group_names.index(group) if group else 0
        values.append(
            {
                "accuracy": sum(t.test.tp + t.test.tn for t in tables)
                / sum(t.test.n for t in tables),
                "demographic_parity_gap": abs(rates[0] - rates[1]),
                "equalized_odds_gap": max(abs(tprs[0] - tprs[1]), abs(fprs[0] - fprs[1])),
                "overfitting_gap": gaps[g],
                "positive_rate": rates[g],
                "pcer": rates[g] / max(gaps[g], floor),
                "attack_auc": 0.5 + aucs[g],
                "pcer_disparity": rates[0] / max(gaps[0], floor) - rates[1] / max(gaps[1], floor),
                "pcer_disparity_auc": rates[0] / max(aucs[0], floor)
                - rates[1] / max(aucs[1], floor),
            }[quantity]
        )
    return values


@pytest.mark.parametrize(
    ("quantity", "group", "floor"),
    [
        ("accuracy", None, None),
        ("demographic_parity_gap", None, None),
        ("equalized_odds_gap", None, None),
        ("overfitting_gap", "African-American", None),
        ("positive_rate", "Other", None),
        ("pcer", "African-American", 0.001),
        ("attack_auc", "African-American", None),
        ("pcer_disparity", None, 0.01),
        ("pcer_disparity_auc", None, 0.001),
    ],
)
def test_our_numbers_against_loops(study, quantity, group, floor):
    for epsilon in BUDGETS:
        wanted = key_at(COMPAS, epsilon, quantity, group=group, floor=floor or 0.001)
        release = study.release("compas", "race")
        values = by_hand(release, epsilon, COMPAS.groups, quantity, group, floor or 0.001)
        found = our_number(study, wanted)
        assert found.value == pytest.approx(mean(values), rel=1e-9)
        assert found.std == pytest.approx(stdev(values), rel=1e-9)
        if quantity != "pcer_disparity":
            assert found.standard_error == pytest.approx(stdev(values) / math.sqrt(N_SEEDS))
        else:
            assert found.standard_error == pytest.approx((found.ci[1] - found.ci[0]) / 3.92)


def test_numbers_of_seeds_are_compared_out_of_fifty(study, comparisons):
    release = study.release("compas", "race")
    values = by_hand(release, 1.0, COMPAS.groups, "pcer_disparity")
    above, below = sum(v > 0 for v in values), sum(v < 0 for v in values)
    wanted = key_at(COMPAS, 1.0, "n_positive_seeds")
    found = our_number(study, wanted)
    assert (found.value, found.n_seeds) == (above, N_SEEDS)
    assert found.standard_error == error_of_count(above, N_SEEDS)
    assert our_number(study, replace(wanted, quantity="n_negative_seeds")).value == below
    expected = binomtest(above, above + below).pvalue
    found = our_number(study, replace(wanted, quantity="sign_test_p"))
    assert found.value == pytest.approx(expected)
    assert found.standard_error is None
    values = by_hand(release, 0.1, COMPAS.groups, "pcer_disparity")
    below = sum(v < 0 for v in values)
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


def published_means() -> Means:
    """Tables S5 and S6 as arrays."""

    def values(quantity, groups):
        return np.array(
            [
                [
                    [
                        next(
                            cell.value
                            for cell in figures_at(key_at(one, epsilon, quantity, group=group))
                            if cell.name.startswith("tab:mia")
                        )
                        for group in (one.groups if groups else (None,))
                    ]
                    for epsilon in BUDGETS
                ]
                for one in CONFIGURATIONS
            ]
        )

    return Means(
        gap=values("overfitting_gap", True),
        advantage=values("attack_auc", True) - 0.5,
        by_gap=values("pcer_disparity", False)[..., 0],
        by_attack=values("pcer_disparity_auc", False)[..., 0],
    )


def test_the_papers_own_cells_give_its_figures_of_agreement():
    """An independent check of the formulas: the tables' printed digits lead to the text's."""
    means = published_means()
    private = (math.inf, 0.5, 1.0, 5.0, 10.0)
    value = {name: figure(means, None, name, BUDGETS)[0] for name in FIGURES}
    assert value["sign_agreements"] == 32
    assert figure(means, None, "sign_agreements", private) == (26, None)
    assert value["disparity_correlation"] == pytest.approx(0.935, abs=0.0006)
    assert value["gap_advantage_correlation"] == pytest.approx(0.828, abs=0.01)
    assert value["auc_advantage_mean"] == pytest.approx(0.0013, abs=0.0002)
    assert value["auc_advantage_largest"] == pytest.approx(0.0118, abs=0.0006)
    assert value["overfitting_gap_mean"] == pytest.approx(0.005, abs=0.0006)
    tied = (np.abs(means.by_gap) == np.abs(means.by_attack)).sum()
    assert tied == 1  # at the printed digits; the paper's 69 % is 25 of 36, so it is below there
    assert value["share_understated"] - tied / 36 == pytest.approx(0.69, abs=0.005)
    assert value["median_ratio"] == pytest.approx(1.25, abs=0.006)


def test_agreement_of_a_study_against_loops(study):
    means, resampled = study_means(study)
    gaps, advantages, pairs = [], [], []
    for one in CONFIGURATIONS:
        release = study.release(one.dataset, one.attribute)
        for epsilon in BUDGETS:
            for group in one.groups:
                gaps.append(mean(by_hand(release, epsilon, one.groups, "overfitting_gap", group)))
                auc = by_hand(release, epsilon, one.groups, "attack_auc", group)
                advantages.append(mean(auc) - 0.5)
            names = ("pcer_disparity", "pcer_disparity_auc")
            pairs.append([mean(by_hand(release, epsilon, one.groups, name)) for name in names])
    found = {name: figure(means, resampled, name, BUDGETS) for name in FIGURES}
    first, second = np.array(pairs).T
    assert found["gap_advantage_correlation"][0] == pytest.approx(pearsonr(gaps, advantages)[0])
    assert found["disparity_correlation"][0] == pytest.approx(pearsonr(first, second)[0])
    assert found["auc_advantage_largest"][0] == pytest.approx(max(advantages))
    assert found["sign_agreements"][0] == sum(a * b > 0 for a, b in pairs)
    assert found["median_ratio"][0] == pytest.approx(np.median(np.abs(second / first)))
    assert all(error >= 0 for _, error in found.values())


def test_the_bootstrap_error_of_a_mean_is_the_usual_one(study):
    """Of the mean advantage: datasets are resampled alone, attributes and budgets together."""
    _, error = study_figure(study, "auc_advantage_mean", BUDGETS)
    variance = 0.0
    for dataset in ("adult", "compas", "acs", "bios"):
        per_seed = np.zeros(N_SEEDS)
        for one in CONFIGURATIONS:
            if one.dataset == dataset:
                release = study.release(one.dataset, one.attribute)
                for epsilon in BUDGETS:
                    for group in one.groups:
                        auc = by_hand(release, epsilon, one.groups, "attack_auc", group)
                        per_seed += np.array(auc) - 0.5
        variance += per_seed.var() / N_SEEDS
    assert error == pytest.approx(math.sqrt(variance) / 72, rel=0.1)


def test_a_part_of_the_study_leaves_the_rest_open(tmp_path):
    study = Study.read(write_study(tmp_path, n_seeds=2, configurations=[COMPAS]))
    comparisons = compare(study)
    done = {one.published.key.dataset for one in comparisons if one.ours is not None}
    assert done == {"compas"}
    assert find(comparisons, "sign_agreements").note == "needs all six configurations"
    assert find(comparisons, "acs_sex_best_pcer").note == "not run in this study"


def test_a_release_without_attacks_is_refused_in_one_sentence(tmp_path):
    release = simulated(COMPAS, n_seeds=2)
    runs = [
        run.model_copy(
            update={
                "groups": {
                    name: cell.model_copy(update={"exposure": {}})
                    for name, cell in run.groups.items()
                }
            }
        )
        for run in release.runs
    ]
    bare = release.model_copy(update={"runs": runs, "pooled_exposure": []})
    (tmp_path / COMPAS.file_name).write_text(bare.to_json())
    with pytest.raises(pcer.PcerError, match="auc_advantage"):
        compare(Study.read(tmp_path))


def test_a_release_without_all_budgets_is_refused_in_one_sentence(tmp_path):
    release = simulated(COMPAS, n_seeds=2)
    runs = [run for run in release.runs if run.epsilon != 5.0]
    pooled = [row for row in release.pooled_exposure if row.epsilon != 5.0]
    part = release.model_copy(update={"runs": runs, "pooled_exposure": pooled})
    (tmp_path / COMPAS.file_name).write_text(part.to_json())
    with pytest.raises(pcer.InputError, match=r"compas \(race\) has no models of epsilon 5"):
        compare(Study.read(tmp_path))


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
