"""What is an audit about, and what should people know who may be in its data?

``header`` stands above every first screen, ``if_in_data`` below it. ``people_of`` names
a group's people in any sentence. To add a part: a line here, and its words in
``words.toml``, sections ``header`` or ``you``.
"""

from __future__ import annotations

import re
from typing import Final

from pcer.auditing.record import Audit, SettingResult
from pcer.wording import capital, plural, say

NOUNS: Final = ("women", "men", "girls", "boys")  # names that are no adjectives
REST: Final = ("other", "others", "the rest")  # names of who is left
MOST_WORDS: Final = 60  # of what people in the data are told


def header(audit: Audit, setting: SettingResult) -> list[str]:
    """What was trained, the attribute, people, splits and the setting, in parts."""
    subject = audit.subject
    parts = [_trained(audit), subject.attribute]
    if subject.n_audited:
        parts.append(f"{subject.n_audited:,} {subject.people or 'people'}")
    split = "random split" if subject.split_kind == "random" else "split"
    parts.append(plural(setting.n_splits, split))
    return [*parts, setting.name.title]


def _trained(audit: Audit) -> str:
    """The model in the release's words, and the data where these do not name them."""
    subject = audit.subject
    if subject.model is None:
        return subject.dataset
    model = capital(subject.model)
    if subject.dataset.lower() in model.lower():
        return model
    return f"{model}, on {subject.dataset}"


def people_of(people: str | None, name: str) -> str:
    """A group's people as a sentence names them.

    >>> people_of("defendants", "White"), people_of(None, "2"), people_of(None, "Women")
    ('White defendants', 'people in group 2', 'Women')
    """
    if name.lower() in NOUNS:
        return name
    if people is None or re.search(r"\d", name):
        return f"{people or 'people'} in group {name}"
    return f"{name} {people}"


def others_of(people: str | None, name: str) -> str:
    """The group that another one is compared with, as a sentence names it.

    >>> others_of("defendants", "Other"), others_of("defendants", "White")
    ('others', 'White defendants')
    """
    return "others" if name.lower() in REST else people_of(people, name)


def if_in_data(audit: Audit) -> str:
    """What spotting would tell of you, whom this is about, and what you can ask for."""
    meaning = audit.subject.membership_means
    sentences = [say("you", "unknown")]
    if meaning is not None:
        sentences = [say("you", "means", meaning=meaning)]
    sentences.append(say("you", "groups"))
    has_receipts = any(
        group.allowed is not None and group.allowed.spent is not None
        for group in audit.told.groups.values()
    )
    sentences.append(say("you", "ask_receipt" if has_receipts else "ask"))
    return " ".join(sentences)
