"""Part II of Algorithm 1: from released statistics to verdicts. ``audit(release, plan)``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, overload

import numpy as np

from pcer.auditing.account import Conclusion, conclude
from pcer.auditing.algorithm1 import algorithm1
from pcer.auditing.caps import Capped, Placebos, cap_alarms
from pcer.auditing.checks import check_release, is_random, variance_inflation
from pcer.auditing.costs import cost_stories, why
from pcer.auditing.file import (
    AsPublished,
    Audit,
    AuditSubject,
    BudgetResult,
    DeclarationFinding,
    outcomes_of,
)
from pcer.auditing.judgement import judge, worse_off
from pcer.auditing.measure import (
    Measured,
    Pair,
    deciding_attacks,
    measure_costs,
    pairs_of,
    require_available,
)
from pcer.auditing.plan import Plan
from pcer.auditing.policy import broken_rules
from pcer.auditing.results import (
    Setting,
    adjusted_equivalence,
    bounds_of,
    columns_of,
    floor_of,
    group_result,
    on_disk,
    pair_result,
    published_budget,
    shared_columns,
)
from pcer.auditing.summaries import NullDraws, draw_null, pooled_sums, summarise
from pcer.auditing.tests import AttackTests, Evidence, attack_tests, decide
from pcer.errors import InputError
from pcer.metrics import FloatArray
from pcer.release.format import Release
from pcer.release.panel import Panel, panels
from pcer.release.proxies import GAP
from pcer.statistics import holm


@dataclass(frozen=True, kw_only=True)
class Tested:
    """A release with every test of its costs made, before it is judged.

    Where its counts contradict what it says about its splits, nothing follows from the p-values.
    """

    release: Release
    plan: Plan
    panels: tuple[Panel, ...]
    pairs: tuple[Pair, ...]
    findings: list[DeclarationFinding]
    attacks: tuple[str, ...]
    """Those that decide; the first is the one whose numbers people see."""
    measured: Mapping[str, Sequence[Measured]]
    tests: Mapping[str, AttackTests]
    chance: Callable[[int], NullDraws | None]
    """What the gap of a setting would be by chance alone; drawn once, when asked."""

    @property
    def cost(self) -> str:
        """The attack whose numbers people see."""
        return self.attacks[0]

    @cached_property
    def main(self) -> Evidence:
        """What the deciding attacks show together."""
        return self.decided(self.attacks)

    @cached_property
    def evidence(self) -> Mapping[str, Evidence]:
        """What each carried attack shows alone."""
        return {cost: self.decided([cost]) for cost in self.tests}

    def decided(self, attacks: Sequence[str]) -> Evidence:
        """What some attacks show together."""
        tests = [self.tests[attack] for attack in attacks]
        found = decide(tests, self.pairs, outcome=self.release.subject.outcome)
        is_contradicted = any(finding.caps_verdict for finding in self.findings)
        return found.cleared() if is_contradicted else found

    def by(self, plan: Plan) -> Tested:
        """The same tests, judged by the attack that a plan names, where it is carried.

        Args:
            plan: one that differs from ours in nothing but its cost.
        """
        attacks = (plan.cost,) if plan.cost in self.tests else self.attacks
        return replace(self, plan=plan, attacks=attacks)

    def without_chance(self) -> Tested:
        """The same, for audits whose pictures of chance nobody will see."""
        return replace(self, chance=lambda _: None)


@overload
def audit(
    release: Release,
    plan: Plan | None = None,
    *,
    family: Sequence[Release] = (),
    cost: str | None = None,
    benefit: str | None = None,
) -> Audit: ...


@overload
def audit(
    release: Sequence[Release],
    plan: Plan | None = None,
    *,
    family: Sequence[Release] = (),
    cost: str | None = None,
    benefit: str | None = None,
) -> list[Audit]: ...


def audit(
    release: Release | Sequence[Release],
    plan: Plan | None = None,
    *,
    family: Sequence[Release] = (),
    cost: str | None = None,
    benefit: str | None = None,
) -> Audit | list[Audit]:
    """Audit a release: all parts of the method, deterministic for a release and a plan.

    Guarantees: the order of runs in the release changes nothing; a setting's intervals do not
    depend on which other settings there are; what cannot be computed is None.

    Args:
        release: checked statistics, from ``read_release`` or ``release_from_predictions``; or
            several, which give a list. Those of the same records are judged as one family.
        plan: what was fixed before looking; the design's defaults if None.
        family: further releases of the same records that count in the family.
        cost: the plan's cost, by its name.
        benefit: the plan's benefit, by its name.

    Raises:
        InputError: this is no release; the sentence says which function makes one of it.
        PlanError: the plan names a cost, benefit or group that the release does not carry.
    """
    plan = named_plan(plan, cost=cost, benefit=benefit)
    several = [release] if isinstance(release, Release) else _releases(release)
    tested = [run_tests(one, plan) for one in several]
    audits = judge_tested(tested, [run_tests(one, plan) for one in family])
    return next(audits) if isinstance(release, Release) else list(audits)


def _releases(given: Any) -> list[Release]:
    """Several releases; or one sentence on what to do with anything else."""
    found = list(given) if isinstance(given, list | tuple) else [given]
    for one in found:
        if not isinstance(one, Release):
            raise InputError(
                f"audit takes a release or a list of them, not this {type(one).__name__}; "
                f"{_made(one)}"
            )
    if not found:
        raise InputError("audit takes a release or a list of them, and the list is empty.")
    return found


def _made(given: Any) -> str:
    """How a release is made of something else."""
    if isinstance(given, str | os.PathLike):
        return "read the file first: pcer.audit(pcer.read_release(path))."
    if hasattr(given, "predict") or hasattr(given, "fit"):
        return "pcer.release_from_estimator(estimator, ...) makes one of an estimator and its data."
    return (
        "pcer.release_from_predictions(...) makes one of a model's predictions in arrays or "
        "columns, pcer.release_from_estimator(...) of an estimator and its data."
    )


def named_plan(plan: Plan | None, **named: str | None) -> Plan:
    """The plan, with what is named beside it."""
    fields = (plan or Plan()).model_dump() | {k: v for k, v in named.items() if v is not None}
    return Plan.model_validate(fields)


def judge_tested(tested: Sequence[Tested], family: Sequence[Tested] = ()) -> Iterator[Audit]:
    """Audits of tested releases, one by one; those of the same records are judged together.

    Args:
        tested: what is audited.
        family: what was named to be judged together with all of them.
    """
    known = {one.release.sha256: one for one in (*tested, *family)}
    named = {one.release.sha256 for one in family}
    for one in tested:
        yield _audit(one, _family(known, one.release, named))


def run_tests(release: Release, plan: Plan) -> Tested:
    """Measure every carried cost and make every test."""
    by_setting = panels(release)
    require_available(by_setting, plan)
    pairs = pairs_of(by_setting, plan)
    measured = measure_costs(by_setting, plan, inflation=variance_inflation(release))
    return Tested(
        release=release,
        plan=plan,
        panels=by_setting,
        pairs=pairs,
        findings=check_release(release),
        attacks=deciding_attacks(by_setting, plan),
        measured=measured,
        tests={
            cost: attack_tests(one, pairs, random=is_random(release))
            for cost, one in measured.items()
        },
        chance=cache(lambda k: draw_null(measured[GAP.name][k], pairs, plan)),
    )


def _family(tested: Mapping[str, Tested], release: Release, named: set[str]) -> list[Tested]:
    """Releases of the same records, and those that were named; sorted by digest."""
    digest = release.provenance.data_digest
    members = {release.sha256, *named}
    if digest is not None:
        same = (k for k, v in tested.items() if v.release.provenance.data_digest == digest)
        members.update(same)
    return [tested[key] for key in sorted(members)]


def _audit(one: Tested, family: Sequence[Tested]) -> Audit:
    release, plan = one.release, one.plan
    placebos = Placebos(release, one.panels, one.pairs)
    family_p = _family_p(one, family, lambda member: member.main)
    below = {
        cost: [each.largest_cost < floor_of(each, plan) for each in measured]
        for cost, measured in one.measured.items()
    }
    found = cap_alarms(
        placebos, one.attacks, one.main, family_p=family_p, is_below_floor=below[one.cost]
    )
    alone = {
        cost: cap_alarms(
            placebos,
            [cost],
            evidence,
            family_p=_family_p(one, family, _by(cost)),
            is_below_floor=below[cost],
        )
        for cost, evidence in one.evidence.items()
    }
    findings = one.findings
    settings = _settings(one, found, placebos)
    budgets = [_budget(setting, release, findings) for setting in settings]
    subject, published = _subject(release), _published(one, settings)
    stories = cost_stories(one.measured, alone, one.pairs, one.attacks)
    told: Conclusion = conclude(
        settings, budgets, stories, subject, release, findings, family_p=family_p
    )
    known = Audit(
        release_sha256=release.sha256,
        plan_sha256=plan.sha256,
        family=[member.release.sha256 for member in family],
        family_p=family_p,
        subject=subject,
        plan=plan,
        cost=one.cost,
        choice=why(release, one.panels, plan, one.attacks),
        verdict=told.verdict,
        telling=told.telling,
        worse_off=budgets[told.telling].worse_off,
        headline=told.headline,
        account=told.account,
        trust=told.trust,
        next_steps=told.next_steps,
        budgets=budgets,
        costs=stories,
        declarations=findings,
        broken_rules=broken_rules(
            plan.policy, release, budgets, findings, outcomes_of(budgets, published)
        ),
        published=published,
    )
    others = [member.release for member in family if member is not one]
    return known.with_sources(release, others)


def _by(cost: str) -> Callable[[Tested], Evidence | None]:
    return lambda member: member.evidence.get(cost)


def _family_p(
    one: Tested, family: Sequence[Tested], of: Callable[[Tested], Evidence | None]
) -> float | None:
    """Smallest p-value of a release, Holm over the releases; None for a family of one.

    Args:
        one: the release.
        family: all releases of the same records, this one included.
        of: what is compared of each; None where a release does not have it.
    """
    if len(family) < 2:
        return None
    own = [member is one for member in family].index(True)
    evidence = [of(member) for member in family]
    smallest = [1.0 if each is None else each.smallest_p for each in evidence]
    return float(holm(np.array(smallest))[own])


def _settings(one: Tested, found: Capped, placebos: Placebos) -> list[Setting]:
    measured, gaps = one.measured[one.cost], one.measured[GAP.name]
    equal = adjusted_equivalence(found.evidence, one.plan)
    return [
        Setting(
            index=k,
            measured=main,
            gap=gap,
            pairs=one.pairs,
            plan=one.plan,
            outcome=one.release.subject.outcome,
            found=found,
            bounds=bounds_of(one.release, main.panel),
            evidence=found.evidence.of_setting(k),
            whole=found.evidence,
            attacks=one.attacks,
            placebos=placebos,
            summaries=summarise(
                {
                    **shared_columns(main),
                    **columns_of(main, one.pairs, one.plan),
                    **columns_of(gap, one.pairs, one.plan),
                },
                one.plan,
                panel=main.panel,
            ),
            null=one.chance(k),
            pooled=pooled_sums(main, one.plan),
            equivalence=None if equal is None else equal[k],
        )
        for k, (main, gap) in enumerate(zip(measured, gaps, strict=True))
    ]


def _budget(
    setting: Setting, release: Release, findings: Sequence[DeclarationFinding]
) -> BudgetResult:
    panel, doubled = setting.measured.panel, setting.found.double[setting.index]
    verdict, reason = judge(setting, findings, random=is_random(release))
    pairs = [pair_result(setting, k) for k in range(len(setting.pairs))]
    twice = [panel.group_names[group] for group in np.unique(doubled[doubled >= 0]).tolist()]
    return BudgetResult(
        model=panel.model,
        epsilon=on_disk(panel.epsilon),
        n_seeds=len(panel.seeds),
        n_splits=panel.n_splits,
        accuracy=setting.summaries["accuracy",],
        demographic_parity_gap=setting.summaries["parity",],
        equalized_odds_gap=setting.summaries["odds",],
        groups={name: group_result(setting, g) for g, name in enumerate(panel.group_names)},
        pairs=pairs,
        pcer_spread=setting.summaries["spread", setting.cost],
        verdict=verdict,
        worse_off=worse_off(verdict, pairs, twice, setting.outcome),
        reason=reason,
        advice=verdict.advice(release.subject.outcome),
        double_disadvantage=twice,
    )


def _published(one: Tested, settings: Sequence[Setting]) -> list[AsPublished]:
    """Algorithm 1 for each model, the gap being the cost."""
    resolved = one.evidence[GAP.name].resolved
    return [
        AsPublished(
            model=model,
            cost=GAP.name,
            budgets=(budgets := [published_budget(settings[k]) for k in members]),
            algorithm1=algorithm1(
                budgets,
                one.plan,
                costs=[_gap_values(settings[k]) for k in members],
                resolved=resolved[members],
            ),
        )
        for model, members in _by_model(one.panels).items()
    ]


def _gap_values(setting: Setting) -> FloatArray:
    exposed = setting.gap.exposed
    return np.full(len(setting.gap.told), np.nan) if exposed is None else exposed.value


def _by_model(by_setting: Sequence[Panel]) -> dict[str | None, list[int]]:
    """Which settings each model has."""
    members: dict[str | None, list[int]] = {}
    for k, panel in enumerate(by_setting):
        members.setdefault(panel.model, []).append(k)
    return members


def _subject(release: Release) -> AuditSubject:
    subject = release.subject
    return AuditSubject(
        dataset=subject.dataset,
        attribute=subject.attribute,
        groups=subject.groups,
        outcome=subject.outcome,
        mechanism=release.training.mechanism,
        split_kind=release.training.split_kind,
        n_records=subject.n_records,
        n_missing_group=subject.n_missing_group,
        notes=subject.notes,
    )
