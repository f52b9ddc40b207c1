"""How is a finding said of a synthetic table instead of a model?

The sentences are those of a model, in other words where these would be wrong:
``words.toml`` has both, sections ``of_model`` and ``of_table``. ``sentences.of`` and
``conclude`` ask for them last. To add one: a line in each section.
"""

from __future__ import annotations

from collections.abc import Sequence

from pcer.auditing.record import Audit
from pcer.auditing.sentences.rows import Row
from pcer.wording import templates


def in_words(audit: Audit, text: str) -> str:
    """A sentence as it is, or as it is said of a table."""
    if audit.subject.published is None:
        return text
    of_table = templates()["of_table"]
    for name, phrase in templates()["of_model"].items():
        text = text.replace(phrase, of_table[name])
        # Within a sentence.
        text = text.replace(_lowered(phrase), _lowered(of_table[name]))
    return text


def _lowered(phrase: str) -> str:
    return phrase[0].lower() + phrase[1:]


def all_in_words(audit: Audit, texts: Sequence[str]) -> list[str]:
    """Several sentences."""
    return [in_words(audit, text) for text in texts]


def row_in_words(audit: Audit, row: Row) -> Row:
    """One of the six rows."""
    return row._replace(
        question=in_words(audit, row.question),
        answer=in_words(audit, row.answer),
        figures=all_in_words(audit, row.figures),
    )
