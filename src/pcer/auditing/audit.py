"""Part II of Algorithm 1: from released statistics to verdicts. ``audit(release, plan)``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypedDict, Unpack, overload

import numpy as np

from pcer.auditing.algorithm1 import as_published
from pcer.auditing.checks import check_release, disclosed, is_random, variance_inflation
from pcer.auditing.file import Audit, AuditSubject
from pcer.auditing.measure import deciding_attacks, measure_costs, pairs_of, require_available
from pcer.auditing.plan import Plan
from pcer.auditing.planner import more_would_show
from pcer.auditing.policy import broken_rules
from pcer.auditing.results import cost_stories, draw_null, setting_result
from pcer.auditing.tests import Tested, attack_tests, downgrade
from pcer.auditing.verdict import strongest
from pcer.auditing.words import choice_words, conclude
from pcer.errors import InputError
from pcer.release.format import Release
from pcer.release.panel import panels
from pcer.release.proxies import GAP
from pcer.statistics import holm


class AuditOptions(TypedDict, total=False):
    """What ``audit`` takes by name."""

    family: Sequence[Release]
    cost: str | None
    benefit: str | None


@overload
def audit(release: Release, plan: Plan | None = None, **options: Unpack[AuditOptions]) -> Audit: ...
@overload
def audit(
    release: Sequence[Release], plan: Plan | None = None, **options: Unpack[AuditOptions]
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
    named = {"cost": cost, "benefit": benefit}
    fields = (plan or Plan()).model_dump() | {k: v for k, v in named.items() if v is not None}
    plan = Plan.model_validate(fields)
    releases: list[Any] = [*release] if isinstance(release, list | tuple) else [release]
    wrong = [type(each).__name__ for each in releases if not isinstance(each, Release)]
    if wrong or not releases:
        given = f"this {wrong[0]}" if wrong else "an empty list"
        raise InputError(
            f"audit takes a release or a list of them, not {given}; pcer.read_release(path) reads "
            "one, pcer.release_from_predictions(...) makes one of a model's predictions, and "
            "pcer.release_from_estimator(...) of an estimator and its data."
        )
    tested = [run_tests(each, plan) for each in releases]
    audits = judge_tested(tested, [run_tests(each, plan) for each in family])
    return next(audits) if isinstance(release, Release) else list(audits)


def run_tests(release: Release, plan: Plan) -> Tested:
    """Measure every carried cost and make every test."""
    by_setting = panels(release)
    require_available(by_setting, plan)
    pairs, random = pairs_of(by_setting, plan), is_random(release)
    measured = measure_costs(by_setting, plan, inflation=variance_inflation(release))
    return Tested(
        release=release,
        plan=plan,
        panels=by_setting,
        pairs=pairs,
        findings=check_release(release),
        attacks=deciding_attacks(by_setting, plan),
        measured=measured,
        tests={cost: attack_tests(each, pairs, random=random) for cost, each in measured.items()},
        chance=cache(lambda k: draw_null(measured[GAP.name][k], pairs, plan)),
    )


def judge_tested(tested: Sequence[Tested], family: Sequence[Tested] = ()) -> Iterator[Audit]:
    """Audits of tested releases, one by one, each with those of the same records and the family."""
    by_digest = {each.release.sha256: each for each in (*tested, *family)}
    named = {each.release.sha256 for each in family}
    for each in tested:
        data, own = each.release.provenance.data_digest, {each.release.sha256}
        if data is not None:
            own |= {k for k, v in by_digest.items() if v.release.provenance.data_digest == data}
        yield _audit(each, {key: by_digest[key] for key in sorted(own | named)})


def _audit(tested: Tested, family: Mapping[str, Tested]) -> Audit:
    """The audit of one release; the family, by digest, is judged together and includes it."""
    release, plan, training = tested.release, tested.plan, tested.release.training
    # Smallest p-value of the release, Holm over the family: by the attacks that decide in each, or
    # all by one cost, 1 where it is not carried. One release alone has none.
    own, family_p = list(family).index(release.sha256), dict[str | None, float | None]()
    for cost in (None, *tested.tests):
        members = [m.evidence.get((cost,) if cost else m.attacks) for m in family.values()]
        p = np.array([1.0 if each is None else each.smallest_p for each in members])
        family_p[cost] = float(holm(p)[own]) if len(p) > 1 else None
    evidence = downgrade(tested, tested.attacks, family_p=family_p[None])
    alone = {cost: downgrade(tested, (cost,), family_p=family_p[cost]) for cost in tested.tests}
    results = [setting_result(tested, evidence, k) for k in range(len(tested.panels))]
    budgets = [budget for budget, _ in results]
    verdict = strongest(budget.verdict for budget in budgets)
    strong = [k for k, budget in enumerate(budgets) if budget.verdict is verdict]
    telling = max(strong, key=lambda k: budgets[k].largest_cost)
    found = Audit(
        release_sha256=release.sha256,
        plan_sha256=plan.sha256,
        family=list(family),
        family_p=family_p[None],
        subject=AuditSubject(
            **release.subject.model_dump(include=set(AuditSubject.model_fields)),
            mechanism=training.mechanism,
            split_kind=training.split_kind,
        ),
        plan=plan,
        cost=tested.cost,
        choice=choice_words(release, tested.panels, plan, tested.attacks),
        verdict=verdict,
        telling=telling,
        worse_off=budgets[telling].worse_off,
        headline="",
        account=[],
        trust=[],
        next_steps=[],
        budgets=budgets,
        costs=cost_stories(tested, alone),
        declarations=list(tested.findings),
        broken_rules=[],
        published=as_published(tested, [paper for _, paper in results]),
    )
    more = more_would_show(tested, evidence, telling, budgets[telling])
    others = [member.release for member in family.values() if member is not tested]
    found = found.model_copy(update={"broken_rules": broken_rules(found, release)})
    return conclude(found, disclosed=[*disclosed(release)], more=more).with_sources(release, others)
