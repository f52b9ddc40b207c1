"""What is a release about, in readers' words, and which facts does it state?

Every function that makes a release calls ``facts_of``. To add words for readers: a
field of ``About``, which ``facts_of`` hands on as a field of ``ReleaseFacts``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pcer.release.build import ReleaseFacts
from pcer.release.disclosure import Disclosure
from pcer.release.population import Missing
from pcer.release.records import Outcome, SplitKind, require_phrases
from pcer.store.secret import require_random


@dataclass(frozen=True, kw_only=True, eq=False)
class About:
    """What a release is about, in readers' words; checked when made.

    Args:
        dataset: a name for the data.
        attribute: name of the protected attribute; taken from named columns if not
            given.
        groups: the groups in the order wanted (group 0 minus group 1 is the disparity's
            sign); sorted names by default. Records of other groups are counted as left
            out.
        group_names: what readers call groups, ``{"1": "White"}``; the others keep their
            names.
        missing: what becomes of people whose group is not recorded: "leave_out", or
            "group", one of their own where they are enough.
        people: whom the records are about, a plural noun: "defendants".
        positive_means: what a positive prediction says of them: "are predicted to pay
            back".
        model: what was trained: "A forest for loans of 2024".
        membership_means: what being in the training data says of a person: "you asked
            for a loan in 2024".
        notes: sentences to travel with the release.

    Raises:
        InputError: one sentence that names the field and the remedy.

    >>> About(dataset="loans", people="applicants").people
    'applicants'
    """

    dataset: str = "records"
    attribute: str | None = None
    groups: Sequence[Any] | None = None
    group_names: Mapping[Any, str] | None = None
    missing: Missing = "leave_out"
    people: str | None = None
    positive_means: str | None = None
    model: str | None = None
    membership_means: str | None = None
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        require_phrases(
            people=self.people,
            positive_means=self.positive_means,
            model=self.model,
            membership_means=self.membership_means,
        )

    @classmethod
    def of(cls, given: About | Mapping[str, Any] | None) -> About:
        """What was given, by name in a dict, or nothing."""
        return given if isinstance(given, About) else cls(**(given or {}))


def facts_of(
    about: About | Mapping[str, Any] | None,
    disclosure: Disclosure | Mapping[str, Any] | None,
    *,
    outcome: Outcome | None,
    split_kind: SplitKind,
    positive_label: str | int | float | bool | None = None,
    dp_delta: float | None = None,
) -> ReleaseFacts:
    """What a release states beside its counts."""
    about = About.of(about)
    if not isinstance(disclosure, Disclosure):
        disclosure = Disclosure(**(disclosure or {}))
    if disclosure.secret:
        make = "secrets.token_bytes(32), and keep it"
        require_random(disclosure.secret, "secret", make=make)
    return ReleaseFacts(
        dataset=about.dataset,
        outcome=outcome,
        split_kind=split_kind,
        disclosure=disclosure,
        people=about.people,
        positive_means=about.positive_means,
        model=about.model,
        membership_means=about.membership_means,
        positive_label=positive_label,
        groups=about.groups,
        group_names=about.group_names or {},
        missing=about.missing,
        dp_delta=dp_delta,
        notes=about.notes,
    )
