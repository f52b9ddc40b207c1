"""Rows of ``tail``: what is rounded, what is too few, and which tests stand beside."""

from dataclasses import replace

import numpy as np
import pytest

from pcer.attacks import tail as tails
from pcer.attacks import tail_rows
from pcer.attacks.placebo import placebo_groupings
from pcer.attacks.scorers import SettingScores
from pcer.attacks.sums import Divisions


def setting(n_records=400, n_models=16, seed=0, lifts=(2.5, 1.0)):
    """Two groups whose members' log odds are lifted by other amounts."""
    rng = np.random.default_rng(seed)
    member = rng.random((n_models, n_records)) < 0.5
    group = rng.integers(0, 2, n_records)
    lift = np.array(lifts)[group]
    logits = rng.normal(size=member.shape) + lift * member
    return SettingScores(
        logits=logits,
        labels=np.ones(n_records, dtype=np.int64),
        member=member,
        group=group,
        group_names=("a", "b"),
    )


def rows_of(models, coins=None):
    found = tail_rows.picked_in(models).found
    return tail_rows.tail_rows(models, found, [], coins, n_draws=199)


@pytest.mark.parametrize(("n_records", "steps"), [(400, 100), (4_000, 1_000)])
def test_shares_are_rounded_by_how_many_people_a_group_has(n_records, steps):
    models = setting(n_records)
    found = tails.tail(models.logits, models.member, models.split)
    exact = tails.tail_of_groups(found, models.group, 2, separation=np.zeros(2))
    for group, row in enumerate(rows_of(models)):
        for name in ("picked", "right", "by_chance"):
            share = getattr(row, name)
            assert share * steps == pytest.approx(round(share * steps))
            assert share == pytest.approx(getattr(exact, name)[group], abs=0.5 / steps)
        for name in ("picked_error", "right_error"):
            wider = getattr(row, name) - getattr(exact, name)[group]
            assert 0 <= wider <= 1 / steps


def test_ninety_nine_or_more_is_one_number():
    first, second = rows_of(setting(lifts=(50.0, 50.0)))
    assert (first.picked, first.right, second.right) == (0.99, 0.99, 0.99)
    assert first.against is None
    assert second.against == "a"
    assert second.p_value > 0.05


def test_a_group_of_whom_few_are_picked_has_no_numbers_and_no_test():
    models = setting(lifts=(4.0, 0.0), n_records=300)
    first, second = rows_of(models)
    assert first.is_shown
    assert (second.picked, second.right, second.p_value) == (None, None, None)
    assert second.n_models == 16


def test_the_more_memorised_group_is_found_and_labels_are_kept_apart():
    models = setting()
    _, second = rows_of(models)
    assert second.p_value == pytest.approx(1 / 200)
    labels = models.group.astype(np.int64)  # nobody of one label is in both groups
    of_label_1 = np.where(labels == 1, models.logits, -models.logits)
    _, second = rows_of(replace(models, labels=labels, logits=of_label_1))
    assert second.p_value_within_labels > 0.05


def slow_alarms(found, codes, draws, separation):
    """``tail_alarms``, one grouping after the other."""
    n_alarms = 0
    for grouping in codes:
        sides = [found.surplus[grouping == side] for side in (0, 1)]
        error = np.sqrt(sum(side.var() / (len(side) - 1) for side in sides))
        t = abs(sides[0].mean() - sides[1].mean()) / error / np.sqrt(1 + separation)
        n_alarms += (draws >= t * (1 - 1e-9)).mean() <= 0.05
    return n_alarms


@pytest.mark.parametrize("separation", [0.0, 0.6])
def test_alarms_of_made_up_groups_are_those_of_a_loop(separation):
    models = setting(lifts=(2.0, 2.0))
    rng = np.random.default_rng(5)
    coins = Divisions(placebo_groupings(models.group, 200, rng), 2)
    found = tail_rows.picked_in(models).found
    draws = tails.tail_draws(found, models.group, (0, 1), n_draws=999)
    n_alarms = tails.tail_alarms(found, coins, (0, 1), draws, separation)
    assert n_alarms == slow_alarms(found, coins.codes, draws, separation)
    assert 1 <= n_alarms <= 20


def test_people_with_several_records_count_once_and_have_no_made_up_groups():
    models = setting(n_records=1_200, lifts=(2.5, 2.5))
    owners = np.repeat(np.arange(300), 4)
    group = models.group[::4][owners]
    of_people = replace(models, group=group, person=owners)
    coins = Divisions(placebo_groupings(group, 100, np.random.default_rng(0)), 2)
    with_people = rows_of(of_people, coins)
    of_records = rows_of(replace(of_people, person=None), coins)
    assert with_people[1].n_draws is None
    assert of_records[1].n_draws == 100
    # 1,200 records are 300 people: shares to 1 of 100.
    assert (with_people[0].picked * 100) % 1 == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("n_models", [1, 15])
def test_few_splits_are_refused_with_their_number(n_models):
    reason = tail_rows.picked_in(setting(n_models=n_models)).reason
    assert reason.endswith(f"16 different splits, and there are {n_models}")


def test_one_split_for_all_models_is_refused():
    models = setting()
    member = np.tile(models.member[:1], (16, 1))
    picked = tail_rows.picked_in(replace(models, member=member))
    assert picked.found is None
    assert picked.reason.endswith("there are 1")


def test_answers_alone_are_refused():
    picked = tail_rows.picked_in(replace(setting(), has_probabilities=False))
    assert "probabilities" in picked.reason
