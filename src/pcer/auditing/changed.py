"""What a comparison of two releases says: every number, and the words."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final, Literal

from pcer.auditing.file import rounded
from pcer.auditing.words import setting_name
from pcer.files import Record, canonical_json
from pcer.release import Proxy, Shown, proxy_named

FORMAT: Final = "pcer-comparison"
VERSION: Final = 1


class ChangeVerdict(StrEnum):
    """What can be said of a change."""

    WORSE = "worse"
    IMPROVED = "improved"
    CANNOT_BE_TOLD = "cannot_be_told"

    @property
    def words(self) -> str:
        """As it is printed."""
        return self.value.replace("_", " ")


class ComparedRelease(Record):
    """One of the two."""

    title: str
    release_sha256: str
    data_digest: str | None


class ComparedSetting(Record):
    """A model and a budget; None is a model without a name, or without differential privacy."""

    model: str | None
    epsilon: float | None


class GroupChange(Record):
    """One group's exposure, old and new, for people like these.

    Attributes:
        change: new minus old.
        most: most that it may have risen by, all exposures of the comparison at once.
        p_worse: of "it rose", adjusted over settings, groups and pairs; ``p_worse_alone`` not.
        p_improved: of "it fell", likewise.
    """

    group: str
    old: float | None
    new: float | None
    change: float | None
    standard_error: float | None
    most: float | None
    p_worse: float | None
    p_worse_alone: float | None
    p_improved: float | None
    p_improved_alone: float | None
    verdict: ChangeVerdict


class PairChange(Record):
    """The difference of two groups' exposures, first minus second, old and new.

    Attributes:
        change: of its size: positive where the groups grew apart.
        standard_error: of new minus old.
        most: most that its size may have grown by, all differences of the comparison at once.
    """

    groups: tuple[str, str]
    old: float | None
    new: float | None
    change: float | None
    standard_error: float | None
    most: float | None
    p_worse: float | None
    p_worse_alone: float | None
    p_improved: float | None
    p_improved_alone: float | None
    verdict: ChangeVerdict


class SettingChange(Record):
    """One setting of the old release beside one of the new.

    Attributes:
        n_paired: splits that both have, change by change; None where errors are added instead.
    """

    old: ComparedSetting
    new: ComparedSetting
    n_paired: int | None
    groups: list[GroupChange]
    pairs: list[PairChange]
    verdict: ChangeVerdict

    @property
    def name(self) -> str:
        """The setting; of two different ones, both."""
        old, new = (setting_name(one.model, one.epsilon) for one in (self.old, self.new))
        return new if old == new else f"{old} → {new}"

    @property
    def rows(self) -> list[GroupChange | PairChange]:
        """Everything that was tested."""
        return [*self.groups, *self.pairs]


class Changes(Shown):
    """The result of ``pcer.compare``.

    Attributes:
        cost: what exposure is measured by, in both.
        same_people: whether both releases say that they are of the same records.
        verdict: worse if anything is; else improved if anything is; else it cannot be told.
        headline: the finding in one sentence.
        account: what it rests on.
        left_out: settings that only one of the two has.
    """

    format: Literal["pcer-comparison"] = FORMAT
    version: Literal[1] = VERSION
    old: ComparedRelease
    new: ComparedRelease
    attribute: str
    cost: str
    same_people: bool
    verdict: ChangeVerdict
    headline: str
    account: list[str]
    settings: list[SettingChange]
    left_out: list[str]

    @property
    def title(self) -> str:
        """Both releases and the verdict."""
        return f"{self.old.title} → {self.new.title}: {self.verdict.words}"

    @property
    def proxy(self) -> Proxy:
        """What is known of the cost."""
        return proxy_named(self.cost)

    def to_tree(self) -> dict[str, Any]:
        """Plain objects, numbers rounded as they are written."""
        tree: dict[str, Any] = rounded(self.model_dump(mode="json"))
        return tree

    def to_json(self) -> str:
        """Canonical text: same releases, same bytes."""
        return canonical_json(self.to_tree())


def comparison_schema() -> dict[str, Any]:
    """JSON Schema of what ``pcer compare`` writes."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Changes.model_json_schema(),
        "title": f"pcer comparison, version {VERSION}",
        "required": list(Changes.model_fields),
    }


def strongest(verdicts: Iterable[ChangeVerdict]) -> ChangeVerdict:
    """Worse before improved, and that before what cannot be told."""
    found = set(verdicts)
    return next(one for one in ChangeVerdict if one in found)
