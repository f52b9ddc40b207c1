"""Which attacks decide, which stronger ones are missing, which do two releases share?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from pcer.errors import PlanError
from pcer.measuring.evidence import Tested
from pcer.measuring.measure import measure_panel
from pcer.measuring.plan import SHARPEST, Plan
from pcer.release import attack_kinds
from pcer.release.attack_kinds import GAP, Proxy, attack_named, proxy_named
from pcer.release.panel import Panel, carried_costs

ADVANTAGES = (
    attack_kinds.RMIA,
    attack_kinds.LIRA,
    attack_kinds.REFERENCE,
    attack_kinds.AUC_ADVANTAGE,
)
# Attacks that may decide, strongest first: one of each. An advantage near its ceiling
# cannot show differences, and a paired attack misses weak ones that concern everybody.
PAIRED = (attack_kinds.PAIRED_CONFIDENCE, attack_kinds.PAIRED_GAP)


def deciding_attacks(panels: Sequence[Panel], plan: Plan) -> tuple[str, ...]:
    """The plan's attack; or the strongest carried advantage and paired attack, else the gap.

    Which fields are there decides, never their values.
    """
    if plan.cost != SHARPEST:
        return (plan.cost,)
    own = [
        proxy_named(name)
        for name in carried_costs(panels)
        if name.endswith(attack_kinds.OWN)
    ]
    firsts = (
        next((proxy.name for proxy in kind if is_carried(panels, plan, proxy)), None)
        for kind in ((*ADVANTAGES[:-1], *own, ADVANTAGES[-1]), PAIRED)
    )
    return tuple(name for name in firsts if name is not None) or (GAP.name,)


def is_carried(panels: Sequence[Panel], plan: Plan, cost: Proxy) -> bool:
    """Whether every setting has it, with errors, for every group that is large enough."""
    each = (measure_panel(panel, plan, cost.name) for panel in panels)
    return cost is GAP or all(
        m.exposed is not None and bool(m.enough.any()) for m in each
    )


def stronger_attacks(tested: Tested) -> list[tuple[Proxy, str | None]]:
    """Attacks stronger than those that decide, for which there are splits; why each is absent."""
    n_splits = min(panel.n_splits for panel in tested.panels)
    found = []
    for kinds in (ADVANTAGES, PAIRED) if tested.plan.cost == SHARPEST else ():
        used = next(
            (k for k, proxy in enumerate(kinds) if proxy.name in tested.attacks), 2
        )
        possible = (
            each for each in kinds[: min(used, 2)] if n_splits >= each.least_models
        )
        found += [
            (proxy, tested.release.not_computed.get(proxy.name)) for proxy in possible
        ]
    return found


Match = tuple[Panel, ...]  # a setting of the old release beside one of the new


def choose_attack(matches: Sequence[Match], cost: str | None) -> Proxy:
    """The attack named, or the strongest comparable one that all carry for everyone."""
    sides = [*zip(*matches, strict=True)]
    sizes = (
        {(panel.n_splits, len(panel.seeds)) for panel in match} for match in matches
    )
    as_many = all(len(size) == 1 for size in sizes)
    if cost in (None, SHARPEST):
        for proxy in (
            *ADVANTAGES[:2],
            *PAIRED,
            *ADVANTAGES[2:],
        ):
            is_fair = as_many or proxy not in attack_kinds.BY_SHADOWS
            if is_fair and all(is_carried(side, Plan(), proxy) for side in sides):
                return proxy
        return GAP
    named = proxy_named(attack_named(str(cost), carried_costs(chain(*sides))))
    for n, side in enumerate(sides, 1):
        if not is_carried(side, Plan(), named):
            raise PlanError(
                f"release {n} of {len(sides)} does not carry {named.name}, with an error, for "
                "every setting and group; name an attack that all have."
            )
    if named in attack_kinds.BY_SHADOWS and not as_many:
        raise PlanError(
            f"{named.name} calibrates each record by the other models, and the releases have "
            "different numbers of them: more splits make a stronger attack, not a worse model; "
            "name another attack."
        )
    return named
