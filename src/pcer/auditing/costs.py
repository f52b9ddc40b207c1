"""Which cost an audit rests on, and what the others say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pcer.auditing.caps import Capped
from pcer.auditing.file import CostStory
from pcer.auditing.measure import ADVANTAGES, PAIRED, Measured, Pair
from pcer.auditing.plan import SHARPEST, Plan
from pcer.auditing.words import listed
from pcer.metrics import IntArray
from pcer.release import proxies
from pcer.release.format import Release
from pcer.release.panel import Panel, carried_costs
from pcer.release.proxies import Proxy, proxy_named
from pcer.statistics import holm


def why(release: Release, panels: Sequence[Panel], plan: Plan, attacks: Sequence[str]) -> str:
    """How the attacks were chosen, and which stronger one is missing."""
    chosen = listed([proxy_named(attack).phrase for attack in attacks])
    if plan.cost != SHARPEST:
        return f"Exposure is measured by {chosen}, as the plan says."
    kind = "attacks" if len(attacks) > 1 else "attack"
    said = [f"Exposure is measured by {chosen}, the strongest {kind} available for every group."]
    missing = [
        one
        for one in (*ADVANTAGES[:2], *PAIRED)
        if one.name not in attacks
        and not any(_is_weaker(one, attack) for attack in attacks)
        and min(panel.n_splits for panel in panels) >= one.least_models
    ]
    said += [
        f"{one.label[0].upper()}{one.label[1:]} was not computed: "
        f"{release.not_computed[one.name].rstrip('.')}."
        for one in missing
        if one.name in release.not_computed
    ]
    silent = [one for one in missing if one.name not in release.not_computed]
    if silent:
        said.append(
            f"There are splits enough for {silent[0].short}, a stronger attack; so what is not "
            "detected here says little."
        )
    said += _left_out(release, [one for one in attacks if one in panels[0].pooled])
    if release.version < 3 and proxies.LIRA.name in carried_costs(panels):
        said.append("LiRA was computed by the rule of version 0.2.0.dev0.")
    return " ".join(said)


def _left_out(release: Release, attacks: Sequence[str]) -> Iterator[str]:
    """Records that attacks could not score in some model, in the setting where they are most."""
    counts = Counter[tuple[str, str | None, float | None]]()
    for row in release.pooled_exposure:
        counts[row.proxy, row.model, row.epsilon] += row.n_excluded or 0
    most = {attack: max(n for key, n in counts.items() if key[0] == attack) for attack in attacks}
    found = [f"{proxy_named(attack).phrase} {n:,}" for attack, n in most.items() if n]
    if found:
        yield (
            f"Records left out for want of other models trained with or without them: "
            f"{listed(found)}."
        )


def _is_weaker(one: Proxy, attack: str) -> bool:
    """Whether an attack of the same kind that is at least as strong decides already."""
    kind = ADVANTAGES if one in ADVANTAGES else PAIRED
    names = [each.name for each in kind]
    return attack in names and names.index(attack) < names.index(one.name)


def cost_stories(
    measured: Mapping[str, Sequence[Measured]],
    found: Mapping[str, Capped],
    pairs: tuple[Pair, ...],
    attacks: Sequence[str],
) -> list[CostStory]:
    """Every carried attack alone: those that decide first, then by name."""
    names = [*attacks, *sorted(set(found) - set(attacks))]
    alone = np.array([found[name].evidence.smallest_p for name in names])
    together = holm(np.where(_tested(names, found), alone, np.nan))
    return [
        _story(measured[name], found[name], pairs, name, (p, q), is_main=name == attacks[0])
        for name, p, q in zip(names, alone.tolist(), together.tolist(), strict=True)
    ]


def _tested(names: Sequence[str], found: Mapping[str, Capped]) -> list[bool]:
    return [bool(np.isfinite(found[name].evidence.exposure_p).any()) for name in names]


def _story(
    measured: Sequence[Measured],
    found: Capped,
    pairs: tuple[Pair, ...],
    cost: str,
    p: tuple[float, float],
    *,
    is_main: bool,
) -> CostStory:
    names, evidence = measured[0].panel.group_names, found.evidence
    first, second = np.array(pairs, dtype=np.int64).T
    lower = np.where(evidence.cross > 0, second, first)
    is_known = bool(np.isfinite(p[1]))
    return CostStory(
        cost=cost,
        is_main=is_main,
        n_cells=evidence.n_cost_tests,
        n_resolved=int(evidence.resolved.sum()),
        more_exposed=_named(names, evidence.more_exposed[found.exposures_differ]),
        lower_ratio=_named(names, lower[found.shown]),
        double_disadvantage=_named(names, found.double[found.double >= 0]),
        p_value=p[0] if is_known else None,
        p_value_over_costs=p[1] if is_known else None,
    )


def _named(names: Sequence[str], groups: IntArray) -> list[str]:
    return [names[group] for group in np.unique(groups).tolist()]
