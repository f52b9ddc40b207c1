"""Coin flips through the audit's own tests: against loops, deterministic, and seldom alarmed."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import binomtest

from pcer.attacks import (
    BudgetScores,
    CoinDraws,
    ExposedSetting,
    Records,
    check_with_coins,
    draw_coins,
    permutation_tests,
    placebo_groupings,
    pooled_attacks_of,
    run_attacks_of,
)
from pcer.attacks import coins as coins_module
from pcer.attacks.placebo import pairs_of_groups
from pcer.auditing.plan import Plan
from pcer.auditing.tests import alarms
from pcer.release.panel import PooledExposures
from pcer.store import run_tasks
from tests.worlds.sweeps import scaled_logits, splits

EXACT = ("overfitting_gap", "paired_gap", "paired_confidence")


def models(rng, *, n_records=300, n_models=9, shift=1.0, n_groups=2):
    labels = rng.integers(0, 2, n_records)
    member = splits(labels, n_models, rng)
    logit = scaled_logits(member, rng, shift=shift, labels=labels)
    return BudgetScores(
        logits=logit * (2 * labels - 1),
        labels=labels,
        member=member,
        group=rng.integers(0, n_groups, n_records),
        group_names=tuple("abc"[:n_groups]),
    )


def setting(scores, *, epsilon=math.inf, model=None):
    (one,) = run_attacks_of([scores], epsilon=epsilon)
    (two,) = pooled_attacks_of([scores], epsilon=epsilon)
    return ExposedSetting(
        model=model,
        epsilon=epsilon,
        scores=scores,
        exposure=one.records.exposure | two.records.exposure,
        benefit=two.records.benefit,
    )


def both_settings(rng, **changes):
    """Two budgets of the same records and splits."""
    first = models(rng, **changes)
    noise = rng.normal(0, 0.5, first.logits.shape)
    second = dataclasses.replace(first, logits=first.logits + noise)
    return [setting(first, epsilon=2.0), setting(second)]


def drawn(scores, n, seed=0):
    rng = np.random.default_rng(seed)
    return CoinDraws(np.array(list(placebo_groupings(scores.group, n, rng)), dtype=np.int16))


def loop_panel(scores, grouping, *, epsilon, positive_rate=None):
    """One division's panel from counts by hand and the ordinary attacks."""
    from pcer.attacks.divisions import divided_panel
    from pcer.attacks.groups import Views

    from pcer.attacks.sums import Divisions

    one = dataclasses.replace(scores, group=grouping.astype(np.int64))
    panel = divided_panel(Views([one]), Divisions(grouping[None], 2), epsilon=epsilon)
    (found,) = pooled_attacks_of([one], epsilon=epsilon)
    rows = {(row.proxy, row.group): row for row in found.rows}
    pooled = {}
    for cost in EXACT[1:]:
        mine = [rows[cost, name] for name in one.group_names]
        fields = ("value", "standard_error", "null_error", "benefit_covariance", "n_records")
        pooled[cost] = PooledExposures(
            **{name: np.array([float(getattr(row, name)) for row in mine]) for name in fields}
        )
    panel = dataclasses.replace(panel, pooled=pooled)
    if positive_rate is None:
        return panel
    return dataclasses.replace(panel, positive_rate=positive_rate)


@pytest.mark.parametrize("shift", [2.5, 6.0])
def test_alarms_are_those_of_each_coin_flip_alone(shift):
    """Real groups differ in benefit, so that a coin that decides exposures can be doubly unkind."""
    rng = np.random.default_rng(3)
    settings = both_settings(rng, n_records=160, shift=shift)
    for one in settings:  # group b gets fewer positives
        one.scores.logits[:, one.scores.group == 1] -= 1.0
    settings = [setting(one.scores, epsilon=one.epsilon) for one in settings]
    draws = drawn(settings[0].scores, 40)
    found = check_with_coins(settings, outcome="benefit", draws=draws, n_permutations=19)
    rates = [
        loop_panel(one.scores, one.scores.group, epsilon=1.0).positive_rate for one in settings
    ]
    counted = {}
    for grouping in draws.codes:
        for kind in ("shown", "double"):
            panels = [
                loop_panel(
                    one.scores,
                    grouping,
                    epsilon=one.epsilon,
                    positive_rate=rate if kind == "double" else None,
                )
                for one, rate in zip(settings, rates, strict=True)
            ]
            for cost in EXACT:
                seen = alarms(panels, ((0, 1),), Plan(), cost=cost, outcome="benefit")
                if kind == "shown":
                    told = {"shown": seen.shown, "exposure": seen.differ}
                else:
                    told = {"double": seen.double >= 0}
                for what, alarmed in told.items():
                    for s in range(2):
                        key = (settings[s].epsilon, cost, what)
                        counted[key] = counted.get(key, 0) + int(alarmed[s, 0])
    rows = {(row.epsilon or math.inf, row.proxy): row for row in found.rows}
    for (epsilon, cost, kind), n in counted.items():
        row = rows[epsilon, cost]
        assert row.n_draws == 40
        assert getattr(row, f"n_{kind}") == pytest.approx(n, abs=1), (epsilon, cost, kind)
    assert any(counted.values())


def test_p_values_are_those_of_permutation_tests():
    rng = np.random.default_rng(2)
    settings = both_settings(rng, n_groups=3)
    found = check_with_coins(
        settings, outcome="harm", draws=drawn(settings[0].scores, 5), n_permutations=199
    )
    costs, scores = list(settings[0].exposure), settings[0].scores
    records = Records.stacked(
        [one.exposure for one in settings], [one.benefit for one in settings], scores.group, costs
    )
    pairs = pairs_of_groups(scores.group, 3)
    for name, strata in (("p_value", None), ("p_value_within_labels", scores.labels)):
        tests = permutation_tests(records, pairs, seed=0, n_draws=199, strata=strata)
        p, of_exposure = (one.adjusted_over_costs for one in (tests.cross_product, tests.exposure))
        rows = iter(found.rows)
        for s in range(2):
            for c, cost in enumerate(costs):
                for k, pair in enumerate(pairs):
                    row = next(rows)
                    assert row.proxy == cost
                    assert row.groups == [scores.group_names[i] for i in pair]
                    assert getattr(row, name) == p[s, c, k]
                    assert getattr(row, f"exposure_{name}") == of_exposure[s, c, k]
                    assert row.n_permutations == 199
    assert len(found.rows) == 2 * len(costs) * len(pairs)


def test_equal_ratios_do_not_hide_unequal_exposures():
    """One group has the higher rate and, as much higher, the higher exposure."""
    rng = np.random.default_rng(12)
    n = 800
    group, labels = np.arange(n) % 2, np.arange(n) // 2 % 2
    member = splits(labels, 12, rng)
    logit = scaled_logits(member, rng, shift=np.where(group == 1, 1.1, 0.7), labels=labels)
    logits = logit * (2 * labels - 1) + np.where(group == 1, 0.45, -0.45)
    scores = BudgetScores(
        logits=logits, labels=labels, member=member, group=group, group_names=("a", "b")
    )
    found = check_with_coins([setting(scores)], outcome="harm", n_permutations=499)
    (row,) = [row for row in found.rows if row.proxy == "lira_advantage"]
    assert row.exposure_p_value < 0.01
    assert row.p_value > 0.05


def test_first_order_is_held_against_the_exact_attack():
    """Against attacks on each of the first coin flips; of costs that are exact nothing is said."""
    scores = models(np.random.default_rng(9), n_records=240, n_groups=3)
    draws = draw_coins([scores])
    assert draws.n_exact == 20
    draws = draws._replace(n_exact=4)
    found = check_with_coins([setting(scores)], outcome="harm", draws=draws, n_permutations=19)
    (first,) = pooled_attacks_of([scores], epsilon=math.inf, coins=[draws.divisions])
    views = [dataclasses.replace(scores, group=row.astype(np.int64)) for row in draws.codes[:4]]
    exact = [one.rows for one in pooled_attacks_of(views, epsilon=math.inf)]
    for row in found.rows:
        if row.proxy not in ("lira_advantage", "rmia_advantage"):
            assert (row.n_exact, row.exact_difference) == (None, None)
            continue
        off, (i, j) = [], (scores.group_names.index(name) for name in row.groups)
        for d, rows in enumerate(exact):
            own = [next(r for r in rows if (r.proxy, r.group) == (row.proxy, g)) for g in "abc"]
            coins = first.coins[row.proxy]
            values, errors = coins.value[3 * d : 3 * d + 3], coins.standard_error[3 * d : 3 * d + 3]
            off.append(
                (values[j] - values[i]) / math.hypot(errors[i], errors[j])
                - (own[j].value - own[i].value)
                / math.hypot(own[i].standard_error, own[j].standard_error)
            )
        assert row.n_exact == 4
        assert row.exact_difference == pytest.approx(math.sqrt(np.mean(np.square(off))))
        assert row.exact_difference < 0.5


def test_how_many_are_attacked_exactly_follows_from_records_models_and_settings(monkeypatch):
    one = models(np.random.default_rng(10), n_records=100, n_models=8)
    for entries, n_settings, n_exact in ((16_000, 1, 20), (16_000, 2, 10), (3_999, 1, 0)):
        monkeypatch.setattr(coins_module, "EXACT_ENTRIES", entries)
        assert draw_coins([one] * n_settings).n_exact == n_exact


def test_processes_change_no_row():
    rng = np.random.default_rng(4)
    settings = both_settings(rng, n_records=120, n_models=3)
    alone = check_with_coins(settings, outcome="harm", n_permutations=49)
    together = check_with_coins(
        settings,
        outcome="harm",
        n_permutations=49,
        run=lambda tasks: run_tasks(tasks, n_processes=2, in_order=True),
    )
    assert alone == together
    assert {row.n_draws for row in alone.rows} == {200}


def test_one_model_has_what_one_model_can_tell():
    found = check_with_coins(
        [setting(models(np.random.default_rng(5), n_models=1), model="forest")],
        outcome="benefit",
        n_permutations=49,
    )
    told = {row.proxy: row for row in found.rows}
    assert {"overfitting_gap", "attack_advantage", "auc_advantage"} <= set(told)
    assert told["overfitting_gap"].p_value is not None
    assert {row.model for row in found.rows} == {"forest"}
    assert {row.epsilon for row in found.rows} == {None}


def test_draws_keep_sizes_follow_nothing_but_the_records_and_leave_no_part_empty():
    scores = models(np.random.default_rng(6), n_records=200, n_models=20)
    group = (np.arange(200) < 8).astype(np.int64)
    group[::9] = -1
    scores = dataclasses.replace(scores, group=group)
    draws = draw_coins([scores]).codes
    assert draws.shape == (200, 200)
    assert (draws == draw_coins([scores]).codes).all()
    assert len({row.tobytes() for row in draws}) == 200
    for row in draws:
        assert np.bincount(row + 1).tolist() == np.bincount(group + 1).tolist()
        small = scores.member[:, row == 1].sum(axis=1)
        assert ((small > 0) & (small < (row == 1).sum())).all()
    renamed = dataclasses.replace(scores, group_names=("other", "names"))
    assert (draw_coins([renamed]).codes == draws).all()


def test_what_is_not_computed_has_a_reason(monkeypatch):
    scores = models(np.random.default_rng(7), n_records=60, n_models=30)
    one = dataclasses.replace(scores, group=(np.arange(60) < 1).astype(np.int64))
    found = check_with_coins([setting(one)], outcome="harm")
    assert found.rows == []
    assert "so small that coin flips" in found.not_computed["placebo"]
    monkeypatch.setattr(coins_module, "MOST_ENTRIES", 59)
    found = check_with_coins([setting(scores)], outcome="harm")
    assert "up to 59 records" in found.not_computed["placebo"]


def test_coin_flips_seldom_alarm():
    """The short version of ``benchmarks.placebo``: exact attacks, and those of first order."""
    rng = np.random.default_rng(8)
    n_shown: dict[str, int] = {}
    n_draws = 0
    for _ in range(3):
        found = check_with_coins(
            [setting(models(rng, n_records=400, shift=2.0))], outcome="harm", n_permutations=1
        )
        n_draws += found.rows[0].n_draws
        for row in found.rows:
            n_shown[row.proxy] = n_shown.get(row.proxy, 0) + row.n_shown
    for cost, n in n_shown.items():
        assert binomtest(n, n_draws, 0.05, alternative="greater").pvalue > 0.01 / 8, (cost, n)
