"""How sure is an audit of its whole release, and what do the paper's symbols mean?

``conclude`` (account.py) asks for the first, beside what the rows of its settings say;
the paper's table for the second. To add a sentence: a line in the sections ``how_sure``
or ``paper`` of ``words.toml``, and where it is said here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from pcer.auditing.record import AttackStory, Audit
from pcer.auditing.sentences.telling import (
    attacks_run,
    lacks_sizes,
)
from pcer.measuring.exposure import may_be_too_narrow
from pcer.measuring.plan import Verdict
from pcer.release.attack_kinds import attack_kind
from pcer.release.population import left_out_sentence
from pcer.wording import (
    listed,
    number_range,
    p_words,
    plural_ending,
    say,
)


def trust_sentences(audit: Audit) -> list[str]:
    """How sure the audit is of the whole release, beside what its rows say."""
    groups = audit.told.groups
    is_random = audit.subject.split_kind == "random"
    n_splits = audit.told.n_splits
    ending = plural_ending(n_splits)
    form = "splits" if is_random else "splits_not_random"
    splits = say("how_sure", form, n=n_splits, s=ending)
    whom = say("how_sure", "no_sizes" if lacks_sizes(audit.told) else "people")
    sentences = [f"{splits} {whom}"]
    if any(may_be_too_narrow(story.reliability) for story in audit.attacks):
        sentences.append(say("how_sure", "narrow"))
    if audit.declarations:
        sentences += [finding.sentence for finding in audit.declarations]
    elif any(group.n_test is not None for group in groups.values()):
        sentences.append(say("how_sure", "consistent"))
    else:
        sentences.append(say("how_sure", "no_counts"))

    sentences += _attack_sentences(audit)
    if audit.family_p is not None:
        p = p_words(audit.family_p)
        p_of_outcomes = p_words(audit.family_p_outcomes)
        sentences.append(say("how_sure", "family", p=p, of_outcomes=p_of_outcomes))
    too_few = [name for name, group in groups.items() if group.too_few]
    if too_few:
        sentences.append(say("how_sure", "too_few", names=listed(too_few)))
    subject = audit.subject
    left_out = left_out_sentence(subject.left_out, subject.n_missing_group)
    if left_out:
        sentences.append(left_out)
    return sentences


def _attack_sentences(audit: Audit) -> Iterator[str]:
    """How many attacks detect memorisation, and whom they find easier to spot."""
    stories = attacks_run(audit)
    n = len(stories)
    n_detecting = sum(bool(story.detected_in) for story in stories)
    is_tested = n_detecting > 0 or audit.verdict is not Verdict.INSUFFICIENT_DATA
    if n < 2 or not is_tested:
        return
    if n_detecting == n:
        yield say("how_sure", "attacks_all", n=n)
    elif n_detecting == 0:
        yield say("how_sure", "attacks_none", n=n)
    else:
        ending = "s" if n_detecting == 1 else ""  # of the verb
        yield say("how_sure", "attacks_some", n=n, k=n_detecting, s=ending)
    yield _differences(audit, stories)


def _differences(audit: Audit, stories: Sequence[AttackStory]) -> str:
    """Which attacks find whom easier to spot, corrected for their number."""
    n = len(stories)
    attacks_by_groups: dict[tuple[str, ...], list[str]] = {}
    for story in stories:
        if "exposure_differs" in story.statements:
            attacks = attacks_by_groups.setdefault(tuple(story.more_exposed), [])
            attacks.append(attack_kind(story.attack).short)
    if attacks_by_groups:
        found = _who_finds_whom(audit, attacks_by_groups)
        return say("how_sure", "attacks_differ", n=n, found=found)

    by_ratio = [story for story in stories if "ratio_differs" in story.statements]
    if by_ratio:
        attacks = [attack_kind(story.attack).short for story in by_ratio]
        return say("how_sure", "attacks_ratio", n=n, attacks=listed(attacks))
    return say("how_sure", "attacks_same", n=n)


def _who_finds_whom(
    audit: Audit, attacks_by_groups: Mapping[tuple[str, ...], Sequence[str]]
) -> str:
    clauses: list[str] = []
    for groups, attacks in attacks_by_groups.items():
        form = "attacks_find_others" if clauses else "attacks_find"
        ending = "s" if len(attacks) == 1 else ""  # of the verb
        names = listed(groups)
        clause = say("how_sure", form, attacks=listed(attacks), s=ending, names=names)
        clauses.append(clause)
    text = "; ".join(clauses)

    n_named = len({*chain(*attacks_by_groups)})
    both_are_named = len(audit.subject.groups) == n_named == 2
    if both_are_named and len(attacks_by_groups) >= 2:
        text += say("how_sure", "attacks_contradict")
    return text


# The paper's numbers


def paper_note(audit: Audit) -> str:
    """What the symbols of the paper's numbers stand for, below their table."""
    seeds = sorted({setting.n_seeds for setting in audit.settings})
    noun = "seed" if seeds == [1] else "seeds"
    return say(
        "paper",
        "note",
        floor=f"{audit.plan.floor:g}".lstrip("0"),
        seeds=f"{number_range(seeds)} {noun}",
        level=f"{100 * audit.plan.confidence_level:g}%",
        received=audit.plan.benefit_kind.share,
    )
