"""Whom does an attacker spot almost surely, and how often is the attacker right?

Group means hide people. Here people are *picked* in some models and *verified* in
others, so that nobody is measured where they were picked and luck does not count:

    for every block of two models: pick those with an own AUC of at least .90 in all
    other models; among the picked of whom one of the two models was trained and one
    not, the attacker is right if the model with the person scores higher.

A person's own AUC is the share of pairs of models (one trained with the person, one
without) in which the first scores that person higher. ``tail`` does this for all blocks
of some random partitions, ``tail_of_groups`` gives shares by group with errors,
``tail_test`` compares two groups. Scores of a whole setting are needed, and 16 splits.
Only ranks within a person count, so any strictly increasing change of all scores of a
person changes nothing. To add a number by group: a field of ``GroupTail``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from pcer.attacks.permutation import DRAWS, SEED, TIE, studentised_draws
from pcer.attacks.scorers import record_blocks
from pcer.attacks.sums import Divisions
from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray, IntArray, quotient
from pcer.statistics import SIGNIFICANCE

LEAST_SPLITS = 16  # different ones: with fewer, chance picks too many
LEAST_SIDE = 3  # models with a person, and without, behind an own AUC
LEAST_PICKED = 10  # different people of a group, or its tail is not shown
LEAST_PAIRS = 50  # pairs of models that verify picked people of a group
BLOCK = 2  # models left out while people are picked
ROUNDS = 2  # random partitions of the models into blocks
THRESHOLD = 0.9  # own AUC from which a person is picked
ROUNDING = 1e-9  # an own AUC that misses the threshold by less is at it
HELD_OUT = "a block of models leaves too few to pick from"


class Tail(NamedTuple):
    """Who was picked in each block of models, and how verification ended."""

    is_picked: BoolArray  # (block, record) by the models outside the block
    is_pair: BoolArray  # (block, record) picked, and the block has both sides
    wins: npt.NDArray[np.float32]  # (block, record) of these pairs, 1, 1/2 or 0
    chance: FloatArray  # (record,) share of blocks that pick somebody not memorised
    n_rounds: int
    n_models: int

    @property
    def surplus(self) -> FloatArray:
        """(record,) wins minus half the pairs: 0 on average if nobody is memorised."""
        beyond = (self.wins - 0.5) * self.is_pair
        return np.asarray(beyond.sum(axis=0, dtype=np.float64))


class GroupTail(NamedTuple):
    """The tail of every group: arrays (group,)."""

    picked: FloatArray  # share of people that a block picks, on average
    picked_error: FloatArray
    by_chance: FloatArray  # the same share if nobody were memorised
    right: FloatArray  # share of verifying pairs in which the attacker is right
    right_error: FloatArray
    n_picked: IntArray  # different people who were picked at least once
    n_pairs: IntArray  # that verify
    is_enough: BoolArray  # whether a group has people and pairs enough to be shown


def tail(  # noqa: PLR0913 # a front door
    scores: FloatArray,
    member: BoolArray,
    split: IntArray,
    *,
    block: int = BLOCK,
    rounds: int = ROUNDS,
    threshold: float = THRESHOLD,
    seed: int = SEED,
) -> Tail:
    """Pick people in all models but a block, and verify them in the block.

    Of models with the same split only the first takes part: the others saw the same
    people. A person whom some model cannot score is never picked.

    Args:
        scores: (model, record), higher where a record seems a member.
        member: (model, record) whether the model was trained on it.
        split: (model,) the same number for models trained on the same records.
        block: models left out at a time, at least 2.
        rounds: random partitions of the models into blocks.
        threshold: own AUC from which a person is picked.
        seed: of the partitions.
    """
    models = np.sort(np.unique(split, return_index=True)[1])
    if len(models) < LEAST_SPLITS:
        raise InputError(
            f"A tail needs at least {LEAST_SPLITS} different splits, but there are "
            f"{len(models)}; train on more."
        )
    if not 2 <= block <= len(models) - 2 * LEAST_SIDE:
        raise InputError(f"block is {block}, but {HELD_OUT}; use 2.")
    scores = scores[models]
    member = member[models]
    blocks = list(_blocks(len(models), block, rounds, seed))

    shape = (len(blocks), scores.shape[1])
    is_picked = np.zeros(shape, dtype=bool)
    is_pair = np.zeros(shape, dtype=bool)
    wins = np.zeros(shape, dtype=np.float32)
    chance = np.zeros(shape[1])
    for records in record_blocks(shape[1]):
        part = _Part(scores[:, records], member[:, records])
        for place, left_out in enumerate(blocks):
            picks = part.picks(left_out, threshold)
            is_picked[place, records] = picks.is_picked
            is_pair[place, records] = picks.is_pair
            wins[place, records] = picks.wins
            chance[records] += picks.chance / len(blocks)
    return Tail(is_picked, is_pair, wins, chance, rounds, len(models))


def _blocks(n: int, size: int, rounds: int, seed: int) -> Iterator[IntArray]:
    """Blocks of models of every partition; what does not fill a block is never out."""
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        order = rng.permutation(n)
        for start in range(0, n - size + 1, size):
            yield order[start : start + size]


class _Picks(NamedTuple):
    """Arrays (record,) of one block."""

    is_picked: BoolArray
    is_pair: BoolArray
    wins: FloatArray
    chance: FloatArray


class _Part:
    """Some records, and in how many pairs of models each is scored higher where in.

    A model's wins are its pairs with models of the other side in which the model with
    the record scores it higher, ties half; all wins U count every pair once.
    """

    def __init__(self, scores: FloatArray, member: BoolArray) -> None:
        self.is_scored = ~np.isnan(scores).any(axis=0)
        known = np.where(self.is_scored, scores, 0.0)
        self.order = stats.rankdata(known, method="dense", axis=0)
        self.member = member
        self.n_in = member.sum(axis=0)
        self.wins = _wins_by_model(self.order, member)

    def picks(self, left_out: IntArray, threshold: float) -> _Picks:
        """Who is picked without the block, and how its own models end."""
        member = self.member[left_out]
        inside = _wins_by_model(self.order[left_out], member)
        of_block = (inside * member).sum(axis=0)
        in_block = member.sum(axis=0)
        n_in = self.n_in - in_block
        n_out = len(self.member) - len(left_out) - n_in

        may_be = self.is_scored & (np.minimum(n_in, n_out) >= LEAST_SIDE)
        own_auc = quotient(self._without(left_out, of_block), n_in * n_out)
        is_picked = may_be & (own_auc >= threshold - ROUNDING)
        n_pairs = in_block * (len(left_out) - in_block)
        is_pair = is_picked & (n_pairs > 0)
        return _Picks(
            is_picked,
            is_pair,
            wins=np.where(is_pair, quotient(of_block, n_pairs), 0.0),
            chance=np.where(may_be, _chances(n_in, n_out, threshold), 0.0),
        )

    def _without(self, left_out: IntArray, of_block: FloatArray) -> FloatArray:
        """(record,) wins of the models outside a block B.

        With w the wins by model and U_B those of pairs within the block, which the sum
        over B counts twice:

            U = (sum of w over models with the record) - (sum of w over B) + U_B
        """
        of_all = (self.wins * self.member).sum(axis=0)
        return np.asarray(of_all - self.wins[left_out].sum(axis=0) + of_block)


def _wins_by_model(order: FloatArray, member: BoolArray) -> FloatArray:
    """(model, record) pairs with the other side that the one with the record wins.

    Of ranks r among all models, r' among those of one side: r - r' is the number of
    models of the other side that score less, and half of those that tie.
    """
    beyond = order.max() + 1
    ranks = stats.rankdata(order, axis=0)
    ranks_in = stats.rankdata(np.where(member, order, beyond), axis=0)
    ranks_out = stats.rankdata(np.where(member, beyond, order), axis=0)
    n_in = member.sum(axis=0)
    return np.where(member, ranks - ranks_in, n_in - (ranks - ranks_out))


def _chances(n_in: IntArray, n_out: IntArray, threshold: float) -> FloatArray:
    """(record,) how often somebody who is not memorised is picked."""
    width = int(n_out.max(initial=0)) + 1
    codes, places = np.unique(n_in * width + n_out, return_inverse=True)
    chances = []
    for code in codes.tolist():
        chances.append(pick_by_chance(code // width, code % width, threshold))
    return np.array(chances)[places]


@cache
def pick_by_chance(n_in: int, n_out: int, threshold: float = THRESHOLD) -> float:
    """P(own AUC >= threshold) if all orders of the models are equally likely.

    The distribution of Mann and Whitney's U without ties: with P(m, n, u) its
    probability, the largest of all m + n scores is of the first side with probability
    m/(m + n) and then wins n pairs, so that

        P(m, n, u) = m/(m + n) P(m - 1, n, u - n) + n/(m + n) P(m, n - 1, u)

    >>> round(pick_by_chance(3, 3, 1.0), 4)  # 1 of the 20 orders
    0.05
    """
    least = threshold * n_in * n_out - ROUNDING
    after = np.ones((n_out + 1, 1))
    for m in range(1, n_in + 1):
        before = after
        after = np.zeros((n_out + 1, m * n_out + 1))
        after[0, 0] = 1.0
        for n in range(1, n_out + 1):
            wins = before[n, : (m - 1) * n + 1]
            after[n, n : n + len(wins)] = m / (m + n) * wins
            after[n] += n / (m + n) * after[n - 1]
    probabilities = after[n_out]
    return float(probabilities[np.arange(len(probabilities)) >= least].sum())


def tail_of_groups(
    found: Tail,
    codes: IntArray,
    n_groups: int,
    *,
    separation: FloatArray,
    person: IntArray | None = None,
) -> GroupTail:
    """Shares of groups with errors for people like these.

    With n people (each with the mean of their records), g blocks in a round, and rho
    the separation of the group:

        picked: P = mean of the blocks' shares p_b; the share p_b is what the other
            models pick, so that over a round (g - 1)/g sum (p_b - P)^2 is the
            jackknife's variance by models
        right: W/T, wins over pairs; by models, sum over blocks of (w_b - R t_b)^2/T^2,
            which is the delta method's
        error^2 = (variance by people + variance by models) (1 + rho)

    ``codes`` are (record,) groups from 0, -1 for none; ``person`` (record,) the same
    number for records of one person.
    """
    rows = []
    for group in range(n_groups):
        is_inside = codes == group
        clusters = None if person is None else person[is_inside]
        one = _one_group(_of_people(found, is_inside, clusters), found.n_rounds)
        rows.append(one)
    values = np.array([row[:5] for row in rows])
    counts = np.array([row[5:] for row in rows], dtype=np.int64)
    inflation = np.sqrt(1 + np.nan_to_num(separation))
    is_enough = (counts[:, 0] >= LEAST_PICKED) & (counts[:, 1] >= LEAST_PAIRS)
    return GroupTail(
        picked=values[:, 0],
        picked_error=values[:, 1] * inflation,
        by_chance=values[:, 2],
        right=values[:, 3],
        right_error=values[:, 4] * inflation,
        n_picked=counts[:, 0],
        n_pairs=counts[:, 1],
        is_enough=is_enough,
    )


class _People(NamedTuple):
    """Means over each person's records."""

    picked: FloatArray  # (block, person)
    pairs: FloatArray  # (block, person)
    wins: FloatArray  # (block, person)
    chance: FloatArray  # (person,)
    n_pairs: int  # of records


def _of_people(found: Tail, is_inside: BoolArray, clusters: IntArray | None) -> _People:
    """The people of one group."""
    rows = [
        found.is_picked[:, is_inside],
        found.is_pair[:, is_inside],
        found.wins[:, is_inside],
        found.chance[None, is_inside],
    ]
    means = mean_by_person(np.concatenate(rows).astype(np.float64), clusters)
    n_blocks = len(found.wins)
    picked, pairs, wins, chance = np.split(
        means, [n_blocks, 2 * n_blocks, 3 * n_blocks]
    )
    return _People(picked, pairs, wins, chance[0], int(rows[1].sum()))


def mean_by_person(rows: FloatArray, person: IntArray | None) -> FloatArray:
    """(row, person) means over each person's records, of (row, record) numbers.

    People come in the order of their numbers; without numbers a record is a person.
    """
    if person is None:
        return rows
    _, places, counts = np.unique(person, return_inverse=True, return_counts=True)
    sums = np.zeros((len(rows), len(counts)))
    for row, into in zip(rows, sums, strict=True):
        into += np.bincount(places, weights=row, minlength=len(counts))
    return sums / counts


def _one_group(people: _People, n_rounds: int) -> tuple[float, ...]:
    """Picked, its error, by chance, right, its error, people picked, pairs."""
    n = people.picked.shape[1]
    if n < 1:
        return (np.nan,) * 5 + (0, 0)
    by_chance = float(people.chance.mean())
    n_picked = int(people.picked.any(axis=0).sum())
    picked = _picked(people.picked, n_rounds)
    return (*picked, by_chance, *_right(people), n_picked, people.n_pairs)


def _picked(picked: FloatArray, n_rounds: int) -> tuple[float, float]:
    """Mean of the blocks' shares, and its error, from picks (block, person)."""
    by_block = picked.mean(axis=1)
    n = picked.shape[1]
    of_people = picked.mean(axis=0).var(ddof=1) / n if n > 1 else np.nan
    of_models = np.mean([_jackknife(part) for part in _rounds(by_block, n_rounds)])
    return float(by_block.mean()), float(np.sqrt(of_people + of_models))


def _right(people: _People) -> tuple[float, float]:
    """Wins over pairs, and its error by the delta method."""
    n_pairs = people.pairs.sum()
    right = float(quotient(people.wins.sum(), n_pairs))
    residuals = people.wins - np.nan_to_num(right) * people.pairs
    by_people = (residuals.sum(axis=0) ** 2).sum()
    by_models = (residuals.sum(axis=1) ** 2).sum()
    return right, float(np.sqrt(quotient(by_people + by_models, n_pairs**2)))


def _rounds(values: FloatArray, n_rounds: int) -> Sequence[FloatArray]:
    return np.split(values, n_rounds)


def _jackknife(values: FloatArray) -> float:
    """Variance of an estimate from its values without each part in turn."""
    g = len(values)
    return float((g - 1) / g * ((values - values.mean()) ** 2).sum())


def tail_test(  # noqa: PLR0913 # a front door
    found: Tail,
    codes: IntArray,
    pair: tuple[int, int],
    *,
    separation: float,
    person: IntArray | None = None,
    strata: IntArray | None = None,
    n_draws: int = DRAWS,
) -> float:
    """p-value of a difference between two groups' tails; NaN with under two people.

    Persons' numbers are wins minus half the pairs while picked; whole persons are
    permuted (within strata, such as the label), their difference studentised:

        p = (1 + #{|t*| >= |t| / sqrt(1 + rho)}) / (D + 1)

    with rho the separation: what training records change about each other makes a real
    difference of groups vary more than one of permuted people.
    """
    draws = tail_draws(
        found, codes, pair, person=person, strata=strata, n_draws=n_draws
    )
    return p_of_draws(draws, separation)


def tail_draws(  # as its front door
    found: Tail,
    codes: IntArray,
    pair: tuple[int, int],
    *,
    person: IntArray | None = None,
    strata: IntArray | None = None,
    n_draws: int = DRAWS,
) -> FloatArray:
    """(draw,) |t| of ``tail_test``, the real groups' first; empty without a test."""
    rows = np.flatnonzero(np.isin(codes, pair))
    clusters = None if person is None else person[rows]
    surplus = mean_by_person(found.surplus[None, rows], clusters)[0]
    if clusters is not None:
        rows = rows[np.unique(clusters, return_index=True)[1]]
    groups = codes[rows]
    levels = None if strata is None else strata[rows]
    if min(int((groups == side).sum()) for side in pair) < 2:
        return np.empty(0)
    return studentised_draws(surplus, groups, pair, levels, n_draws=n_draws)


def p_of_draws(draws: FloatArray, separation: float) -> float:
    """How often permuted groups differ as much as the real ones, by ``tail_draws``."""
    if not len(draws):
        return float("nan")
    threshold = draws[0] / np.sqrt(1 + np.nan_to_num(separation))
    return float((draws >= threshold * (1 - TIE)).mean())


def tail_alarms(
    found: Tail,
    coins: Divisions,
    pair: tuple[int, int],
    draws: FloatArray,
    separation: float,
) -> int:
    """How many placebo groupings ``tail_test`` would call different.

    They have the sizes of the real groups, so that the same permutations judge them.
    """
    surplus = found.surplus[None]
    sums = coins.sums(surplus, surplus**2).reshape(2, -1, coins.n_groups)
    n = coins.sizes.reshape(-1, coins.n_groups)
    means, squares = sums / n
    variances = np.maximum(squares - means**2, 0.0) / (n - 1)
    first, second = pair
    error = np.sqrt(variances[:, first] + variances[:, second])
    distance = np.abs(means[:, first] - means[:, second])
    t = quotient(distance, error, otherwise=0.0) / np.sqrt(1 + separation)
    n_beyond = [int((draws >= one * (1 - TIE)).sum()) for one in t]
    return int((np.array(n_beyond) / len(draws) <= SIGNIFICANCE).sum())
