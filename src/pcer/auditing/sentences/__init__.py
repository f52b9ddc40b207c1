"""What is said of an audit? ``of(audit, setting)``, every sentence from one object.

``words.toml`` has the sentences; the files of this room choose among them and fill
them, by the six ``answers`` of each setting. Outputs ask ``of`` once a setting and make
no sentence of the finding themselves. What is said of the whole audit stands in the
audit: ``if_in_data``, ``account``, ``trust``, ``next_steps``, ``choice``, filled by
``conclude`` (account.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pcer.auditing.record import Audit, SettingResult
from pcer.auditing.sentences.of_table import all_in_words, row_in_words
from pcer.auditing.sentences.paper_answers import both_row, delta_row
from pcer.auditing.sentences.rows import Row
from pcer.auditing.sentences.serving import serving_row
from pcer.auditing.sentences.spotting import easier_row, spotting_row
from pcer.auditing.sentences.subgroups import subgroup_row
from pcer.auditing.sentences.subject import header
from pcer.auditing.sentences.tails import tail_row
from pcer.auditing.sentences.trust import less_evidence, trust_row

SIX = (spotting_row, easier_row, serving_row, both_row, delta_row, trust_row)


@dataclass(frozen=True, kw_only=True)
class Sentences:
    """Everything that is said of one setting of an audit."""

    title: str  # the setting in a menu
    header: Sequence[str]  # what was trained, on whom, how often, in parts
    less: Sequence[str]  # what the file lacks, before the headline
    headline: str  # the largest answers, at most 40 words
    rows: Sequence[Row]  # the six questions with their answers; perhaps more
    next_step: str  # of the audit
    if_in_data: str  # what people should know who may be in it
    policy: Sequence[str]  # whether it holds, and each broken rule


def of(audit: Audit, setting: SettingResult) -> Sentences:
    """All sentences about one setting; the headline is the one that the audit has."""
    rows = [row(audit, setting) for row in SIX]
    # The last row says how far all of them can be trusted.
    for beside in (tail_row(setting), subgroup_row(audit)):
        if beside is not None:
            rows.insert(-1, beside)
    return Sentences(
        title=setting.name.title,
        header=all_in_words(audit, header(audit, setting)),
        less=less_evidence(audit),
        headline=setting.headline,
        rows=[row_in_words(audit, row) for row in rows],
        next_step=audit.next_steps[0] if audit.next_steps else "",
        if_in_data=audit.if_in_data,
        policy=audit.policy_lines,
    )
