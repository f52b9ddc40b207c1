"""What stands in the paper's Tables 1-3 and S1-S6, with our numbers in their places?

``tables.folder`` asks for ``paper_tables``. A table is a description; ``typeset``
renders it. Captions are our own words.

To add a table: a function that gives a ``PaperTable``, an entry of ``paper_tables``,
and its label in ``published.TABLE_NAMES``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pcer.measuring.plan import Verdict
from pcer.report.tables.paper import plus_minus
from pcer.wording import NOTHING, yes_no
from pcer_studies import protocol
from pcer_studies.numbers import OurNumber, best_budgets, our_number, robust_budgets
from pcer_studies.protocol import (
    BUDGETS,
    DEFAULT_FLOOR,
    FLOORS,
    Configuration,
    budget_label,
)
from pcer_studies.published import TABLE_NAMES, key_at
from pcer_studies.results import Study


class Head(NamedTuple):
    """A column's head: as plain text, and as LaTeX typesets it."""

    plain: str
    latex: str


class Bold(NamedTuple):
    """Text that the paper sets in bold."""

    text: str


CellText = str | Bold
TableRow = tuple[CellText, ...]


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """One table of the paper.

    Attributes:
        label: as in the paper's source, such as ``tab:acs``.
        caption: in plain text.
        align: ``l``, ``c`` or ``r`` for each column.
        head: of each column.
        blocks: rows that belong together; a rule stands between blocks.
        spans: heads above the heads, each with the number of columns below it.
        merged: whether a block's first cells are one.
    """

    label: str
    caption: str
    align: str
    head: tuple[Head, ...]
    blocks: tuple[tuple[TableRow, ...], ...]
    spans: tuple[tuple[str, int], ...] = ()
    merged: bool = False

    @property
    def name(self) -> str:
        """As printed, such as ``Table S1``."""
        return TABLE_NAMES[self.label]


EPSILON = Head("ε", r"$\varepsilon$")
ACCURACY = Head("Acc", "Acc")
PARITY = Head("DP-Gap", "DP-Gap")
ODDS = Head("EO-Gap", "EO-Gap")
DISPARITY = Head("Δ PCER", r"$\Delta_\mathrm{PCER}$")
SELECTED = (
    ("compas", "race", 0.1),
    ("compas", "race", 5.0),
    ("adult", "race", 0.1),
    ("adult", "race", 1.0),
    ("bios", "gender", 0.1),
    ("bios", "gender", 1.0),
)
"""Configurations and budgets of the floor table."""

FLOOR_DIGITS = {1e-4: 0, 1e-3: 0, 1e-2: 1, 1e-1: 2}
ATTACKED = {
    "tab:mia-full": (("adult", "race"), ("adult", "sex"), ("compas", "race")),
    "tab:mia-full-b": (("acs", "race"), ("acs", "sex"), ("bios", "gender")),
}
ATTACKS = (("δ", r"$\delta$"), ("AUC", "AUC"))
"""As the heads of the attack tables write the two costs: in text, and in LaTeX."""
NONE_DETECTED_MARK = "†"
UNNAMED = (("compas", "race"), ("acs", "race"), ("acs", "sex"))
"""Configurations whose best budget by PCER the paper gives as N/A."""
STRONGEST = 0.1


def paper_tables(study: Study) -> tuple[PaperTable, ...]:
    """Every table that the study's configurations fill, in the paper's order."""
    tables = [
        _main(study, protocol.configuration("compas", "race")),
        _acs(study),
        _main(study, protocol.configuration("bios", "gender")),
        _floors(study),
        _summary(study),
        _main(study, protocol.configuration("adult", "sex")),
        _main(study, protocol.configuration("adult", "race")),
    ]
    tables += [_attacks(study, label) for label in ATTACKED]
    return tuple(table for table in tables if table is not None)


def _main(study: Study, configuration: Configuration) -> PaperTable | None:
    """Accuracy, outcome gaps, overfitting gaps and disparity of one configuration."""
    if not study.has(*configuration.key):
        return None
    best = best_budgets(study, configuration, "demographic_parity_gap")
    rows = tuple(
        _main_row(study, configuration, epsilon, is_best=epsilon in best)
        for epsilon in BUDGETS
    )
    kind = "beneficial" if configuration.outcome == "benefit" else "harmful"
    title = f"{configuration.title}, {configuration.attribute}"
    return PaperTable(
        label=configuration.table,
        caption=(
            f"{title} ({_numbered(configuration)}): mean ± standard deviation over "
            f"{_n_seeds(study, configuration)} seeds; in brackets the 95 % bootstrap "
            f"interval of the mean. A positive prediction is {kind}. Bold: smallest "
            f"DP-Gap.{_data_notes(study, [configuration])}"
        ),
        align="lcccccc",
        head=(
            EPSILON,
            ACCURACY,
            PARITY,
            ODDS,
            *_gap_heads(configuration),
            DISPARITY,
        ),
        blocks=(rows,),
    )


def _main_row(
    study: Study, configuration: Configuration, epsilon: float, *, is_best: bool
) -> TableRow:
    parity = _rate(study, configuration, epsilon, "demographic_parity_gap")
    gaps = _of_groups(study, configuration, epsilon, "overfitting_gap")
    return (
        _epsilon(epsilon),
        _rate(study, configuration, epsilon, "accuracy"),
        Bold(parity) if is_best else parity,
        _rate(study, configuration, epsilon, "equalized_odds_gap"),
        *(plus_minus(gap.summary, 4) for gap in gaps),
        _disparity(study, configuration, epsilon),
    )


def _acs(study: Study) -> PaperTable | None:
    """ACS: race in the left half, sex in the right."""
    halves = _configurations(study, (("acs", "race"), ("acs", "sex")))
    if not halves:
        return None
    heads = [EPSILON]
    spans = [("", 1)]
    for configuration in halves:
        heads += [PARITY, _both_gaps_head(configuration), DISPARITY]
        title = f"{configuration.attribute.title()} ({_numbered(configuration)})"
        spans.append((title, 3))
    return PaperTable(
        label="tab:acs",
        caption=(
            "ACS Income 2018: mean ± standard deviation over "
            f"{_n_seeds(study, halves[0])} seeds; in brackets the 95 % bootstrap "
            "interval of the mean. A positive prediction is beneficial."
            f"{_data_notes(study, halves)}"
        ),
        align="l" + 3 * len(halves) * "c",
        head=tuple(heads),
        blocks=(tuple(_acs_row(study, halves, epsilon) for epsilon in BUDGETS),),
        spans=tuple(spans),
    )


def _acs_row(study: Study, halves: Sequence[Configuration], epsilon: float) -> TableRow:
    cells = [_epsilon(epsilon)]
    for configuration in halves:
        gaps = _of_groups(study, configuration, epsilon, "overfitting_gap")
        printed = [_plain(gap.value, 4).replace("0.", ".", 1) for gap in gaps]
        cells += [
            _rate(study, configuration, epsilon, "demographic_parity_gap"),
            "/".join(printed),
            _disparity(study, configuration, epsilon),
        ]
    return tuple(cells)


def _floors(study: Study) -> PaperTable | None:
    """The disparity of selected settings at every floor."""
    blocks = []
    configurations = []
    for dataset, attribute, epsilon in SELECTED:
        if study.has(dataset, attribute):
            configuration = protocol.configuration(dataset, attribute)
            configurations.append(configuration)
            rows = [
                _floor_row(study, configuration, epsilon, floor) for floor in FLOORS
            ]
            blocks.append(tuple(rows))
    if not blocks:
        return None
    return PaperTable(
        label="tab:floor-sensitivity",
        caption=(
            "PCER disparity, mean ± standard deviation, at every floor; n₊: seeds "
            "above 0. Bold: the floor of the other tables."
            f"{_data_notes(study, configurations)}"
        ),
        align="llrr",
        head=(
            Head("Config", "Config"),
            Head("floor", r"$\eta$"),
            DISPARITY,
            Head("n₊", r"$n_+$"),
        ),
        blocks=tuple(blocks),
        merged=True,
    )


def _floor_row(
    study: Study, configuration: Configuration, epsilon: float, floor: float
) -> TableRow:
    key = key_at(configuration, epsilon, "pcer_disparity", floor=floor)
    mean = our_number(study, key)
    above = our_number(study, replace(key, quantity="n_positive_seeds"))
    digits = FLOOR_DIGITS[floor]
    cells = (
        f"{floor:g}",
        f"{_signed(mean.value, digits)} ± {_plain(mean.std, digits)}",
        f"{_plain(above.value, 0)}/{above.n_seeds}",
    )
    name = f"{configuration.title} {configuration.attribute}, ε={epsilon:g}"
    if floor == DEFAULT_FLOOR:
        return (name, *map(Bold, cells))
    return (name, *cells)


def _summary(study: Study) -> PaperTable:
    """Best budget by each measure, and whether it survives a larger floor."""
    rows = tuple(
        _summary_row(study, configuration) for configuration in study.configurations
    )
    return PaperTable(
        label="tab:summary",
        caption=(
            "Budgets at which the mean DP-Gap, and the size of the mean PCER "
            "disparity, is smallest once rounded as printed; and the budgets whose "
            "interval excludes 0 on the same side at floors 0.001 and 0.01. "
            f"{NONE_DETECTED_MARK}: no group's exposure is detected at that budget. "
            "N/A where the paper names no best budget by PCER, ours in brackets: it "
            f"leaves out ε = {STRONGEST:g}, whose gaps are at the floor (COMPAS), and "
            "budgets whose interval contains 0 (ACS)."
            f"{_summary_reasons(study)}{_data_notes(study, study.configurations)}"
        ),
        align="llccc",
        head=(
            Head("Dataset", "Dataset"),
            Head("Attr.", "Attr."),
            Head("Best ε (DP-Gap)", r"Best $\varepsilon$ (DP-Gap)"),
            Head("Best ε (PCER)", r"Best $\varepsilon$ (PCER)"),
            Head("Floor-robust", "Floor-robust"),
        ),
        blocks=(rows,),
    )


def _summary_row(study: Study, configuration: Configuration) -> TableRow:
    best_by_gap = best_budgets(study, configuration, "demographic_parity_gap")
    best_by_pcer = best_budgets(study, configuration, "pcer_disparity")
    verdicts = [
        study.setting(*configuration.key, epsilon).verdict for epsilon in best_by_pcer
    ]
    mark = NONE_DETECTED_MARK if Verdict.NONE_DETECTED in verdicts else ""
    ours = _listed(best_by_pcer) + mark
    robust = robust_budgets(study, configuration, floor=1e-2)
    robust_words = _listed(robust) or "none"
    if robust == BUDGETS:
        robust_words = "all ε"
    return (
        configuration.title,
        configuration.attribute,
        _listed(best_by_gap),
        f"N/A ({ours})" if configuration.key in UNNAMED else ours,
        robust_words,
    )


def _summary_reasons(study: Study) -> str:
    """Of those that the paper leaves out: where ours contain 0, or are at the floor."""
    sentences = []
    for configuration in study.configurations:
        if configuration.key in UNNAMED:
            contain = [e for e in BUDGETS if _contains_0(study, configuration, e)]
            floored = [e for e in BUDGETS if _is_floored(study, configuration, e)]
            sentences.append(
                f" {configuration.name}: intervals contain 0 at "
                f"{_listed(contain) or 'no budget'}; mean gaps are below the floor at "
                f"{_listed(floored) or 'no budget'}."
            )
    return "".join(sentences)


def _contains_0(study: Study, configuration: Configuration, epsilon: float) -> bool:
    key = key_at(configuration, epsilon, "pcer_disparity")
    ends = our_number(study, key).ci
    return ends is not None and ends[0] <= 0 <= ends[1]


def _is_floored(study: Study, configuration: Configuration, epsilon: float) -> bool:
    gaps = _of_groups(study, configuration, epsilon, "overfitting_gap")
    return all((gap.value or 0.0) < DEFAULT_FLOOR for gap in gaps)


def _listed(budgets: Sequence[float]) -> str:
    return ", ".join(map(budget_label, budgets))


def _attacks(study: Study, label: str) -> PaperTable | None:
    """Gap and direct attack side by side, one row per configuration and budget."""
    configurations = _configurations(study, ATTACKED[label])
    if not configurations:
        return None
    blocks = []
    for configuration in configurations:
        rows = [_attack_row(study, configuration, epsilon) for epsilon in BUDGETS]
        blocks.append(tuple(rows))
    return PaperTable(
        label=label,
        caption=(
            "PCER disparity with the overfitting gap and with the advantage of the "
            "threshold attack (AUC − 0.5) as cost, of every model, then the mean over "
            "seeds. Bold: rows whose signs differ."
            f"{_data_notes(study, configurations)}"
        ),
        align="llccccccc",
        head=(
            Head("Dataset", "Dataset"),
            EPSILON,
            *_attack_heads(),
            Head("Δ PCER by gap", r"$\Delta_\mathrm{PCER}^{\delta}$"),
            Head("Δ PCER by attack", r"$\Delta_\mathrm{PCER}^{\mathrm{MIA}}$"),
            Head("Agree", "Agree"),
        ),
        blocks=tuple(blocks),
    )


def _attack_heads() -> list[Head]:
    heads = []
    for name, sign in ATTACKS:
        for group in (0, 1):
            heads.append(Head(f"{name} g{group}", rf"{sign}$_{{g{group}}}$"))
    return heads


def _attack_row(study: Study, configuration: Configuration, epsilon: float) -> TableRow:
    gaps = [
        _plain(gap.value, 4)
        for gap in _of_groups(study, configuration, epsilon, "overfitting_gap")
    ]
    aucs = [
        _plain(auc.value, 3)
        for auc in _of_groups(study, configuration, epsilon, "attack_auc")
    ]
    gap_key = key_at(configuration, epsilon, "pcer_disparity")
    by_gap = our_number(study, gap_key).value
    attack_key = key_at(configuration, epsilon, "pcer_disparity_auc")
    by_attack = our_number(study, attack_key).value

    agree = None if by_gap is None or by_attack is None else by_gap * by_attack > 0
    cells = (
        configuration.name,
        _epsilon(epsilon),
        *gaps,
        *aucs,
        _signed(by_gap, 1),
        _signed(by_attack, 1),
        yes_no(agree).capitalize(),
    )
    return tuple(map(Bold, cells)) if agree is False else cells


def _configurations(
    study: Study, keys: Sequence[tuple[str, str]]
) -> list[Configuration]:
    """Those of the named configurations that the study has."""
    return [protocol.configuration(*key) for key in keys if study.has(*key)]


def _rate(
    study: Study, configuration: Configuration, epsilon: float, quantity: str
) -> str:
    """Mean ± standard deviation."""
    number = our_number(study, key_at(configuration, epsilon, quantity))
    return plus_minus(number.summary, 3)


def _of_groups(
    study: Study, configuration: Configuration, epsilon: float, quantity: str
) -> list[OurNumber]:
    return [
        our_number(study, key_at(configuration, epsilon, quantity, group=name))
        for name in configuration.groups
    ]


def _disparity(study: Study, configuration: Configuration, epsilon: float) -> str:
    """The disparity as mean ± standard deviation [ends of its interval]."""
    number = our_number(study, key_at(configuration, epsilon, "pcer_disparity"))
    ends = "no interval"
    if number.ci is not None:
        ends = ",".join(_signed(end, 0) for end in number.ci)
    return f"{_signed(number.value, 0)}±{_plain(number.std, 0)} [{ends}]"


def _n_seeds(study: Study, configuration: Configuration) -> int:
    return study.setting(*configuration.key, BUDGETS[0]).n_seeds


def _gap_heads(configuration: Configuration) -> tuple[Head, ...]:
    return tuple(
        Head(f"δ {name}", rf"$\delta_\mathrm{{{name}}}$")
        for name in configuration.short
    )


def _both_gaps_head(configuration: Configuration) -> Head:
    first, second = _gap_heads(configuration)
    return Head(f"{first.plain}/{second.plain}", f"{first.latex}/{second.latex}")


def _numbered(configuration: Configuration) -> str:
    first, second = configuration.groups
    return f"{first}=0, {second}=1"


def _data_notes(study: Study, configurations: Sequence[Configuration]) -> str:
    """A sentence for every dataset whose records are not the paper's."""
    notes = {}
    for configuration in configurations:
        note = study.data_note(*configuration.key)
        if note is not None:
            notes[configuration.title] = note
    return "".join(f" {title}: {note}." for title, note in notes.items())


def _epsilon(epsilon: float) -> str:
    return "no-DP" if math.isinf(epsilon) else f"{epsilon:.1f}"


def _plain(value: float | None, digits: int) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}".replace("-", "−")


def _signed(value: float | None, digits: int) -> str:
    if value is None:
        return NOTHING
    rounded = round(value, digits) + 0.0  # no minus before zeros
    text = f"{rounded:+.{digits}f}" if rounded else f"{rounded:.{digits}f}"
    return text.replace("-", "−")
