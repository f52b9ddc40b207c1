"""The exact test: by hand, against scipy and R, and under simulated nulls."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from pcer.measuring import exact
from pcer.measuring.exact import (
    PLAIN_MEAN,
    SMALLEST_P,
    Dispersion,
    Strata,
    dispersion,
    hidden_exposure_limit,
    memorised,
)
from pcer.metrics import Counts
from tests import reference
from tests.reference import Stratum
from tests.worlds.people import Population, certain, draw_people, draw_tables, soft


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(14)


def one_group(rows: list[Stratum]) -> Strata:
    """Each row is a split of its own, one label, one group."""
    return Strata(
        *(
            np.array(part, dtype=float)[None, :, None]
            for part in zip(*rows, strict=True)
        )
    )


def drawn(
    population: Population, size: int, n: int, n_splits: int, rng, people=None
) -> Strata:
    """N releases of one group each, (label, split, release): one call tests all."""
    people = draw_people(population, [size], n, rng) if people is None else people
    tables = draw_tables(population, people, n_splits=n_splits, rng=rng)
    by_split = []
    for counts in tables:
        by_split.append(Counts(*[part[..., 0].T for part in counts]))
    return exact.strata_of_counts(*by_split)


@st.composite
def strata(draw: st.DrawFn, *, largest: int, smallest: int = 0) -> list[Stratum]:
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        total = draw(st.integers(smallest, largest))
        trained = draw(st.integers(0, total))
        correct = draw(st.integers(0, total))
        fewest = max(0, trained + correct - total)
        hits = draw(st.integers(fewest, min(trained, correct)))
        rows.append((total, trained, correct, hits))
    return rows


def test_the_rabbits_of_rs_manual():
    """mantelhaen.test(Rabbits, exact = TRUE, alternative = "greater"), R: p = 0.020."""
    cured_and_died = [
        (0, 6, 0, 5),
        (3, 3, 0, 6),
        (6, 0, 2, 4),
        (5, 1, 6, 0),
        (2, 0, 5, 0),
    ]
    rows = [(a + b + c + d, a + b, a + c, a) for a, b, c, d in cured_and_died]
    p = memorised(one_group(rows)).p_value[0]
    assert round(p, 3) == 0.020
    assert p == pytest.approx(reference.convolved_tail(rows), abs=1e-13)


@given(strata(largest=14) | strata(smallest=1, largest=4_000))
def test_p_is_scipys_convolution(rows):
    ours = memorised(one_group(rows))
    assume(ours.variance[0] > 0)
    expected = max(reference.convolved_tail(rows), SMALLEST_P)
    assert ours.p_value[0] == pytest.approx(expected, abs=2e-13)


@pytest.mark.parametrize(
    ("accuracy", "share"), [(0.8, 0.7), (0.999, 0.9), (0.5, 0.5), (0.99, 0.1)]
)
@pytest.mark.parametrize("z", [-3, 0, 1.645, 3, 5, 6.5])
def test_beyond_the_limit_the_normal_is_as_good(accuracy, share, z):
    total = round(10_100 / (accuracy * (1 - accuracy) * share * (1 - share)))
    correct = round(total * accuracy)
    trained = round(total * share)
    law = stats.hypergeom(total, correct, trained)
    hits = round(law.mean() + z * law.std())
    ours = memorised(one_group([(total, trained, correct, hits)]))
    assert ours.variance[0] > exact.EXACT_LIMIT**2
    assert ours.p_value[0] == pytest.approx(
        law.sf(hits - 1), rel=1e-4 if abs(z) < 2 else 0.01
    )


def test_counts_of_a_quadrillion_are_no_trouble():
    n = 10**15
    one_error_held_out = one_group([(n, 7 * n // 10, n - 1, 7 * n // 10)])
    assert memorised(one_error_held_out).p_value[0] == pytest.approx(0.3, abs=1e-9)
    for hits, p in (
        (n // 4, pytest.approx(0.5, abs=1e-6)),
        (n // 2, SMALLEST_P),
        (0, 1.0),
    ):
        assert memorised(one_group([(n, n // 2, n // 2, hits)] * 100)).p_value[0] == p


# Nothing varies


def test_where_nothing_can_vary_nothing_is_detected_but_a_limit_holds():
    """A constant answer hides by label: 60 right and 40 wrong, 70 % trained.

    In test 18/.6 = 30, in training 28/.4 = 70. Without a test part anything can hide.
    """
    everybody_right = one_group([(100, 70, 100, 70)])
    assert np.isnan(memorised(everybody_right).p_value[0])
    assert np.isnan(hidden_exposure_limit(one_group([(100, 70, 99, 70)]))[0])
    parts = np.array([[60, 42, 60, 42], [40, 28, 0, 0]], dtype=float)
    constant = Strata(*(parts[:, k, None, None] for k in range(4)))
    for hidden in (everybody_right, constant):
        assert hidden_exposure_limit(hidden)[0] == pytest.approx(1 - 0.05 ** (1 / 30))
    for row in ((50, 50, 40, 40), (50, 0, 40, 0), (0, 0, 0, 0)):
        assert hidden_exposure_limit(one_group([row])).tolist() == [1.0]


# Spread over splits


def contradicts(found: Dispersion) -> np.ndarray:
    return (found.p_value < 0.001) & ~(found.mean_p_value < PLAIN_MEAN)


def test_dispersion_is_its_slow_twin(rng):
    made = drawn(soft(0.1), 150, 8, 5, rng)
    ours = dispersion(made)
    for group, rows in enumerate(np.array(made, dtype=int).T):  # (split, label, part)
        splits = []
        for split in rows:
            splits.append([tuple(row) for row in split])
        statistic, p = reference.dispersion(splits)
        assert ours.statistic[group] == pytest.approx(statistic, rel=1e-9)
        assert ours.p_value[group] == pytest.approx(p, rel=1e-9)


def test_splits_by_person_contradict_records(rng):
    """400 people with five records each, all five in one part: a wider spread."""
    by_person = drawn(certain(0.0), 400, 300, 20, rng)
    by_record = Strata(*(5 * part for part in by_person))
    assert not contradicts(dispersion(by_person)).any()
    assert contradicts(dispersion(by_record)).mean() > 0.95
    assert (memorised(by_record).p_value <= 0.05).mean() > 0.15


def test_models_that_memorise_unequally_much_contradict_nothing(rng):
    """Each split's model has a cost of its own between .02 and .18."""
    exposures = np.linspace(0.02, 0.18, 12)
    people = draw_people(certain(0.0), [5_000], 1, rng)
    models = [
        Population(**{**vars(certain(0.0)), "right_in": [1, exposure / 0.3] * 2})
        for exposure in exposures
    ]
    made = [drawn(model, 5_000, 1, 1, rng, people) for model in models]
    together = Strata(
        *(np.concatenate(parts, axis=1) for parts in zip(*made, strict=True))
    )
    found = dispersion(together)
    assert found.p_value[0] < 0.001
    assert not contradicts(found)[0]


def test_what_never_varies_has_no_spread():
    found = dispersion(one_group([(100, 70, 100, 70)] * 3))
    assert np.isnan(found.p_value[0])
    assert not contradicts(found)[0]
