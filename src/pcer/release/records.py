"""What are the parts of a release file? The records of ``docs/format.md``.

``file.Release`` puts them together; each is checked when it is made. Records hold
groups by name, and the counts or rates of groups: nothing is about one person.

To add a field: an optional one here, so that older files can still be read, and a line
in ``docs/format.md``.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, Any, Literal, NoReturn

from pydantic import Discriminator, Field, JsonValue, Tag, model_validator

from pcer.errors import InputError, confusable, normalised
from pcer.files import Record
from pcer.metrics import NO_DP

Outcome = Literal["benefit", "harm"]
SplitKind = Literal["random", "other"]
Part = Literal["train", "test"]
StratifiedBy = Literal["label", "group", "both", "nothing"]
PublishedAs = Literal["synthetic_table"]  # where that is not a model
Drawn = Literal["secret", "public", "given"]  # by whom splits are known
Why = Literal["missing", "other", "too_few"]  # somebody is in no table
Count = Annotated[int, Field(ge=0, le=10**15)]
Rate = Annotated[float, Field(ge=0, le=1)]
_LINE = r"\x00-\x1f\x7f-\x9f"
_UNSEEN = r"\s\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
# One line of text with something to see: a name ends up in terminals and reports.
_NAME = rf"^[^{_LINE}]*[^{_LINE}{_UNSEEN}][^{_LINE}]*$"
Name = Annotated[str, Field(max_length=200, pattern=_NAME)]
# Characters of what stands within a sentence.
LONGEST_PHRASE = 80
Phrase = Annotated[str, Field(max_length=LONGEST_PHRASE, pattern=_NAME)]
Note = Annotated[str, Field(max_length=2_000, pattern=rf"^[^{_LINE}]*$")]
Epsilon = Annotated[float, Field(gt=0)]
SignedNumber = Annotated[float, Field(ge=-1e15, le=1e15)]  # can be squared twice
NonNegative = Annotated[float, Field(ge=0, le=1e15)]
# Of two rates, over few models.
Covariance = Annotated[float, Field(ge=-0.5, le=0.5)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class Confusion(Record):
    """Confusion table of one group in one split."""

    tp: Count
    fp: Count
    tn: Count
    fn: Count

    @property
    def n(self) -> int:
        """Number of records."""
        return self.tp + self.fp + self.tn + self.fn

    @property
    def accuracy(self) -> float:
        """Share that is predicted right."""
        return (self.tp + self.tn) / self.n

    @property
    def positive_rate(self) -> float:
        """Share that is predicted positive."""
        return (self.tp + self.fp) / self.n


class TrainRates(Record):
    """Rates-only form of the training split. Without ``n`` nothing can be detected.

    Without ``accuracy`` the table holds the number of people only.
    """

    accuracy: Rate | None = None
    n: Count | None = None


class TestRates(Record):
    """Rates-only form of the test split. Without ``n`` nothing can be detected."""

    __test__ = False  # not a test class, despite its name

    accuracy: Rate | None = None
    positive_rate: Rate | None = None
    n: Count | None = None


class Exposure(Record):
    """What one attack measured on one group of one model. Signed; 0 means chance."""

    value: SignedNumber
    standard_error: NonNegative | None = None
    n_members: Count | None = None
    n_nonmembers: Count | None = None
    n_excluded: Count | None = None


def _form(value: Any) -> str:
    """Which form a table has: "counts" if it has any field of a confusion table."""
    fields = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return "rates" if Confusion.model_fields.keys().isdisjoint(fields) else "counts"


_Counts = Annotated[Confusion, Tag("counts")]
TrainTable = Annotated[
    _Counts | Annotated[TrainRates, Tag("rates")], Discriminator(_form)
]
TestTable = Annotated[
    _Counts | Annotated[TestRates, Tag("rates")], Discriminator(_form)
]


class GroupTables(Record):
    """One group of one model: both splits, and what attacks found.

    Where an attack's exposure is given, what the splits hold may be left out.
    """

    train: TrainTable = Field(default_factory=TrainRates)
    test: TestTable = Field(default_factory=TestRates)
    exposure: dict[Name, Exposure] = Field(default_factory=dict)


class Run(Record):
    """One trained model.

    Its model or training rule (a name) and its epsilon are its setting.
    """

    model: Name | None = None
    epsilon: Epsilon | None
    epsilon_by_accountant: dict[Name, float] | None = None
    dp_delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    noise_multiplier: Annotated[float, Field(ge=0)] | None = None
    seed: Seed
    split: Name | Seed | None = None
    groups: dict[Name, GroupTables]

    @property
    def budget(self) -> float:
        """The privacy budget; infinite without differential privacy."""
        return NO_DP if self.epsilon is None else self.epsilon


class PooledExposure(Record):
    """An attack's result over all models of a setting (paired, LiRA).

    Its error cannot be combined from single runs.
    """

    model: Name | None = None
    epsilon: Epsilon | None
    group: Name
    attack: Name
    value: SignedNumber
    standard_error: NonNegative | None = None
    null_error: NonNegative | None = None
    benefit_covariance: SignedNumber | None = None
    n_records: Count | None = None
    n_excluded: Count | None = None
    separation: Rate | None = None
    reliability: Rate | None = None


class Placebo(Record):
    """The made-up-groups check of one setting, attack and pair of groups.

    It says how far an alarm can be trusted. Draws are placebo groups of the same sizes,
    audited like the real ones; p-values are those of the real groups among
    permutations, of everybody or among people with the same label, adjusted over
    settings and attacks.
    """

    model: Name | None = None
    epsilon: Epsilon | None
    attack: Name
    groups: Annotated[list[Name], Field(min_length=2, max_length=2)]
    n_draws: Count
    n_double: Count  # draws with an alarm of a double disadvantage
    p_value: Rate | None = None
    p_value_within_labels: Rate | None = None
    n_permutations: Count | None = None  # within labels perhaps fewer
    # Draws with different exposures, the larger one detected; with different ratios;
    # and with either, by this attack in any setting and pair.
    n_exposure: Count | None = None
    n_ratio: Count | None = None
    n_any: Count | None = None
    # Draws whose outcomes, or whose rates of wrong judgements, differ in this setting;
    # both are the same for every attack.
    n_outcomes: Count | None = None
    n_wrongly: Count | None = None
    exposure_p_value: Rate | None = None
    exposure_p_value_within_labels: Rate | None = None
    wrongly_p_value: Rate | None = None  # of rates of wrong judgements
    # Draws also attacked exactly (others are taken to first order), and their root mean
    # square difference, in errors.
    n_exact: Count | None = None
    exact_difference: NonNegative | None = None


class TailRow(Record):
    """Whom of a group an attacker spots almost surely, and how often that is right.

    People are picked in all models but two and verified in these: ``picked`` is a share
    of people, ``right`` of verifying pairs of models. .99 means 99 of 100 or more.
    Without numbers too few people of the group were picked, or too few pairs verify.
    p-values are of a difference from the group ``against``.
    """

    model: Name | None = None
    epsilon: Epsilon | None
    group: Name
    n_models: Count  # of different splits
    threshold: Rate  # own AUC from which one is picked
    picked: Rate | None = None
    picked_error: NonNegative | None = None
    by_chance: Rate | None = None  # share picked if nobody were memorised
    right: Rate | None = None
    right_error: NonNegative | None = None
    against: Name | None = None
    p_value: Rate | None = None
    p_value_within_labels: Rate | None = None
    n_permutations: Count | None = None
    n_draws: Count | None = None  # made-up groups
    n_alarms: Count | None = None  # those whose tails differ

    @property
    def is_shown(self) -> bool:
        """Whether enough people were picked, and enough pairs verify."""
        return self.picked is not None


class Condition(Record):
    """One attribute's value: a part of a rule that says who is in a subgroup."""

    attribute: Name
    value: Name


class SubgroupTest(Record):
    """The search of one setting by one attack, or of a rate.

    p-values are of the most extreme subgroup among permuted people: of everybody, or
    within labels. A subgroup of the least size that differs by ``detectable`` would be
    found in 8 of 10 cases.
    """

    model: Name | None = None
    epsilon: Epsilon | None
    attack: Name | None = None
    p_value: Rate
    p_value_within_labels: Rate
    critical_value: NonNegative | None = None
    detectable: NonNegative | None = None


class WorstSubgroup(Record):
    """The subgroup that stands out most: against everybody else, by one attack.

    ``lower_bound`` holds for all subgroups together; errors carry the factor.
    """

    model: Name | None = None
    epsilon: Epsilon | None
    attack: Name | None = None
    rule: Annotated[list[Condition], Field(min_length=1, max_length=3)]
    n_people: Count  # to 10
    difference: SignedNumber
    standard_error: NonNegative
    lower_bound: SignedNumber


class SubgroupSearch(Record):
    """A search for the subgroup that is hit hardest, and what it was."""

    about: Literal["exposure", "outcomes", "wrongly"]
    attributes: Annotated[list[Name], Field(min_length=1)]
    depth: Count  # values in a rule, at most
    least: Count  # people in a subgroup, and outside
    factor: NonNegative  # of the variance
    level: Rate  # of each test
    n_candidates: Count
    n_permutations: Count
    seed: Seed
    tests: list[SubgroupTest]
    worst: WorstSubgroup | None = None  # None: nobody stands out, or is not named
    withheld: Note | None = None  # why one that stands out is not named


class TrainingNoise(Record):
    """How a rate varies over models that were trained again on one split.

    Matrices have a row and a column for each group, in the order of the subject's. They
    are of one model: covariances between groups of their rates over both parts, and of
    the test rate of one with the rate over both parts of the other (the mean of both
    orders).
    """

    model: Name | None = None
    epsilon: Epsilon | None
    rate: Name
    degrees_of_freedom: Annotated[int, Field(ge=1, le=10**6)]
    everybody: list[list[Covariance]]
    crossed: list[list[Covariance]]


class Bound(Record):
    """Privacy that one group's people spent in training, as epsilon.

    A ``receipt`` is a bound; ``realised``, the least epsilon over orders, is none. The
    mode says where norms of gradients come from: "refreshed" is an estimate. A
    ``promise`` is what a rule that treats groups differently keeps for everyone of a
    group, as ``mean``; it needs no norms.
    """

    model: Name | None = None
    epsilon: Epsilon | None  # of the setting, as promised
    group: Name
    label: Annotated[int, Field(ge=0, le=1)] | None = None  # only people of it
    kind: Literal["receipt", "realised", "promise"]
    mode: Literal["exact", "refreshed", "held"]
    accountant: Name
    mean: NonNegative  # over people and models
    standard_error: NonNegative | None = None
    quantiles: dict[Name, NonNegative] = Field(default_factory=dict)
    n_records: Count | None = None
    nominal: NonNegative | None = None  # the promise by the same accountant
    # AUC minus 1/2 of an attacker who sees every step, by Gaussian privacy: an
    # estimate.
    allowed_advantage: Annotated[float, Field(ge=0, le=0.5)] | None = None
    # Whether no noise was added to these statistics of training records.
    exact: bool | None = None


class JoinedGroups(Record):
    """Small groups under one name, and the most people that are in them in any run."""

    group: Name
    n_groups: Count
    n_people: Count


class Disclosed(Record):
    """What the file reveals about single people, and which rule it was written by.

    Memberships are those that the tables reveal with certainty to someone who knows the
    prediction: cells alone, a person once for each model, and besides ``only_together``
    all tables of a split, a person once for each split, of whom ``unproved`` may not be
    certain. Coarse tables reveal none.
    Attributes that were asked for and not written are listed with the reason. Splits
    are "secret" if a secret drew them, "public" if anybody can draw them again, and
    "given" if pcer did not draw them.
    """

    public_data: bool = False
    least_people: Count | None = None
    small_groups: Literal["join", "withhold"] | None = None
    joined: list[JoinedGroups] = Field(default_factory=list)
    splits: Drawn | None = None
    memberships: Count | None = None
    only_together: Count | None = None
    unproved: Count | None = None
    most_in_one_model: Count | None = None
    n_coarse_tables: Count | None = None
    not_written: dict[Name, Note] = Field(default_factory=dict)


class Copies(Record):
    """Share of the real records of a group and part that stand in the table verbatim.

    The mean over the tables of a setting.
    """

    model: Name | None = None
    epsilon: Epsilon | None
    group: Name
    part: Part
    share: Rate


class AccuracyLoss(Record):
    """How much less often a model is right about a group if trained on the table.

    Against the same model trained on the real records that the table was made from; on
    real people who were held out; a mean over the splits.
    """

    model: Name | None = None
    epsilon: Epsilon | None
    group: Name
    value: Annotated[float, Field(ge=-1, le=1)]
    standard_error: NonNegative | None = None
    n_records: Count | None = None


class LeftOutPeople(Record):
    """How many people are in no table, and why: each for the first reason that holds.

    "missing": the attribute is not recorded; "other": it is, with a value that was not
    asked for; "too_few": their group is too small to be shown.
    """

    why: Why
    attribute: Name
    n_people: Count


class Subject(Record):
    """What was trained on, and about whom."""

    dataset: Name
    attribute: Name
    groups: Annotated[list[Name], Field(min_length=2)]
    outcome: Outcome | None = None  # None where nothing is predicted
    published: PublishedAs | None = None  # what was made of the records; None: a model
    people: Phrase | None = None  # a plural noun: "defendants"
    positive_means: Phrase | None = None  # such as "are predicted to be charged again"
    model: Phrase | None = None  # what was trained: "A forest for loans of 2024"
    membership_means: Phrase | None = None  # of a member: "you were arrested in 2013"
    positive_label: str | Seed | float | bool | None = None
    unit_of_privacy: Name | None = None
    n_records: Count | None = None
    n_missing_group: Count | None = None
    left_out: list[LeftOutPeople] = Field(default_factory=list)
    notes: list[Note] = Field(default_factory=list)

    @property
    def prediction_is(self) -> Outcome:
        """What a positive prediction is; where nothing is predicted, either will do."""
        return self.outcome or "benefit"

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Subject:
        field = "subject.groups"
        for name, n in Counter(self.groups).items():
            if n > 1:
                refuse(field, f"groups must be distinct, but {name!r} appears twice")
        check_names(self.groups, "groups", field=field)
        return self


class Training(Record):
    """How the models were trained, as far as the trainer says."""

    mechanism: Name = "unknown"
    split_kind: SplitKind | None = None
    unit_of_split: Name | None = None
    effective_units: dict[Name, Annotated[float, Field(gt=0)]] | None = None
    stratified_by: StratifiedBy | None = None
    config: dict[str, JsonValue] | None = None
    joint_privacy: JsonValue | None = None


class Provenance(Record):
    """Where the file came from."""

    pcer_version: Name | None = None
    source_commit: Name | None = None
    source_dirty: bool | None = None
    data_digest: Name | None = None
    made_with: Name | None = None  # the same in all releases of one call


def require_phrases(**phrases: str | None) -> None:
    """Raise InputError unless every given phrase may stand within a sentence."""
    for field, text in phrases.items():
        if text is None:
            continue
        if len(text) > LONGEST_PHRASE or not re.fullmatch(_NAME, text):
            refuse(
                field,
                f"{field} must be one line of at most {LONGEST_PHRASE} characters that "
                f"can be seen, not {text!r}.",
            )


def check_names(names: list[str], what: str, *, field: str) -> None:
    """Raise InputError unless a reader can see all names, and tell them apart."""
    for name in names:
        if not normalised(name):
            refuse(
                field,
                f"{what}: {name!r} shows nothing; give it a name that can be seen",
            )
    pair = confusable(names)
    if pair is not None:
        first, second = pair
        refuse(field, f"{what}: {first!r} and {second!r} read alike; name them apart")


def refuse(field: str, sentence: str) -> NoReturn:
    """Raise InputError about a field of the file."""
    raise InputError(sentence, field=field)
