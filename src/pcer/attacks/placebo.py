"""Rows of ``placebo``: how often made-up groups raise an alarm, and permutation tests.

Two hundred placebo groupings of the same sizes are drawn at random, and each goes
through the audit's tests, for every setting and attack. Since they mean nothing, every
alarm is false. For double disadvantage only exposures are drawn at random; the real
groups keep their outcomes, whose difference may be real.

Everything follows from the records, the models and a fixed seed: no clock, number of
processes or name of a group changes a draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pcer.attacks.attack import Attacked, BudgetScores
from pcer.attacks.permutation import DRAWS, SEED, permutation_tests
from pcer.attacks.sums import Divisions
from pcer.measuring.measure import finite_or_none
from pcer.measuring.plan import Plan
from pcer.measuring.refutations import alarms
from pcer.metrics import FloatArray, IntArray
from pcer.release.panel import Panel
from pcer.release.records import Outcome, Placebo

# Placebo groupings that are audited, and the fewest from which a count is released.
PLACEBOS, LEAST_PLACEBOS = 200, 100
MOST_ENTRIES = 400_000  # records times groups less one: beyond that nothing is checked
# Placebo groupings that are also attacked exactly, to see how far first order is off;
# or none.
FEWEST_EXACT, MOST_EXACT = 5, 20
# Records times models times settings times such groupings, at most: each costs about a
# hundredth of a sweep.
EXACT_ENTRIES = 2_000_000
MOST_TRIES = 10  # draws per wanted grouping before groups are called too small
CHECKING = "checking with made-up groups"  # in a progress display
GroupPair = tuple[int, int]
Task = tuple[Callable[..., Any], tuple[Any, ...]]
TaskRunner = Callable[[Sequence[Task]], Iterable[Any]]


def one_by_one(tasks: Sequence[Task]) -> Iterator[Any]:
    """Call functions with their arguments, here and in order."""
    return (function(*arguments) for function, arguments in tasks)


def placebo_groupings(
    codes: IntArray, n: int, rng: np.random.Generator
) -> npt.NDArray[np.int16]:
    """(division, record) ``n`` placebo groupings with groups of the same sizes as in codes.

    >>> placebo_groupings(np.array([0, 0, 1, -1]), 2, np.random.default_rng(4)).tolist()
    [[0, 0, 1, -1], [1, 0, 0, -1]]
    """
    drawn = np.tile(codes.astype(np.int16), (n, 1))
    rows = np.flatnonzero(codes >= 0)
    for row in drawn:
        row[rows] = codes[rng.permutation(rows)]
    return drawn


def draw_coins(
    scores: Sequence[BudgetScores], *, n_draws: int = PLACEBOS
) -> tuple[Divisions | None, str]:
    """Placebo groupings that could have been released, or None and the reason.

    Scores are of every setting, all beside the same attribute. A release has no group
    that is empty in a part of a split, so such groupings are drawn again; between 100
    and ``n_draws`` are given. How many are attacked exactly follows from the number of
    records, models and settings.
    """
    group = scores[0].group
    n_groups = len(scores[0].group_names)
    if len(group) * (n_groups - 1) > MOST_ENTRIES:
        return None, (
            f"made-up groups are checked for up to {MOST_ENTRIES:,} records times groups less one; "
            f"there are {len(group):,} times {n_groups - 1}"
        )
    splits = np.array(
        [*{row.tobytes(): row for view in scores for row in view.member}.values()]
    )
    rng = np.random.default_rng(SEED)
    kept = np.zeros((0, len(group)), dtype=np.int16)
    for _ in range(MOST_TRIES):
        divisions = Divisions(placebo_groupings(group, n_draws, rng), n_groups)
        trained = divisions.sums(splits)
        is_whole = ((trained > 0) & (trained < divisions.sizes)).all(axis=0)
        kept = np.concatenate(
            [kept, divisions.codes[is_whole.reshape(-1, n_groups).all(axis=1)]]
        )
        if len(kept) >= n_draws:
            break
    if len(kept) < min(n_draws, LEAST_PLACEBOS):
        return (
            None,
            "some group is too small: made-up groups of its size miss a part of some split",
        )
    n_exact = min(MOST_EXACT, EXACT_ENTRIES // sum(view.member.size for view in scores))
    return Divisions(
        kept[:n_draws], n_groups, n_exact if n_exact >= FEWEST_EXACT else 0
    ), ""


def check_with_coins(
    settings: Sequence[BudgetScores],
    attacked: Sequence[Attacked],
    coins: Divisions,
    *,
    outcome: Outcome,
    n_permutations: int = DRAWS,
    run: TaskRunner = one_by_one,
) -> list[Placebo]:
    """Audit placebo groupings, and permute the real one.

    Args:
        settings: all of one attribute, and of the same records in the same order.
        attacked: results of ``attack_models`` for each of them and for the placebo
            groupings.
        coins: the placebo groupings.
        outcome: whether a positive prediction is a benefit or a harm.
        n_permutations: divisions of every pair.
        run: calls tasks, perhaps several at a time, and gives their results in order.
    """
    first = settings[0]
    pairs = pairs_of_groups(first.group, len(first.group_names))
    costs = list(dict.fromkeys(cost for found in attacked for cost in found.exposure))
    nothing = np.full(len(first.group), np.nan)
    exposure = np.array(
        [[each.exposure.get(cost, nothing) for cost in costs] for each in attacked]
    )
    benefit = np.array([found.benefit for found in attacked])
    starts = range(0, len(coins) * coins.n_groups, coins.n_groups)
    families = tuple((start + i, start + j) for start in starts for i, j in pairs)
    tasks: list[Task] = [
        (
            permutation_tests,
            (exposure, benefit, first.group, pair, n_permutations, strata),
        )
        for pair in pairs
        for strata in (None, first.labels)
    ]
    rates = [found.positive_rate for found in attacked]
    for cost in costs:
        panels = [found.coins for found in attacked if found.coins is not None]
        tasks.append(
            (_count_alarms, (panels, rates, families, cost, outcome, len(coins)))
        )
    results = list(run(tasks))
    rows = []
    for s, c, p in np.ndindex(len(settings), len(costs), len(pairs)):
        setting = settings[s]
        found = attacked[s]
        cost = costs[c]
        if cost not in found.exposure:
            continue
        among, within, counts = *results[2 * p : 2 * p + 2], results[2 * len(pairs) + c]
        n_exact, difference = _against_exact(found, cost, coins.n_groups, pairs[p])
        rows.append(
            Placebo(
                model=setting.model,
                epsilon=setting.released_epsilon,
                proxy=cost,
                groups=[setting.group_names[k] for k in pairs[p]],
                n_draws=len(coins),
                p_value=finite_or_none(among.cross_product[s, c]),
                p_value_within_labels=finite_or_none(within.cross_product[s, c]),
                n_permutations=n_permutations,
                exposure_p_value=finite_or_none(among.exposure[s, c]),
                exposure_p_value_within_labels=finite_or_none(within.exposure[s, c]),
                n_exact=n_exact,
                exact_difference=difference,
                **{name: int(count[s, p]) for name, count in counts.items()},
            )
        )
    return rows


def pairs_of_groups(group: IntArray, n_groups: int) -> list[GroupPair]:
    """Pairs of groups that an audit compares: each with the largest; two in their order."""
    sizes = np.bincount(group[group >= 0], minlength=n_groups)
    reference = 0 if n_groups == 2 else int(np.argmax(sizes))
    return [(reference, other) for other in range(n_groups) if other != reference]


def _count_alarms(
    panels: Sequence[Panel],
    rates: Sequence[FloatArray],
    families: tuple[GroupPair, ...],
    cost: str,
    outcome: Outcome,
    n_draws: int,
) -> dict[str, IntArray]:
    """(setting, pair) how many placebo groupings raise each alarm, by one attack."""
    with_coins = [
        replace(panel, pooled={cost: panel.pooled[cost]}, train=None, test=None)
        if cost in panel.pooled
        else replace(panel, pooled={})
        for panel in panels
    ]
    with_real_benefits = [
        replace(panel, positive_rate=np.tile(rate, n_draws))
        for panel, rate in zip(with_coins, rates, strict=True)
    ]
    coin, real = (
        alarms(seen, families, Plan(), cost=cost, outcome=outcome, n_families=n_draws)
        for seen in (with_coins, with_real_benefits)
    )
    alarmed = {
        "n_exposure": coin.exposures_differ,
        "n_ratio": coin.ratios_differ,
        "n_double": real.double_disadvantage >= 0,
    }
    shape = len(panels), n_draws, len(families) // n_draws
    either = (
        (coin.exposures_differ | coin.ratios_differ).reshape(shape).any(axis=(0, 2))
    )
    counts = {name: found.reshape(shape).sum(axis=1) for name, found in alarmed.items()}
    return counts | {"n_any": np.full_like(counts["n_ratio"], either.sum())}


def _against_exact(
    attacked: Attacked, cost: str, n_groups: int, pair: GroupPair
) -> tuple[int | None, float | None]:
    """Number of exactly attacked groupings, and the root mean square error of first order."""
    if attacked.coins is None or cost not in attacked.exact:
        return None, None
    exact = attacked.exact[cost]
    quick = attacked.coins.pooled[cost]
    (i, j) = pair
    quickly = np.stack([quick.value, quick.standard_error]).reshape(2, -1, n_groups)
    exactly = np.stack(
        [[division.value, division.standard_error] for division in exact], axis=1
    )
    value, error = np.stack(
        [quickly[:, : len(exact)], exactly], axis=1
    )  # (way, division, group)
    with np.errstate(divide="ignore", invalid="ignore"):
        first, in_full = (value[..., j] - value[..., i]) / np.hypot(
            error[..., i], error[..., j]
        )
        off = first - in_full
    off = off[np.isfinite(off)]
    return (len(off), float(np.sqrt((off**2).mean()))) if off.size else (None, None)
