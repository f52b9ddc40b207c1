"""Many divisions at once against the ordinary attacks on each of them."""

from __future__ import annotations

import numpy as np
import pytest

from pcer.attacks import BudgetScores, Divisions, pooled_attacks_of, run_attacks_of
from pcer.attacks.divisions import counts_of, divided_panel
from pcer.attacks.groups import Views
from pcer.attacks.placebo import placebo_groupings
from tests.worlds.sweeps import scaled_logits, splits

PAIRED = ("paired_gap", "paired_confidence")
RANKED = (
    "attack_advantage",
    "auc_advantage",
    "lira_advantage",
    "lira_offline_advantage",
    "rmia_advantage",
)


def models(rng, *, n_records=900, n_models=10, missing=0.0):
    """Records of two labels, some in no group; some train always, and models differ in luck."""
    labels = rng.integers(0, 2, n_records)
    member = splits(labels, n_models, rng)
    member[:, :5] = True
    logit = scaled_logits(member, rng, shift=0.6, labels=labels)
    logit += rng.normal(0, 0.3, (n_models, 1)) * member
    group = rng.integers(0, 2, n_records)
    group[rng.random(n_records) < missing] = -1
    return BudgetScores(
        logits=logit * (2 * labels - 1),
        labels=labels,
        member=member,
        group=group,
        group_names=("a", "b"),
    )


def drawn(scores, n, rng):
    return np.array(list(placebo_groupings(scores.group, n, rng)), dtype=np.int16)


def rows_of(scores, codes):
    """By cost and set: value, error and covariance of the ordinary attacks on every division."""
    found = {}
    for grouping in codes:
        one = BudgetScores(**{**vars(scores), "group": grouping.astype(np.int64)})
        rows = [
            *run_attacks_of([one], epsilon=1.0)[0].rows,
            *pooled_attacks_of([one], epsilon=1.0)[0].rows,
        ]
        for name in scores.group_names:
            for row in rows:
                if row.group == name:
                    told = (row.value, row.standard_error, row.benefit_covariance, row.n_records)
                    found.setdefault(row.proxy, []).append((*told, row.null_error))
    return {cost: np.array(rows).T for cost, rows in found.items()}


def fast_rows(scores, codes):
    divisions = [Divisions(codes, len(scores.group_names))]
    (one,) = run_attacks_of([scores], epsilon=1.0, coins=divisions)
    (two,) = pooled_attacks_of([scores], epsilon=1.0, coins=divisions)
    return one.coins | two.coins


def test_sums_against_a_loop():
    rng = np.random.default_rng(0)
    codes = np.array(list(placebo_groupings(rng.integers(-1, 3, 200), 4, rng)), dtype=np.int16)
    divisions = Divisions(codes, 3)
    numbers, flags = rng.normal(size=(2, 200)), rng.random((3, 200)) < 0.5
    found = divisions.sums(numbers, flags)
    for d in range(4):
        for g in range(3):
            chosen = codes[d] == g
            assert divisions.sizes[3 * d + g] == chosen.sum()
            expected = [*numbers[:, chosen].sum(axis=1), *flags[:, chosen].sum(axis=1)]
            assert found[:, 3 * d + g] == pytest.approx(expected, abs=1e-3)
            assert (found[2:, 3 * d + g] == flags[:, chosen].sum(axis=1)).all()


@pytest.mark.parametrize("decides", [None, "otherwise"])
def test_counts_against_a_loop(decides):
    rng = np.random.default_rng(1)
    scores = models(rng, n_records=120, n_models=20, missing=0.1)
    if decides:
        scores = BudgetScores(**{**vars(scores), "predicted": scores.logits >= 0.4})
    predicted = scores.logits >= (0.4 if decides else 0.0)
    codes = drawn(scores, 3, rng)
    for part, table in enumerate(counts_of(Views([scores]), Divisions(codes, 2))):
        for s in range(20):
            for k in range(6):
                inside = (codes[k // 2] == k % 2) & (scores.member[s] == (part == 0))
                yes, said = scores.labels == 1, predicted[s]
                cells = (yes & said, ~yes & said, ~yes & ~said, yes & ~said)
                assert [x[s, k] for x in table] == [(inside & cell).sum() for cell in cells]


def test_a_panel_tells_splits_apart():
    rng = np.random.default_rng(2)
    scores = models(rng, n_records=100, n_models=4)
    member = scores.member[[0, 1, 0, 2]]
    scores = BudgetScores(**{**vars(scores), "member": member})
    panel = divided_panel(Views([scores]), Divisions(drawn(scores, 2, rng), 2), epsilon=3.0)
    assert panel.split.tolist() == [0, 1, 0, 2]
    assert panel.epsilon == 3.0
    assert panel.n_train.shape == (4, 4)
    assert (panel.n_train[:, :2].sum(axis=1) == member.sum(axis=1)).all()


@pytest.mark.parametrize(("missing", "n_models"), [(0.0, 10), (0.2, 10), (0.1, 2), (0.0, 4)])
def test_paired_costs_are_those_of_each_division(missing, n_models):
    rng = np.random.default_rng(3)
    scores = models(rng, n_records=400, n_models=n_models, missing=missing)
    codes = drawn(scores, 6, rng)
    exact, found = rows_of(scores, codes), fast_rows(scores, codes)
    for cost in PAIRED:
        value, error, covariance, n, null = exact[cost]
        assert found[cost].value == pytest.approx(value, rel=1e-4, abs=1e-6)
        assert found[cost].standard_error == pytest.approx(error, rel=1e-3)
        assert found[cost].null_error == pytest.approx(null, rel=1e-3)
        assert (found[cost].n_records == n).all()
        assert np.corrcoef(found[cost].benefit_covariance, covariance)[0, 1] > 0.9
        near = 0.3 * np.abs(covariance).max()
        assert found[cost].benefit_covariance == pytest.approx(covariance, abs=near)


@pytest.mark.parametrize("cost", RANKED)
def test_everybody_as_one_group_is_exact(cost):
    """What first order leaves out is what a group has of its own: everybody has nothing."""
    scores = models(np.random.default_rng(4), n_records=300)
    codes = np.zeros((2, 300), dtype=np.int16)
    codes[1, 0] = 1
    exact, found = rows_of(scores, codes[:1]), fast_rows(scores, codes)[cost]
    value, error, covariance, n, null = (row[0] for row in exact[cost])
    assert found.value[0] == pytest.approx(value, abs=1e-6)
    assert found.standard_error[0] == pytest.approx(error, rel=0.01)
    assert found.null_error[0] == pytest.approx(null, rel=0.01)
    assert found.benefit_covariance[0] == pytest.approx(covariance, rel=0.01)
    assert found.n_records[0] == n
    assert np.isnan(found.standard_error[3])  # one record alone


def test_ranked_costs_are_right_to_first_order():
    """Far below an error off, errors right on average, and so are differences of two groups."""
    rng = np.random.default_rng(5)
    scores = models(rng)
    codes = drawn(scores, 12, rng)
    exact, found = rows_of(scores, codes), fast_rows(scores, codes)
    for cost in RANKED:
        value, error, covariance, *_ = exact[cost]
        off = ((found[cost].value - value) / error).reshape(-1, 2)
        assert np.abs(off.mean(axis=0)).max() < 0.35, cost
        between = np.diff(off) / np.sqrt(2)
        assert abs(between.mean()) < 0.1, cost
        assert between.std() < 0.25, cost
        ratio = found[cost].standard_error / error
        assert ratio.mean() == pytest.approx(1.0, abs=0.03), cost
        assert np.corrcoef(found[cost].benefit_covariance, covariance)[0, 1] > 0.8, cost


def test_what_cannot_be_told():
    """One model compares nobody with themselves; without both sides nothing is ranked."""
    rng = np.random.default_rng(6)
    scores = models(rng, n_records=80, n_models=1)
    found = fast_rows(scores, drawn(scores, 2, rng))
    assert set(found) == {"attack_advantage", "auc_advantage"}
    everyone_in = BudgetScores(**{**vars(scores), "member": np.ones((1, 80), dtype=bool)})
    assert fast_rows(everyone_in, drawn(scores, 2, rng)) == {}


def test_attributes_share_a_pass_and_change_nothing():
    rng = np.random.default_rng(7)
    first = models(rng, n_records=200, missing=0.1)
    second = BudgetScores(
        **{**vars(first), "group": rng.integers(0, 3, 200), "group_names": ("x", "y", "z")}
    )
    coins = [Divisions(drawn(one, 3, rng), len(one.group_names)) for one in (first, second)]
    both = pooled_attacks_of([first, second], epsilon=1.0, coins=coins)
    for one, own, together in zip((first, second), coins, both, strict=True):
        (alone,) = pooled_attacks_of([one], epsilon=1.0, coins=[own])
        plain = pooled_attacks_of([one], epsilon=1.0)[0]
        assert together.rows == alone.rows == plain.rows
        assert plain.coins == {}
        for cost, found in alone.coins.items():
            assert (together.coins[cost].value == found.value).all()
            assert (together.coins[cost].standard_error == found.standard_error).all()
