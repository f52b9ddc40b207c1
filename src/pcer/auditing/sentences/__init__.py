"""What is said of an audit? ``of(audit, setting)``, every sentence from one object.

``words.toml`` has the sentences; the files of this room choose among them and fill
them. Outputs ask ``of`` once a setting and make no sentence of the finding themselves.
What is said of the whole audit stands in the audit: ``account``, ``trust``,
``next_steps``, ``choice``, ``policy_lines``.

    telling    what a sentence may name, and which answer it is
    headline   both answers in at most 30 words; the badge
    cards      a question, its answer, sentences: three of them
    certainty  how sure a finding is; whether the paper's numbers are evidence
    advice     what would change, and what more data would show
    account    for the people affected; ``conclude`` gives an audit its words
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pcer.auditing.record import Audit, BudgetResult
from pcer.auditing.sentences import advice, cards, certainty, headline, telling
from pcer.auditing.sentences.cards import Card


@dataclass(frozen=True, kw_only=True)
class Sentences:
    """Everything that is said of one setting of an audit."""

    title: str  # the setting in a menu
    subject: Sequence[str]  # what the audit is about, in parts
    headline: str  # both answers, at most 30 words
    badge: str  # the verdict in a few words
    exposure: Card  # who is easier to recognise?
    outcomes: Card  # who is worse served?
    how_sure: Card
    certainty: Sequence[str]  # all sentences of how sure it is
    advice: Sequence[str]  # what would change in the setting of least exposure
    exposure_order: Sequence[str]  # groups as each answer names them, then the others
    outcomes_order: Sequence[str]

    @property
    def cards(self) -> tuple[Card, Card, Card]:
        """The three cards, in reading order."""
        return self.exposure, self.outcomes, self.how_sure


def of(audit: Audit, setting: BudgetResult) -> Sentences:
    """All sentences about one setting; the headline is the one that the audit has."""
    return Sentences(
        title=telling.setting_title(setting),
        subject=telling.subject_line(audit, setting),
        headline=setting.headline,
        badge=headline.badge(audit, setting),
        exposure=cards.exposure_card(audit, setting),
        outcomes=cards.outcomes_card(audit, setting),
        how_sure=cards.how_sure_card(audit, setting),
        certainty=certainty.how_sure(audit, setting),
        advice=advice.what_would_change(audit, setting),
        exposure_order=telling.in_order(setting, "exposure"),
        outcomes_order=telling.in_order(setting, "outcomes"),
    )
