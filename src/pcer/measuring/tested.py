"""What is computed of a release, before an audit says anything of it?

``run_tests`` reads the release once, measures every carried attack and makes every
test: a ``Tested``, for ``judge`` (judged.py) and the room paper. To add a test: a field
of ``Tested``, made in ``run_tests``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from pcer.files import Record
from pcer.measuring import choose_attacks
from pcer.measuring.checks import DeclarationFinding, check_release
from pcer.measuring.checks.arrays import ReleaseArrays, is_random, stated_epsilon
from pcer.measuring.evidence import Evidence, decide
from pcer.measuring.exposure import Measured, Pair, measure_attacks
from pcer.measuring.group_differences import AttackTests, attack_tests
from pcer.measuring.plan import POSITIVE_RATE, Plan
from pcer.measuring.wrongly import OPPOSITE, Wrongly, wrongly_tests
from pcer.release.attack_kinds import attack_kind
from pcer.release.file import Release
from pcer.release.panel import Panel, carried_attacks, panels
from pcer.release.records import Placebo

# Fields of ``PlaceboCheck`` that hold for the positive rate.
WITH_RATES = (
    "n_outcomes",
    "n_ratio",
    "n_double",
    "n_any",
    "ratio_p",
    "ratio_p_within_labels",
)


class PlaceboCheck(Record):
    """What a release says of made-up groups, for one setting, attack and pair.

    Counts are of made-up groups that raise an alarm; p-values are of permuted groups.
    """

    n_draws: int
    n_exposure: int | None  # made-up groups whose exposures differ
    n_ratio: int | None
    n_double: int | None
    n_any: int | None  # exposure or ratio, in any setting and pair
    n_outcomes: int | None  # the same for every attack, and so the next
    n_wrongly: int | None
    exposure_p: float | None
    exposure_p_within_labels: float | None
    ratio_p: float | None
    ratio_p_within_labels: float | None
    wrongly_p: float | None


@dataclass(frozen=True, kw_only=True)
class Tested:
    """A release with every test of its attacks made, before it is judged."""

    release: Release
    digest: str  # of the release
    plan: Plan
    panels: tuple[Panel, ...]
    pairs: tuple[Pair, ...]
    findings: Sequence[DeclarationFinding]
    # By setting, attack and pair: what the release says of made-up groups.
    placebos: Mapping[tuple[int, str, int], PlaceboCheck]
    # Those that decide; people see the numbers of the first.
    attacks: tuple[str, ...]
    measured: Mapping[str, Sequence[Measured]]
    tests: Mapping[str, AttackTests]
    wrongly: Wrongly  # errors of predictions, whatever the attack
    missed: Wrongly  # the other error

    @property
    def attack(self) -> str:
        """The attack whose numbers people see."""
        return self.attacks[0]

    @property
    def contradiction(self) -> str | None:
        """What in the release contradicts its own counts, so that no test counts."""
        for finding in self.findings:
            if finding.caps_verdict:
                return finding.sentence
        return None

    @cached_property
    def evidence(self) -> Mapping[tuple[str, ...], Evidence]:
        """What the deciding attacks show together, and each carried attack alone."""
        alone = [(attack,) for attack in self.tests]
        return {
            attacks: self._evidence_of(attacks)
            for attacks in dict.fromkeys((self.attacks, *alone))
        }

    def _evidence_of(self, attacks: tuple[str, ...]) -> Evidence:
        evidence = decide(
            [self.tests[attack] for attack in attacks],
            self.pairs,
            outcome=self.plan.outcome_of(self.release.subject.prediction_is),
            margin=_equal_margin(self.plan, attacks[0]),
        )
        if self.release.subject.published is not None:  # what is no model has no ratio
            nothing = np.zeros_like(evidence.ratios_differ)
            evidence = replace(evidence, ratios_differ=nothing)
        if self.contradiction is None:
            return evidence
        return replace(
            evidence,
            detected=np.zeros_like(evidence.detected),
            exposures_differ=np.zeros_like(evidence.exposures_differ),
            benefits_differ=np.zeros_like(evidence.benefits_differ),
            ratios_differ=np.zeros_like(evidence.ratios_differ),
            double_disadvantage=np.full_like(evidence.double_disadvantage, -1),
        )


def run_tests(release: Release, plan: Plan) -> Tested:
    """Measure every carried attack in every setting, and make every test."""
    by_setting = panels(release)
    carried = carried_attacks(by_setting)
    digest = release.sha256

    plan = choose_attacks.require_available(by_setting, carried, plan)
    pairs = choose_attacks.pairs_of(by_setting, plan)
    arrays = release.kept(ReleaseArrays)
    measured = measure_attacks(
        by_setting, plan, variance_inflation=arrays.variance_inflation
    )
    splits_are_random = is_random(release)
    outcome = release.subject.prediction_is
    errors = partial(
        wrongly_tests, by_setting, pairs, variance_inflation=arrays.variance_inflation
    )
    return Tested(
        release=release,
        digest=digest,
        plan=plan,
        panels=by_setting,
        pairs=pairs,
        findings=check_release(release),
        placebos=_placebos(release, by_setting, pairs, plan),
        attacks=choose_attacks.deciding_attacks(by_setting, plan),
        measured=measured,
        tests={
            attack: attack_tests(settings, pairs, random=splits_are_random)
            for attack, settings in measured.items()
        },
        wrongly=errors(outcome=outcome),
        missed=errors(outcome=OPPOSITE[outcome]),
    )


def _equal_margin(plan: Plan, attack: str) -> float | None:
    """The exposure by an attack up to which the plan counts groups as equal."""
    if plan.equal_within is None:
        return None
    scale = attack_kind(attack).scale
    return plan.equal_within / (scale.per_success or scale.per_unit)


def _placebos(
    release: Release,
    by_setting: Sequence[Panel],
    pairs: Sequence[Pair],
    plan: Plan,
) -> dict[tuple[int, str, int], PlaceboCheck]:
    """By setting, attack and pair; of several rows for one place the first counts."""
    names = release.subject.groups
    settings = [(panel.model, stated_epsilon(panel)) for panel in by_setting]
    named_pairs = [{names[first], names[second]} for first, second in pairs]
    placebos = dict[tuple[int, str, int], PlaceboCheck]()
    for row in release.placebo:
        setting = (row.model, row.epsilon)
        if setting in settings and set(row.groups) in named_pairs:
            pair = named_pairs.index(set(row.groups))
            place = (settings.index(setting), row.attack, pair)
            placebos.setdefault(place, _placebo_check(row, plan))
    return placebos


def _placebo_check(row: Placebo, plan: Plan) -> PlaceboCheck:
    """A release's row; without ratios where the plan has another benefit."""
    check = PlaceboCheck(
        n_draws=row.n_draws,
        n_exposure=row.n_exposure,
        n_ratio=row.n_ratio,
        n_double=row.n_double,
        n_any=row.n_any,
        n_outcomes=row.n_outcomes,
        n_wrongly=row.n_wrongly,
        wrongly_p=row.wrongly_p_value,
        exposure_p=row.exposure_p_value,
        exposure_p_within_labels=row.exposure_p_value_within_labels,
        ratio_p=row.p_value,
        ratio_p_within_labels=row.p_value_within_labels,
    )
    # Outcomes and what follows from them were tried with the positive rate only.
    if plan.benefit == POSITIVE_RATE:
        return check
    return check.model_copy(update=dict.fromkeys(WITH_RATES))
