"""What a comparison of two releases says: the record with every number, and its sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, Literal

from pcer.auditing.file import Result
from pcer.auditing.words import in_setting, listed, setting_name
from pcer.files import Record
from pcer.release.format import Release
from pcer.release.proxies import Proxy, proxy_named

MOST_NAMED: Final = 3  # changes that a headline names
# Difference of the shares trained on from which on the account mentions it.
SHARES_DIFFER: Final = 0.01


class ChangeVerdict(StrEnum):
    """What can be said of a change."""

    WORSE = "worse"
    IMPROVED = "improved"
    CANNOT_BE_TOLD = "cannot_be_told"

    @property
    def words(self) -> str:
        """The verdict as it is printed."""
        return self.value.replace("_", " ")

    @classmethod
    def strongest(cls, verdicts: Iterable[ChangeVerdict]) -> ChangeVerdict:
        """Worse before improved, and that before what cannot be told."""
        given = set(verdicts)
        return next(verdict for verdict in cls if verdict in given)


class ComparedRelease(Record):
    """One of the two releases."""

    title: str
    release_sha256: str
    data_digest: str | None

    @classmethod
    def of(cls, release: Release) -> ComparedRelease:
        """What a comparison says of a release."""
        digest = release.provenance.data_digest
        return cls(title=release.title, release_sha256=release.sha256, data_digest=digest)


class ComparedSetting(Record):
    """A model and a budget; None is a model without a name, or without differential privacy."""

    model: str | None
    epsilon: float | None


class Change(Record):
    """One group's exposure, or the difference of two (first minus second), for people like these.

    Attributes:
        groups: one name, or two.
        change: new minus old; of a difference that of its size, positive where they grew apart.
        standard_error: of new minus old.
        most: most that it may have risen, or its size grown, all of a kind at once.
        p_worse: of "it rose", adjusted over settings, groups and pairs; ``p_worse_alone`` not.
        p_improved: of "it fell", likewise.
    """

    groups: tuple[str, ...]
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
    groups: list[Change]
    pairs: list[Change]
    verdict: ChangeVerdict

    @property
    def name(self) -> str:
        """The setting; of two different ones, both."""
        old, new = (setting_name(side.model, side.epsilon) for side in (self.old, self.new))
        return new if old == new else f"{old} → {new}"

    @property
    def rows(self) -> list[Change]:
        """Everything that was tested."""
        return [*self.groups, *self.pairs]


class Changes(Result):
    """The result of ``pcer.compare``.

    Attributes:
        cost: what exposure is measured by, in both.
        same_people: whether both releases say that they are of the same records.
        verdict: worse if anything is; else improved if anything is; else it cannot be told.
        headline: the finding in one sentence.
        account: what it rests on.
        left_out: settings that only one of the two has.
    """

    format: Literal["pcer-comparison"] = "pcer-comparison"
    version: Literal[1] = 1
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
        """Titles of the old and the new release, and the verdict."""
        return f"{self.old.title} → {self.new.title}: {self.verdict.words}"

    @property
    def proxy(self) -> Proxy:
        """The attack behind ``cost``."""
        return proxy_named(self.cost)


# Sentences by what the two releases share.
GROUNDS: Final = {
    "splits": "Both are of the same records and share {n} splits, which are compared with each "
    "other; whom the models remember of these people is taken as differently as it can be.",
    "people": "Both are of the same records, but what is compared has too few splits in common, or "
    "one error over all of them: the errors of both are added.",
    "nothing": "The releases do not say that they are of the same records "
    "(provenance.data_digest), so the errors of both are added.",
}


def headline(settings: Sequence[SettingChange], cost: Proxy) -> str:
    """Whose exposure rose and which difference grew; or fell; or the most that may be missed."""
    verdict = ChangeVerdict.strongest(setting.verdict for setting in settings)
    if verdict is ChangeVerdict.CANNOT_BE_TOLD:
        return _missed(settings, cost, "Not shown to be worse or better:")
    parts = []
    for setting in settings:
        new, several = setting.new, len(settings) > 1
        where = f" {in_setting(new.model, new.epsilon)}" if several else ""
        parts += [_named(row, where, cost) for row in setting.rows if row.verdict is verdict]
    more = f"; and {len(parts) - MOST_NAMED} more" if len(parts) > MOST_NAMED else ""
    return f"{verdict.words.capitalize()}: {'; '.join(parts[:MOST_NAMED])}{more}."


def account(
    settings: Sequence[SettingChange], cost: Proxy, same_people: bool, train_shares: Sequence[float]
) -> Iterator[str]:
    """What it rests on, in sentences; ``train_shares`` of the records of old and new models."""
    if any(setting.verdict is not ChangeVerdict.CANNOT_BE_TOLD for setting in settings):
        yield _missed(settings, cost, "In all,")
    yield f"Exposure is measured by {cost.phrase} in both, for people like these."
    paired = [setting.n_paired for setting in settings if setting.n_paired is not None]
    shared = "splits" if paired else "people" if same_people else "nothing"
    yield GROUNDS[shared].format(n=min(paired, default=0))
    old, new = train_shares
    if abs(old - new) > SHARES_DIFFER:
        yield (
            f"The old models were trained on {100 * old:.0f} of 100 records and the new ones "
            f"on {100 * new:.0f}: part of a change may come from that."
        )


def _named(row: Change, where: str, cost: Proxy) -> str:
    old, new, scale = row.old or 0.0, row.new or 0.0, cost.scale
    if len(row.groups) == 1:
        amounts = f"{scale.hundredths(new)} (before: {scale.hundredths(old)})"
        return f"in {row.groups[0]}{where} {scale.short.format(found=amounts, label=cost.label)}"
    grew = "grew" if abs(new) > abs(old) else "shrank"
    sizes = f"from {_hundredths(abs(old), cost)} to {_hundredths(abs(new), cost)}"
    return f"the difference between {listed(row.groups)}{where} {grew} {sizes}"


def _hundredths(amount: float, cost: Proxy) -> str:
    """A change or difference of a cost, in people of 100 or its own unit, as part of a sentence."""
    value = cost.scale.per_unit * amount
    number = f"{value:z.2g}" if abs(value) < 10 else f"{value:z.0f}"
    return f"{number} in 100" if cost.scale.per_unit != 1.0 else number


def _missed(settings: Sequence[SettingChange], cost: Proxy, start: str) -> str:
    risen = [row.most for setting in settings for row in setting.groups if row.most is not None]
    grown = [row.most for setting in settings for row in setting.pairs if row.most is not None]
    if not risen:
        return "Whether it is worse cannot be told: no group has people enough for this cost."
    apart = ", and no difference between groups has grown by more than "
    apart = apart + _hundredths(max(grown), cost) if grown else ""
    rose = f"no group's exposure has risen by more than {_hundredths(max(risen), cost)}"
    return f"{start} {rose}{apart}, with 95 % confidence."
