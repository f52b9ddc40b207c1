"""Rows of ``placebo``: how far an alarm about groups can be trusted, from whoever has the records.

Two hundred attributes are drawn by coin flip, with groups of the same sizes, and every one of them
is put through the audit's own tests, for every setting and every cost. None of them has anything to
do with what the models remember: how many raise an alarm? For double disadvantage, whose first half
is a real difference of benefits, the coin decides exposures alone and benefits stay as they are.
Beside that stand permutation tests of the real attribute.

Everything follows from the records, the models and a fixed seed: no clock, no number of processes
and no value of a group changes a draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pcer.attacks.divisions import Divisions, divided_panel
from pcer.attacks.exposure import ExposedSetting, pooled_attacks_of, run_attacks_of
from pcer.attacks.groups import BudgetScores, Views
from pcer.attacks.placebo import (
    DRAWS,
    PLACEBOS,
    Permutations,
    PermutationTest,
    Records,
    permutation_tests,
    placebo_groupings,
)
from pcer.auditing import Alarms, Plan, alarms
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.release.format import Outcome, Placebo
from pcer.release.panel import Panel, PooledExposures

SEED = 0
"""Of all draws: whoever has the records can make them again."""

LEAST_PLACEBOS = 100
"""With fewer coin flips nothing is said of how often they alarm."""

MOST_ENTRIES = 400_000
"""Records times groups less one: beyond that, coin flips are not checked."""

FEWEST_EXACT, MOST_EXACT = 5, 20
"""Coin flips that are also attacked exactly, to see how far first order is off; or none are."""

EXACT_ENTRIES = 2_000_000
"""Records times models times settings times such coin flips, at most: they cost as much as a
hundredth of a sweep each."""

MOST_TRIES = 10
"""Times as many coin flips as are wanted, before groups are called too small for them."""

NOT_COMPUTED = "placebo"
"""What ``not_computed`` calls this check."""

CHECKING = "checking with coin flips"
"""What a progress display calls it."""

GroupPair = tuple[int, int]
Codes = npt.NDArray[np.int16]
CoinTask = tuple[Callable[..., Any], tuple[Any, ...]]
TaskRunner = Callable[[Sequence[CoinTask]], Iterable[Any]]


class CoinDraws(NamedTuple):
    """Coin-flip attributes (division, record), or why there are none.

    The first ``n_exact`` are attacked exactly, too.
    """

    codes: Codes | None
    reason: str | None = None
    n_exact: int = 0

    @property
    def divisions(self) -> Divisions | None:
        """What sums over their groups are made with."""
        if self.codes is None:
            return None
        return Divisions(self.codes, 1 + int(self.codes.max()), self.n_exact)


class CheckedCoins(NamedTuple):
    """Rows of a release, or why there are none."""

    rows: list[Placebo]
    not_computed: dict[str, str]


def check_with_coins(
    settings: Sequence[ExposedSetting],
    *,
    outcome: Outcome,
    draws: CoinDraws | None = None,
    n_permutations: int = DRAWS,
    run: TaskRunner | None = None,
) -> CheckedCoins:
    """Put coin flips through the audit, and permute the real attribute.

    Args:
        settings: all of one attribute, and of the same records in the same order.
        outcome: whether a positive prediction is a benefit or a harm.
        draws: the coin flips; drawn here if None.
        n_permutations: divisions of every pair.
        run: calls tasks, perhaps several at a time, and gives their results in order.
    """
    draws = draw_coins([one.scores for one in settings]) if draws is None else draws
    if draws.codes is None:
        return no_coins(str(draws.reason))
    run = _one_by_one if run is None else run
    check = _Check(_with_panels(settings, draws, run), len(draws.codes))
    results = iter(run([*check.permutations(n_permutations), *check.alarms(outcome)]))
    permuted = [[next(results) for _ in check.pairs] for _ in range(2)]
    counted = [next(results) for _ in check.costs]
    return CheckedCoins([*check.rows(permuted, counted, n_permutations)], {})


def no_coins(reason: str) -> CheckedCoins:
    """No rows, for a reason."""
    return CheckedCoins([], {NOT_COMPUTED: reason})


def draw_coins(scores: Sequence[BudgetScores], *, n_draws: int = PLACEBOS) -> CoinDraws:
    """Coin-flip attributes that could have been released, with groups of the same sizes.

    A release has no group that is empty in a part of a split, so such divisions are drawn anew. How
    many are attacked exactly follows from the number of records, models and settings.

    Args:
        scores: of every setting, all beside the same attribute.
        n_draws: how many are wanted; between 100 and so many are given.
    """
    group, n_groups = scores[0].group, len(scores[0].group_names)
    if len(group) * (n_groups - 1) > MOST_ENTRIES:
        return CoinDraws(
            None,
            f"coin flips are checked for up to {MOST_ENTRIES:,} records times groups less one, and "
            f"there are {len(group):,} times {n_groups - 1}",
        )
    splits = {row.tobytes(): row for one in scores for row in one.member}
    found = _draw(group, n_groups, np.array([*splits.values()]), n_draws)
    if len(found) < min(n_draws, LEAST_PLACEBOS):
        reason = "some group is so small that coin flips leave a part of some split without it"
        return CoinDraws(None, reason)
    n_exact = min(MOST_EXACT, EXACT_ENTRIES // sum(one.member.size for one in scores))
    return CoinDraws(found, n_exact=n_exact if n_exact >= FEWEST_EXACT else 0)


def coin_panel(
    scores: BudgetScores,
    divisions: Divisions,
    costs: Mapping[str, PooledExposures],
    *,
    epsilon: float,
    model: str | None = None,
) -> Panel:
    """What an audit would see of coin flips in one setting.

    Args:
        scores: the models of the setting.
        divisions: the coin flips.
        costs: what ``run_attacks_of`` and ``pooled_attacks_of`` found of them.
        epsilon: of the setting.
        model: of the setting.
    """
    panel = divided_panel(Views([scores]), divisions, epsilon=epsilon)
    return replace(panel, pooled=dict(costs), model=model)


class _Check:
    """One attribute whose settings have their panels."""

    def __init__(self, settings: Sequence[ExposedSetting], n_draws: int) -> None:
        self.settings, self.n_draws = settings, n_draws
        self.costs = list(dict.fromkeys(cost for one in settings for cost in one.exposure))
        scores = settings[0].scores
        self.labels, self.group, self.names = scores.labels, scores.group, scores.group_names
        self.pairs = pairs_of_groups(self.group, len(self.names))

    def permutations(self, n_draws: int) -> Iterator[CoinTask]:
        """Tasks: among everybody and within labels, pair by pair."""
        records = Records.stacked(
            [one.exposure for one in self.settings],
            [one.benefit for one in self.settings],
            self.group,
            self.costs,
        )
        for strata in (None, self.labels):
            for pair in self.pairs:
                yield _permuted, (records, pair, strata, n_draws)

    def alarms(self, outcome: Outcome) -> Iterator[CoinTask]:
        """Tasks: cost by cost."""
        rates = [_real_rates(one.scores) for one in self.settings]
        families = _families(self.pairs, len(self.names), self.n_draws)
        for cost in self.costs:
            panels = [_only(one.panel, cost) for one in self.settings if one.panel is not None]
            yield _counted_alarms, (panels, rates, families, cost, outcome, self.n_draws)

    def rows(
        self,
        permuted: Sequence[Sequence[Permutations]],
        counted: Sequence[_CountedAlarms],
        n_permutations: int,
    ) -> Iterator[Placebo]:
        """Setting by setting, cost by cost, pair by pair."""
        for s, setting in enumerate(self.settings):
            for c, cost in enumerate(self.costs):
                if cost not in setting.exposure:
                    continue
                for p, (i, j) in enumerate(self.pairs):
                    among, within = (_p_value(tests[p].cross_product, s, c) for tests in permuted)
                    apart, apart_within = (_p_value(tests[p].exposure, s, c) for tests in permuted)
                    n_exact, difference = self._against_exact(setting, cost, (i, j))
                    yield Placebo(
                        model=setting.model,
                        epsilon=None if math.isinf(setting.epsilon) else setting.epsilon,
                        proxy=cost,
                        groups=[self.names[i], self.names[j]],
                        n_draws=self.n_draws,
                        n_shown=int(counted[c].shown[s, p]),
                        n_double=int(counted[c].double[s, p]),
                        p_value=among,
                        p_value_within_labels=within,
                        n_permutations=n_permutations,
                        n_exposure=int(counted[c].differ[s, p]),
                        exposure_p_value=apart,
                        exposure_p_value_within_labels=apart_within,
                        n_exact=n_exact,
                        exact_difference=difference,
                    )

    def _against_exact(
        self, setting: ExposedSetting, cost: str, pair: GroupPair
    ) -> tuple[int | None, float | None]:
        """Coin flips attacked exactly, and by how many errors first order is off, on average.

        Nothing of costs that are exact for every coin flip.
        """
        if setting.panel is None or cost not in setting.exact:
            return None, None
        exact = _in_errors(setting.exact[cost], len(self.names), pair)
        off = _in_errors(setting.panel.pooled[cost], len(self.names), pair)[: len(exact)] - exact
        off = off[np.isfinite(off)]
        return (len(off), float(np.sqrt((off**2).mean()))) if off.size else (None, None)


class _CountedAlarms(NamedTuple):
    """How many coin flips alarmed; arrays (setting, pair)."""

    shown: IntArray
    double: IntArray
    differ: IntArray


def _in_errors(found: PooledExposures, n_groups: int, pair: GroupPair) -> FloatArray:
    """(division,) second minus first exposure of a pair over its error."""
    value, error = (one.reshape(-1, n_groups) for one in (found.value, found.standard_error))
    i, j = pair
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((value[:, j] - value[:, i]) / np.hypot(error[:, i], error[:, j]))


def pairs_of_groups(group: IntArray, n_groups: int) -> list[GroupPair]:
    """Which groups an audit compares by itself: all with the largest; of two, in their order.

    >>> pairs_of_groups(np.array([0, 1, 1, 2]), 3)
    [(1, 0), (1, 2)]
    """
    sizes = np.bincount(group[group >= 0], minlength=n_groups)
    reference = 0 if n_groups == 2 else int(np.argmax(sizes))
    return [(reference, other) for other in range(n_groups) if other != reference]


def _draw(group: IntArray, n_groups: int, member: BoolArray, n_draws: int) -> Codes:
    """(division, record) as many as were found; ``member`` is (split, record)."""
    rng = np.random.default_rng(SEED)
    kept = np.zeros((0, len(group)), dtype=np.int16)
    for _ in range(MOST_TRIES):
        drawn = np.array(list(placebo_groupings(group, n_draws, rng)), dtype=np.int16)
        divisions = Divisions(drawn, n_groups)
        trained = divisions.sums(member)
        whole = ((trained > 0) & (trained < divisions.sizes)).all(axis=0)
        kept = np.concatenate([kept, drawn[whole.reshape(-1, n_groups).all(axis=1)]])
        if len(kept) >= n_draws:
            break
    return kept[:n_draws]


def _with_panels(
    settings: Sequence[ExposedSetting], draws: CoinDraws, run: TaskRunner
) -> list[ExposedSetting]:
    """The same; what was not attacked together with its coin flips is attacked again."""
    missing = [one for one in settings if one.panel is None]
    made = iter(run([(_attacked_coins, (one, draws)) for one in missing]))
    return [replace(one, **next(made)) if one.panel is None else one for one in settings]


def _attacked_coins(setting: ExposedSetting, draws: CoinDraws) -> dict[str, Any]:
    """``panel`` and ``exact`` of the setting."""
    divisions, scores, epsilon = draws.divisions, setting.scores, setting.epsilon
    assert divisions is not None
    (single,) = run_attacks_of([scores], epsilon=epsilon, coins=[divisions])
    (pooled,) = pooled_attacks_of([scores], epsilon=epsilon, coins=[divisions])
    costs = single.coins | pooled.coins
    panel = coin_panel(scores, divisions, costs, epsilon=epsilon, model=setting.model)
    return {"panel": panel, "exact": pooled.exact}


def _permuted(
    records: Records, pair: GroupPair, strata: IntArray | None, n_draws: int
) -> Permutations:
    """Whether exposures, and benefits per exposure, differ by more than those of random groups."""
    return permutation_tests(records, [pair], seed=SEED, n_draws=n_draws, strata=strata)


def _p_value(test: PermutationTest, setting: int, cost: int) -> float | None:
    p = float(test.adjusted_over_costs[setting, cost, 0])
    return p if math.isfinite(p) else None


def _real_rates(scores: BudgetScores) -> FloatArray:
    """(model, group) positive rates of the real groups on test records."""
    names = np.arange(len(scores.group_names))
    inside = np.equal(scores.group[:, None], names).astype(np.float32)  # whole: sums are exact
    tested = ~scores.member
    accepted = tested & Views([scores]).predicted
    positive, n = (part.astype(np.float32) @ inside for part in (accepted, tested))
    return np.asarray(positive.astype(np.float64) / n)


def _families(pairs: Sequence[GroupPair], n_groups: int, n_draws: int) -> tuple[GroupPair, ...]:
    """The pairs of every coin flip, one after the other, as sets of ``Divisions``."""
    starts = range(0, n_draws * n_groups, n_groups)
    return tuple((start + i, start + j) for start in starts for i, j in pairs)


def _only(panel: Panel, cost: str) -> Panel:
    """What the audit of one cost looks at; where that is a row, its counts need not travel."""
    if cost not in panel.pooled:
        return replace(panel, pooled={})
    return replace(panel, pooled={cost: panel.pooled[cost]}, train=None, test=None)


def _counted_alarms(
    panels: Sequence[Panel],
    rates: Sequence[FloatArray],
    families: tuple[GroupPair, ...],
    cost: str,
    outcome: Outcome,
    n_draws: int,
) -> _CountedAlarms:
    """How many coin flips alarm, in both ways, by one cost."""

    def found(seen: Sequence[Panel]) -> Alarms:
        return alarms(seen, families, Plan(), cost=cost, outcome=outcome, n_families=n_draws)

    beside = [
        replace(panel, positive_rate=np.tile(rate, n_draws))
        for panel, rate in zip(panels, rates, strict=True)
    ]
    alone = found(panels)
    return _CountedAlarms(
        shown=_by_pair(alone.shown, n_draws),
        double=_by_pair(found(beside).double >= 0, n_draws),
        differ=_by_pair(alone.differ, n_draws),
    )


def _by_pair(alarmed: BoolArray, n_draws: int) -> IntArray:
    """(setting, pair) how many families alarmed."""
    by_family = alarmed.reshape(len(alarmed), n_draws, -1)
    return np.asarray(by_family.sum(axis=1, dtype=np.int64))


def _one_by_one(tasks: Sequence[CoinTask]) -> Iterator[Any]:
    return (function(*arguments) for function, arguments in tasks)
