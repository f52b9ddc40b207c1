"""The tail: people are picked in some models and verified in others."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from pcer.attacks import tail as tails
from pcer.errors import InputError


def parts(rng, n_models, n_records, share=0.5):
    """Memberships of a share of the records, another draw in every model."""
    member = np.zeros((n_models, n_records), dtype=bool)
    for row in member:
        row[rng.permutation(n_records)[: int(share * n_records)]] = True
    return member


def drawn(seed=0, n_models=16, n_records=60, lift=0.0, share=0.5):
    """Scores that training lifts by ``lift`` deviations, (record,) or a number."""
    rng = np.random.default_rng(seed)
    member = parts(rng, n_models, n_records, share)
    scores = rng.normal(size=member.shape) + lift * member
    return scores, member, np.arange(n_models)


def wins_of_person(scores, member, models):
    """Pairs of models in which the one trained with a person scores higher."""
    wins = pairs = 0
    for one, other in itertools.product(models, models):
        if member[one] and not member[other]:
            pairs += 1
            wins += (scores[one] > scores[other]) + (scores[one] == scores[other]) / 2
    return wins, pairs


def slow_tail(scores, member, blocks, threshold=0.9):
    """What ``tail`` does, one person and one block after the other."""
    n_models, n_records = scores.shape
    found = np.full((len(blocks), n_records, 2), np.nan)
    picked = np.zeros((len(blocks), n_records), dtype=bool)
    for b, block in enumerate(blocks):
        others = [m for m in range(n_models) if m not in block]
        for person in range(n_records):
            column, inside = scores[:, person], member[:, person]
            n_in = sum(inside[others])
            if min(n_in, len(others) - n_in) < 3:
                continue
            wins, pairs = wins_of_person(column, inside, others)
            if wins < threshold * pairs - 1e-9:
                continue
            picked[b, person] = True
            found[b, person] = wins_of_person(column, inside, block)
    return picked, found


@pytest.mark.parametrize("n_models", [16, 17])
@pytest.mark.parametrize("decimals", [0, 8])
def test_picks_and_wins_are_those_of_a_loop_over_people(n_models, decimals):
    scores, member, split = drawn(3, n_models, 40, lift=1.5)
    scores = scores.round(decimals)
    found = tails.tail(scores, member, split)
    blocks = list(tails._blocks(n_models, 2, 2, 0))
    picked, slow = slow_tail(scores, member, blocks)
    assert picked.any()
    assert (found.is_picked == picked).all()
    is_pair = picked & (slow[..., 1] > 0)
    assert (found.is_pair == is_pair).all()
    assert np.allclose(found.wins[is_pair], slow[is_pair][:, 0])


def test_every_model_is_left_out_once_a_round():
    blocks = list(tails._blocks(20, 2, 2, 5))
    assert len(blocks) == 20
    for part in (blocks[:10], blocks[10:]):
        assert sorted(np.concatenate(part)) == list(range(20))


@pytest.mark.parametrize(("n_in", "n_out"), [(3, 3), (4, 9), (8, 6), (10, 10)])
def test_picks_by_chance_are_those_of_mann_and_whitney(n_in, n_out):
    total = n_in * n_out
    least = math.ceil(0.9 * total - 1e-9)
    first = np.arange(n_in)
    every = itertools.combinations(range(n_in + n_out), n_in)
    wins = np.array([sum(places) for places in every]) - first.sum()
    assert tails.pick_by_chance(n_in, n_out) == pytest.approx((wins >= least).mean())


@pytest.mark.parametrize("share", [0.5, 0.7])
@pytest.mark.parametrize("n_models", [16, 20])
def test_people_whom_nobody_memorised_are_picked_as_often_as_chance_says(
    n_models, share
):
    scores, member, split = drawn(1, n_models, 20_000, share=share)
    found = tails.tail(scores, member, split)
    one = np.zeros(20_000, dtype=int)
    group = tails.tail_of_groups(found, one, 1, separation=np.zeros(1))
    assert 0.001 < group.by_chance[0] < 0.02
    assert group.picked[0] == pytest.approx(
        group.by_chance[0], abs=4 * group.picked_error[0]
    )
    assert group.right[0] == pytest.approx(0.5, abs=4 * group.right_error[0])


def test_only_order_within_a_person_counts():
    scores, member, split = drawn(2, lift=2.0)
    found = tails.tail(scores, member, split)
    bent = np.exp(scores) * np.linspace(0.1, 9, scores.shape[1]) + 4
    for one, other in zip(found, tails.tail(bent, member, split), strict=True):
        assert np.array_equal(one, other)


def test_infinite_scores_and_people_without_a_score_are_no_fault():
    scores, member, split = drawn(2, lift=9.0)
    scores[member] = np.inf
    scores[3, 7] = np.nan
    found = tails.tail(scores, member, split)
    assert found.is_picked[:, 6].any()
    assert not found.is_picked[:, 7].any()
    assert (found.wins[found.is_pair] == 1).all()


def test_models_of_one_split_take_part_once():
    scores, member, split = drawn(4, 16, 50, lift=2.0)
    twice = np.repeat(np.arange(16), 2)
    found = tails.tail(scores[twice], member[twice], split[twice])
    assert np.array_equal(found.is_picked, tails.tail(scores, member, split).is_picked)


def test_fewer_than_sixteen_splits_are_refused():
    scores, member, split = drawn(0, 15)
    with pytest.raises(InputError, match="at least 16 different splits"):
        tails.tail(scores, member, split)
    scores, member, split = drawn(0, 20)
    with pytest.raises(InputError, match="there are 1;"):
        tails.tail(scores, member, np.zeros(20, dtype=int))
    with pytest.raises(InputError, match="block is 15"):
        tails.tail(scores, member, split, block=15)


def test_a_group_with_more_people_spotted_is_found_where_means_are_equal():
    """2 against 10 of 100 memorised; the others make up for it on average."""
    rng = np.random.default_rng(8)
    n = 4_000
    codes = np.arange(n) % 2
    lift = np.where(rng.random(n) < np.where(codes == 0, 0.02, 0.10), 4.0, 0.0)
    scores, member, split = drawn(8, 20, n, lift)
    found = tails.tail(scores, member, split)
    groups = tails.tail_of_groups(found, codes, 2, separation=np.zeros(2))
    assert groups.picked[1] - groups.picked[0] == pytest.approx(0.08, abs=0.02)
    assert groups.is_enough.all()
    assert groups.right[1] > 0.85
    assert tails.tail_test(found, codes, (0, 1), separation=0.0) < 0.001
    coins = rng.permutation(codes)
    assert tails.tail_test(found, coins, (0, 1), separation=0.0) > 0.01


def test_wide_scores_alone_are_no_tail():
    """One group's scores are three times as wide, and nobody is memorised."""
    rejected = 0
    for seed in range(40):
        codes = np.arange(800) % 2
        scores, member, split = drawn(seed, 16, 800)
        found = tails.tail(scores * (1 + 2 * codes), member, split)
        p = tails.tail_test(found, codes, (0, 1), separation=0.0, n_draws=199)
        rejected += p <= 0.05
    assert rejected <= 6  # of 40 at 5 %: 7 or more have chance .014


def test_the_test_is_that_of_a_plain_permutation():
    scores, member, split = drawn(5, 16, 80, lift=1.0)
    codes = (np.arange(80) % 3 == 0).astype(int)
    found = tails.tail(scores, member, split)
    surplus = found.surplus

    def distance(groups):
        one, other = surplus[groups == 0], surplus[groups == 1]
        error = np.sqrt(one.var() / (len(one) - 1) + other.var() / (len(other) - 1))
        return abs(one.mean() - other.mean()) / error

    rng = np.random.default_rng(0)
    drawn_distances = [distance(rng.permutation(codes)) for _ in range(4_000)]
    for separation in (0.0, 1.0):
        least = distance(codes) / math.sqrt(1 + separation)
        slow = np.mean(np.array(drawn_distances) >= least)
        p = tails.tail_test(found, codes, (0, 1), separation=separation)
        assert p == pytest.approx(slow, abs=0.03)


def test_four_records_a_person_are_one_person():
    """By record the same people count four times, and the test alarms too often."""
    by_person = by_record = 0
    n_people = 150
    for seed in range(40):
        rng = np.random.default_rng(seed)
        person = np.repeat(np.arange(n_people), 4)
        member = parts(rng, 16, n_people)[:, person]
        lift = np.where(rng.random(n_people) < 0.2, 3.0, 0.0)[person]
        scores = rng.normal(size=member.shape) + lift * member
        codes = rng.permutation(n_people)[person] % 2
        found = tails.tail(scores, member, np.arange(16))
        test = (found, codes, (0, 1))
        p = tails.tail_test(*test, separation=0.0, person=person, n_draws=199)
        by_person += p <= 0.05
        by_record += tails.tail_test(*test, separation=0.0, n_draws=199) <= 0.05
    assert by_person <= 6
    assert by_record >= 8


def test_errors_are_those_of_repeated_worlds():
    """Over draws of people and models, the spread is what is printed."""
    picked, right, errors = [], [], []
    for seed in range(60):
        rng = np.random.default_rng(1000 + seed)
        lift = np.where(rng.random(500) < 0.1, 4.0, 0.0)
        scores, member, split = drawn(seed, 16, 500, lift)
        found = tails.tail(scores, member, split)
        group = tails.tail_of_groups(
            found, np.zeros(500, dtype=int), 1, separation=np.zeros(1)
        )
        picked.append(group.picked[0])
        right.append(group.right[0])
        errors.append((group.picked_error[0], group.right_error[0]))
    printed = np.sqrt(np.mean(np.square(errors), axis=0))
    ratio = printed / np.array([np.std(picked), np.std(right)])
    assert (ratio > 0.75).all()
    assert (ratio < 1.6).all()


def test_separation_widens_errors_by_the_root_of_one_plus_it():
    scores, member, split = drawn(5, 16, 100, lift=2.0)
    found = tails.tail(scores, member, split)
    codes = np.zeros(100, dtype=int)
    alone = tails.tail_of_groups(found, codes, 1, separation=np.zeros(1))
    shared = tails.tail_of_groups(found, codes, 1, separation=np.ones(1))
    assert shared.picked_error == pytest.approx(alone.picked_error * math.sqrt(2))
    assert shared.right_error == pytest.approx(alone.right_error * math.sqrt(2))
    assert shared.picked == alone.picked


def test_a_pair_with_one_person_has_no_test():
    scores, member, split = drawn(5, 16, 20)
    found = tails.tail(scores, member, split)
    codes = (np.arange(20) == 0).astype(int)
    assert math.isnan(tails.tail_test(found, codes, (0, 1), separation=0.0))


def test_ranks_are_scipys():
    scores, member, _ = drawn(6, 16, 10)
    wins = tails._wins_by_model(stats.rankdata(scores, axis=0), member)
    for person in range(10):
        column, inside = scores[:, person], member[:, person]
        u = stats.mannwhitneyu(column[inside], column[~inside]).statistic
        assert (wins * member)[:, person].sum() == u
        assert (wins * ~member)[:, person].sum() == u
