"""Part II of Algorithm 1: from released statistics to verdicts.

``audit(release, plan)``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from os import PathLike
from os.path import isdir
from typing import Any, TypedDict, Unpack, overload

import numpy as np

from pcer.auditing import measure
from pcer.auditing.algorithm1 import as_published
from pcer.auditing.checks import Facts, check_release, disclosed, is_random
from pcer.auditing.file import Audit, AuditSubject
from pcer.auditing.plan import SHARPEST, Plan
from pcer.auditing.planner import more_would_show
from pcer.auditing.policy import broken_rules
from pcer.auditing.results import cost_stories, draw_null, setting_result
from pcer.auditing.tests import Tested, attack_tests, downgrade
from pcer.auditing.verdict import strongest
from pcer.auditing.words import capital, conclude, listed, say
from pcer.errors import InputError
from pcer.release.format import Release, read_release, release_files
from pcer.release.panel import panels
from pcer.release.proxies import GAP, LIRA, Proxy, proxy_named
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


def releases_at(given: Any) -> Iterator[Release]:
    """One or several releases as they are, and those of files and folders."""
    for each in (
        given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    ):
        if isinstance(each, str | PathLike):
            yield from map(read_release, release_files([each]))
            continue
        if not isinstance(each, Release):
            raise InputError(
                f"give a release, its path, a folder, or a list of these, not this "
                f"{type(each).__name__}; pcer.release_from_estimator(...) makes a release of an "
                "estimator and its data, pcer.release_from_predictions(...) of predictions.",
                field="release",
            )
        yield each


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
        attacks=measure.deciding_attacks(by_setting, plan),
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
        yield _audit(each, {key: by_digest[key] for key in sorted(own | named)})


def _audit(tested: Tested, family: Mapping[str, Tested]) -> Audit:
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


def stronger_attacks(tested: Tested) -> list[tuple[Proxy, str | None]]:
    """Attacks stronger than those that decide, for which there are splits; why each is absent."""
    n_splits = min(panel.n_splits for panel in tested.panels)
    found = []
    for kinds in (
        (measure.ADVANTAGES, measure.PAIRED) if tested.plan.cost == SHARPEST else ()
    ):
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
