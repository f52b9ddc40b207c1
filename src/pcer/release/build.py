"""How does a release come from counts, and facts beside them?

Predictions, tables, estimators and sweeps are counted per model, split and group
(``count_entries``) and handed to ``build_release``, the only builder: rules about what
may be published have one place.

To add a fact that is written as it is: a field of ``ReleaseFacts``, its name in STATED
or a field of ``Training`` in ``records``, and a line in ``docs/format.md``.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from pcer._version import __version__
from pcer.errors import InputError, require_open_unit
from pcer.metrics import BoolArray, IntArray
from pcer.release import disclosure
from pcer.release.attack_kinds import attack_kind
from pcer.release.columns import SPLITS
from pcer.release.disclosure import Detail, Disclosure
from pcer.release.file import FORMAT, VERSION, Release, parse_release
from pcer.release.population import NOBODY, Attribute, Missing
from pcer.release.records import (
    AccuracyLoss,
    Bound,
    Copies,
    Drawn,
    Exposure,
    JoinedGroups,
    LeftOutPeople,
    Outcome,
    Placebo,
    PooledExposure,
    PublishedAs,
    SplitKind,
    StratifiedBy,
    SubgroupSearch,
    TailRow,
    Training,
    TrainingNoise,
    require_phrases,
)

# The cells of a confusion table: a record is in cell 2 x label + prediction.
CELLS = ("tn", "fp", "fn", "tp")
EMPTIED = (
    "certain_cells=False: its tables are coarse, and coarse tables have no exposures"
)
# Fields of a release's subject that are stated.
STATED = (
    "dataset",
    "outcome",
    "published",
    "people",
    "positive_means",
    "model",
    "membership_means",
    "positive_label",
    "unit_of_privacy",
)
PACKAGE = Path(__file__).resolve().parents[1]


def source_state(package: Path = PACKAGE) -> tuple[str | None, bool | None]:
    """The commit that pcer runs from, and whether the package was changed since.

    Neither is known of an installed package, nor of a copy inside another repository.
    """
    import subprocess  # readers of a release never start another program

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(package), *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        return result.stdout.strip()

    try:
        init = git("ls-files", "--full-name", "--error-unmatch", "--", "__init__.py")
        is_pcer = 'name = "pcer"' in git("show", "HEAD:pyproject.toml").splitlines()
        if not is_pcer or init != "src/pcer/__init__.py":
            return None, None
        status = git("status", "--porcelain", "--untracked-files=no", "--", ".")
        return git("rev-parse", "HEAD"), bool(status)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None, None


@dataclass(frozen=True, kw_only=True)
class ReleaseFacts:
    """Facts beside the counts; most of them are written into the release as they are.

    Those without a comment are fields of the release (``docs/format.md``).
    """

    dataset: str
    outcome: Outcome | None
    split_kind: SplitKind
    published: PublishedAs | None = None  # what was made; None: a model
    disclosure: Disclosure = field(default_factory=Disclosure)
    people: str | None = None  # a plural noun such as "defendants"
    positive_means: str | None = None  # such as "are predicted to be charged again"
    model: str | None = None  # what was trained: "A forest for loans of 2024"
    membership_means: str | None = None  # of a member: "you were arrested in 2013"
    positive_label: str | int | float | bool | None = None
    groups: Sequence[Any] | None = None  # of the only attribute, in the order wanted
    group_names: Mapping[Any, str] = field(default_factory=dict)  # for readers
    splits: Drawn = "given"  # who can draw them again
    missing: Missing = "leave_out"  # what becomes of those without a recorded group
    unit_of_privacy: str | None = None  # whom a budget protects, such as "record"
    mechanism: str = "unknown"  # how the models were trained, such as "dp-sgd"
    unit_of_split: str | None = None  # such as "person" where one has many records
    effective_units: dict[str, float] | None = None  # by group, how many units count
    stratified_by: StratifiedBy | None = None
    config: dict[str, Any] | None = None
    joint_privacy: Any = None  # epsilon of releasing all models together
    dp_delta: float | None = None  # of every model with a budget
    data_digest: str | None = None
    not_written: Mapping[str, str] = field(default_factory=dict)
    source: tuple[str | None, bool | None] = (None, None)  # see ``source_state``
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.dp_delta is not None:
            require_open_unit(dp_delta=self.dp_delta)
        require_phrases(
            people=self.people,
            positive_means=self.positive_means,
            model=self.model,
            membership_means=self.membership_means,
        )
        _require_choice("split_kind", self.split_kind, get_args(SplitKind))
        if self.outcome is not None:
            _require_choice("outcome", self.outcome, get_args(Outcome))
        _require_choice("missing", self.missing, get_args(Missing))


def _require_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value in allowed:
        return
    first, second = allowed
    raise InputError(
        f"{name} must be {first!r} or {second!r}, not {value!r}.", field=name
    )


class RunKey(NamedTuple):
    """Which model a run is of."""

    epsilon: float | None  # its budget; None without differential privacy
    seed: int
    split: str | None = None  # the name of its split
    model: str | None = None  # the name of its model or training rule


@dataclass(frozen=True, kw_only=True, eq=False)
class CountedRun:
    """One model's counts for one protected attribute, and facts about the model."""

    key: RunKey
    cells: IntArray  # (split, group, cell) counts, as in SPLITS and CELLS
    # By group and attack.
    exposure: Mapping[str, Mapping[str, Exposure]] = field(default_factory=dict)
    noise_multiplier: float | None = None
    epsilon_by_accountant: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Counted:
    """All models' counts for one protected attribute, and what attacks found."""

    attribute: str
    groups: tuple[str, ...]  # in the order of every run's cells
    runs: tuple[CountedRun, ...]
    n_records: int  # the most that any run has, in a group or not
    n_missing_group: int = 0  # the most that are in no group in any run
    left_out: Sequence[LeftOutPeople] = ()  # who they are
    joined: Mapping[str, int] = field(default_factory=dict)  # of how many groups
    placebo: Sequence[Placebo] = ()
    pooled: Sequence[PooledExposure] = ()
    bounds: Sequence[Bound] = ()
    copies: Sequence[Copies] = ()
    accuracy_loss: Sequence[AccuracyLoss] = ()
    training_noise: Sequence[TrainingNoise] = ()
    tail: Sequence[TailRow] = ()
    subgroups: Sequence[SubgroupSearch] = ()
    # By attack or check, why it is missing.
    not_computed: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()  # written after those of the facts
    # Whether nothing was predicted: the cells of a group's part then hold its size.
    only_sizes: bool = False
    # What the tables of a split give away together (``joint``): people whom no cell
    # alone does, once a split, and how many of them are not proved to be. None where
    # it was not looked for.
    n_together: int | None = None
    n_unproved: int | None = None
    # (model, group) the most detail that may be written; None: what each table allows.
    detail: IntArray | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Entries:
    """Records, or cells of several records, one entry each, as arrays of one length."""

    run: IntArray  # position of the model
    split: IntArray  # position in SPLITS
    positive: BoolArray  # whether the label is the positive one
    predicted: BoolArray  # whether the model's answer is
    n: IntArray | None = None  # how many records an entry counts; None: one each


def count_entries(
    entries: Entries, keys: Sequence[RunKey], attribute: Attribute
) -> Counted:
    """Counts of every model (of ``keys``) by split, group, label and answer."""
    # The first place of the group's axis is for records in no group.
    shape = (len(keys), len(SPLITS), 1 + len(attribute.groups), len(CELLS))
    group = 1 + attribute.codes
    cell = 2 * entries.positive.astype(np.int64) + entries.predicted
    index = np.ravel_multi_index((entries.run, entries.split, group, cell), shape)
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts.reshape(-1), index, 1 if entries.n is None else entries.n)

    runs = zip(keys, counts, strict=True)
    return Counted(
        attribute=attribute.name,
        groups=attribute.groups,
        runs=tuple(CountedRun(key=key, cells=cells[:, 1:]) for key, cells in runs),
        n_records=int(counts.sum(axis=(1, 2, 3)).max()),
        n_missing_group=int(counts[:, :, 0].sum(axis=(1, 2)).max()),
        left_out=_left_out(entries, attribute),
        joined=attribute.joined,
        notes=[attribute.note] if attribute.note else [],
    )


def _left_out(entries: Entries, attribute: Attribute) -> list[LeftOutPeople]:
    """How many are in no table by their first reason: the most of any run."""
    is_counted = attribute.codes != NOBODY
    found = []
    for reason in attribute.left_out:
        chosen = reason.chosen & ~is_counted
        is_counted |= reason.chosen
        n = None if entries.n is None else entries.n[chosen]
        most = int(np.bincount(entries.run[chosen], n).max(initial=0))
        if most:
            name = reason.attribute
            row = LeftOutPeople(why=reason.why, attribute=name, n_people=most)
            found.append(row)
    return found


class Published(NamedTuple):
    """All models' tables, and how much of each may be published."""

    tables: IntArray  # (model, split, group, label, predicted) counts
    detail: IntArray  # (model, group) a ``Detail``
    # Whether attacks that other models calibrate may be published of single models:
    # they tell of the others' members, those of coarse tables among them.
    has_calibrated: bool
    only_sizes: bool


def build_release(facts: ReleaseFacts, counted: Counted, *, file: str) -> Release:
    """A checked release of one protected attribute, within the disclosure rule.

    Errors call the source of the counts ``file``; they name the field and the remedy.
    """
    if len(counted.groups) < 2:
        what = "one group only" if counted.groups else "no group"
        raise InputError(
            f"{file}: attribute {counted.attribute!r} has {what}; an audit needs at "
            "least two.",
            field="groups",
        )
    published = _published(facts.disclosure, counted, file)
    runs = _runs(facts, counted, published)
    pooled = _rounded_rows(counted, published)
    tree = {
        "format": FORMAT,
        "version": VERSION,
        "subject": _subject(facts, counted, published),
        "training": {name: getattr(facts, name) for name in Training.model_fields},
        "runs": runs,
        "pooled_exposure": pooled,
        "bounds": list(counted.bounds),
        "training_noise": _noise_of_exact_tables(counted, published),
        "tail": list(counted.tail),
        "subgroups": list(counted.subgroups),
        "copies": list(counted.copies),
        "accuracy_loss": list(counted.accuracy_loss),
        "not_computed": {**counted.not_computed, **_emptied(counted, runs, pooled)},
        "placebo": list(counted.placebo),
        "disclosure": _disclosure(facts, counted, published),
        "provenance": {
            "pcer_version": __version__,
            "source_commit": facts.source[0],
            "source_dirty": facts.source[1],
            "data_digest": facts.data_digest,
        },
    }
    return parse_release(tree, file=file, limits=None)  # limits are the reader's


def _published(rule: Disclosure, counted: Counted, file: str) -> Published:
    """What the rule allows to publish; InputError where a group is too small for it."""
    tables = tables_of(counted)
    people = tables.sum(axis=(-2, -1) if counted.only_sizes else -1)
    least = rule.least_people
    if not rule.public_data and people.min(initial=least) < least:
        raise InputError(
            f"{file}: attribute {counted.attribute!r} has a group with fewer than "
            f"{least} people of one label in training or in test; join it "
            "with another, or say that the data are public.",
            field="least_people",
        )

    detail = np.zeros((len(counted.runs), len(counted.groups)), dtype=np.int64)
    if counted.detail is not None:
        detail = counted.detail
    elif not rule.certain_cells and not counted.only_sizes:
        detail = disclosure.coarsened(tables)
    has_calibrated = rule.certain_cells and not detail.any()
    return Published(tables, detail, has_calibrated, counted.only_sizes)


def tables_of(counted: Counted) -> IntArray:
    """(model, split, group, label, predicted) counts."""
    shape = (len(counted.runs), len(SPLITS), len(counted.groups), 2, 2)
    tables = np.array([run.cells for run in counted.runs], dtype=np.int64)
    return tables.reshape(shape)


def _subject(
    facts: ReleaseFacts, counted: Counted, published: Published
) -> dict[str, Any]:
    notes = [*facts.notes, *counted.notes]
    if facts.disclosure.public_data:
        notes.append("Public data: exact tables of groups of any size are released.")
    elif not counted.only_sizes:
        n_models = len(counted.runs)
        warning = disclosure.rebuilding_note(n_models, counted.n_records)
        notes += [warning] if warning else []
    coarse = disclosure.coarsening_note(published.detail, counted.groups)
    if coarse:
        notes.append(coarse)
    return {
        **{name: getattr(facts, name) for name in STATED},
        "attribute": counted.attribute,
        "n_records": counted.n_records,
        "n_missing_group": counted.n_missing_group,
        "left_out": list(counted.left_out),
        "groups": list(counted.groups),
        "notes": notes,
    }


def _disclosure(
    facts: ReleaseFacts, counted: Counted, published: Published
) -> dict[str, Any]:
    """What the file reveals about single people, and which rule it was written by."""
    rule = facts.disclosure
    tables = published.tables
    is_exact = (published.detail == Detail.COUNTS) & (not published.only_sizes)
    exact = np.where(is_exact[:, None, :, None, None], tables, 0)
    memberships = disclosure.given_away(exact)
    return {
        "public_data": rule.public_data,
        "least_people": None if rule.public_data else rule.least_people,
        "small_groups": None if rule.public_data else "join",
        "joined": _joined(counted, published),
        "splits": facts.splits,
        "memberships": int(memberships.sum()) + (counted.n_together or 0),
        "only_together": counted.n_together,
        "unproved": counted.n_unproved,
        "most_in_one_model": int(memberships.max(initial=0)),
        "n_coarse_tables": int((published.detail > Detail.COUNTS).sum()),
        "not_written": dict(facts.not_written),
    }


def _joined(counted: Counted, published: Published) -> list[JoinedGroups]:
    """The joined groups, with the most people that a run has in them."""
    most = published.tables.sum(axis=(1, 3, 4)).max(axis=0, initial=0).tolist()
    rows = []
    for name, n_groups in counted.joined.items():
        n_people = most[counted.groups.index(name)]
        row = JoinedGroups(group=name, n_groups=n_groups, n_people=n_people)
        rows.append(row)
    return rows


def _emptied(
    counted: Counted, runs: Sequence[Mapping[str, Any]], pooled: Sequence[Any]
) -> dict[str, str]:
    """Attacks that coarse tables left nothing of, each with the reason."""
    had = {row.attack for row in counted.pooled}
    for model in counted.runs:
        had.update(*model.exposure.values())
    kept = {row.attack for row in pooled}
    for run in runs:
        for group in run["groups"].values():
            kept.update(group["exposure"])
    return dict.fromkeys(sorted(had - kept), EMPTIED)


def _runs(
    facts: ReleaseFacts, counted: Counted, published: Published
) -> list[dict[str, Any]]:
    """Every model, with as much of each group's tables as is published."""
    runs = []
    for run, detail in zip(counted.runs, published.detail.tolist(), strict=True):
        runs.append(
            {
                "model": run.key.model,
                "epsilon": run.key.epsilon,
                "epsilon_by_accountant": dict(run.epsilon_by_accountant) or None,
                "dp_delta": None if run.key.epsilon is None else facts.dp_delta,
                "noise_multiplier": run.noise_multiplier,
                "seed": run.key.seed,
                "split": run.key.split,
                "groups": _groups(run, counted.groups, detail, published),
            }
        )
    return runs


def _groups(
    run: CountedRun, names: tuple[str, ...], detail: list[int], published: Published
) -> dict[str, dict[str, Any]]:
    """One model's groups: tables of both parts, and exposures where these are exact."""
    groups = {}
    for group, name in enumerate(names):
        tables: dict[str, Any] = {"exposure": {}}
        for split, part in enumerate(SPLITS):
            cells = run.cells[split, group].tolist()
            tables[part] = _table(cells, part, detail[group], published.only_sizes)
        if detail[group] == Detail.COUNTS:
            tables["exposure"] = _exposure(run, name, published)
        groups[name] = tables
    return groups


def _table(
    counts: list[int], part: str, detail: int, only_sizes: bool
) -> dict[str, Any]:
    """One group's table in one part of one model, with as much as is published."""
    cells = dict(zip(CELLS, counts, strict=True))
    n = sum(counts)
    if detail == Detail.COUNTS:
        return {"n": n} if only_sizes else cells
    rates: dict[str, Any] = {"n": n}
    if detail == Detail.ACCURACY:
        rates["accuracy"] = (cells["tp"] + cells["tn"]) / n
    if part == "test" and detail < Detail.SIZES:
        rates["positive_rate"] = (cells["tp"] + cells["fp"]) / n
    return rates


def _exposure(run: CountedRun, group: str, published: Published) -> dict[str, Exposure]:
    """By attack, what may be published of one group of one model."""
    exposure = run.exposure.get(group, {})
    if published.has_calibrated:
        return dict(exposure)
    names = [name for name in exposure if not attack_kind(name).is_calibrated]
    return {name: exposure[name] for name in names}


def _rounded_rows(counted: Counted, published: Published) -> list[PooledExposure]:
    """Exposures over all models, rounded (of one model, left out) for coarse tables."""
    keys = [run.key for run in counted.runs]
    rows = []
    for row in counted.pooled:
        group = counted.groups.index(row.group)
        setting = (row.model, row.epsilon)
        in_setting = np.array([(key.model, key.epsilon) == setting for key in keys])
        is_coarse = in_setting & (published.detail[:, group] > Detail.COUNTS)
        if not is_coarse.any():
            rows.append(row)
            continue
        n_models = in_setting.sum()
        if n_models > 1:
            people = published.tables[is_coarse, :, group].sum(axis=(2, 3))
            step = 1 / float(people.min() * n_models)
            rows.append(_rounded(row, step))
    return rows


def _noise_of_exact_tables(
    counted: Counted, published: Published
) -> list[TrainingNoise]:
    """Training noise of settings whose tables are all exact.

    Elsewhere it would say more of who is in the test part than coarse tables do.
    """
    exact = set[tuple[str | None, float | None]]()
    coarse = set[tuple[str | None, float | None]]()
    for run, detail in zip(counted.runs, published.detail, strict=True):
        setting = (run.key.model, run.key.epsilon)
        (coarse if detail.any() else exact).add(setting)
    whole = exact - coarse
    return [row for row in counted.training_noise if (row.model, row.epsilon) in whole]


def _rounded(row: PooledExposure, step: float) -> PooledExposure:
    """A row in whole steps; a step is what one person in one model can change."""
    # Errors grow by a whole step, twice the rounding, so that no bound or test gets
    # sharper; a missing covariance is the worst case.
    largest = attack_kind(row.attack).scale.largest
    value = step * round(row.value / step)
    changed = {
        "value": min(max(value, -largest), largest),
        "standard_error": _widened(row.standard_error, step),
        "null_error": _widened(row.null_error, step),
        "benefit_covariance": None,
    }
    return row.model_copy(update=changed)


def _widened(error: float | None, step: float) -> float | None:
    return None if error is None else step / 2 * math.ceil(2 * error / step + 2)


def data_digest(content: bytes, facts: ReleaseFacts) -> str | None:
    """Digest of the records of a release: keyed, unless they are public."""
    rule = facts.disclosure
    if not rule.secret and not rule.public_data:
        return None
    return ":".join(_keyed(content, rule.secret))


def split_names(trained: Iterable[Iterable[str]], facts: ReleaseFacts) -> list[str]:
    """Names of splits that reveal nothing about their training records.

    Digests of public records, and keyed digests, are published. Others, which would
    allow guessing the last id, become numbers in the order in which splits first occur.

    Args:
        trained: the ids of each split's training records.
        facts: whether records are public, and the secret that keys digests.

    >>> facts = ReleaseFacts(dataset="toy", outcome="harm", split_kind="random")
    >>> split_names([["b", "a"], ["c"], ["a", "b"]], facts)
    ['split 1', 'split 2', 'split 1']
    """
    rule = facts.disclosure
    keyed = [_keyed("\n".join(sorted(ids)).encode(), rule.secret) for ids in trained]
    if rule.public_data or rule.secret:
        return [f"{method}:{digest[:16]}" for method, digest in keyed]
    distinct = dict.fromkeys(keyed)
    number = {digest: n for n, digest in enumerate(distinct, start=1)}
    return [f"split {number[digest]}" for digest in keyed]


def _keyed(content: bytes, secret: bytes) -> tuple[str, str]:
    """How a digest was made, and the digest: with the secret, if there is one."""
    if secret:
        return "hmac-sha256", hmac.new(secret, content, hashlib.sha256).hexdigest()
    return "sha256", hashlib.sha256(content).hexdigest()
