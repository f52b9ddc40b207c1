"""The only builder of releases: counts, and what is known beside them, into one checked release.

Whoever sees records (predictions, tables, sweeps) counts them per model, split and group and
hands the counts over; nothing else makes a release from them. So what one of them can write, all
can, and a rule about what may be published has one place: here, before anything is a file.
"""

from __future__ import annotations

import hashlib
import hmac
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from pcer._version import __version__
from pcer.errors import InputError, require_open_unit
from pcer.metrics import BoolArray, IntArray
from pcer.release import disclosure
from pcer.release.columns import SPLITS, text_of
from pcer.release.disclosure import Detail, DisclosureRule, Regrouping, allowed_groups
from pcer.release.format import (
    FORMAT,
    VERSION,
    Bound,
    Exposure,
    Outcome,
    Placebo,
    PooledExposure,
    Release,
    SplitKind,
    StratifiedBy,
    Training,
    parse_release,
)

# The cells of a confusion table: a record stands in cell 2 x label + prediction.
CELLS = ("tn", "fp", "fn", "tp")
PACKAGE = Path(__file__).resolve().parents[1]


# The commit that pcer runs from, and whether the package was changed since; None if not known.
SourceState = tuple[str | None, bool | None]


def source_state(package: Path = PACKAGE) -> SourceState:
    """What git says of pcer's own checkout, if the package lies in one.

    Nothing is known of an installed package, nor of a copy inside another repository.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(package), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

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
    """What counts cannot say about themselves; most of it is written into the release as it is."""

    dataset: str
    outcome: Outcome
    split_kind: SplitKind  # every test of the audit rests on it
    disclosure: DisclosureRule = field(default_factory=DisclosureRule)
    positive_label: str | int | float | bool | None = None
    groups: Sequence[Any] | None = None  # of the only attribute, in the order wanted
    unit_of_privacy: str | None = None  # whom a budget protects, such as "record"
    mechanism: str = "unknown"  # how the models were trained, such as "dp-sgd"
    unit_of_split: str | None = None  # such as "person" where one has many records
    effective_units: dict[str, float] | None = None  # by group, what its records are worth
    stratified_by: StratifiedBy | None = None
    config: dict[str, Any] | None = None
    joint_privacy: Any = None  # what releasing all models together costs
    dp_delta: float | None = None  # of every model with a budget
    data_digest: str | None = None
    secret: bytes = field(default=b"", repr=False)  # keys names of splits; it is never written
    source: SourceState = (None, None)  # where pcer trained the models
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.dp_delta is not None:
            require_open_unit(dp_delta=self.dp_delta)
        for name, choices in (("split_kind", SplitKind), ("outcome", Outcome)):
            value, allowed = getattr(self, name), get_args(choices)
            if value not in allowed:
                raise InputError(
                    f"{name} must be {allowed[0]!r} or {allowed[1]!r}, not {value!r}.", field=name
                )

    def group_names(self, names: Iterable[str]) -> tuple[str, ...]:
        """The groups of a release: as wanted, or all that there are, sorted."""
        return tuple(sorted(names) if self.groups is None else map(text_of, self.groups))


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
    exposure: Mapping[str, Mapping[str, Exposure]] = field(default_factory=dict)  # by group, cost
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Entries:
    """Records, or cells of several records, one entry each, as arrays of one length."""

    run: IntArray  # position of the model
    split: IntArray  # position in SPLITS
    group: IntArray  # position of the group; -1 for records in none
    positive: BoolArray  # whether the label is the positive one
    predicted: BoolArray  # whether the model's answer is
    n: IntArray | None = None  # how many records an entry stands for; None: each is one


def count_entries(
    entries: Entries, keys: Sequence[RunKey], *, attribute: str, groups: tuple[str, ...]
) -> Counted:
    """Counts of every model (of ``keys``) by split, group, label and answer."""
    shape = (len(keys), len(SPLITS), 1 + len(groups), len(CELLS))  # the first for those in none
    cell = 2 * entries.positive.astype(np.int64) + entries.predicted
    index = np.ravel_multi_index((entries.run, entries.split, 1 + entries.group, cell), shape)
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts.reshape(-1), index, 1 if entries.n is None else entries.n)
    left_out = int(counts[:, :, 0].sum(axis=(1, 2)).max())
    note = f"{left_out:,} records with a missing or unlisted {attribute} are in no group's table."
    return Counted(
        attribute=attribute,
        groups=groups,
        runs=tuple(CountedRun(key=k, cells=c[:, 1:]) for k, c in zip(keys, counts, strict=True)),
        n_records=int(counts.sum(axis=(1, 2, 3)).max()),
        n_missing_group=left_out,
        notes=[note] if left_out else [],
    )


def regrouping_of(facts: ReleaseFacts, counted: Counted) -> Regrouping:
    """Which groups may be released; whoever attacks groups joins them by this before."""
    people = _five_way(counted).sum(axis=-1)
    return allowed_groups(facts.disclosure, people, counted.groups, attribute=counted.attribute)


def regrouped(counted: Counted, regrouping: Regrouping) -> Counted:
    """The counts of the groups that may be released, before anything was attacked."""
    if not regrouping.note:
        return counted
    if counted.pooled or counted.bounds or any(run.exposure for run in counted.runs):
        raise ValueError("groups must be joined before they are attacked; use regrouping_of first.")
    to = regrouping.place == np.arange(len(regrouping.names))[:, None]  # (group to, group from)
    return replace(
        counted,
        groups=regrouping.names,
        runs=tuple(replace(run, cells=to.astype(np.int64) @ run.cells) for run in counted.runs),
        notes=[*counted.notes, regrouping.note],
    )


def build_release(facts: ReleaseFacts, counted: Counted, *, file: str) -> Release:
    """A checked release of one protected attribute, with no more in it than the rule allows.

    ``file`` is what errors call the source of the counts; they name the field and the remedy.
    """
    if len(counted.groups) < 2:
        has = f"{counted.attribute!r} has {'one group only' if counted.groups else 'no group'}"
        raise InputError(f"{file}: attribute {has}; an audit needs at least two.", field="groups")
    if counted.runs:  # without any the format says what is wrong
        counted = regrouped(counted, regrouping_of(facts, counted))
    rule, tables, notes = facts.disclosure, _five_way(counted), [*facts.notes, *counted.notes]
    detail = np.zeros((len(counted.runs), len(counted.groups)), dtype=np.int64)
    if not rule.certain_cells:
        detail = disclosure.coarsened(tables)
    disclosed = disclosure.given_away(tables, detail)
    if rule.public:
        notes.append("Public data: exact tables of groups of any size are released.")
    if coarse := disclosure.coarsening_note(detail, counted.groups):
        notes.append(coarse)
    tree = {
        "format": FORMAT,
        "version": VERSION,
        "subject": {
            "dataset": facts.dataset,
            "attribute": counted.attribute,
            "groups": list(counted.groups),
            "outcome": facts.outcome,
            "positive_label": facts.positive_label,
            "unit_of_privacy": facts.unit_of_privacy,
            "n_records": counted.n_records,
            "n_missing_group": counted.n_missing_group,
            "notes": notes,
        },
        "training": {name: getattr(facts, name) for name in Training.model_fields},
        "runs": [
            _run(run, counted.groups, facts.dp_delta, detail[index])
            for index, run in enumerate(counted.runs)
        ],
        "pooled_exposure": list(counted.pooled),
        "bounds": list(counted.bounds),
        "not_computed": dict(counted.not_computed),
        "placebo": list(counted.placebo),
        "disclosure": {
            "public_data": rule.public,
            "least_people": None if rule.public else rule.least_people,
            "small_groups": None if rule.public else "join",
            "memberships": disclosed.memberships,
            "most_in_one_model": disclosed.most_in_one_model,
            "n_coarse_tables": int((detail > Detail.COUNTS).sum()),
        },
        "provenance": {
            "pcer_version": __version__,
            "source_commit": facts.source[0],
            "source_dirty": facts.source[1],
            "data_digest": facts.data_digest,
        },
    }
    return parse_release(tree, file=file, limits=None)  # those are the reader's


def _five_way(counted: Counted) -> IntArray:
    """(model, split, group, label, predicted) counts."""
    cells = np.array([run.cells for run in counted.runs], dtype=np.int64)
    return cells.reshape(len(counted.runs), len(SPLITS), len(counted.groups), 2, 2)


def _run(
    run: CountedRun, groups: tuple[str, ...], dp_delta: float | None, detail: IntArray
) -> dict[str, Any]:
    """One model, with as much of each group's tables as is released."""

    def table(split: int, group: int) -> dict[str, Any]:
        cells = dict(zip(CELLS, run.cells[split, group].tolist(), strict=True))
        if detail[group] == Detail.COUNTS:
            return cells
        n = sum(cells.values())
        shown: dict[str, Any] = {"n": n}
        if detail[group] == Detail.ACCURACY:
            shown["accuracy"] = (cells["tp"] + cells["tn"]) / n
        if SPLITS[split] == "test" and detail[group] < Detail.SIZES:
            shown["positive_rate"] = (cells["tp"] + cells["fp"]) / n
        return shown

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
            | {"exposure": dict(run.exposure.get(name, {}))}
            for g, name in enumerate(groups)
        },
    }


def split_digest(trained: Iterable[str], *, secret: bytes = b"") -> str:
    """The name of a split that is known by the ids of the records in its training part.

    Keyed with the secret, if there is one: without it, who knows all ids but one can try the last.

    >>> split_digest(["b", "a"]) == split_digest(["a", "b"])
    True
    """
    text = "\n".join(sorted(trained)).encode()
    if secret:
        return "hmac-sha256:" + hmac.new(secret, text, hashlib.sha256).hexdigest()[:16]
    return "sha256:" + hashlib.sha256(text).hexdigest()[:16]


def published_splits(digests: Sequence[str], facts: ReleaseFacts) -> list[str]:
    """Names of splits that tell nothing about who is in them.

    Digests of public records, or keyed ones, are published as they are; others become numbers, in
    the order in which splits first occur.

    >>> facts = ReleaseFacts(dataset="toy", outcome="harm", split_kind="random")
    >>> published_splits(["b", "a", "b"], facts)
    ['split 1', 'split 2', 'split 1']
    """
    if facts.disclosure.public or facts.secret:
        return list(digests)
    number = {digest: k for k, digest in enumerate(dict.fromkeys(digests), start=1)}
    return [f"split {number[digest]}" for digest in digests]
