"""What does every carried attack say, put to the same tests?

One or two attacks decide an audit; ``attack_stories`` tells what the others would have
said, corrected for their number, and ``choice_words`` why those decide. ``audit`` calls
both. An attack comes in by its row in release/attack_kinds.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pcer import metrics, statistics
from pcer.auditing.record import AttackStory
from pcer.measuring.evidence import Evidence
from pcer.measuring.plan import SHARPEST
from pcer.measuring.tested import Tested
from pcer.metrics import IntArray
from pcer.release.attack_kinds import GAP, AttackKind, attack_kind
from pcer.release.file import Release
from pcer.release.panel import Panel
from pcer.statistics import SIGNIFICANCE, finite_or_none
from pcer.wording import capital, listed, plural_ending, say


def choice_words(
    tested: Tested, stronger: Sequence[tuple[AttackKind, str | None]]
) -> str:
    """How the attacks were chosen, and which ``stronger`` ones are missing, and why."""
    attacks = tested.attacks
    chosen = listed([attack_kind(attack).phrase for attack in attacks])
    if tested.plan.attack != SHARPEST:
        return say("choice", "planned", attacks=chosen)

    ending = plural_ending(len(attacks))
    sentences = [say("choice", "chosen", attacks=chosen, s=ending)]
    unexplained = []
    for attack_name, reason in stronger:
        if reason is None:
            unexplained.append(attack_name.phrase)
            continue
        attack = capital(attack_name.label)
        why = reason.rstrip(".")
        sentences.append(say("choice", "not_computed", attack=attack, reason=why))
    if unexplained:
        sentences.append(say("choice", "silent", attack=unexplained[0]))

    n_excluded = _most_excluded(tested.release)
    left_out = [
        f"{attack_kind(attack).phrase} {n_excluded[attack]:,}"
        for attack in attacks
        if n_excluded[attack] > 0
    ]
    if left_out:
        sentences.append(say("choice", "left_out", records=listed(left_out)))
    return " ".join(sentences)


def _most_excluded(release: Release) -> Counter[str]:
    """By attack, records that it could not score: of the setting with the most."""
    by_setting = Counter[tuple[str, str | None, float | None]]()
    for row in release.pooled_exposure:
        by_setting[row.attack, row.model, row.epsilon] += row.n_excluded or 0

    most = Counter[str]()
    for (attack, _, _), n_excluded in by_setting.items():
        most[attack] = max(most[attack], n_excluded)
    return most


class ByKind(NamedTuple):
    """One number for each kind of test that an attack is put to."""

    exposure: float  # do exposures differ?
    ratio: float  # do ratios differ?
    detection: float  # is anything memorised about these records?


def attack_stories(
    tested: Tested, by_attack: Mapping[str, Evidence]
) -> list[AttackStory]:
    """Every carried attack with what it shows alone, corrected for all of them.

    The deciding ones come first, then the others by name.
    """
    names = _attacks_with_numbers(tested, sorted(by_attack))
    smallest = np.array([_smallest_p(by_attack[name]) for name in names])
    over_attacks = np.stack([statistics.holm(p) for p in smallest.T], axis=1)
    # What Holm over attacks makes of the smallest p-value, it makes of all of an
    # attack: instead of multiplying them, the level is divided.
    shares = metrics.quotient(smallest, over_attacks, otherwise=1 / len(names))
    levels = SIGNIFICANCE * shares

    stories = []
    for name, *rows in zip(names, smallest, over_attacks, levels, strict=True):
        own, adjusted, level = (ByKind(*row) for row in rows)
        stories.append(_story(tested, by_attack[name], name, own, adjusted, level))
    return stories


def _attacks_with_numbers(tested: Tested, carried: Sequence[str]) -> list[str]:
    """The deciding attacks first; the gap only where there are counts."""
    names = [*tested.attacks, *(name for name in carried if name not in tested.attacks)]
    if tested.attack == GAP.name:
        return names
    gaps = [gap for gap in tested.measured[GAP.name] if gap.panel.has_sizes]
    if not any(np.isfinite(gap.exposure).any() for gap in gaps):
        names.remove(GAP.name)
    return names


def _smallest_p(evidence: Evidence) -> ByKind:
    p_values = (evidence.exposure.p_value, evidence.cross.p_value, evidence.detection_p)
    return ByKind(*[float(np.fmin.reduce(p, axis=None)) for p in p_values])


def _story(
    tested: Tested,
    evidence: Evidence,
    name: str,
    smallest: ByKind,
    over_attacks: ByKind,
    levels: ByKind,
) -> AttackStory:
    """What one attack shows.

    ``smallest`` are its smallest p-values, ``over_attacks`` the same adjusted over all
    attacks, ``levels`` the ones at which its p-values keep .05 for all attacks
    together. Where a smallest p-value is small over all attacks, too, groups are named
    only where their own p-value is; else those are named that this attack alone shows.
    """
    exposures_differ = evidence.exposures_differ
    differs = exposures_differ & (evidence.exposure.p_value <= levels.exposure)
    if over_attacks.exposure <= SIGNIFICANCE:
        exposures_differ = differs

    ratios_differ = evidence.ratios_differ
    if over_attacks.ratio <= SIGNIFICANCE:
        ratios_differ = ratios_differ & (evidence.cross.p_value <= levels.ratio)
    first, second = np.array(tested.pairs, dtype=np.int64).T
    lower = np.where(evidence.cross.value > 0, second, first)

    is_doubled = exposures_differ & (evidence.double_disadvantage >= 0)
    is_detected = evidence.detected & (evidence.detection_p <= levels.detection)
    names = tested.panels[0].group_names
    return AttackStory(
        attack=name,
        n_cells=evidence.n_detection_tests,
        n_detected=int(evidence.detected.sum()),
        more_exposed=_named(names, evidence.more_exposed[exposures_differ]),
        lower_ratio=_named(names, lower[ratios_differ]),
        double_disadvantage=_named(names, evidence.double_disadvantage[is_doubled]),
        p_value=finite_or_none(smallest.exposure),
        p_value_over_attacks=finite_or_none(over_attacks.exposure),
        ratio_p_over_attacks=finite_or_none(over_attacks.ratio),
        detected_in=np.flatnonzero(is_detected.any(axis=1)).tolist(),
        differs_in=np.flatnonzero(differs.any(axis=1)).tolist(),
        reliability=_largest_reliability(tested.panels, name),
    )


def _largest_reliability(panels: Sequence[Panel], attack: str) -> float | None:
    """Over settings and groups; None where a release does not say."""
    pools = (panel.pooled.get(attack) for panel in panels)
    shares = [np.max(pool.reliability) for pool in pools if pool is not None]
    return finite_or_none(float(max(shares, default=np.nan)))


def _named(names: Sequence[str], groups: IntArray) -> list[str]:
    """Names of groups by their positions, each once, in the release's order."""
    return [names[group] for group in np.unique(groups)]
