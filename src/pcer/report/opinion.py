"""The auditor's opinion: plain Markdown with headings, paragraphs and simple tables.

Word processors take it as it is (``pandoc opinion.md -o opinion.docx``). Every sentence
and number comes from the audit, so that both answers are those of every other output.
The template says what stands where; ``words.toml`` has the sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pcer.auditing import words
from pcer.auditing.file import Audit
from pcer.files import as_shown
from pcer.release import proxies
from pcer.report import tables
from pcer.report.pictures import environment
from pcer.report.table import markdown_text, pipe_table


def to_opinion(audits: Sequence[Audit]) -> str:
    """The opinion on each release, one after the other; at most about 500 words each."""
    page = environment().get_template("opinion.md")
    say = partial(words.say, "opinion")
    parts = []
    rooms = {
        "words": words,
        "tables": tables,
        "proxies": proxies,
        "text": markdown_text,
    }
    for audit in map(as_shown, audits):
        note = say("table", attack=audit.proxy.label, coin=audit.proxy.scale.coin)
        numbers = replace(
            tables.finding_table(audit, most_rows=tables.FEW_ROWS), note=note
        )
        parts.append(
            page.render(audit=audit, say=say, numbers=pipe_table(numbers), **rooms)
        )
    text = "\n".join(parts)
    for entity, sign in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):  # no HTML
        text = text.replace(entity, f"\\{sign}")
    return text
