"""What does an audit find? ``audit(release, plan)``, part II of Algorithm 1.

Three steps, in this order: ``run_tests`` measures every carried attack and makes every
test; ``judge_tested`` finds the family of each release; ``audit_tested`` draws the
conclusions and fills the record. Users call ``audit``; the verb ``pcer audit`` and the
study call the steps, because they keep tested releases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from os import PathLike
from os.path import isdir
from typing import Any, overload

from pcer.auditing.attacks_compared import choice_words, cost_stories, silent_attacks
from pcer.auditing.family import families, family_p
from pcer.auditing.policy import broken_rules
from pcer.auditing.record import Audit, AuditSubject, BudgetResult
from pcer.auditing.sentences.account import conclude, disclosed
from pcer.auditing.sentences.advice import more_would_show
from pcer.auditing.settings import setting_result
from pcer.errors import InputError
from pcer.measuring import choose_attacks, measure
from pcer.measuring.checks.arrays import ReleaseArrays, is_random
from pcer.measuring.checks.table import check_release
from pcer.measuring.evidence import Evidence, Tested
from pcer.measuring.pair_tests import attack_tests
from pcer.measuring.plan import Plan
from pcer.measuring.refutations import downgrade
from pcer.measuring.verdict import strongest
from pcer.paper.algorithm1 import as_published
from pcer.paper.null import Null, draw_null
from pcer.release.attack_kinds import GAP
from pcer.release.file import Release, releases_at
from pcer.release.panel import panels

Path = str | PathLike[str]


@overload
def audit(
    release: Release,
    plan: Plan | None = None,
    *,
    family: Sequence[Release | Path] = (),
    cost: str | None = None,
    benefit: str | None = None,
) -> Audit: ...


@overload
def audit(
    release: Sequence[Release | Path],
    plan: Plan | None = None,
    *,
    family: Sequence[Release | Path] = (),
    cost: str | None = None,
    benefit: str | None = None,
) -> list[Audit]: ...


@overload
def audit(
    release: Path,
    plan: Plan | None = None,
    *,
    family: Sequence[Release | Path] = (),
    cost: str | None = None,
    benefit: str | None = None,
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
    changes = {}
    if cost is not None:
        changes["cost"] = cost
    if benefit is not None:
        changes["benefit"] = benefit
    plan = Plan(**(dict(plan or {}) | changes))

    sources: Any = release if isinstance(release, list | tuple) else [release]
    tested = [run_tests(member, plan) for member in releases_at(sources)]
    named = [run_tests(member, plan) for member in releases_at(family)]
    if not tested:
        raise InputError(
            "audit takes at least one release, not an empty list.", field="release"
        )

    audits = judge_tested(tested, named)
    return list(audits) if _gives_a_list(release) else next(audits)


def _gives_a_list(release: Release | Path | Sequence[Release | Path]) -> bool:
    """Whether it may hold several releases: a list, or the path of a folder."""
    if isinstance(release, str | PathLike):
        return isdir(release)
    return isinstance(release, list | tuple)


def run_tests(release: Release, plan: Plan) -> Tested:
    """Measure every carried attack in every setting, and make every test."""
    by_setting = panels(release)
    plan = measure.require_available(by_setting, plan)
    pairs = measure.pairs_of(by_setting, plan)
    measured = measure.measure_costs(
        by_setting,
        plan,
        variance_inflation=release.kept(ReleaseArrays).variance_inflation,
    )
    splits_are_random = is_random(release)

    @cache
    def null_of(setting_index: int) -> Null | None:
        gap = measured[GAP.name][setting_index]
        return draw_null(gap, pairs, plan, n_settings=len(by_setting))

    return Tested(
        release=release,
        plan=plan,
        panels=by_setting,
        pairs=pairs,
        findings=check_release(release),
        attacks=choose_attacks.deciding_attacks(by_setting, plan),
        measured=measured,
        tests={
            attack: attack_tests(settings, pairs, random=splits_are_random)
            for attack, settings in measured.items()
        },
        draw_null=null_of,
    )


def judge_tested(
    tested: Sequence[Tested], family: Sequence[Tested] = ()
) -> Iterator[Audit]:
    """Audits of tested releases, one by one.

    Each is judged together with those of the same records, and with the family.
    """
    for member, judged_with in zip(tested, families(tested, family), strict=True):
        yield audit_tested(member, judged_with)


def audit_tested(tested: Tested, family: Mapping[str, Tested]) -> Audit:
    """The audit of one release.

    ``family`` has by digest what is judged together, the release among them.
    """
    together = family_p(tested, family)
    evidence = downgrade(tested, tested.attacks, family_p=together)
    settings = [
        setting_result(tested, evidence, index) for index in range(len(tested.panels))
    ]
    budgets = [result for result, _ in settings]
    main_setting = _main_setting(budgets)
    p_exposures, p_outcomes = (None, None) if together is None else together

    found = Audit(
        release_sha256=tested.release.sha256,
        plan_sha256=tested.plan.sha256,
        family=list(family),
        family_p=p_exposures,
        family_p_outcomes=p_outcomes,
        subject=_subject(tested.release),
        plan=tested.plan,
        cost=tested.cost,
        choice=choice_words(tested),
        stronger_attack=_stronger_attack(tested),
        verdict=budgets[main_setting].verdict,
        telling=main_setting,
        headline="",  # the words follow, by ``conclude``
        account=[],
        trust=[],
        next_steps=[],
        budgets=budgets,
        costs=cost_stories(tested, _evidence_by_attack(tested, family)),
        declarations=list(tested.findings),
        broken_rules=[],
        published=as_published(tested, [published for _, published in settings]),
    )

    # Before the words: a broken rule does not repeat the headline of its setting.
    broken = broken_rules(found, tested)
    audit = conclude(
        found.model_copy(update={"broken_rules": broken}),
        disclosed=disclosed(tested.release),
        more=more_would_show(tested, evidence, main_setting, budgets[main_setting]),
    )
    others = [member.release for member in family.values() if member is not tested]
    return audit.with_sources(tested.release, others)


def _evidence_by_attack(
    tested: Tested, family: Mapping[str, Tested]
) -> dict[str, Evidence]:
    """What each carried attack shows alone, judged with the family by that attack."""
    by_attack = {}
    for attack in tested.tests:
        p = family_p(tested, family, attack)
        by_attack[attack] = downgrade(tested, (attack,), family_p=p)
    return by_attack


def _main_setting(settings: Sequence[BudgetResult]) -> int:
    """Which setting the headline is about: of the strongest verdict the least private.

    Of several alike, the one with the most exposed group.
    """
    verdict = strongest(setting.verdict for setting in settings)
    strong = [
        index for index, setting in enumerate(settings) if setting.verdict is verdict
    ]
    return max(
        strong, key=lambda index: (settings[index].budget, settings[index].largest_cost)
    )


def _stronger_attack(tested: Tested) -> str | None:
    """An attack that was possible and is absent without a reason; None if none is."""
    unexplained = silent_attacks(tested)
    return unexplained[0].name if unexplained else None


def _subject(release: Release) -> AuditSubject:
    """What the release says about itself, as far as an audit repeats it."""
    shared = set(AuditSubject.model_fields)
    return AuditSubject(
        **release.subject.model_dump(include=shared),
        mechanism=release.training.mechanism,
        split_kind=release.training.split_kind,
    )
