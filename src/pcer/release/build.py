"""The only builder of releases, from counts and facts beside them.

Predictions, tables and sweeps are counted per model, split and group and handed over
here. So all of them can write the same releases, and the rules about what may be
published have one place.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from pcer._version import __version__
from pcer.errors import InputError, require_open_unit
from pcer.metrics import BoolArray, IntArray
from pcer.release import disclosure
from pcer.release.attack_kinds import BY_SHADOWS, proxy_named
from pcer.release.columns import SPLITS
from pcer.release.disclosure import Detail, Disclosure
from pcer.release.file import FORMAT, VERSION, Release
from pcer.release.reading import parse_release
from pcer.release.records import (
    Bound,
    Exposure,
    Outcome,
    Placebo,
    PooledExposure,
    SplitKind,
    StratifiedBy,
    Training,
    require_phrases,
)
from pcer.release.small_groups import Attribute

# The cells of a confusion table: a record is in cell 2 x label + prediction.
CELLS = ("tn", "fp", "fn", "tp")
# Fields of a release's subject that are stated, and those that are counted.
STATED = (
    "dataset",
    "outcome",
    "people",
    "positive_means",
    "positive_label",
    "unit_of_privacy",
)
COUNTED = ("attribute", "n_records", "n_missing_group")
PACKAGE = Path(__file__).resolve().parents[1]


def source_state(package: Path = PACKAGE) -> tuple[str | None, bool | None]:
    """The commit that pcer runs from, and whether the package was changed since.

    Neither is known of an installed package, nor of a copy inside another repository.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(package), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        own = git("ls-files", "--full-name", "--error-unmatch", "--", "__init__.py")
        is_pcer = 'name = "pcer"' in git("show", "HEAD:pyproject.toml").splitlines()
        if not is_pcer or own != "src/pcer/__init__.py":
            return None, None
        status = git("status", "--porcelain", "--untracked-files=no", "--", ".")
        return git("rev-parse", "HEAD"), bool(status)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None, None


@dataclass(frozen=True, kw_only=True)
class ReleaseFacts:
    """Facts beside the counts; most of them are written into the release as they are."""

    dataset: str
    outcome: Outcome
    split_kind: SplitKind  # every test of exposure rests on it
    disclosure: Disclosure = field(default_factory=Disclosure)
    people: str | None = None  # a plural noun, such as "defendants"
    positive_means: str | None = None  # of people: "are predicted to be charged again"
    positive_label: str | int | float | bool | None = None
    groups: Sequence[Any] | None = None  # of the only attribute, in the order wanted
    group_names: Mapping[Any, str] = field(
        default_factory=dict
    )  # for readers, by group
    unit_of_privacy: str | None = None  # whom a budget protects, such as "record"
    mechanism: str = "unknown"  # how the models were trained, such as "dp-sgd"
    unit_of_split: str | None = None  # such as "person" where one has many records
    effective_units: dict[str, float] | None = (
        None  # by group, effective number of units
    )
    stratified_by: StratifiedBy | None = None
    config: dict[str, Any] | None = None
    joint_privacy: Any = None  # epsilon of releasing all models together
    dp_delta: float | None = None  # of every model with a budget
    data_digest: str | None = None
    not_written: Mapping[str, str] = field(
        default_factory=dict
    )  # attributes, with the reason
    source: tuple[str | None, bool | None] = (None, None)  # see ``source_state``
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.dp_delta is not None:
            require_open_unit(dp_delta=self.dp_delta)
        require_phrases(people=self.people, positive_means=self.positive_means)
        for name, choices in (("split_kind", SplitKind), ("outcome", Outcome)):
            value = getattr(self, name)
            allowed = get_args(choices)
            if value not in allowed:
                raise InputError(
                    f"{name} must be {allowed[0]!r} or {allowed[1]!r}, not {value!r}.",
                    field=name,
                )


class RunKey(NamedTuple):
    """One model: its budget (None without DP), its seed, its split's name, its training rule's."""

    epsilon: float | None
    seed: int
    split: str | None = None
    model: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class CountedRun:
    """One model's counts for one protected attribute, and what is known of the model."""

    key: RunKey
    cells: IntArray  # (split, group, cell) as in SPLITS and CELLS
    exposure: Mapping[str, Mapping[str, Exposure]] = field(
        default_factory=dict
    )  # by group, cost
    noise_multiplier: float | None = None
    epsilon_by_accountant: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Counted:
    """All models' counts for one protected attribute, and what attacks found."""

    attribute: str
    groups: tuple[str, ...]  # as ordered in every run's cells
    runs: tuple[CountedRun, ...]
    n_records: int  # the most that any run has, in a group or not
    n_missing_group: int = 0  # the most that are in no group in any run
    placebo: Sequence[Placebo] = ()
    pooled: Sequence[PooledExposure] = ()
    bounds: Sequence[Bound] = ()
    not_computed: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()  # after those of the facts
    only_sizes: bool = (
        False  # nothing was predicted: all cells of a group's part are one number
    )


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
    name, groups, codes, note = attribute
    shape = (len(keys), len(SPLITS), 1 + len(groups), len(CELLS))  # first: in no group
    cell = 2 * entries.positive.astype(np.int64) + entries.predicted
    index = np.ravel_multi_index((entries.run, entries.split, 1 + codes, cell), shape)
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts.reshape(-1), index, 1 if entries.n is None else entries.n)
    left_out = int(counts[:, :, 0].sum(axis=(1, 2)).max())
    missing = f"{left_out:,} records with a missing or unlisted {name} are in no group's table."
    return Counted(
        attribute=name,
        groups=groups,
        runs=tuple(
            CountedRun(key=k, cells=c[:, 1:]) for k, c in zip(keys, counts, strict=True)
        ),
        n_records=int(counts.sum(axis=(1, 2, 3)).max()),
        n_missing_group=left_out,
        notes=[*filter(None, (missing if left_out else "", note))],
    )


def build_release(facts: ReleaseFacts, counted: Counted, *, file: str) -> Release:
    """A checked release of one protected attribute, within the disclosure rule.

    Errors call the source of the counts ``file``; they name the field and the remedy.
    """
    if len(counted.groups) < 2:
        has = f"{counted.attribute!r} has {'one group only' if counted.groups else 'no group'}"
        raise InputError(
            f"{file}: attribute {has}; an audit needs at least two.", field="groups"
        )
    rule = facts.disclosure
    cells = np.array([run.cells for run in counted.runs], dtype=np.int64)
    # (model, split, group, label, predicted)
    tables = cells.reshape(len(counted.runs), len(SPLITS), len(counted.groups), 2, 2)
    people = tables.sum(axis=(-2, -1) if counted.only_sizes else -1)
    if (
        not rule.public_data
        and people.min(initial=rule.least_people) < rule.least_people
    ):
        raise InputError(
            f"{file}: attribute {counted.attribute!r} has a group with fewer than "
            f"{rule.least_people} people of one label in training or in test; join it with "
            "another, or say that the data are public.",
            field="least_people",
        )
    detail = np.zeros((len(counted.runs), len(counted.groups)), dtype=np.int64)
    if not rule.certain_cells and not counted.only_sizes:
        detail = disclosure.coarsened(tables)
    # LiRA of one model tells of the others' members, those of coarse tables among them.
    without = [] if rule.certain_cells else [proxy.name for proxy in BY_SHADOWS]
    is_told = (detail == Detail.COUNTS) & ~counted.only_sizes
    told = np.where(is_told[:, None, :, None, None], tables, 0)
    memberships = disclosure.given_away(told)
    coarse = disclosure.coarsening_note(detail, counted.groups)
    public = (
        "Public data: exact tables of groups of any size are released."
        if rule.public_data
        else ""
    )
    tree = {
        "format": FORMAT,
        "version": VERSION,
        "subject": {
            **{name: getattr(facts, name) for name in STATED},
            **{name: getattr(counted, name) for name in COUNTED},
            "groups": list(counted.groups),
            "notes": [*facts.notes, *counted.notes, *filter(None, (public, coarse))],
        },
        "training": {name: getattr(facts, name) for name in Training.model_fields},
        "runs": [
            _run(run, counted, facts.dp_delta, detail[index], without)
            for index, run in enumerate(counted.runs)
        ],
        "pooled_exposure": _pooled(counted, tables, detail),
        "bounds": list(counted.bounds),
        "not_computed": dict(counted.not_computed),
        "placebo": list(counted.placebo),
        "disclosure": {
            "public_data": rule.public_data,
            "least_people": None if rule.public_data else rule.least_people,
            "small_groups": None if rule.public_data else "join",
            "memberships": int(memberships.sum()),
            "most_in_one_model": int(memberships.max(initial=0)),
            "n_coarse_tables": int((detail > Detail.COUNTS).sum()),
            "not_written": dict(facts.not_written),
        },
        "provenance": {
            "pcer_version": __version__,
            "source_commit": facts.source[0],
            "source_dirty": facts.source[1],
            "data_digest": facts.data_digest,
        },
    }
    return parse_release(tree, file=file, limits=None)  # limits are the reader's


def _run(
    run: CountedRun,
    counted: Counted,
    dp_delta: float | None,
    detail: IntArray,
    without: Collection[str],
) -> dict[str, Any]:
    """One model, with as much of each group's tables as is released, without some attacks."""

    def table(split: int, group: int) -> dict[str, Any]:
        cells = dict(zip(CELLS, run.cells[split, group].tolist(), strict=True))
        n = sum(cells.values())
        shown: dict[str, Any] = {"n": n}
        if detail[group] == Detail.COUNTS:
            return shown if counted.only_sizes else cells
        if detail[group] == Detail.ACCURACY:
            shown["accuracy"] = (cells["tp"] + cells["tn"]) / n
        if SPLITS[split] == "test" and detail[group] < Detail.SIZES:
            shown["positive_rate"] = (cells["tp"] + cells["fp"]) / n
        return shown

    def exposure(group: int, name: str) -> dict[str, Exposure]:
        own = {} if detail[group] else run.exposure.get(name, {})
        return {cost: found for cost, found in own.items() if cost not in without}

    return {
        "model": run.key.model,
        "epsilon": run.key.epsilon,
        "epsilon_by_accountant": dict(run.epsilon_by_accountant) or None,
        "dp_delta": None if run.key.epsilon is None else dp_delta,
        "noise_multiplier": run.noise_multiplier,
        "seed": run.key.seed,
        "split": run.key.split,
        "groups": {
            name: {part: table(split, g) for split, part in enumerate(SPLITS)}
            | {"exposure": exposure(g, name)}
            for g, name in enumerate(counted.groups)
        },
    }


def _pooled(
    counted: Counted, tables: IntArray, detail: IntArray
) -> list[PooledExposure]:
    """Exposures over all models, rounded where they would reveal a coarse table; none of one model.

    A step is what one person in one model can change. Errors grow by a whole step,
    twice the rounding, so that no bound or test gets sharper; a missing covariance is
    the worst case.
    """
    rows = []
    for row in counted.pooled:
        g = counted.groups.index(row.group)
        setting = (row.model, row.epsilon)
        own = np.array(
            [(run.key.model, run.key.epsilon) == setting for run in counted.runs]
        )
        people = tables[own & (detail[:, g] > Detail.COUNTS), :, g].sum(axis=(2, 3))
        if not people.size:
            rows.append(row)
        elif own.sum() > 1:
            step = 1 / float(people.min() * own.sum())
            largest = proxy_named(row.proxy).scale.largest
            changed = {
                "value": min(max(step * round(row.value / step), -largest), largest)
            }
            for name in ("standard_error", "null_error"):
                if (error := getattr(row, name)) is not None:
                    changed[name] = step / 2 * math.ceil(2 * error / step + 2)
            rows.append(row.model_copy(update={**changed, "benefit_covariance": None}))
    return rows


def data_digest(content: bytes, facts: ReleaseFacts) -> str | None:
    """Digest of the records of a release: keyed, unless they are public."""
    is_named = facts.disclosure.secret or facts.disclosure.public_data
    return ":".join(_keyed(content, facts.disclosure.secret)) if is_named else None


def split_names(trained: Iterable[Iterable[str]], facts: ReleaseFacts) -> list[str]:
    """Names of splits, from the ids of their training records, that reveal nothing about these.

    Digests of public records, and keyed digests, are published. Others, which would
    allow guessing the last id, become numbers in the order in which splits first occur.

    >>> facts = ReleaseFacts(dataset="toy", outcome="harm", split_kind="random")
    >>> split_names([["b", "a"], ["c"], ["a", "b"]], facts)
    ['split 1', 'split 2', 'split 1']
    """
    keyed = [
        _keyed("\n".join(sorted(own)).encode(), facts.disclosure.secret)
        for own in trained
    ]
    if facts.disclosure.public_data or facts.disclosure.secret:
        return [f"{method}:{digest[:16]}" for method, digest in keyed]
    number = {digest: k for k, digest in enumerate(dict.fromkeys(keyed), start=1)}
    return [f"split {number[digest]}" for digest in keyed]


def _keyed(content: bytes, secret: bytes) -> tuple[str, str]:
    """How a digest was made, and the digest: with the secret, if there is one."""
    if secret:
        return "hmac-sha256", hmac.new(secret, content, hashlib.sha256).hexdigest()
    return "sha256", hashlib.sha256(content).hexdigest()
