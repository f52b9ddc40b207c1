"""What does an audit find? ``audit(release, plan)``, part II of Algorithm 1.

Users call ``audit``; the verb ``pcer audit`` and the study call its two steps, because
they keep tested releases: ``run_tests`` (measuring) makes every test of a release,
``judge_tested`` judges releases of the same records as one family: in five attributes
of the same people an alarm by chance is five times as likely as in one. To add a part
of an audit: a field of ``Audit`` (record.py), filled in ``_audit_of``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from os.path import isdir
from typing import Any, overload

import numpy as np

from pcer.auditing.attacks_compared import attack_stories, choice_words
from pcer.auditing.policy import broken_rules
from pcer.auditing.record import Audit, AuditSubject, SettingResult, strongest
from pcer.auditing.sentences.account import conclude, disclosed
from pcer.auditing.sentences.advice import more_would_show
from pcer.auditing.settings import setting_result
from pcer.auditing.six import six_answers
from pcer.auditing.tails import tails_of
from pcer.errors import InputError
from pcer.measuring.judged import FamilyP, Judged, judge
from pcer.measuring.next_setting import NextSetting, next_setting
from pcer.measuring.plan import Plan, Policy
from pcer.measuring.tested import Tested, run_tests
from pcer.paper.numbers import paper_numbers
from pcer.paper.rankings import as_published
from pcer.release.file import Release, release_at, releases_at
from pcer.statistics import holm

Path = str | PathLike[str]


@overload
def audit(
    release: Release,
    plan: Plan | None = None,
    *,
    family: Sequence[Release | Path] = (),
    attack: str | None = None,
    benefit: str | None = None,
) -> Audit: ...


@overload
def audit(
    release: Sequence[Release | Path],
    plan: Plan | None = None,
    *,
    family: Sequence[Release | Path] = (),
    attack: str | None = None,
    benefit: str | None = None,
) -> list[Audit]: ...


@overload
def audit(
    release: Path,
    plan: Plan | None = None,
    *,
    family: Sequence[Release | Path] = (),
    attack: str | None = None,
    benefit: str | None = None,
) -> Any: ...


def audit(
    release: Release | Path | Sequence[Release | Path],
    plan: Plan | None = None,
    *,
    family: Sequence[Release | Path] = (),
    attack: str | None = None,
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
        attack: the plan's attack, by its name.
        benefit: the plan's benefit, by its name.

    Raises:
        InputError: this is no release; the sentence says which function makes one of
            it.
        PlanError: the plan names an attack, benefit or group that the release does not
            carry.
    """
    changes = {}
    if attack is not None:
        changes["attack"] = attack
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
    is_folder = isinstance(release, str | PathLike) and isdir(release)
    gives_a_list = is_folder or isinstance(release, list | tuple)
    return list(audits) if gives_a_list else next(audits)


def assert_within(
    release: Release | Path,
    policy: Policy | None = None,
    *,
    largest_exposure: float | None = None,
    largest_difference: float | None = None,
    largest_outcome_gap: float | None = None,
    largest_wrongly_gap: float | None = None,
) -> None:
    """Raise where a release is outside limits: for tests that people have.

    Args:
        release: a release, or the path of its file.
        policy: limits of any kind; those that are named replace its own.
        largest_exposure: as in ``Policy``, and so are the others.
        largest_difference: of exposures of two groups.
        largest_outcome_gap: of outcomes of two groups.
        largest_wrongly_gap: of wrong judgements of two groups.

    Raises:
        AssertionError: one sentence with the first rule that is broken, and how many
            more are.
        InputError: no limit is named.
    """
    named = {
        "largest_exposure": largest_exposure,
        "largest_difference": largest_difference,
        "largest_outcome_gap": largest_outcome_gap,
        "largest_wrongly_gap": largest_wrongly_gap,
    }
    given = {name: limit for name, limit in named.items() if limit is not None}
    limits = Policy(**(dict(policy or {}) | given))
    if limits == Policy():
        raise InputError(
            "assert_within needs a limit, such as largest_exposure=55.", field="limits"
        )
    (found,) = judge_tested([run_tests(release_at(release), Plan(policy=limits))])
    if found.broken_rules:
        first, *more = found.broken_rules
        rest = f"; {len(more)} more" if more else ""
        raise AssertionError(f"{first.sentence.rstrip('.')}{rest}.")


def judge_tested(
    tested: Sequence[Tested], family: Sequence[Tested] = ()
) -> Iterator[Audit]:
    """Audits of tested releases, one by one.

    Each is judged together with those of the same records, and with the family.
    """
    for member, judged_with in zip(tested, families(tested, family), strict=True):
        yield _audit_of(member, judged_with)


# Who is judged together


def families(
    tested: Sequence[Tested], named: Sequence[Tested]
) -> list[dict[str, Tested]]:
    """For each release those that it is judged with, itself among them, by digest.

    They are those of the same records, and those that the caller named as the family.
    """
    by_digest = {member.digest: member for member in (*tested, *named)}
    of_all = {member.digest for member in named}
    judged_with = []
    for member in tested:
        family = {}
        for digest in sorted(by_digest):
            other = by_digest[digest]
            is_same = _are_of_the_same(member.release, other.release)
            if is_same or digest in of_all or digest == member.digest:
                family[digest] = other
        judged_with.append(family)
    return judged_with


def _are_of_the_same(release: Release, other: Release) -> bool:
    """Whether both say that they are of the same records, or made by one call."""
    one = release.provenance
    two = other.provenance
    is_same = one.data_digest is not None and one.data_digest == two.data_digest
    is_one_call = one.made_with is not None and one.made_with == two.made_with
    return is_same or is_one_call


def family_p(
    tested: Tested, family: Mapping[str, Tested], attack: str | None = None
) -> FamilyP | None:
    """Smallest p-values of each release, Holm over the family.

    By one attack, 1 where a release lacks it, or by those that decide in each. None for
    a release alone.
    """
    if len(family) < 2:
        return None
    smallest = []
    for member in family.values():
        attacks = member.attacks if attack is None else (attack,)
        evidence = member.evidence.get(attacks)
        of_errors = (member.wrongly.smallest_p, member.missed.smallest_p)
        by_attack = (1.0, 1.0) if evidence is None else evidence.smallest_p
        smallest.append((*by_attack, *of_errors))
    place = list(family).index(tested.digest)
    adjusted = [float(holm(p)[place]) for p in np.array(smallest).T]
    return FamilyP(*adjusted)


# The audit of one release: numbers, records, words


def _audit_of(tested: Tested, family: Mapping[str, Tested]) -> Audit:
    """One audit; ``family`` has by digest what is judged together, itself included."""
    together = family_p(tested, family)
    of_attacks = {attack: family_p(tested, family, attack) for attack in tested.tests}
    judged = judge(tested, together, of_attacks)
    plan_sha256 = tested.plan.sha256
    numbers = paper_numbers(tested)
    published = as_published(tested, [setting.published for setting in numbers])

    budgets = [
        setting_result(tested, judged, paper, index)
        for index, paper in enumerate(numbers)
    ]
    main_setting = _main_setting(budgets)
    unexplained = [kind.name for kind, why in judged.stronger_attacks if why is None]
    found = Audit(
        release_sha256=tested.digest,
        plan_sha256=plan_sha256,
        family=list(family),
        family_p=together and together.exposure,
        family_p_outcomes=together and together.outcomes,
        family_p_wrongly=together and together.wrongly,
        family_p_missed=together and together.missed,
        subject=_subject(tested.release),
        plan=tested.plan,
        attack=tested.attack,
        choice=choice_words(tested, judged.stronger_attacks),
        stronger_attack=unexplained[0] if unexplained else None,
        verdict=budgets[main_setting].verdict,
        main_setting=main_setting,
        headline="",  # the words follow, by ``conclude``
        if_in_data="",
        account=[],
        trust=[],
        next_steps=[],
        next_setting=_next_setting(tested, budgets, main_setting),
        settings=budgets,
        attacks=attack_stories(tested, judged.by_attack),
        declarations=list(tested.findings),
        broken_rules=[],
        subgroups=tested.release.subgroups,
        published=published,
    )

    found = _with_tails(_with_answers(found), tested.release)
    audit = _with_words(found, tested, judged)
    others = [member.release for member in family.values() if member is not tested]
    return audit.with_sources(tested.release, others)


def _with_answers(found: Audit) -> Audit:
    settings = []
    for setting in found.settings:
        answers = six_answers(found, setting)
        changes = {"answers": answers, "level": answers.spotting.answer}
        settings.append(setting.model_copy(update=changes))
    return found.model_copy(update={"settings": settings})


def _with_tails(found: Audit, release: Release) -> Audit:
    """What stands beside the verdict of each setting."""
    tails = tails_of(release)
    settings = []
    for setting in found.settings:
        tail = tails.get((setting.model, setting.epsilon))
        settings.append(setting.model_copy(update={"tail": tail}))
    return found.model_copy(update={"settings": settings})


def _with_words(found: Audit, tested: Tested, judged: Judged) -> Audit:
    # First the policy: a broken rule does not repeat the headline of its setting.
    broken = broken_rules(found, tested)
    return conclude(
        found.model_copy(update={"broken_rules": broken}),
        disclosed=disclosed(tested.release),
        more=more_would_show(tested, judged.evidence, found.main_setting, found.told),
    )


def _main_setting(settings: Sequence[SettingResult]) -> int:
    """Which setting the headline is about: of the strongest verdict the least private.

    Of several alike, the one with the most exposed group.
    """
    verdict = strongest(setting.verdict for setting in settings)
    strong = [
        index for index, setting in enumerate(settings) if setting.verdict is verdict
    ]
    return max(
        strong,
        key=lambda index: (settings[index].budget, settings[index].highest_exposure),
    )


def _next_setting(
    tested: Tested, settings: Sequence[SettingResult], main: int
) -> NextSetting | None:
    """Another setting that exposes less, if the commoner label's share is known."""
    majority = settings[main].majority
    if majority is None:
        return None
    return next_setting(
        tested.measured[tested.attack],
        main,
        majority=100 * majority,
        margin=tested.plan.outcome_margin,
    )


def _subject(release: Release) -> AuditSubject:
    """What the release says about itself, as far as an audit repeats it."""
    shared = set(AuditSubject.model_fields)
    return AuditSubject(
        **release.subject.model_dump(include=shared),
        mechanism=release.training.mechanism,
        split_kind=release.training.split_kind,
    )
