"""Made-up groups in the audit's tests: against loops, deterministic, seldom alarms."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from pcer import attacks
from pcer.attacks import (
    Divisions,
    attack_models,
    draw_coins,
    placebo,
    placebo_groupings,
)
from pcer.attacks.attack import coin_panel
from pcer.attacks.placebo import pairs_of_groups
from pcer.measuring.evidence import alarms
from pcer.measuring.plan import Plan
from pcer.measuring.wrongly import wrongly_tests
from tests.attacks.one_group import rows_of, sweep
from tests.worlds.fleets import exact_panel

EXACT = ("overfitting_gap", "paired_gap", "paired_confidence")
RANKED = (
    *("attack_advantage", "auc_advantage"),
    *("lira_advantage", "lira_offline_advantage", "rmia_advantage"),
)
FIELDS = ("value", "standard_error", "null_error", "benefit_covariance", "n_records")


def drawn(scores, n, seed=0, n_exact=0):
    codes = placebo_groupings(scores.group, n, np.random.default_rng(seed))
    return Divisions(codes, len(scores.group_names), n_exact)


def two_settings(rng, **changes):
    """Two budgets of the same records and splits."""
    first = sweep(rng, epsilon=2.0, **changes)
    noise = rng.normal(0, 0.5, first.logits.shape)
    return [first, replace(first, logits=first.logits + noise, epsilon=math.inf)]


def checked(settings, coins=None, **how):
    coins = draw_coins(settings)[0] if coins is None else coins
    found = [attack_models([one], [coins])[0] for one in settings]
    return attacks.check_with_coins(
        settings, found, coins, **({"outcome": "harm"} | how)
    )


@pytest.mark.parametrize("shift", [2.5, 6.0])
def test_alarms_are_those_of_each_placebo_grouping_alone(shift):
    """Real groups differ in benefit: placebo exposures can be a double disadvantage."""
    settings = two_settings(
        np.random.default_rng(3), n_records=160, n_models=9, shift=shift
    )
    for one in settings:  # group b gets fewer positives
        one.logits[:, one.group == 1] -= 1.0
    coins = drawn(settings[0], 25)
    panels = []
    beside = []
    for one in settings:
        panel = exact_panel(one, coins.codes)
        mixed = {
            attack: replace(found, separation=0.0)
            for attack, found in panel.pooled.items()
        }
        panels.append(replace(panel, pooled=mixed))
        rate = coin_panel(one, Divisions(one.group[None], 2), {}).positive_rate
        beside.append(replace(panels[-1], positive_rate=np.tile(rate, 25)))
    found = checked(settings, coins, outcome="benefit", n_permutations=19)
    rows = {(row.epsilon, row.attack): row for row in found}
    n_alarms = 0
    for attack in EXACT:
        how = {"attack": attack, "outcome": "benefit"}
        counts = {}
        n_any = 0
        for pair in ((k, k + 1) for k in range(0, 50, 2)):
            alone, real = (
                alarms(seen, (pair,), Plan(), **how) for seen in (panels, beside)
            )
            kinds = {
                "ratio": alone.ratios_differ,
                "exposure": alone.exposures_differ,
                "double": real.double_disadvantage >= 0,
            }
            n_any += (alone.ratios_differ | alone.exposures_differ).any()
            for kind, alarmed in kinds.items():
                counts[kind] = counts.get(kind, 0) + alarmed[:, 0].astype(int)
        for (kind, counted), (s, setting) in itertools.product(
            counts.items(), enumerate(settings)
        ):
            row = rows[setting.released_epsilon, attack]
            assert (row.n_draws, row.n_any) == (25, pytest.approx(n_any, abs=1))
            assert getattr(row, f"n_{kind}") == pytest.approx(counted[s], abs=1), (
                attack,
                kind,
            )
            n_alarms += counted[s]
    assert n_alarms


def test_p_values_are_those_of_permutation_tests():
    settings = two_settings(np.random.default_rng(2), n_groups=3, n_models=9)
    coins = drawn(settings[0], 5)
    scores = settings[0]
    attacked = [attack_models([one], [coins])[0] for one in settings]
    exposure = np.array([list(one.exposure.values()) for one in attacked])
    benefit = np.array([one.benefit for one in attacked])
    attack_names = list(attacked[0].exposure)
    rows = checked(settings, coins, n_permutations=199)
    pairs = pairs_of_groups(scores.group, 3)
    places = [
        (s, c, pair)
        for s in range(2)
        for c in range(len(attack_names))
        for pair in pairs
    ]
    for name, strata in (("p_value", None), ("p_value_within_labels", scores.labels)):
        how = {"n_draws": 199, "strata": strata}
        tests = {
            pair: attacks.permutation_tests(
                exposure, benefit, scores.group, pair, **how
            )
            for pair in pairs
        }
        for row, (s, c, pair) in zip(rows, places, strict=True):
            assert row.attack == attack_names[c]
            assert row.groups == [scores.group_names[i] for i in pair]
            assert getattr(row, name) == tests[pair].cross_product[s, c]
            assert getattr(row, f"exposure_{name}") == tests[pair].exposure[s, c]
            assert row.n_permutations == 199


def test_first_order_is_held_against_the_exact_attack():
    """Against attacks on each of the first placebo groupings; not for exact attacks."""
    scores = sweep(np.random.default_rng(9), n_records=240, n_models=9, n_groups=3)
    coins = drawn(scores, 6, n_exact=4)
    views = [replace(scores, group=row.astype(np.int64)) for row in coins.codes[:4]]
    exact = [
        {(row.attack, row.group): row for row in one.rows}
        for one in attack_models(views)
    ]
    first = attack_models([scores], [coins])[0].coins.pooled
    for row in checked([scores], coins, n_permutations=19):
        if row.attack not in ("lira_advantage", "rmia_advantage"):
            assert (row.n_exact, row.exact_difference) == (None, None)
            continue
        i, j = (scores.group_names.index(name) for name in row.groups)
        value, error = (
            getattr(first[row.attack], name).reshape(-1, 3) for name in FIELDS[:2]
        )
        off = (value[:4, j] - value[:4, i]) / np.hypot(error[:4, i], error[:4, j])
        for d, rows in enumerate(exact):
            one, other = (rows[row.attack, name] for name in row.groups)
            off[d] -= (other.value - one.value) / math.hypot(
                one.standard_error, other.standard_error
            )
        assert row.n_exact == 4
        assert row.exact_difference == pytest.approx(math.sqrt(np.mean(off**2)))
        assert row.exact_difference < 0.5


def test_how_many_are_attacked_exactly_follows_from_records_models_and_settings(
    monkeypatch,
):
    one = sweep(np.random.default_rng(10), n_records=100, n_models=8)
    for entries, n_settings, n_exact in (
        (16_000, 1, 20),
        (16_000, 2, 10),
        (3_999, 1, 0),
    ):
        monkeypatch.setattr(placebo, "EXACT_ENTRIES", entries)
        assert draw_coins([one] * n_settings)[0].n_exact == n_exact


def test_draws_keep_sizes_follow_nothing_but_the_records_and_leave_no_part_empty():
    scores = sweep(np.random.default_rng(6), n_records=200, n_models=20)
    group = (np.arange(200) < 8).astype(np.int64)
    group[::9] = -1
    scores = replace(scores, group=group)
    codes = draw_coins([scores])[0].codes
    assert codes.shape == (200, 200)
    assert len({row.tobytes() for row in codes}) == 200
    for row in codes:
        assert ((row == -1) == (group == -1)).all()
        assert np.bincount(row + 1).tolist() == np.bincount(group + 1).tolist()
        small = scores.member[:, row == 1].sum(axis=1)
        assert ((small > 0) & (small < (row == 1).sum())).all()
    renamed = replace(scores, group_names=("other", "names"))
    assert (draw_coins([renamed])[0].codes == codes).all()


def test_what_is_not_drawn_has_a_reason(monkeypatch):
    scores = sweep(np.random.default_rng(7), n_records=60, n_models=30)
    coins, reason = draw_coins(
        [replace(scores, group=(np.arange(60) < 1).astype(np.int64))]
    )
    assert coins is None
    assert "some group is too small" in reason
    monkeypatch.setattr(placebo, "MOST_ENTRIES", 59)
    assert "up to 59 records" in draw_coins([scores])[1]


def exact_and_quick(scores, coins):
    """By attack, (field, set) of attacks on every division; and to first order."""
    exact = exact_panel(scores, coins.codes).pooled
    told = {
        attack: [getattr(found, name) for name in FIELDS]
        for attack, found in exact.items()
    }
    return told, attack_models([scores], [coins])[0].coins.pooled


def with_luck(rng, **changes):
    """Some records train always, and models differ in luck."""
    scores = sweep(rng, shift=0.6, **changes)
    scores.member[:, :5] = True
    luck = rng.normal(0, 0.3, (len(scores.member), 1)) * scores.member
    scores.logits[:] += luck * (2 * scores.labels - 1)
    return scores


@pytest.mark.parametrize("threshold", [0.0, 0.4])
def test_counts_against_a_loop(threshold):
    scores = with_luck(
        np.random.default_rng(1), n_records=120, n_models=20, missing=0.1
    )
    scores.member[2] = scores.member[0]
    predicted = scores.logits >= threshold
    scores = replace(scores, predicted=predicted if threshold else None, epsilon=3.0)
    coins = drawn(scores, 3)
    panel = coin_panel(scores, coins, {})
    assert (panel.epsilon, panel.pooled) == (3.0, {})
    assert panel.split.tolist() == [0, 1, 0, *range(2, 19)]
    for part, table in enumerate((panel.train, panel.test)):
        for s, k in np.ndindex(20, 6):
            inside = (coins.codes[k // 2] == k % 2) & (scores.member[s] == (part == 0))
            yes = scores.labels == 1
            said = predicted[s]
            cells = (yes & said, ~yes & said, ~yes & ~said, yes & ~said)
            assert [x[s, k] for x in table] == [(inside & cell).sum() for cell in cells]


@pytest.mark.parametrize(
    ("missing", "n_models"), [(0.0, 10), (0.2, 10), (0.1, 2), (0.0, 4)]
)
def test_paired_exposures_are_those_of_each_division(missing, n_models):
    rng = np.random.default_rng(3)
    scores = with_luck(rng, n_records=400, n_models=n_models, missing=missing)
    exact, found = exact_and_quick(scores, drawn(scores, 6))
    for attack in EXACT[1:]:
        value, error, null, covariance, n = exact[attack]
        assert found[attack].value == pytest.approx(value, rel=1e-4, abs=1e-5)
        assert found[attack].standard_error == pytest.approx(error, rel=1e-3)
        assert found[attack].null_error == pytest.approx(null, rel=1e-3)
        assert (found[attack].n_records == n).all()
        assert np.corrcoef(found[attack].benefit_covariance, covariance)[0, 1] > 0.9
        near = 0.3 * np.abs(covariance).max()
        assert found[attack].benefit_covariance == pytest.approx(covariance, abs=near)


def test_everybody_as_one_group_is_exact():
    """First order leaves out what sets a group apart: for everybody, nothing."""
    scores = with_luck(np.random.default_rng(4))
    codes = np.zeros((2, 300), dtype=np.int16)
    codes[1, 0] = 1
    exact = rows_of(replace(scores, group=codes[0].astype(np.int64)))
    pooled = attack_models([scores], [Divisions(codes, 2)])[0].coins.pooled
    for attack in RANKED:
        value, *rest, n = (getattr(exact[attack, "a"], name) for name in FIELDS)
        found = pooled[attack]
        assert found.value[0] == pytest.approx(value, abs=1e-6)
        got = [getattr(found, name)[0] for name in FIELDS[1:4]]
        assert got == pytest.approx(rest, rel=0.01)
        assert found.n_records[0] == n
        assert np.isnan(found.standard_error[3])  # one record alone


def test_ranked_exposures_are_right_to_first_order():
    """Values far below an error off, errors right on average; differences likewise."""
    scores = with_luck(np.random.default_rng(5), n_records=900)
    exact, found = exact_and_quick(scores, drawn(scores, 12))
    for attack in RANKED:
        value, error, _, covariance, _ = exact[attack]
        off = ((found[attack].value - value) / error).reshape(-1, 2)
        assert np.abs(off.mean(axis=0)).max() < 0.35, attack
        between = np.diff(off) / np.sqrt(2)
        assert abs(between.mean()) < 0.1, attack
        assert between.std() < 0.25, attack
        assert (found[attack].standard_error / error).mean() == pytest.approx(
            1.0, abs=0.03
        ), attack
        assert np.corrcoef(found[attack].benefit_covariance, covariance)[0, 1] > 0.8, (
            attack
        )


def test_what_one_model_can_tell():
    """It compares nobody with themselves; without both sides nothing is ranked."""
    scores = sweep(np.random.default_rng(5), n_models=1, model="forest")
    coins = drawn(scores, 2)
    found = checked([scores], coins, n_permutations=49)
    tried = {row.attack for row in found}
    assert {"overfitting_gap", *RANKED[:2]} <= tried
    assert not tried & {*EXACT[1:], *RANKED[2:]}
    assert found[0].p_value is not None
    assert {(row.model, row.epsilon) for row in found} == {("forest", None)}
    assert {*attack_models([scores], [coins])[0].coins.pooled} >= {*RANKED[:2]}
    everyone_in = replace(scores, member=np.ones((1, 300), dtype=bool))
    assert attack_models([everyone_in], [coins])[0].coins.pooled == {}


def test_alarms_of_errors_are_those_of_each_placebo_grouping_alone():
    settings = two_settings(np.random.default_rng(3), n_records=400, n_models=9)
    differs = np.arange(400) % 2
    for one in settings:  # half of the records is judged otherwise
        one.logits[:, differs == 1] += 3.0
    made_up = [differs, differs, *drawn(settings[0], 20).codes]
    coins = Divisions(np.array(made_up, dtype=np.int16), 2)
    panels = [coin_panel(one, coins, {}) for one in settings]
    n_wrongly = np.zeros(2, dtype=int)
    n_outcomes = np.zeros(2, dtype=int)
    for pair in ((k, k + 1) for k in range(0, 2 * len(made_up), 2)):
        alone = wrongly_tests(panels, (pair,), "harm").difference.p_value
        n_wrongly += alone[:, 0] <= 0.05
        found = alarms(
            panels, (pair,), Plan(), attack="overfitting_gap", outcome="harm"
        )
        n_outcomes += found.benefits_differ[:, 0]
    assert min(*n_wrongly, *n_outcomes) >= 2
    for row in checked(settings, coins, n_permutations=19):
        place = [one.released_epsilon for one in settings].index(row.epsilon)
        assert (row.n_wrongly, row.n_outcomes) == (n_wrongly[place], n_outcomes[place])


def test_the_errors_p_value_permutes_people_of_one_label():
    """Error rates of the people who can meet the error, group labels shuffled."""
    scores = sweep(np.random.default_rng(5), n_records=120, n_models=9)
    scores.logits[:, (scores.group == 1) & (scores.labels == 0)] += 0.8
    coins = drawn(scores, 5)
    (row, *_) = checked([scores], coins, n_permutations=1_999)

    at_risk = scores.labels == 0
    out = ~scores.member & at_risk
    n = out.sum(axis=0)
    wrong = np.where(
        n > 0, (out & (scores.logits > 0)).sum(axis=0) / np.maximum(n, 1), 0
    )
    group = scores.group[at_risk]
    values = wrong[at_risk]

    def distance(codes):
        first, second = values[codes == 0], values[codes == 1]
        error = np.sqrt(
            first.var() / (len(first) - 1) + second.var() / (len(second) - 1)
        )
        return abs(first.mean() - second.mean()) / error

    rng = np.random.default_rng(0)
    drawn_distances = [distance(rng.permutation(group)) for _ in range(1_999)]
    by_hand = (1 + sum(d >= distance(group) for d in drawn_distances)) / 2_000
    assert row.wrongly_p_value == pytest.approx(by_hand, abs=0.05)
