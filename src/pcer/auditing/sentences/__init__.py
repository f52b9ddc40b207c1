"""What is said of an audit? ``of(audit, setting)``, every sentence from one object.

``words.toml`` has the sentences; the files of this room choose among them and fill
them. Outputs ask ``of`` once a setting and make no sentence of the finding themselves.
What is said of the whole audit stands in the audit: ``account``, ``trust``,
``next_steps``, ``choice``, filled by ``conclude`` (account.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pcer.auditing.record import Audit, SettingResult
from pcer.auditing.sentences import advice, cards, certainty, headline, telling
from pcer.auditing.sentences.cards import Card


@dataclass(frozen=True, kw_only=True)
class Sentences:
    """Everything that is said of one setting of an audit."""

    title: str  # the setting in a menu
    subject: Sequence[str]  # what the audit is about, in parts
    headline: str  # both answers, at most 30 words
    badge: str  # the verdict in a few words
    policy: Sequence[str]  # whether it holds, and each broken rule
    named: Sequence[str]  # the groups that the verdict names
    exposure: Card  # who is easier to recognise?
    outcomes: Card  # who is worse served?
    how_sure: Card
    certainty: Sequence[str]  # all sentences of how sure it is
    advice: Sequence[str]  # what would change in the setting of least exposure
    exposure_order: Sequence[str]  # groups as each answer names them, then the others
    outcomes_order: Sequence[str]
    evidence: str  # whether the paper's numbers are evidence
    paper_note: str  # their symbols
    paper_title: str  # the shortest of them


def of(audit: Audit, setting: SettingResult) -> Sentences:
    """All sentences about one setting; the headline is the one that the audit has."""
    return Sentences(
        title=setting.name.title,
        subject=telling.subject_line(audit, setting),
        headline=setting.headline,
        badge=headline.badge(audit, setting),
        policy=audit.policy_lines,
        named=setting.named,
        exposure=cards.exposure_card(audit, setting),
        outcomes=cards.outcomes_card(audit, setting),
        how_sure=cards.how_sure_card(audit, setting),
        certainty=certainty.how_sure(audit, setting),
        advice=advice.what_would_change(audit, setting),
        exposure_order=telling.in_order(setting, "exposure"),
        outcomes_order=telling.in_order(setting, "outcomes"),
        evidence=certainty.paper_words(audit),
        paper_note=certainty.paper_note(audit),
        paper_title=certainty.paper_note(audit, "strip"),
    )
