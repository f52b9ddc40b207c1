"""How often do made-up groups raise an alarm, and what do permutation tests say?

``exposure_rows`` draws placebo groupings of the same sizes (``draw_coins``), has them
attacked with the real one, and gets the rows of ``placebo`` from ``check_with_coins``.
Each goes through the audit's tests, for every setting and attack; since they mean
nothing, every alarm is false. For double disadvantage only exposures are drawn: the
real groups keep their outcomes, whose difference may be real. Draws follow from the
records, the models and a fixed seed alone. To add a kind of alarm: a field of
``Alarms`` (measuring/evidence.py), counted in ``_count_alarms``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.attacks.attack import Attacked
from pcer.attacks.permutation import DRAWS, SEED, Permutations, permutation_tests
from pcer.attacks.rates import record_rates
from pcer.attacks.scorers import SettingScores
from pcer.attacks.sums import Divisions, Groups
from pcer.measuring.evidence import alarms as alarms_of
from pcer.measuring.plan import Plan
from pcer.measuring.wrongly import wrongly_alarms
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.attack_kinds import GAP
from pcer.release.panel import Panel
from pcer.release.records import Outcome, Placebo
from pcer.statistics import finite_or_none

PLACEBOS = 200  # placebo groupings that are audited
LEAST_PLACEBOS = 100  # the fewest from which a count is released
MOST_ENTRIES = 400_000  # records times groups less one: beyond that nothing is checked
# Placebo groupings that are also attacked exactly, to see how far first order is off:
# so many at least and at most, or none.
FEWEST_EXACT = 5
MOST_EXACT = 20
# Records times models times settings times such groupings, at most: each costs about a
# hundredth of a sweep, and more than fitting a cheap estimator.
EXACT_ENTRIES = 500_000
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
) -> npt.NDArray[np.integer[Any]]:
    """(division, record) ``n`` placebo groupings; groups have the sizes as in codes.

    All but the largest group are drawn: without order where there is one of them.

    >>> placebo_groupings(np.array([0, 0, 1, -1]), 2, np.random.default_rng(3)).tolist()
    [[0, 0, 1, -1], [1, 0, 0, -1]]
    """
    rows = np.flatnonzero(codes >= 0)
    sizes = np.bincount(codes[rows], minlength=1)
    largest = int(np.argmax(sizes))
    others = codes[rows][codes[rows] != largest]
    kind = np.int8 if len(sizes) <= np.iinfo(np.int8).max else np.int16
    start = np.where(codes >= 0, largest, -1).astype(kind)
    drawn = np.tile(start, (n, 1))
    has_order = bool(np.count_nonzero(sizes) > 2)
    for row in drawn:
        chosen = rng.choice(len(rows), len(others), replace=False, shuffle=has_order)
        row[chosen if len(rows) == len(row) else rows[chosen]] = others
    return drawn


class Drawn(NamedTuple):
    """Placebo groupings, or None and the reason."""

    coins: Divisions | None
    reason: str


def draw_coins(scores: Sequence[SettingScores], *, n_draws: int = PLACEBOS) -> Drawn:
    """Placebo groupings that could have been released, or None and the reason.

    Scores are of every setting, all beside the same attribute. A release has no group
    that is empty in a part of a split, so such groupings are drawn again; between 100
    and ``n_draws`` are given.
    """
    group = scores[0].group
    n_groups = len(scores[0].group_names)
    if len(group) * (n_groups - 1) > MOST_ENTRIES:
        return Drawn(
            None,
            f"made-up groups are checked for up to {MOST_ENTRIES:,} records times "
            f"groups less one; there are {len(group):,} times {n_groups - 1}",
        )

    divisions = _whole_ones(scores, n_draws)
    if len(divisions) < min(n_draws, LEAST_PLACEBOS):
        return Drawn(
            None,
            "some group is too small: made-up groups of its size miss a part of some "
            "split",
        )
    return Drawn(divisions, "")


def _whole_ones(scores: Sequence[SettingScores], n_draws: int) -> Divisions:
    """Up to so many placebo groupings, none of which leaves a part of a split empty."""
    group = scores[0].group
    n_groups = len(scores[0].group_names)
    n_entries = sum(view.member.size for view in scores)
    n_exact = min(MOST_EXACT, EXACT_ENTRIES // n_entries)
    if n_exact < FEWEST_EXACT:
        n_exact = 0
    splits = _distinct_splits(scores)
    rng = np.random.default_rng(SEED)
    usable: list[npt.NDArray[np.integer[Any]]] = []
    for _ in range(MOST_TRIES):
        drawn = Divisions(placebo_groupings(group, n_draws, rng), n_groups, n_exact)
        is_whole = _is_whole(drawn, splits)
        if is_whole.all() and not usable:
            return drawn
        usable.append(drawn.codes[is_whole])
        if sum(map(len, usable)) >= n_draws:
            break
    return Divisions(np.concatenate(usable)[:n_draws], n_groups, n_exact)


def _distinct_splits(scores: Sequence[SettingScores]) -> BoolArray:
    """(split, record) who is trained on, in every split of any setting."""
    splits = {}
    for view in scores:
        for member in view.member:
            splits[member.tobytes()] = member
    return np.array(list(splits.values()))


def _is_whole(divisions: Divisions, splits: BoolArray) -> BoolArray:
    """(division,) whether every group has records in both parts of every split."""
    trained = divisions.sums(splits)
    has_both = ((trained > 0) & (trained < divisions.sizes)).all(axis=0)
    return np.asarray(has_both.reshape(-1, divisions.n_groups).all(axis=1))


def check_with_coins(
    settings: Sequence[SettingScores],
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
    pairs = pairs_of_groups(settings[0].group, len(settings[0].group_names))
    attacks = _attacks(attacked)
    tasks = _permutation_tasks(settings[0], attacked, pairs, n_permutations)
    tasks += _error_tasks(settings, pairs, n_permutations, outcome)
    tasks += _alarm_tasks(attacked, coins, pairs, outcome)
    results = list(run(tasks))
    among, within_labels, errors = (
        results[start : start + len(pairs)]
        for start in range(0, 3 * len(pairs), len(pairs))
    )
    n_wrongly, *alarms = results[3 * len(pairs) :]
    of_rates = {"n_wrongly": n_wrongly}
    if GAP.name in attacks:  # whose panels have counts
        by_gap = attacks.index(GAP.name)
        of_rates["n_outcomes"] = alarms[by_gap]["n_outcomes"]

    rows = []
    for s, a, p in np.ndindex(len(settings), len(attacks), len(pairs)):
        setting = settings[s]
        attack = attacks[a]
        if attack not in attacked[s].exposure:
            continue
        row = Placebo(
            model=setting.model,
            epsilon=setting.released_epsilon,
            attack=attack,
            groups=[setting.group_names[k] for k in pairs[p]],
            n_draws=len(coins),
            n_permutations=n_permutations,
            **_against_exact(attacked[s], attack, coins.n_groups, pairs[p]),
            **_p_values(among[p], within_labels[p], (s, a)),
            **{name: int(n[s, p]) for name, n in (alarms[a] | of_rates).items()},
            wrongly_p_value=finite_or_none(errors[p].exposure[s, 0]),
        )
        rows.append(row)
    return rows


def pairs_of_groups(group: IntArray, n_groups: int) -> list[GroupPair]:
    """Pairs that an audit compares: each group with the largest; two in their order."""
    sizes = np.bincount(group[group >= 0], minlength=n_groups)
    reference = 0 if n_groups == 2 else int(np.argmax(sizes))
    return [(reference, other) for other in range(n_groups) if other != reference]


def _p_values(
    among: Permutations, within_labels: Permutations, place: tuple[int, int]
) -> dict[str, Any]:
    """p-values of one setting and attack: groups drawn among all, and within labels."""
    return {
        "p_value": finite_or_none(among.cross_product[place]),
        "p_value_within_labels": finite_or_none(within_labels.cross_product[place]),
        "exposure_p_value": finite_or_none(among.exposure[place]),
        "exposure_p_value_within_labels": finite_or_none(within_labels.exposure[place]),
    }


def _attacks(attacked: Sequence[Attacked]) -> list[str]:
    """Names of the attacks that any setting has."""
    names: dict[str, None] = {}
    for result in attacked:
        names |= dict.fromkeys(result.exposure)
    return list(names)


def _permutation_tasks(
    first: SettingScores,
    attacked: Sequence[Attacked],
    pairs: Sequence[GroupPair],
    n_permutations: int,
) -> list[Task]:
    """Permutation tests of every pair among everybody, then of every pair by label."""
    nothing = np.full(len(first.group), np.nan)
    attacks = _attacks(attacked)
    of_settings = []
    for result in attacked:
        of_settings.append([result.exposure.get(name, nothing) for name in attacks])
    exposure: FloatArray = np.array(of_settings)
    benefit = np.array([result.benefit for result in attacked])
    tasks: list[Task] = []
    for strata in (None, first.labels):
        for pair in pairs:
            arguments = (exposure, benefit, first.group, pair, n_permutations, strata)
            tasks.append((permutation_tests, arguments))
    return tasks


def _error_tasks(
    settings: Sequence[SettingScores],
    pairs: Sequence[GroupPair],
    n_permutations: int,
    outcome: Outcome,
) -> list[Task]:
    """Permutation tests of wrong judgements, among the people who can meet them.

    Those are one label's: the positive rate among them is the rate of false positives,
    or 1 less that of false negatives.
    """
    first = settings[0]
    label = 0 if outcome == "harm" else 1
    codes = np.where(first.labels == label, first.group, -1)
    groups = Groups(codes, len(first.group_names))
    numbers = []
    for one in settings:
        rate, _ = record_rates(one.answers, one.labels, one.member, groups)
        numbers.append(groups.by_record(rate.value, rate.own))
    errors = np.array(numbers)
    nothing = np.zeros_like(errors)
    tasks: list[Task] = []
    for pair in pairs:
        arguments = (errors[:, None], nothing, codes, pair, n_permutations)
        tasks.append((permutation_tests, arguments))
    return tasks


def _alarm_tasks(
    attacked: Sequence[Attacked],
    coins: Divisions,
    pairs: Sequence[GroupPair],
    outcome: Outcome,
) -> list[Task]:
    """Audits of all placebo groupings: of errors, then one attack after the other."""
    families = []
    for start in range(0, len(coins) * coins.n_groups, coins.n_groups):
        families += [(start + first, start + second) for first, second in pairs]
    rates = [result.positive_rate for result in attacked]
    panels = [result.coins for result in attacked if result.coins is not None]
    of_errors = (panels, tuple(families), outcome, len(coins))
    tasks: list[Task] = [(_count_wrongly, of_errors)]
    for name in _attacks(attacked):
        arguments = (panels, rates, tuple(families), name, outcome, len(coins))
        tasks.append((_count_alarms, arguments))
    return tasks


def _count_wrongly(
    panels: Sequence[Panel],
    families: tuple[GroupPair, ...],
    outcome: Outcome,
    n_draws: int,
) -> IntArray:
    """(setting, pair) how many placebo groupings have different rates of errors."""
    alarms = wrongly_alarms(panels, families, outcome, n_families=n_draws)
    by_grouping = alarms.reshape(len(panels), n_draws, -1)
    return np.asarray(by_grouping.sum(axis=1))


def _count_alarms(
    panels: Sequence[Panel],
    rates: Sequence[FloatArray],
    families: tuple[GroupPair, ...],
    attack: str,
    outcome: Outcome,
    n_draws: int,
) -> dict[str, IntArray]:
    """(setting, pair) how many placebo groupings raise each alarm, by one attack.

    ``families`` are the pairs of all groupings, one grouping after the other; ``rates``
    are the (model, group) positive rates of the real groups.
    """
    with_coins = [_only(panel, attack) for panel in panels]
    with_real_benefits = []
    for panel, rate in zip(with_coins, rates, strict=True):
        with_real_benefits.append(replace(panel, positive_rate=np.tile(rate, n_draws)))
    by_attack = partial(alarms_of, attack=attack, outcome=outcome, n_families=n_draws)
    coin = by_attack(with_coins, families, Plan())
    real = by_attack(with_real_benefits, families, Plan(), only_double=True)

    shape = (len(panels), n_draws, len(families) // n_draws)
    either = coin.exposures_differ | coin.ratios_differ
    n_any = either.reshape(shape).any(axis=(0, 2)).sum()
    n_ratio = coin.ratios_differ.reshape(shape).sum(axis=1)
    return {
        "n_exposure": coin.exposures_differ.reshape(shape).sum(axis=1),
        "n_ratio": n_ratio,
        "n_double": (real.double_disadvantage >= 0).reshape(shape).sum(axis=1),
        "n_any": np.full_like(n_ratio, n_any),
        "n_outcomes": coin.benefits_differ.reshape(shape).sum(axis=1),
    }


def _only(panel: Panel, attack: str) -> Panel:
    """A panel of placebo groups with one attack's exposures, if it has them."""
    if attack not in panel.pooled:
        return replace(panel, pooled={})
    pooled = {attack: panel.pooled[attack]}
    return replace(panel, pooled=pooled, train=None, test=None)


def _against_exact(
    attacked: Attacked, attack: str, n_groups: int, pair: GroupPair
) -> dict[str, Any]:
    """How far differences to first order are from exact ones, in errors."""
    if attacked.coins is None or attack not in attacked.exact:
        return {}
    exact = attacked.exact[attack]
    quick = attacked.coins.pooled[attack]
    values = np.stack([division.value for division in exact])
    errors = np.stack([division.standard_error for division in exact])
    in_full = _in_errors(values, errors, pair)
    first_order = _in_errors(
        quick.value.reshape(-1, n_groups)[: len(exact)],
        quick.standard_error.reshape(-1, n_groups)[: len(exact)],
        pair,
    )
    with np.errstate(invalid="ignore"):
        off = first_order - in_full
    off = off[np.isfinite(off)]
    if not off.size:
        return {}
    return {"n_exact": len(off), "exact_difference": float(np.sqrt((off**2).mean()))}


def _in_errors(value: FloatArray, error: FloatArray, pair: GroupPair) -> FloatArray:
    """(division,) difference of a pair of groups, over its error."""
    first, second = pair
    with np.errstate(divide="ignore", invalid="ignore"):
        of_both = np.hypot(error[:, first], error[:, second])
        return np.asarray((value[:, second] - value[:, first]) / of_both)
