"""What does an audit find? ``audit(release, plan)``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from os import PathLike
from os.path import isdir
from typing import Any, TypedDict, Unpack, overload

import numpy as np

from pcer.auditing.attacks_compared import choice_words, cost_stories
from pcer.auditing.policy import broken_rules
from pcer.auditing.record import Audit, AuditSubject
from pcer.auditing.sentences.account import conclude, disclosed
from pcer.auditing.sentences.advice import more_would_show
from pcer.auditing.settings import setting_result
from pcer.errors import InputError
from pcer.measuring import choose_attacks, measure
from pcer.measuring.checks.arrays import Facts, is_random
from pcer.measuring.checks.table import check_release
from pcer.measuring.choose_attacks import stronger_attacks
from pcer.measuring.evidence import Tested
from pcer.measuring.pair_tests import attack_tests
from pcer.measuring.plan import Plan
from pcer.measuring.refutations import downgrade
from pcer.measuring.verdict import strongest
from pcer.paper.algorithm1 import as_published
from pcer.paper.null import draw_null
from pcer.release.attack_kinds import GAP
from pcer.release.file import Release
from pcer.release.panel import panels
from pcer.release.reading import releases_at
from pcer.statistics import holm

Path = str | PathLike[str]


class AuditOptions(TypedDict, total=False):
    """What ``audit`` takes by name."""

    family: Sequence[Release | Path]
    cost: str | None
    benefit: str | None


@overload
def audit(
    release: Release, plan: Plan | None = None, **options: Unpack[AuditOptions]
) -> Audit: ...


@overload
def audit(
    release: Sequence[Release | Path],
    plan: Plan | None = None,
    **options: Unpack[AuditOptions],
) -> list[Audit]: ...


@overload
def audit(
    release: Path, plan: Plan | None = None, **options: Unpack[AuditOptions]
) -> Any: ...


def audit(
    release: Release | Path | Sequence[Release | Path],
    plan: Plan | None = None,
    *,
    family: Sequence[Release | Path] = (),
    cost: str | None = None,
    benefit: str | None = None,
) -> Audit | list[Audit]:
    """Audit a release: all parts of the method, deterministic for a release and a plan.

    Guarantees: the order of runs in the release changes nothing; a setting's intervals
    do not depend on which other settings there are; what cannot be computed is None.

    Args:
        release: a release or the path of its file; or a folder of ``*.release.json``,
            or a list of any of them, which give a list. Those of the same records are
            judged as one family.
        plan: what was fixed before looking; the design's defaults if None.
        family: further releases of the same records that count in the family.
        cost: the plan's cost, by its name.
        benefit: the plan's benefit, by its name.

    Raises:
        InputError: this is no release; the sentence says which function makes one of
            it.
        PlanError: the plan names a cost, benefit or group that the release does not
            carry.
    """
    named = {k: v for k, v in (("cost", cost), ("benefit", benefit)) if v is not None}
    plan = Plan(**(dict(plan or {}) | named))
    given: Any = release if isinstance(release, list | tuple) else [release]
    is_one = given is not release and not (
        isinstance(release, str | PathLike) and isdir(release)
    )
    tested = [run_tests(each, plan) for each in releases_at(given)]
    audits = judge_tested(
        tested, [run_tests(each, plan) for each in releases_at(family)]
    )
    if not tested:
        raise InputError(
            "audit takes at least one release, not an empty list.", field="release"
        )
    return next(audits) if is_one else list(audits)


def run_tests(release: Release, plan: Plan) -> Tested:
    """Measure every carried cost and make every test."""
    by_setting = panels(release)
    plan = measure.require_available(by_setting, plan)
    pairs = measure.pairs_of(by_setting, plan)
    random = is_random(release)
    n = len(by_setting)
    measured = measure.measure_costs(
        by_setting, plan, inflation=release.kept(Facts).inflation
    )
    return Tested(
        release=release,
        plan=plan,
        panels=by_setting,
        pairs=pairs,
        findings=check_release(release),
        attacks=choose_attacks.deciding_attacks(by_setting, plan),
        measured=measured,
        tests={
            cost: attack_tests(each, pairs, random=random)
            for cost, each in measured.items()
        },
        chance=cache(
            lambda k: draw_null(measured[GAP.name][k], pairs, plan, n_settings=n)
        ),
    )


def judge_tested(
    tested: Sequence[Tested], family: Sequence[Tested] = ()
) -> Iterator[Audit]:
    """Audits of tested releases, one by one, each with those of the same records and the family."""
    by_digest = {each.release.sha256: each for each in (*tested, *family)}
    named = {each.release.sha256 for each in family}
    for each in tested:
        data = each.release.provenance.data_digest
        own = {each.release.sha256}
        if data is not None:
            own |= {
                k
                for k, v in by_digest.items()
                if v.release.provenance.data_digest == data
            }
        yield audit_tested(each, {key: by_digest[key] for key in sorted(own | named)})


def audit_tested(tested: Tested, family: Mapping[str, Tested]) -> Audit:
    """The audit of one release; the family, by digest, is judged together and includes it."""
    release = tested.release
    plan = tested.plan
    training = tested.release.training
    # Smallest p-value of the release, Holm over the family: by the attacks that decide
    # in each, or all by one cost, 1 where it is not carried. One release alone has
    # none.
    own = list(family).index(release.sha256)
    family_p = dict[str | None, tuple[float, float]]()
    for cost in (None, *tested.tests) if len(family) > 1 else ():
        members = [
            m.evidence.get((cost,) if cost else m.attacks) for m in family.values()
        ]
        p = np.array(
            [(1.0, 1.0) if each is None else each.smallest_p for each in members]
        )
        family_p[cost] = float(holm(p[:, 0])[own]), float(holm(p[:, 1])[own])
    of_exposures, of_outcomes = family_p.get(None, (None, None))
    evidence = downgrade(tested, tested.attacks, family_p=family_p.get(None))
    alone = {
        cost: downgrade(tested, (cost,), family_p=family_p.get(cost))
        for cost in tested.tests
    }
    results = [setting_result(tested, evidence, k) for k in range(len(tested.panels))]
    budgets = [budget for budget, _ in results]
    verdict = strongest(budget.verdict for budget in budgets)
    strong = [k for k, budget in enumerate(budgets) if budget.verdict is verdict]
    telling = max(strong, key=lambda k: (budgets[k].budget, budgets[k].largest_cost))
    found = Audit(
        release_sha256=release.sha256,
        plan_sha256=plan.sha256,
        family=list(family),
        family_p=of_exposures,
        family_p_outcomes=of_outcomes,
        subject=AuditSubject(
            **release.subject.model_dump(include=set(AuditSubject.model_fields)),
            mechanism=training.mechanism,
            split_kind=training.split_kind,
        ),
        plan=plan,
        cost=tested.cost,
        choice=choice_words(tested),
        stronger_attack=next(
            (p.name for p, why in stronger_attacks(tested) if why is None), None
        ),
        verdict=verdict,
        telling=telling,
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
    found = found.model_copy(update={"broken_rules": broken_rules(found, tested)})
    return conclude(found, disclosed=[*disclosed(release)], more=more).with_sources(
        release, others
    )
