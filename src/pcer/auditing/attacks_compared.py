"""What does every carried attack say, put to the same tests?"""

from __future__ import annotations

from collections import Counter

import numpy as np

from pcer import metrics, statistics
from pcer.auditing import record
from pcer.measuring.choose_attacks import stronger_attacks
from pcer.measuring.evidence import Evidence, Tested
from pcer.measuring.measure import number
from pcer.measuring.plan import SHARPEST
from pcer.release.attack_kinds import GAP, LIRA, proxy_named
from pcer.statistics import SIGNIFICANCE
from pcer.wording import capital, listed, say


def choice_words(tested: Tested) -> str:
    """How the attacks were chosen, and which stronger one is missing."""
    release = tested.release
    attacks = tested.attacks
    chosen = listed([proxy_named(attack).phrase for attack in attacks])
    if tested.plan.cost != SHARPEST:
        return say("choice", "planned", attacks=chosen)
    text = [say("choice", "chosen", attacks=chosen, s="s" * (len(attacks) > 1))]
    silent = []
    for proxy, reason in stronger_attacks(tested):
        silent += [proxy.phrase] if reason is None else []
        if reason is not None:
            facts = {"attack": capital(proxy.label), "reason": reason.rstrip(".")}
            text.append(say("choice", "not_computed", **facts))
    text += [say("choice", "silent", attack=attack) for attack in silent[:1]]
    # records that attacks could not score in some model, in the setting where they are
    # most
    excluded = Counter[tuple[str, str | None, float | None]]()
    for row in release.pooled_exposure:
        excluded[row.proxy, row.model, row.epsilon] += row.n_excluded or 0
    most = {
        a: max((n for key, n in excluded.items() if key[0] == a), default=0)
        for a in attacks
    }
    if left_out := [
        f"{proxy_named(attack).phrase} {n:,}" for attack, n in most.items() if n
    ]:
        text.append(say("choice", "left_out", records=listed(left_out)))
    if release.version < 3 and LIRA.name in tested.measured:
        text.append(say("choice", "old_lira"))
    return " ".join(text)


def cost_stories(tested: Tested, alone: dict[str, Evidence]) -> list[record.CostStory]:
    """Every carried attack with its remaining alarms: deciding ones first, then by name."""
    names = [*tested.attacks, *sorted(set(alone) - set(tested.attacks))]
    gaps = (m for m in tested.measured[GAP.name] if m.panel.has_sizes)
    if tested.cost != GAP.name and not any(np.isfinite(m.cost).any() for m in gaps):
        names.remove(GAP.name)  # no counts, no gap
    found = [alone[name] for name in names]
    kinds = [(each.exposure.p_value, each.cross.p_value, each.cost_p) for each in found]
    smallest = np.array(
        [[np.nanmin([*np.ravel(p), np.inf]) for p in each] for each in kinds]
    ).T
    smallest[np.isinf(smallest)] = np.nan
    over_costs = np.stack([statistics.holm(p) for p in smallest]).T
    first, second = np.array(tested.pairs, dtype=np.int64).T
    stories = []
    for k, (name, (exposure_p, ratio_p, _)) in enumerate(
        zip(names, over_costs, strict=True)
    ):
        evidence = alone[name]
        groups = tested.panels[0].group_names
        # what Holm over attacks makes of the smallest p-value, it makes of all of the
        # attack
        share = metrics.quotient(
            smallest[:, k], over_costs[k], otherwise=1 / len(names)
        )
        is_detected = evidence.resolved & (evidence.cost_p <= SIGNIFICANCE * share[2])
        differs = evidence.exposures_differ & (
            evidence.exposure.p_value <= SIGNIFICANCE * share[0]
        )
        by_ratio = evidence.ratios_differ & (
            evidence.cross.p_value <= SIGNIFICANCE * share[1]
        )
        lower = np.where(evidence.cross.value > 0, second, first)
        exposed = differs if exposure_p <= SIGNIFICANCE else evidence.exposures_differ
        chosen = {
            "more_exposed": evidence.more_exposed[exposed],
            "lower_ratio": lower[
                by_ratio if ratio_p <= SIGNIFICANCE else evidence.ratios_differ
            ],
            "double_disadvantage": evidence.double[exposed & (evidence.double >= 0)],
        }
        stories.append(
            record.CostStory(
                cost=name,
                n_cells=evidence.n_cost_tests,
                n_resolved=int(evidence.resolved.sum()),
                p_value=number(smallest[0, k]),
                p_value_over_costs=number(exposure_p),
                ratio_p_over_costs=number(ratio_p),
                detected_in=np.flatnonzero(is_detected.any(axis=1)).tolist(),
                differs_in=np.flatnonzero(differs.any(axis=1)).tolist(),
                **{
                    what: [groups[g] for g in np.unique(of)]
                    for what, of in chosen.items()
                },
            )
        )
    return stories
