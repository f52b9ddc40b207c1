import math

import numpy as np
import pytest

from pcer.data import ProtectedAttribute
from pcer.sweep.bounds import bounds_of, placed, spent_privacy, two_way_error
from pcer.train.receipts import Terms, fold, mu_of
from tests import reference_receipts as reference

N_STEPS = 40
TERMS = Terms(2.0, 0.1, N_STEPS, 1e-5)


def kept_of(bins: list[int]) -> np.ndarray:
    """What is kept of records whose norm stays in one bin."""
    steps = np.zeros((len(bins), 201), dtype=np.uint16)
    steps[np.arange(len(bins)), bins] = N_STEPS
    return fold(steps, noise_multiplier=2.0, sampling_rate=0.1, dp_delta=1e-5)


def of_one_norm(position: int) -> tuple[float, float]:
    kept = kept_of([position])
    return float(TERMS.realised(kept)[0]), float(TERMS.receipt(kept)[0])


ATTRIBUTE = ProtectedAttribute(
    name="sex", group_names=("f", "m"), codes=np.array([0, 0, 0, 1, 1, -1])
)
LABELS = np.array([0, 1, 1, 0, 0, 1])
MEMBER = np.array([[1, 1, 0, 1, 0, 1], [0, 1, 1, 1, 1, 0]], dtype=bool)
BINS = [[200, 20, 60, 0], [40, 20, 100, 60]]
"""Of the training records of two models, in the order of the data."""


def spent():
    kept = np.array([kept_of(bins) for bins in BINS])
    return spent_privacy(kept, MEMBER, TERMS, epsilon=1.5, mode="held")


def test_numbers_stand_where_their_people_stand():
    whole = placed(np.array([[1, 2, 3, 4], [5, 6, 7, 8]], dtype=np.float32), MEMBER)
    expected = [[1, 2, np.nan, 3, np.nan, 4], [np.nan, 5, 6, 7, 8, np.nan]]
    assert whole == pytest.approx(np.array(expected), nan_ok=True)


@pytest.mark.parametrize(("kind", "which"), [("realised", 0), ("receipt", 1)])
def test_means_are_over_people_and_models_of_a_group_and_by_label(kind, which):
    rows = {(b.group, b.label): b for b in bounds_of(spent(), ATTRIBUTE, LABELS) if b.kind == kind}
    assert set(rows) == {("f", None), ("f", 0), ("f", 1), ("m", None), ("m", 0)}  # no m of label 1
    value = {position: of_one_norm(position)[which] for position in (0, 20, 40, 60, 100, 200)}
    assert rows["f", None].mean == pytest.approx(sum(value[b] for b in (200, 20, 40, 20)) / 4)
    assert rows["f", 0].mean == pytest.approx(value[200])
    assert rows["f", 1].mean == pytest.approx(sum(value[b] for b in (20, 40, 20)) / 3)
    assert rows["m", None].mean == pytest.approx(sum(value[b] for b in (60, 100, 60)) / 3)
    assert [rows[key].n_records for key in rows] == [3, 1, 2, 2, 2]
    assert rows["f", 0].standard_error is None
    assert rows["f", None].quantiles["0.95"] == value[200]
    assert rows["m", None].quantiles == {
        "0.05": value[60],
        "0.25": value[60],
        "0.5": value[60],
        "0.75": value[100],
        "0.95": value[100],
    }
    for row in rows.values():
        assert (row.epsilon, row.mode, row.accountant, row.exact) == (1.5, "held", "rdp", True)
        assert row.nominal == TERMS.nominal


def test_what_is_allowed_is_over_the_pairs_of_each_model():
    row = next(
        b for b in bounds_of(spent(), ATTRIBUTE, LABELS) if (b.kind, b.group) == ("realised", "f")
    )
    models = [[of_one_norm(b)[0] for b in bins[:2]] for bins in ([200, 20], [40, 20])]
    expected = [reference.allowed_advantage(mu_of(np.array(m), dp_delta=1e-5)) for m in models]
    assert row.allowed_advantage == pytest.approx(sum(expected) / 2, rel=1e-4)
    receipts = [b for b in bounds_of(spent(), ATTRIBUTE, LABELS) if b.kind == "receipt"]
    assert {b.allowed_advantage for b in receipts} == {None}


@pytest.mark.parametrize("n_seeds", [1, 2, 7])
def test_the_error_is_over_people_and_seeds(n_seeds):
    rng = np.random.default_rng(n_seeds)
    values = rng.gamma(2.0, 1.0, 30) + 0.5 * rng.standard_normal((n_seeds, 1)) + 5
    values = np.where(rng.random((n_seeds, 30)) < 0.7, values, np.nan)
    told = [{i: v for i, v in enumerate(row) if not math.isnan(v)} for row in values]
    assert two_way_error(values) == pytest.approx(reference.two_way_error(told), rel=1e-12)


def test_the_error_covers_both_kinds_of_luck():
    """People and models vary; the mean of fresh draws varies as much as the error says."""
    rng = np.random.default_rng(0)
    means, errors = [], []
    for _ in range(400):
        people, models = rng.normal(0, 1.0, 60), rng.normal(0, 0.3, (12, 1))
        values = people + models + 0.2 * rng.standard_normal((12, 60))
        values = np.where(rng.random((12, 60)) < 0.7, values, np.nan)
        means.append(np.nanmean(values))
        errors.append(two_way_error(values))
    assert np.mean(np.square(errors)) == pytest.approx(np.var(means), rel=0.2)
