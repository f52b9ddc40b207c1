"""What must a reader know beside the tables, and how are their cells written?

What all tables share. A table is a list of columns, each a head and what makes a cell
of a row's subject (``GroupRow``, ``PairRow``); ``words.toml`` has titles and notes. To
add a table: a function that returns ``table_of(...)``, and a section of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pcer import wording
from pcer.auditing.answers import Difference
from pcer.auditing.record import (
    Audit,
    GroupResult,
    PairResult,
    SettingResult,
)
from pcer.paper.records import PublishedPair, PublishedSetting
from pcer.release.attack_kinds import GAP, Scale
from pcer.release.file import Release
from pcer.release.population import left_out_sentence
from pcer.report.table import Table, isolated

MOST_PAIRS = 5  # pairs that charts show; the tables have all
HUNDREDTHS = 100.0

Ends = tuple[float, float]
# Its head, and what makes a cell of what a row is about.
Column = tuple[str, Callable[[Any], str]]


class GroupRow(NamedTuple):
    """What a row about a group is made of."""

    setting: SettingResult
    name: str
    group: GroupResult


class PairRow(NamedTuple):
    """What a row about two groups is made of; last the paper's numbers of the pair."""

    setting: SettingResult
    pair: PairResult
    published: PublishedPair


def group_rows(audit: Audit) -> Iterator[GroupRow]:
    """Every setting with each of its groups."""
    for setting in audit.settings:
        for name, group in setting.groups.items():
            yield GroupRow(setting, name, group)


def pair_rows(audit: Audit) -> Iterator[PairRow]:
    """Every setting with each of its pairs, and the paper's numbers of that pair."""
    published = published_by_setting(audit)
    for setting in audit.settings:
        by_paper = published[setting.model, setting.epsilon].pairs
        for pair, paper in zip(setting.pairs, by_paper, strict=True):
            yield PairRow(setting, pair, paper)


def published_by_setting(
    audit: Audit,
) -> dict[tuple[str | None, float | None], PublishedSetting]:
    """The paper's numbers by model and epsilon."""
    found = {}
    for model in audit.published:
        for setting in model.settings:
            found[model.model, setting.epsilon] = setting
    return found


def subject_name(audit: Audit) -> str:
    """Dataset and attribute."""
    return f"{audit.subject.dataset} ({audit.subject.attribute})"


def isolate_names(text: str, audit: Audit) -> str:
    """A sentence that names which run from right to left do not turn around."""
    subject = audit.subject
    for name in sorted({*subject.groups, subject.dataset, subject.attribute}, key=len):
        text = text.replace(name, isolated(name))
    return text


def facts(audit: Audit) -> list[str]:
    """What a reader must know to read the numbers: outcome, split, sizes, notes."""
    subject = audit.subject
    weight = "helps" if subject.outcome == "benefit" else "harms"
    split = subject.split_kind or "not said to be random"
    sizes = []
    for name, group in audit.settings[0].groups.items():
        if group.n_train is None or group.n_test is None:
            sizes.append(f"{name} not said")
        else:
            sizes.append(f"{name} {group.n_train:,.0f} + {group.n_test:,.0f}")
    seeds = wording.number_range(sorted({each.n_seeds for each in audit.settings}))
    splits = wording.number_range(sorted({each.n_splits for each in audit.settings}))
    return [
        f"A positive prediction {weight} the person. Mechanism: {subject.mechanism}. "
        f"Split {split}.",
        f"Records per run, train + test: {', '.join(sizes)}.",
        f"Settings: {len(audit.settings)}; seeds of each: {seeds}; "
        f"distinct splits of each: {splits}.",
        *left_out(audit),
        *subject.notes,
    ]


def left_out(found: Audit | Release) -> list[str]:
    """How many people are in no number and why; nothing if all are in one."""
    subject = found.subject
    sentence = left_out_sentence(subject.left_out, subject.n_missing_group)
    return [sentence] if sentence else []


def advice(audit: Audit) -> list[str]:
    """The advice of every verdict that occurs, strongest first, with reasons."""
    main_first = sorted(audit.settings, key=lambda b: b.verdict is not audit.verdict)
    settings_by_text: dict[str, list[str]] = {}
    for setting in main_first:
        text = f"{setting.verdict.words}."
        if setting.reason:
            text += f" Reason: {setting.reason}."
        settings_by_text.setdefault(text, []).append(setting.name.full)
    return [f"{', '.join(names)} — {text}" for text, names in settings_by_text.items()]


def table_of(
    audit: Audit,
    name: str,
    columns: Sequence[Column],
    items: Iterable[Any],
    n_labels: int,
    **values: str,
) -> Table:
    """A row for every item; the first columns are labels."""
    heads = [head for head, _ in columns]
    rows = []
    for item in items:
        rows.append(tuple(cell(item) for _, cell in columns))
    return titled_table(audit, name, heads, rows, n_labels, **values)


def titled_table(
    audit: Audit,
    name: str,
    heads: Sequence[str],
    rows: Iterable[tuple[str, ...]],
    n_labels: int,
    **values: Any,
) -> Table:
    """Cells under the title and over the note that they have in ``words.toml``."""
    places = {
        "audit": audit,
        "gap": GAP,
        "level": f"{100 * audit.plan.confidence_level:g}",
        "unit": audit.attack_kind.scale.points,
        **values,
    }
    title, note = (text.format(**places) for text in wording.templates()[name].values())
    return Table(title, tuple(heads), tuple(rows), n_labels, note)


def further_rows(n: int) -> str:
    """How many rows a short table leaves out; empty for none."""
    return f" {n} more rows: full table." if n else ""


def least_private_first(audit: Audit) -> list[SettingResult]:
    """Settings in the order in which people read them, model by model."""
    models = [published.model for published in audit.published]
    return sorted(audit.settings, key=lambda b: (models.index(b.model), -b.budget))


def shown_groups(audit: Audit) -> list[int]:
    """Positions of the groups that charts show: those of the first few pairs."""
    shown: set[str] = set()
    for pair in audit.settings[0].pairs[:MOST_PAIRS]:
        shown.update(pair.groups)
    return [g for g, name in enumerate(audit.subject.groups) if name in shown]


def setting_labels(audit: Audit) -> list[str]:
    """What settings are called on an axis: short, and distinct even if nearly equal."""
    short = [setting.name.short for setting in audit.settings]
    if len(set(short)) == len(short):
        return [isolated(label) for label in short]
    return [
        "no-DP" if setting.epsilon is None else repr(setting.epsilon)
        for setting in audit.settings
    ]


def amount_text(scale: Scale, exposure: float | None, digits: int = 2) -> str:
    """An exposure or a difference of two in hundredths, or in its own unit."""
    if exposure is None or scale.per_unit != HUNDREDTHS:
        return wording.decimals(exposure, 4)
    return wording.decimals(HUNDREDTHS * exposure, digits)


def interval_text(scale: Scale, interval: Ends | None) -> str:
    """An interval of exposures as a table has it."""
    if interval is None:
        return "[no interval]"
    low, high = interval
    return f"[{amount_text(scale, low)}, {amount_text(scale, high)}]"


def difference_text(scale: Scale, found: Difference) -> str:
    """A signed difference above its interval."""
    is_positive = found.value is not None and found.value > 0
    value = ("+" if is_positive else "") + amount_text(scale, found.value)
    return f"{value}\n{interval_text(scale, found.interval)}"
