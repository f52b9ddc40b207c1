"""Which attacks and pairs does a plan mean, which attacks are missing or shared?

The audit and the planner ask for the plan as this release can carry it out
(``require_available``), its pairs, the attacks that decide and stronger ones; the
comparison of releases and the trend call ``choose_attack``. An attack decides by its
``strength`` in ``release/attack_kinds``; to add one: its row there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from pcer.errors import PlanError
from pcer.measuring.exposure import Pair, measure_panel
from pcer.measuring.plan import POSITIVE_RATE, SHARPEST, Plan
from pcer.release import attack_kinds
from pcer.release.attack_kinds import (
    ATTACK_KINDS,
    AUC_ADVANTAGE,
    GAP,
    SPENT,
    AttackKind,
    Basis,
    attack_kind,
    attack_named,
)
from pcer.release.panel import Panel, carried_attacks

Match = tuple[Panel, ...]  # a setting of the old release beside one of the new


def require_available(
    panels: tuple[Panel, ...], carried: Sequence[str], plan: Plan
) -> Plan:
    """The plan, its attack by the release's name; PlanError for what is missing."""
    first = panels[0]
    attacks = sorted({GAP.name, *carried})
    plan = plan.model_copy(update={"attack": attack_named(plan.attack, attacks)})
    if plan.attack not in (SHARPEST, *attacks):
        kind = ATTACK_KINDS.get(plan.attack)
        needs = ""
        if kind is not None:
            needs = f"; {kind.name} needs {kind.basis.format(n=kind.least_models)}"
        raise PlanError(
            f"attack {plan.attack!r} is not in this release; it carries "
            f"{', '.join(attacks)}{needs}."
        )
    if plan.benefit != POSITIVE_RATE and first.test is None:
        raise PlanError(
            f"benefit {plan.benefit!r} needs confusion counts, and this release has "
            "only rates; use positive_rate or ask the trainer for counts."
        )
    if plan.reference_group not in (None, *first.group_names):
        raise PlanError(
            f"reference group {plan.reference_group!r} is not a group of this release; "
            f"its groups are {', '.join(first.group_names)}."
        )
    return plan


def pairs_of(panels: tuple[Panel, ...], plan: Plan) -> tuple[Pair, ...]:
    """Which groups are compared, the reference first.

    The reference is the group that the plan names; else of two groups the first, as in
    the paper, and of more the largest.
    """
    names = panels[0].group_names
    if plan.reference_group is not None:
        reference = names.index(plan.reference_group)
    elif len(names) == 2:
        reference = 0
    else:
        sizes = [panel.n_train + panel.n_test for panel in panels]
        mean_size = np.concatenate(sizes).mean(axis=0)
        reference = 0 if np.isnan(mean_size).any() else int(np.argmax(mean_size))
    others = [group for group in range(len(names)) if group != reference]
    return tuple((reference, other) for other in others)


def deciding_attacks(panels: Sequence[Panel], plan: Plan) -> tuple[str, ...]:
    """The plan's attack; or the strongest of each kind.

    Where nothing is paired, the plain gap from counts keeps its share beside scores of
    one model, which may be near their ceiling; without counts the plain AUC does. Which
    fields are there decides, never their values. A user's own attacks come just before
    the plain AUC.
    """
    if plan.attack != SHARPEST:
        return (plan.attack,)
    carried = carried_attacks(panels)
    own = [attack_kind(name) for name in carried if name.endswith(attack_kinds.OWN)]
    advantages, paired = _both_kinds([*ATTACK_KINDS.values(), *own])
    advantage = _first_carried(panels, plan, advantages)
    beside = _first_carried(panels, plan, paired)
    if beside is None and advantage is not None and not advantage.is_calibrated:
        beside = _plain(panels, plan, advantage)
    strongest = [kind.name for kind in (advantage, beside) if kind is not None]
    return tuple(dict.fromkeys(strongest)) or (GAP.name,)


def _first_carried(
    panels: Sequence[Panel], plan: Plan, kinds: Iterable[AttackKind]
) -> AttackKind | None:
    """The first of some attacks that every setting has; None if it has none."""
    for kind in kinds:
        if is_carried(panels, plan, kind):
            return kind
    return None


def _plain(
    panels: Sequence[Panel], plan: Plan, advantage: AttackKind
) -> AttackKind | None:
    """The gap, where every setting has counts of all groups; else the plain AUC.

    The gap has no least number of records: where some group has too few for the
    advantage, it is no second chance.
    """
    for panel in panels:
        if not measure_panel(panel, plan, advantage.name).has_enough_records.all():
            return None
    gaps = [measure_panel(panel, plan, GAP.name).exposed for panel in panels]
    if all(gap is not None for gap in gaps):
        return GAP
    return _first_carried(panels, plan, [AUC_ADVANTAGE])


def _by_strength(kinds: Iterable[AttackKind]) -> list[AttackKind]:
    """Attacks that may decide, strongest first."""
    able = [kind for kind in kinds if kind.strength]
    return sorted(able, key=lambda kind: -kind.strength)


def _both_kinds(
    kinds: Iterable[AttackKind],
) -> tuple[list[AttackKind], list[AttackKind]]:
    """Advantages over a coin, and paired attacks, each strongest first.

    One of each kind decides: an advantage near its ceiling cannot show differences, and
    a paired attack misses weak ones that concern everybody.
    """
    ordered = _by_strength(kinds)
    advantages = [kind for kind in ordered if not kind.is_paired]
    paired = [kind for kind in ordered if kind.is_paired]
    return advantages, paired


def with_values(panels: Sequence[Panel]) -> list[str]:
    """Attacks by which some group has an exposure; what training spent is none."""
    names = [name for name in carried_attacks(panels) if name != SPENT.name]
    return [name for name in names if is_carried(panels, Plan(), attack_kind(name))]


def is_carried(panels: Iterable[Panel], plan: Plan, attack: AttackKind) -> bool:
    """Whether every setting has the attack, with errors, for large enough groups."""
    if attack is GAP:
        return True
    for panel in attacked(panels):
        measured = measure_panel(panel, plan, attack.name)
        if measured.exposed is None or not measured.has_enough_records.any():
            return False
    return True


def attacked(panels: Iterable[Panel]) -> list[Panel]:
    """Settings with any attack, if some have: others tell of outcomes alone."""
    every = [*panels]
    return [panel for panel in every if panel.exposure or panel.pooled] or every


def stronger_attacks(
    panels: Sequence[Panel],
    plan: Plan,
    deciding: Sequence[str],
    not_computed: Mapping[str, str],
) -> list[tuple[AttackKind, str | None]]:
    """Attacks stronger than those that decide, for which there are splits enough.

    Only those that more splits make possible; others need reference models. One that is
    released, but of too few records, is not missing. Beside each stands why the release
    has not computed it, None if it does not say.
    """
    if plan.attack != SHARPEST:
        return []
    n_splits = min(panel.n_splits for panel in panels)
    missing = []
    of_splits = []
    for kind in ATTACK_KINDS.values():
        is_of_tables = kind.basis is Basis.TABLES and kind.name in deciding
        if kind.basis is Basis.MODELS or is_of_tables:
            of_splits.append(kind)
    for kinds in _both_kinds(of_splits):
        for kind in kinds:
            if kind.name in deciding:
                break
            if n_splits >= kind.least_models and not _is_released(panels, kind):
                missing.append((kind, not_computed.get(kind.name)))
    return missing


def _is_released(panels: Sequence[Panel], kind: AttackKind) -> bool:
    """Whether every setting has its values over all models, of few records or many."""
    rows = [panel.pooled.get(kind.name) for panel in attacked(panels)]
    return all(
        row is not None and bool(np.isfinite(row.value + row.standard_error).all())
        for row in rows
    )


def choose_attack(matches: Sequence[Match], attack: str | None) -> AttackKind:
    """The attack named, or the strongest that all releases carry for everyone.

    Attacks that calibrate each record by the other models need as many models in each
    release: more of them make a stronger attack, not a worse model.
    """
    sides = [*zip(*matches, strict=True)]
    as_many = all(_have_as_many_models(match) for match in matches)
    if attack is None or attack == SHARPEST:
        return _strongest_shared(sides, as_many=as_many)

    named = attack_kind(attack_named(attack, carried_attacks(chain(*sides))))
    for n, side in enumerate(sides, 1):
        if not is_carried(side, Plan(), named):
            raise PlanError(
                f"release {n} of {len(sides)} does not carry {named.name}, with an "
                "error, for every setting and group; name an attack that all have."
            )
    if named.is_calibrated and not as_many:
        raise PlanError(
            f"{named.name} calibrates each record by the other models, and the "
            "releases have different numbers of them: more splits make a stronger "
            "attack, not a worse model; name another attack."
        )
    return named


def _have_as_many_models(match: Match) -> bool:
    sizes = {(panel.n_splits, len(panel.seeds)) for panel in match}
    return len(sizes) == 1


def _strongest_shared(sides: Sequence[Match], *, as_many: bool) -> AttackKind:
    for kind in _by_strength(ATTACK_KINDS.values()):
        is_fair = as_many or not kind.is_calibrated
        if is_fair and all(is_carried(side, Plan(), kind) for side in sides):
            return kind
    return GAP
