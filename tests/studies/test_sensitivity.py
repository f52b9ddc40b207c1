"""What the paper leaves open: values in, judged numbers and one page out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pcer.errors import InputError
from pcer_studies.protocol import NO_DP, configuration
from pcer_studies.published import figures_at, key_at
from pcer_studies.sensitivity.analysis import (
    Observed,
    ObservedRow,
    Sensitivity,
    Series,
    analyse,
    observe,
    observed_of,
    paired_difference,
    read_sensitivity,
)
from pcer_studies.sensitivity.page import to_page
from pcer_studies.sensitivity.variants import (
    ADULT,
    COMPAS,
    VARIANTS,
    Variant,
    variant,
)
from tests.worlds.studies import simulated

SHIPPED = Path(__file__).parents[2] / "studies" / "paper"
N_SEEDS = 6
MADE = [{"pcer": "0", "device": "cpu"}]
WHOLE_MODEL = ("accuracy", "demographic_parity_gap", "equalized_odds_gap", "pcer_disparity")
PER_GROUP = ("overfitting_gap", "positive_rate")
CLOSE = "adult-all-numbers-no-capital-protected"


def values_around(mean: float, spread: float, rng: np.random.Generator) -> tuple[float, ...]:
    """Six values with exactly this mean."""
    drawn = rng.normal(0, spread, N_SEEDS)
    return tuple(float(v) for v in mean + drawn - drawn.mean())


def invented(one: Variant, *, away: float) -> Observed:
    """A variant whose means are ``away`` published deviations off the paper's."""
    rng = np.random.default_rng(sum(one.name.encode()))
    rows = []
    for attribute in one.attributes:
        groups = configuration(one.dataset, attribute).groups
        for epsilon in one.budgets:
            key = (attribute, epsilon)
            wanted = [
                *((quantity, None) for quantity in WHOLE_MODEL),
                *((quantity, group) for group in groups for quantity in PER_GROUP),
            ]
            series = [
                Series(quantity=q, group=g, values=near_published(one, key, q, g, away, rng))
                for q, g in wanted
            ]
            trained = 0.08 if one.name.endswith("opacus") else epsilon
            rows.append(
                ObservedRow(
                    attribute=attribute,
                    epsilon=epsilon,
                    trained_epsilon=trained,
                    noise_multiplier=None if epsilon == NO_DP else 37.4,
                    epsilon_spent=None if epsilon == NO_DP else trained,
                    series=tuple(series),
                )
            )
    splits = {seed: f"split {seed}" for seed in range(N_SEEDS)}
    return Observed(variant=one, n_features=19, splits=splits, rows=tuple(rows))


def near_published(one, row_key, quantity, group, away, rng):
    attribute, epsilon = row_key
    which = configuration(one.dataset, attribute)
    cells = figures_at(key_at(which, epsilon, quantity, group=group))
    if not cells:
        return values_around(0.2, 0.01, rng)
    return values_around(cells[0].value + away * cells[0].std, cells[0].std / 5, rng)


def everything() -> list[Observed]:
    """All variants: one exactly on the paper's means, the others two deviations off."""
    return [invented(one, away=0.0 if one.name == CLOSE else 2.0) for one in VARIANTS]


@pytest.fixture(scope="module")
def found() -> Sensitivity:
    return analyse(everything(), made_with=MADE)


def test_the_closest_reading_is_computed(found):
    assert found.closest.name == CLOSE
    assert found.closest.share_of_resamples == 1.0
    assert not variant(found.closest_uncontradicted.name).contradicts
    other = [invented(one, away=1.0 if one.name == ADULT else 3.0) for one in VARIANTS]
    again = analyse(other, made_with=MADE)
    assert again.closest.name == again.closest_uncontradicted.name == ADULT


def test_paired_differences_are_those_of_a_paired_t_test():
    rng = np.random.default_rng(3)
    a, b = rng.normal(0.3, 1, 12), rng.normal(0, 1, 12)
    ours = paired_difference((a - b).tolist())
    theirs = stats.ttest_rel(a, b)
    assert ours.difference == pytest.approx(np.mean(a - b), rel=1e-5)
    assert ours.standard_error == pytest.approx(stats.sem(a - b), rel=1e-5)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-5)


@pytest.mark.parametrize(
    ("differences", "p"), [([0.0] * 6, 1.0), ([0.5] * 6, 0.0), ([0.5, 0.5], None)]
)
def test_ties_are_certain_only_with_enough_seeds(differences, p):
    assert paired_difference(differences).p_value == p


def test_seeds_are_matched_by_number_not_by_place():
    ours, base = (invented(variant(name), away=0) for name in ("compas-prv", COMPAS))
    fewer = replace(
        ours,
        splits={seed: f"split {seed}" for seed in (1, 3, 4, 5, 2)},
        rows=tuple(
            replace(r, series=tuple(replace(s, values=s.values[1:]) for s in r.series))
            for r in ours.rows
        ),
    )
    result = analyse([base, fewer], made_with=MADE).result("compas-prv")
    got = result.rows[0].numbers[0].paired.difference
    theirs = next(row for row in base.rows if row.epsilon == 0.1).series[0].values
    mine = fewer.rows[0].series[0].values
    order = list(fewer.splits)
    expected = np.mean([mine[i] - theirs[seed] for i, seed in enumerate(order)])
    assert got == pytest.approx(expected, rel=1e-4)


def test_other_splits_and_other_streams_are_said(found):
    assert found.result("compas-outside").same_streams
    assert not found.result("compas-opacus").same_streams
    assert all(one.same_splits for one in found.results if one.baseline)
    broken = [
        replace(one, splits=dict.fromkeys(one.splits, "other")) if one.variant.baseline else one
        for one in everything()
    ]
    again = analyse(broken, made_with=MADE)
    assert not any(one.same_splits for one in again.results if one.baseline)
    assert "They are not those of the baseline in adult-education-indicators" in to_page(again)


def test_a_variant_without_its_baseline_is_refused():
    with pytest.raises(InputError, match="compas-prv needs compas-inside; train it as well"):
        analyse([invented(variant("compas-prv"), away=0)], made_with=MADE)


def test_a_wrong_file_is_refused(found, tmp_path):
    path = tmp_path / "sensitivity.json"
    tree = found.model_dump()
    tree["results"][0]["name"] = "adult-guess"
    path.write_text(json.dumps(tree))
    with pytest.raises(InputError, match="there is no variant 'adult-guess'"):
        read_sensitivity(path)
    del tree["results"][0]["rows"][0]["numbers"][0]["mean"]
    path.write_text(json.dumps(tree))
    with pytest.raises(InputError, match=r"results\[0\].rows\[0\].numbers\[0\].mean"):
        read_sensitivity(path)
    path.write_text('{"format": "pcer-release", "version": 1}')
    with pytest.raises(InputError, match="pcer-sensitivity"):
        read_sensitivity(path)


def test_a_release_of_other_budgets_is_refused():
    release = simulated(configuration("compas", "race"), n_seeds=1)
    with pytest.raises(InputError, match="compas-prv must have 1 budgets, not 6"):
        observe(variant("compas-prv"), {"race": release}, n_features=7)


def test_the_page_says_what_was_not_trained():
    kept = [one for one in everything() if one.variant.name in (ADULT, COMPAS)]
    said = analyse(kept, made_with=MADE, skipped=[("adult-all-numbers", "It needs <files>.")])
    page = to_page(said)
    assert "Not trained: It needs &lt;files&gt;." in page
    assert "Standardising" not in page
    assert "## Accountant" not in page


def test_the_shipped_page_follows_from_the_shipped_file():
    found = read_sensitivity(SHIPPED / "sensitivity.json")
    assert to_page(found) == (SHIPPED / "sensitivity.md").read_text(encoding="utf-8")
    skipped = [(one.name, one.reason) for one in found.skipped]
    again = analyse(observed_of(found), made_with=found.made_with, skipped=skipped)
    assert again.to_json() == (SHIPPED / "sensitivity.json").read_text(encoding="utf-8")
