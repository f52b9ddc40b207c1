"""The paper's Tables 1-3 and S1-S6 in its layout, filled with the study's numbers.

A table is a description; ``typeset`` renders it. Captions are our own words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pcer.measuring.verdict import Verdict
from pcer.report.formats.latex import latex_text
from pcer.report.formats.markdown import markdown_text
from pcer.report.tables.paper import plus_minus
from pcer.wording import NOTHING, yes_no
from pcer_studies.numbers import OurNumber, best_budgets, our_number, robust_budgets
from pcer_studies.protocol import (
    BUDGETS,
    DEFAULT_FLOOR,
    FLOORS,
    PAPER,
    Configuration,
    budget_label,
    configuration,
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
    """One table of the paper."""

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
ACCURACY, PARITY, ODDS = (Head(name, name) for name in ("Acc", "DP-Gap", "EO-Gap"))
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
NONE_DETECTED_MARK = "†"


def paper_tables(study: Study) -> tuple[PaperTable, ...]:
    """Every table that the study's configurations fill, in the paper's order."""
    made = {
        "tab:compas-race": _main(study, configuration("compas", "race")),
        "tab:acs": _halves(study),
        "tab:bios-gender": _main(study, configuration("bios", "gender")),
        "tab:floor-sensitivity": _floors(study),
        "tab:summary": _summary(study),
        "tab:adult-sex": _main(study, configuration("adult", "sex")),
        "tab:adult-race": _main(study, configuration("adult", "race")),
        **{label: _attacks(study, label) for label in ATTACKED},
    }
    return tuple(table for table in made.values() if table is not None)


def _main(study: Study, one: Configuration) -> PaperTable | None:
    """Accuracy, outcome gaps, overfitting gaps and disparity of one configuration."""
    if not study.has(one.dataset, one.attribute):
        return None
    best = best_budgets(study, one, "demographic_parity_gap")
    rows = tuple(
        _main_row(study, one, epsilon, bold=epsilon in best) for epsilon in BUDGETS
    )
    kind = "beneficial" if one.outcome == "benefit" else "harmful"
    return PaperTable(
        label=one.table,
        caption=(
            f"{_named(one)}: mean ± standard deviation over {_n_seeds(study, one)} "
            "seeds; in brackets the 95 % bootstrap interval of the mean. A positive "
            f"prediction is {kind}. Bold: smallest DP-Gap.{_whose(study, [one])}"
        ),
        align="lcccccc",
        head=(EPSILON, ACCURACY, PARITY, ODDS, *_gap_heads(one), DISPARITY),
        blocks=(rows,),
    )


def _main_row(
    study: Study, one: Configuration, epsilon: float, *, bold: bool
) -> TableRow:
    parity = _rate(study, one, epsilon, "demographic_parity_gap")
    return (
        _epsilon(epsilon),
        _rate(study, one, epsilon, "accuracy"),
        Bold(parity) if bold else parity,
        _rate(study, one, epsilon, "equalized_odds_gap"),
        *(
            plus_minus(gap.summary, 4)
            for gap in _of_groups(study, one, epsilon, "overfitting_gap")
        ),
        _with_interval(our_number(study, key_at(one, epsilon, "pcer_disparity"))),
    )


def _halves(study: Study) -> PaperTable | None:
    """ACS: race in the left half, sex in the right."""
    both = (configuration("acs", "race"), configuration("acs", "sex"))
    there = [one for one in both if study.has(one.dataset, one.attribute)]
    if not there:
        return None
    rows = tuple(
        (_epsilon(e), *(cell for one in there for cell in _half_row(study, one, e)))
        for e in BUDGETS
    )
    heads = tuple(
        head for one in there for head in (PARITY, _both_gaps(one), DISPARITY)
    )
    return PaperTable(
        label="tab:acs",
        caption=(
            "ACS Income 2018: mean ± standard deviation over "
            f"{_n_seeds(study, there[0])} seeds; in brackets the 95 % bootstrap "
            "interval of the mean. A positive prediction is beneficial."
            f"{_whose(study, there)}"
        ),
        align="l" + "ccc" * len(there),
        head=(EPSILON, *heads),
        blocks=(rows,),
        spans=(
            ("", 1),
            *((f"{one.attribute.title()} ({_numbered(one)})", 3) for one in there),
        ),
    )


def _half_row(study: Study, one: Configuration, epsilon: float) -> TableRow:
    gaps = [gap.value for gap in _of_groups(study, one, epsilon, "overfitting_gap")]
    return (
        _rate(study, one, epsilon, "demographic_parity_gap"),
        "/".join(_plain(gap, 4).replace("0.", ".", 1) for gap in gaps),
        _with_interval(our_number(study, key_at(one, epsilon, "pcer_disparity"))),
    )


def _floors(study: Study) -> PaperTable | None:
    """The disparity of selected settings at every floor."""
    there = [(configuration(d, a), e) for d, a, e in SELECTED if study.has(d, a)]
    if not there:
        return None
    blocks = tuple(tuple(_floor_rows(study, one, epsilon)) for one, epsilon in there)
    return PaperTable(
        label="tab:floor-sensitivity",
        caption=(
            "PCER disparity, mean ± standard deviation, at every floor; n₊: seeds "
            "above 0. Bold: the floor of the other "
            f"tables.{_whose(study, [one for one, _ in there])}"
        ),
        align="llrr",
        head=(
            Head("Config", "Config"),
            Head("floor", r"$\eta$"),
            DISPARITY,
            Head("n₊", r"$n_+$"),
        ),
        blocks=blocks,
        merged=True,
    )


def _floor_rows(study: Study, one: Configuration, epsilon: float) -> list[TableRow]:
    rows: list[TableRow] = []
    for floor in FLOORS:
        mean, seeds = (
            our_number(study, key_at(one, epsilon, quantity, floor=floor))
            for quantity in ("pcer_disparity", "n_positive_seeds")
        )
        digits = FLOOR_DIGITS[floor]
        cells = (
            f"{floor:g}",
            f"{_signed(mean.value, digits)} ± {_plain(mean.std, digits)}",
            f"{_plain(seeds.value, 0)}/{seeds.n_seeds}",
        )
        shown = tuple(Bold(cell) for cell in cells) if floor == DEFAULT_FLOOR else cells
        rows.append((f"{one.title} {one.attribute}, ε={epsilon:g}", *shown))
    return rows


def _summary(study: Study) -> PaperTable:
    """Which budget each measure prefers, and whether the finding survives a larger floor."""
    rows = tuple(_summary_row(study, one) for one in study.configurations)
    return PaperTable(
        label="tab:summary",
        caption=(
            "Budgets at which the mean DP-Gap, and the size of the mean PCER "
            "disparity, is smallest once rounded as printed; and the budgets whose "
            "interval excludes 0 on the same side at floors 0.001 and 0.01. "
            f"{NONE_DETECTED_MARK}: no group's exposure is detected at that "
            f"budget.{_whose(study, study.configurations)}"
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


def _summary_row(study: Study, one: Configuration) -> TableRow:
    parity = best_budgets(study, one, "demographic_parity_gap")
    pcer = best_budgets(study, one, "pcer_disparity")
    verdicts = [
        study.budget(one.dataset, one.attribute, epsilon).verdict for epsilon in pcer
    ]
    robust = robust_budgets(study, one, floor=1e-2)
    return (
        one.title,
        one.attribute,
        _listed(parity),
        _listed(pcer)
        + (NONE_DETECTED_MARK if Verdict.NONE_DETECTED in verdicts else ""),
        "all ε" if robust == BUDGETS else _listed(robust) or "none",
    )


def _listed(budgets: Sequence[float]) -> str:
    return ", ".join(map(budget_label, budgets))


def _attacks(study: Study, label: str) -> PaperTable | None:
    """Gap and direct attack side by side, one row per configuration and budget."""
    there = [configuration(d, a) for d, a in ATTACKED[label] if study.has(d, a)]
    if not there:
        return None
    blocks = tuple(tuple(_attack_row(study, one, e) for e in BUDGETS) for one in there)
    subscripts = [
        Head(f"{name} g{g}", rf"{sign}$_{{g{g}}}$")
        for name, sign in COSTS
        for g in (0, 1)
    ]
    return PaperTable(
        label=label,
        caption=(
            "PCER disparity with the overfitting gap and with the advantage of the "
            "threshold attack (AUC − 0.5) as cost, of every model, then the mean over "
            f"seeds. Bold: rows whose signs differ.{_whose(study, there)}"
        ),
        align="llccccccc",
        head=(
            Head("Dataset", "Dataset"),
            EPSILON,
            *subscripts,
            Head("Δ PCER by gap", r"$\Delta_\mathrm{PCER}^{\delta}$"),
            Head("Δ PCER by attack", r"$\Delta_\mathrm{PCER}^{\mathrm{MIA}}$"),
            Head("Agree", "Agree"),
        ),
        blocks=blocks,
    )


COSTS = (("δ", r"$\delta$"), ("AUC", "AUC"))


def _attack_row(study: Study, one: Configuration, epsilon: float) -> TableRow:
    by_gap, by_attack = (
        our_number(study, key_at(one, epsilon, quantity)).value
        for quantity in ("pcer_disparity", "pcer_disparity_auc")
    )
    agree = None if by_gap is None or by_attack is None else by_gap * by_attack > 0
    cells = (
        one.name,
        _epsilon(epsilon),
        *(
            _plain(gap.value, 4)
            for gap in _of_groups(study, one, epsilon, "overfitting_gap")
        ),
        *(
            _plain(auc.value, 3)
            for auc in _of_groups(study, one, epsilon, "attack_auc")
        ),
        _signed(by_gap, 1),
        _signed(by_attack, 1),
        yes_no(agree).capitalize(),
    )
    return tuple(Bold(cell) for cell in cells) if agree is False else cells


def _rate(study: Study, one: Configuration, epsilon: float, quantity: str) -> str:
    """Mean ± standard deviation."""
    return plus_minus(our_number(study, key_at(one, epsilon, quantity)).summary, 3)


def _of_groups(
    study: Study, one: Configuration, epsilon: float, quantity: str
) -> list[OurNumber]:
    return [
        our_number(study, key_at(one, epsilon, quantity, group=name))
        for name in one.groups
    ]


def _n_seeds(study: Study, one: Configuration) -> int:
    return study.budget(one.dataset, one.attribute, BUDGETS[0]).n_seeds


def _gap_heads(one: Configuration) -> tuple[Head, ...]:
    return tuple(
        Head(f"δ {name}", rf"$\delta_\mathrm{{{name}}}$") for name in one.short
    )


def _both_gaps(one: Configuration) -> Head:
    first, second = _gap_heads(one)
    return Head(f"{first.plain}/{second.plain}", f"{first.latex}/{second.latex}")


def _named(one: Configuration) -> str:
    return f"{one.title}, {one.attribute} ({_numbered(one)})"


def _numbered(one: Configuration) -> str:
    return f"{one.groups[0]}=0, {one.groups[1]}=1"


def _whose(study: Study, configurations: Sequence[Configuration]) -> str:
    """A sentence for every dataset whose records are not the paper's."""
    notes = {
        one.title: study.data_note(one.dataset, one.attribute) for one in configurations
    }
    return "".join(f" {title}: {note}." for title, note in notes.items() if note)


def _epsilon(epsilon: float) -> str:
    return "no-DP" if math.isinf(epsilon) else f"{epsilon:.1f}"


def _with_interval(number: OurNumber) -> str:
    ends = (
        "no interval"
        if number.ci is None
        else ",".join(_signed(e, 0) for e in number.ci)
    )
    return f"{_signed(number.value, 0)}±{_plain(number.std, 0)} [{ends}]"


def _plain(value: float | None, digits: int) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}".replace("-", "−")


def _signed(value: float | None, digits: int) -> str:
    if value is None:
        return NOTHING
    sign = "+" if round(value, digits) else ""  # 0 has none
    return f"{round(value, digits) + 0.0:{sign}.{digits}f}".replace("-", "−")


FIGURE_CAPTION = (
    "DP-Gap (left axis) and PCER disparity (right axis) against the budget, mean over "
    "seeds with 95% bootstrap interval; no-DP on the right. Shaded as in the paper: "
    "epsilon 0.1, called floor-dominated. A cross marks a disparity at a budget where "
    "no group's exposure is detected."
)
PREAMBLE = r"""% Written by pcer reproduce. Compile where figure1.png lies beside it.
\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{amsmath,booktabs,graphicx,multirow,textcomp}
\usepackage[a4paper,landscape,margin=1.5cm]{geometry}
\setlength{\belowcaptionskip}{4pt}
\begin{document}
"""
SIGNS = {"†": r"\textsuperscript{\dag}", "n₊": "$n_+$", "√": r"$\surd$"}


def to_markdown_tables(tables: Sequence[PaperTable], *, figure: bool) -> str:
    """One page with every table."""
    parts = [
        "# The paper's tables, from our runs",
        f"The layout is that of {markdown_text(PAPER)}; every number is ours. "
        "[cells.md](cells.md) puts the published ones beside them.",
    ]
    if figure:
        parts.append(f"## Figure 1\n\n![Figure 1](figure1.svg)\n\n{FIGURE_CAPTION}")
    parts += [_markdown_table(table) for table in tables]
    return "\n\n".join(parts) + "\n"


def to_latex_document(tables: Sequence[PaperTable], *, figure: bool) -> str:
    """A document that compiles by itself."""
    parts = [
        PREAMBLE,
        latex_text(f"Tables in the layout of {PAPER}; every number is ours."),
    ]
    if figure:
        parts.append(_latex_figure())
    parts += [_latex_table(table) for table in tables]
    return "\n\n".join(part.strip("\n") for part in [*parts, r"\end{document}"]) + "\n"


def _markdown_table(table: PaperTable) -> str:
    names = [head.plain for head in table.head]
    if table.spans:
        above = [text for text, width in table.spans for _ in range(width)]
        names = [
            f"{over}: {name}" if over else name
            for over, name in zip(above, names, strict=True)
        ]
    marks = [":--" if letter == "l" else "--:" for letter in table.align]
    lines = [_pipes(markdown_text(name) for name in names), _pipes(marks)]
    lines += [
        _pipes(_markdown_cell(cell) for cell in row)
        for block in table.blocks
        for row in block
    ]
    rows = "\n".join(lines)
    return f"## {table.name}\n\n{markdown_text(table.caption)}\n\n{rows}"


def _pipes(cells: Sequence[str] | object) -> str:
    return "| " + " | ".join(cells) + " |"  # type: ignore[arg-type]


def _markdown_cell(cell: CellText) -> str:
    if isinstance(cell, Bold):
        return f"**{markdown_text(cell.text)}**"
    return markdown_text(cell)


def _latex_figure() -> str:
    return "\n".join(
        [
            r"\begin{figure}[h]",
            r"\centering",
            r"\includegraphics[width=\textwidth]{figure1.png}",
            rf"\caption{{{latex_text(FIGURE_CAPTION)}}}",
            r"\end{figure}",
        ]
    )


def _latex_table(table: PaperTable) -> str:
    number = table.name.removeprefix("Table ")
    return "\n".join(
        [
            r"\begin{table}[p]",
            rf"\renewcommand{{\thetable}}{{{number}}}",
            rf"\caption{{{_latex(table.caption)}}}",
            rf"\label{{{table.label}}}",
            r"\small\centering",
            rf"\begin{{tabular}}{{{table.align}}}",
            r"\toprule",
            *_latex_spans(table),
            " & ".join(head.latex for head in table.head) + r" \\",
            r"\midrule",
            *_latex_blocks(table),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def _latex_spans(table: PaperTable) -> list[str]:
    """The head above the head, with a rule under every part of it."""
    if not table.spans:
        return []
    cells = []
    rules = []
    first = 1
    for text, width in table.spans:
        cells.append(rf"\multicolumn{{{width}}}{{c}}{{{_latex(text)}}}" if text else "")
        if text:
            rules.append(rf"\cmidrule(lr){{{first}-{first + width - 1}}}")
        first += width
    return [" & ".join(cells) + r" \\", "".join(rules)]


def _latex_blocks(table: PaperTable) -> list[str]:
    lines: list[str] = []
    for number, block in enumerate(table.blocks):
        lines += [r"\midrule"] if number else []
        for index, row in enumerate(block):
            lines.append(" & ".join(_latex_cells(table, block, row, index)) + r" \\")
    return lines


def _latex_cells(
    table: PaperTable, block: Sequence[TableRow], row: TableRow, index: int
) -> list[str]:
    cells = [_latex_cell(cell) for cell in row]
    if table.merged:
        cells[0] = "" if index else rf"\multirow{{{len(block)}}}{{*}}{{{cells[0]}}}"
    return cells


def _latex_cell(cell: CellText) -> str:
    return (
        rf"\textbf{{{_latex(cell.text)}}}" if isinstance(cell, Bold) else _latex(cell)
    )


def _latex(text: str) -> str:
    for sign, code in SIGNS.items():
        if sign in text:
            return code.join(_latex(part) for part in text.split(sign))
    return latex_text(text)
