"""Published beside ours: printed figures, our numbers against loops, and luck."""

import csv
import io
import math
from dataclasses import replace
from itertools import product
from statistics import mean, stdev

import numpy as np
import pytest
from scipy.stats import binomtest, pearsonr

import pcer
from pcer import metrics
from pcer.measuring.plan import Plan
from pcer.release.panel import panels
from pcer_studies.agreement import figure, study_figure, study_means
from pcer_studies.claims import noise
from pcer_studies.claims.noise import CLIPPED_MEAN, split_spread, spread_of_accuracy
from pcer_studies.numbers import OurNumber, error_of_count, our_number
from pcer_studies.protocol import (
    BUDGETS,
    CONFIGURATIONS,
    FLOORS,
    SEEDS,
    TRAINING,
    configuration,
)
from pcer_studies.published import figures_at, key_at, own_cell, published_figures
from pcer_studies.tables.cells import to_csv, to_page
from pcer_studies.tables.comparison import (
    EXPECTED_WITH_ERROR,
    EXPECTED_WITHOUT_ERROR,
    Comparison,
    compare,
)
from pcer_studies.tables.layout import Bold, paper_tables
from pcer_studies.tables.limits import find_limits
from tests.worlds.releases import World, simulate
from tests.worlds.studies import study_of, tree_of, tree_of_rates

COMPAS = CONFIGURATIONS[2]
N_SEEDS = 4


@pytest.fixture(scope="module")
def comparisons(study):
    return compare(study)


def find(comparisons, name, **fields) -> Comparison:
    (printed,) = published_figures(name=name, **fields)
    (comparison,) = [one for one in comparisons if one.published == printed]
    return comparison


def by_hand(release, epsilon, *, group=0, floor=0.001) -> dict[str, list[float]]:
    """Every quantity, one value per seed, by loops over the release's runs."""
    values_by_quantity = {}
    for run in sorted(release.runs, key=lambda run: run.seed):
        if run.budget == epsilon:
            tables = [run.groups[name] for name in release.subject.groups]
            values = values_of_model(tables, group=group, floor=floor)
            for quantity, value in values.items():
                values_by_quantity.setdefault(quantity, []).append(value)
    return values_by_quantity


def values_of_model(tables, *, group, floor) -> dict[str, float]:
    """Every quantity of one model, from the counts of both groups."""
    tests = [table.test for table in tables]
    rates = [(test.tp + test.fp) / test.n for test in tests]
    gaps = [overfitting_gap(table) for table in tables]
    aucs = [table.exposure["auc_advantage"].value for table in tables]
    tprs = [test.tp / (test.tp + test.fn) for test in tests]
    fprs = [test.fp / (test.fp + test.tn) for test in tests]
    by_gap = [rate / max(gap, floor) for rate, gap in zip(rates, gaps, strict=True)]
    by_attack = [rate / max(auc, floor) for rate, auc in zip(rates, aucs, strict=True)]
    n_right = sum(test.tp + test.tn for test in tests)
    return {
        "accuracy": n_right / sum(test.n for test in tests),
        "demographic_parity_gap": abs(rates[0] - rates[1]),
        "equalized_odds_gap": max(abs(tprs[0] - tprs[1]), abs(fprs[0] - fprs[1])),
        "overfitting_gap": gaps[group],
        "positive_rate": rates[group],
        "pcer": by_gap[group],
        "attack_auc": 0.5 + aucs[group],
        "pcer_disparity": by_gap[0] - by_gap[1],
        "pcer_disparity_auc": by_attack[0] - by_attack[1],
    }


def overfitting_gap(table) -> float:
    train = (table.train.tp + table.train.tn) / table.train.n
    test = (table.test.tp + table.test.tn) / table.test.n
    return max(0, train - test)


PER_GROUP = ("overfitting_gap", "positive_rate", "pcer", "attack_auc")


@pytest.mark.parametrize(("group", "floor"), [(0, 0.001), (1, 0.001), (0, 0.01)])
def test_our_numbers_against_loops(study, group, floor):
    release = study.release("compas", "race")
    for epsilon in BUDGETS:
        for quantity, values in by_hand(
            release, epsilon, group=group, floor=floor
        ).items():
            if floor != 0.001 and quantity != "pcer_disparity":
                continue
            name = COMPAS.groups[group] if quantity in PER_GROUP else None
            found = our_number(
                study, key_at(COMPAS, epsilon, quantity, group=name, floor=floor)
            )
            expected = mean(values), stdev(values)
            assert (found.value, found.std) == pytest.approx(expected, rel=1e-9), (
                quantity
            )
            error = stdev(values) / math.sqrt(N_SEEDS)
            if quantity == "pcer_disparity":
                error = (found.ci[1] - found.ci[0]) / 3.92
            assert found.standard_error == pytest.approx(error), quantity


def test_numbers_of_seeds_are_compared_out_of_fifty(study, comparisons):
    release = study.release("compas", "race")
    values = by_hand(release, 1.0)["pcer_disparity"]
    above = sum(value > 0 for value in values)
    below = sum(value < 0 for value in values)
    positive = our_number(study, key_at(COMPAS, 1.0, "n_positive_seeds"))
    assert (positive.value, positive.n_seeds) == (above, N_SEEDS)
    assert positive.standard_error == error_of_count(above, N_SEEDS)
    assert our_number(study, key_at(COMPAS, 1.0, "n_negative_seeds")).value == below
    p = our_number(study, key_at(COMPAS, 1.0, "sign_test_p"))
    assert p.value == pytest.approx(binomtest(above, above + below).pvalue)
    assert p.standard_error is None
    below = sum(v < 0 for v in by_hand(release, 0.1)["pcer_disparity"])
    found = find(comparisons, "compas_negative_seeds_0.1").ours
    assert found.value == below * 50 / N_SEEDS
    assert found.standard_error == 12.5 * error_of_count(below, N_SEEDS)


def test_the_rule_at_its_edge(comparisons):
    one = find(comparisons, "tab:compas-race", quantity="accuracy", budgets=(5.0,))
    allowed = 1.96 * math.hypot(0.008 / math.sqrt(50), 0.001) + 0.0005
    for difference, within in (
        (0.999, True),
        (1.001, False),
        (-0.999, True),
        (-1.001, False),
    ):
        value = 0.679 + difference * allowed
        near = replace(one, ours=OurNumber(value=value, standard_error=0.001))
        assert near.allowed == pytest.approx(allowed)
        assert near.within is within


def test_expected_shares_against_simulation():
    """How often two studies of one truth, 50 seeds each, agree by the rule.

    Without rounding.
    """
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 4_000, 50))
    errors = [draw.std(axis=1, ddof=1) / math.sqrt(50) for draw in (first, second)]
    difference = np.abs(first.mean(axis=1) - second.mean(axis=1))
    both = (difference <= 1.96 * np.hypot(*errors)).mean()
    alone = (difference <= 1.96 * errors[1]).mean()
    assert both == pytest.approx(EXPECTED_WITH_ERROR, abs=0.015)
    assert alone == pytest.approx(EXPECTED_WITHOUT_ERROR, abs=0.02)


def test_agreement_of_a_study_against_loops(study):
    """Over all configurations and budgets, and over the last budget alone."""
    gaps = []
    advantages = []
    pairs = []
    for one in CONFIGURATIONS:
        release = study.release(one.dataset, one.attribute)
        for epsilon in BUDGETS:
            for group in (0, 1):
                values = by_hand(release, epsilon, group=group)
                gaps.append(mean(values["overfitting_gap"]))
                advantages.append(mean(values["attack_auc"]) - 0.5)
            by_attack = mean(values["pcer_disparity_auc"])
            pairs.append((mean(values["pcer_disparity"]), by_attack))
    first, second = np.array(pairs).T
    means, resampled = study_means(study)
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
        estimate = figure(means, resampled, name, BUDGETS)
        assert estimate.value == pytest.approx(expected), name
        assert estimate.error >= 0, name
    assert estimate.value == study_figure(study, name, BUDGETS).value
    last = sum(a * b > 0 for a, b in pairs[len(BUDGETS) - 1 :: len(BUDGETS)])
    assert figure(means, None, "sign_agreements", BUDGETS[-1:]) == (last, None)


def test_the_error_of_the_mean_advantage_resamples_every_dataset_alone(study):
    """All attributes, budgets and groups of a dataset share the draw of seeds."""
    by_seed = dict.fromkeys((one.dataset for one in CONFIGURATIONS), 0)
    for one in CONFIGURATIONS:
        release = study.release(one.dataset, one.attribute)
        for epsilon, group in product(BUDGETS, (0, 1)):
            aucs = by_hand(release, epsilon, group=group)["attack_auc"]
            by_seed[one.dataset] += np.array(aucs)
    variance = sum(seeds.var() / N_SEEDS for seeds in by_seed.values())
    estimate = study_figure(study, "auc_advantage_mean", BUDGETS)
    assert estimate.error == pytest.approx(math.sqrt(variance) / 72, rel=0.1)


def test_a_cell_of_compas_is_as_far_from_its_limits_as_it_lies_outside(comparisons):
    limits = find_limits(comparisons)
    assert len(limits) == 6 + 6 + 5
    one = find(
        comparisons, "tab:compas-race", quantity="pcer_disparity", budgets=(5.0,)
    )
    for value, distance in (
        (-150, 0),
        (-106, 0),
        (-100, 6),
        (-250, 20),
        (-81, 25),
        (-80.9, 25.1),
    ):
        (limit,) = find_limits([replace(one, ours=OurNumber(value=value))])
        assert limit.distance == pytest.approx(distance)
        assert limit.is_met is (distance <= 25)
    strongest = find(
        comparisons, "tab:compas-race", quantity="accuracy", budgets=(0.1,)
    )
    assert find_limits([strongest])[0].allowed == 0.02
    weak = find(
        comparisons, "tab:compas-race", quantity="pcer_disparity", budgets=(0.1,)
    )
    assert find_limits([weak]) == []


def without(tree: dict, epsilon: float | None = None) -> dict:
    """Without attacks: on one model of a budget, or on all."""
    runs = [run for run in tree["runs"] if epsilon in (None, run["epsilon"])]
    for run in runs[: 1 if epsilon else None]:
        for cell in run["groups"].values():
            cell["exposure"] = {}
    return tree if epsilon else tree | {"pooled_exposure": []}


def test_what_a_study_does_not_know_is_unknown_and_never_0(tmp_path):
    """Of a part, of rates without labels, of an attack that not every model has."""
    tree = without(tree_of_rates(COMPAS, sizes=True), 1.0)
    tree["subject"]["n_records"] = None
    study = study_of(tmp_path, tree)
    comparisons = compare(study)
    done = {one.published.key.dataset for one in comparisons if one.ours is not None}
    assert done == {"compas"}
    assert find(comparisons, "sign_agreements").note == "needs all six configurations"
    assert find(comparisons, "acs_sex_best_pcer").note == "not run in this study"
    assert find(comparisons, "n_records_compas").within is None
    name = "compas_odds_gap_low"
    unknown = [find(comparisons, name)]
    for one in comparisons:
        key = one.published.key
        is_attack = key.quantity in ("attack_auc", "pcer_disparity_auc")
        if is_attack and (key.configuration, key.budgets) == (COMPAS, (1.0,)):
            unknown.append(one)
    assert len(unknown) > 2
    for one in unknown:
        assert one.ours.value is one.difference is one.within is None
    lines = csv.DictReader(io.StringIO(to_csv(comparisons)))
    assert [(row["ours"], row["within"]) for row in lines if row["key"] == name] == [
        ("", "")
    ]
    sentence = "| equalized odds gap (smallest over budgets) | 0.228 | – | – | – | – |"
    assert sentence in to_page(comparisons)
    row = paper_tables(study)[-1].blocks[0][3]
    assert (row[1], *row[4:6], *row[7:]) == ("1.0", *"––––")
    assert not any(isinstance(cell, Bold) for cell in row)


def test_a_release_without_attacks_or_all_budgets_is_refused_in_one_sentence(tmp_path):
    fewer = tree_of(COMPAS)
    for name in ("runs", "pooled_exposure"):
        fewer[name] = [row for row in fewer[name] if row["epsilon"] != 5.0]
    said = r"compas \(race\) has no models of epsilon 5"
    for tree, sentence in ((without(tree_of(COMPAS)), "auc_advantage"), (fewer, said)):
        with pytest.raises(pcer.InputError, match=sentence):
            compare(study_of(tmp_path, tree))


@pytest.mark.parametrize(
    ("dataset", "epsilon", "quantity", "floor", "own", "places"),
    [
        (
            "adult",
            1.0,
            "pcer_disparity",
            0.001,
            58,
            ["Table S4", "Table S1", "Table S5"],
        ),
        ("adult", 1.0, "pcer_disparity", 0.01, None, ["Table S1"]),
        (
            "compas",
            5.0,
            "pcer_disparity",
            0.001,
            -169,
            ["Table 1", "Table S1", "Table S5", "Results, COMPAS: Race"],
        ),
        ("acs", 1.0, "equalized_odds_gap", 0.001, None, []),
    ],
)
def test_a_number_is_found_wherever_it_is_printed_its_own_table_first(
    dataset, epsilon, quantity, floor, own, places
):
    key = key_at(configuration(dataset, "race"), epsilon, quantity, floor=floor)
    assert [printed.place for printed in figures_at(key)] == places
    cell = own_cell(key)
    assert (cell and cell.value) == own


def test_the_library_asks_by_default_for_what_the_paper_did():
    train = pytest.importorskip("pcer.train")
    data = pytest.importorskip("pcer.data.benchmarks")
    assert train.TrainConfig(**TRAINING) == train.TrainConfig()
    assert metrics.DEFAULT_BUDGETS == BUDGETS
    assert tuple(range(metrics.DEFAULT_SEEDS)) == SEEDS
    assert metrics.FLOOR_GRID == FLOORS == tuple(Plan().floors)
    assert Plan().floor == metrics.DEFAULT_FLOOR
    tasks = {task.name: task for task in data.SOURCES}
    for one in CONFIGURATIONS:
        task = tasks[one.dataset]
        names = tuple(name for name, _ in task.attributes[one.attribute].groups)
        assert names == one.groups
        assert task.outcome == one.outcome
    with pytest.raises(KeyError, match="no configuration compas sex"):
        configuration("compas", "sex")


@pytest.mark.parametrize(
    ("n", "mean"), [(1, 0.9), (2, 0.5), (10, 0.55), (50, 0.5), (50, 0.65)]
)
def test_the_tail_of_a_mean_gap_is_that_of_simulated_ones(n, mean):
    """The slow twin: draw the seeds' gaps and count."""
    rng = np.random.default_rng(n)
    found = np.mean(
        [
            np.maximum(0, rng.normal(size=(20_000, n))).mean(axis=1) >= mean
            for _ in range(20)
        ]
    )
    exact = noise.tail_of_mean(mean, spread=1.0, n=n)
    assert exact == pytest.approx(found, abs=4 * math.sqrt(found / 400_000) + 1e-6)


def no_memory(**fields):
    """A panel of 900 and 300 records that nothing is remembered of."""
    (panel,) = panels(
        simulate(
            World(sizes=(900, 300), gaps=(0, 0), **fields), np.random.default_rng(4)
        )
    )
    return panel


@pytest.mark.slow
def test_the_spread_is_that_of_splits_without_memorisation():
    """The slow twin: many splits of the same records, stratified by label alone."""
    panel = no_memory(
        label_shares=[0.3, 0.6], right=[(0.95, 0.4), (0.8, 0.7)], n_seeds=3_000
    )
    difference = panel.train_accuracy - panel.test_accuracy
    assert split_spread(panel) == pytest.approx(difference.std(axis=0), rel=0.04)
    gap = np.maximum(0, difference).mean(axis=0)
    assert CLIPPED_MEAN * split_spread(panel) == pytest.approx(gap, rel=0.05)


def test_rates_alone_give_one_stratum():
    """By hand: COMPAS, Other, p = .678, 2,997 records: .0074, as in docs/method.md."""
    assert CLIPPED_MEAN * spread_of_accuracy(0.678, 2_997) == pytest.approx(
        0.0074, abs=5e-5
    )


def test_gaps_differ_beyond_their_noise_levels():
    """.0045 and .0062, noise levels .0017 and .0036: the first exceeds by more."""
    where = {"configuration": COMPAS, "epsilon": 1.0, "group": "Other"}

    def made(value: float, spread: float) -> noise.PrintedGap:
        return noise.PrintedGap(
            **where, value=value, spread=spread, p_value=1.0, adjusted_p=1.0
        )

    white = made(0.0045, 0.0017 / CLIPPED_MEAN)
    other = made(0.0062, 0.0036 / CLIPPED_MEAN)
    assert noise.difference_p(white, other) == noise.difference_p(other, white) == 1.0
    assert noise.difference_p(made(0.0292, 0.004), made(0.0446, 0.003)) < 1e-10
