"""What do the people affected read?

``audit`` calls ``conclude`` last, which gives an audit its words: headlines, account,
trust, next steps. The account says what people should know who may be in the data,
what training allows and what was not looked at; ``disclosed`` what the file itself
gives away. To add a sentence: a line of ``words.toml``, sections ``you``, ``account``
and ``checks``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from pcer.auditing.record import Audit, GroupBound, SettingResult
from pcer.auditing.sentences.advice import next_step
from pcer.auditing.sentences.certainty import trust_sentences
from pcer.auditing.sentences.headline import headline
from pcer.auditing.sentences.of_table import all_in_words, in_words
from pcer.auditing.sentences.subject import if_in_data
from pcer.auditing.sentences.telling import MOST_GROUPS_IN_A_SENTENCE
from pcer.measuring.checks.arrays import ReleaseArrays
from pcer.release import Release
from pcer.release.disclosure import LEAST_PEOPLE, given_away
from pcer.wording import capital, listed, say

MOST_GROUPS: Final = 3  # small groups that are named in a sentence


def conclude(audit: Audit, *, disclosed: Sequence[str], more: str | None) -> Audit:
    """The audit with its words: what the file discloses, what more data show."""
    settings = []
    for setting in audit.settings:
        words = in_words(audit, headline(audit, setting))
        settings.append(setting.model_copy(update={"headline": words}))
    audit = audit.model_copy(update={"settings": settings})

    next_steps = [in_words(audit, next_step(audit))]
    if more is not None:
        next_steps.append(more)
    trust = all_in_words(audit, trust_sentences(audit))
    not_measured = say("account", "not_measured")
    return audit.model_copy(
        update={
            "headline": audit.told.headline,
            "if_in_data": say("you", "lead", words=if_in_data(audit)),
            "account": [*_allowed(audit), not_measured, *disclosed],
            "trust": trust,
            "next_steps": next_steps,
        }
    )


def _allowed(audit: Audit) -> Iterator[str]:
    """What training allows, in the main or the least private setting with bounds."""
    bounded = [setting for setting in audit.settings if _bounds_of(setting)]
    if not bounded:
        return
    setting = audit.told
    if setting not in bounded:
        setting = max(bounded, key=lambda setting: setting.budget)
    where = capital(setting.name.in_sentence)
    bounds = _bounds_of(setting)

    promised = [
        f"{bound.promised:.3g} ({name})"
        for name, bound in bounds
        if bound.promised is not None
    ]
    if promised:
        yield say("account", "promised", where=where, promised=listed(promised))

    spent = [
        f"{bound.spent:.2g} ({name})"
        for name, bound in bounds
        if bound.spent is not None
    ]
    right = [
        f"{50 + 100 * bound.advantage:.1f} ({name})"
        for name, bound in bounds
        if bound.advantage is not None
    ]
    is_estimate = any(bound.mode == "refreshed" for _, bound in bounds)
    if spent:
        yield say(
            "account",
            "allowed_right" if right else "allowed",
            where=where,
            spent=listed(spent),
            right=listed(right),
            estimate=" (an estimate)" if is_estimate else "",
        )


def _bounds_of(setting: SettingResult) -> list[tuple[str, GroupBound]]:
    """Groups with what training allows about them, as many as a sentence names."""
    bounds = []
    for name, group in setting.groups.items():
        if group.allowed is not None:
            bounds.append((name, group.allowed))
    return bounds[:MOST_GROUPS_IN_A_SENTENCE]


def disclosed(release: Release) -> list[str]:
    """Small cells and certain memberships of a file of counts that are not public."""
    cells = release.kept(ReleaseArrays).cells
    stated = release.disclosure
    if cells is None or (stated is not None and stated.public_data):
        return []

    sentences = []
    is_small = (cells.sum(axis=2) < LEAST_PEOPLE).any(axis=(0, 1, 2))
    small = [release.subject.groups[group] for group in np.flatnonzero(is_small)]
    if small:
        groups = ", ".join(small[:MOST_GROUPS])
        if len(small) > MOST_GROUPS:
            groups += f" and {len(small) - MOST_GROUPS} more"
        sentences.append(say("checks", "few_people", least=LEAST_PEOPLE, groups=groups))

    is_unknown = np.isnan(cells).any(axis=(0, 1, 2))
    known = np.where(is_unknown, 0, cells).astype(np.int64)
    certain = given_away(known.transpose(3, 0, 4, 1, 2))
    n_certain = certain.sum()
    if certain.any():
        sentences.append(say("checks", "given_away", most=certain.max(), n=n_certain))
    # The file's own count of certain memberships is checked.
    declared = None if stated is None else stated.memberships
    if declared is not None and declared < n_certain:
        sentences.append(say("checks", "fewer_declared", n=declared))
    return sentences
