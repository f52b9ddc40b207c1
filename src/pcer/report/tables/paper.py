"""Which tables tell the paper's numbers, by its own cost, the overfitting gap?

They stand in the paper's view, in the full one and on the page. To add a table: one
more of ``paper_tables``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from pcer import wording
from pcer.auditing.record import Audit, GroupResult, PairResult, SettingResult
from pcer.auditing.sentences import certainty
from pcer.paper import records
from pcer.paper.norms import norms
from pcer.paper.rankings import (
    AttackAgreement,
    Comparison,
    Correlation,
    agreement,
    comparisons,
)
from pcer.paper.records import PublishedPair, PublishedSetting, Summary
from pcer.release.attack_kinds import GAP, attack_kind
from pcer.report.table import MAY_BREAK, Table, pair_name
from pcer.report.tables import background
from pcer.report.tables.background import Column, Ends, PairRow, titled_table
from pcer.report.tables.finding import table_of_pairs
from pcer.report.tables.norms import norms_table
from pcer.wording import no_zero, say, signed

MOST_GAP_COLUMNS = 2
LONGEST_HEADER = 12
SYMBOLS = ("R", "δ", "PCER", "R/δ")  # of the paper, by group
MEASURES = {
    "pcer_disparity": "Δ PCER",
    "pcer_disparity_null": "Δ PCER if nothing memorised",
    "demographic_parity_gap": "parity gap",
    "equalized_odds_gap": "odds gap",
}

Row = tuple[str, ...]


def plus_minus(summary: Summary, digits: int | None = None) -> str:
    """Mean ± standard deviation, or the mean alone; with digits as the paper's rates.

    >>> plus_minus(Summary(mean=0.6821, std=0.0081, ci=None), 3)
    '.682±.008'
    """
    mean = signed(summary.mean) if digits is None else no_zero(summary.mean, digits)
    if summary.std is None:
        return mean
    if digits is None:
        return f"{mean} ± {signed(summary.std).lstrip('+')}"
    return f"{mean}±{no_zero(summary.std, digits)}"


def paper_tables(audit: Audit) -> list[Table]:
    """The paper's view, the gap being the exposure: its numbers come first."""
    by_model = comparisons(audit)
    attacks = agreement(audit)
    tables = [
        paper_numbers(audit),
        _published_table(audit),
        floors_table(audit, as_published=True),
    ]
    tables += [_algorithm_table(audit, published) for published in audit.published]
    tables += [_rankings_table(audit, compared) for compared in by_model]
    if attacks:
        tables.append(_agreement_table(audit, attacks))
    return [*tables, norms_table(audit, norms(audit))]


# The disparity at every floor


def floors_table(audit: Audit, *, as_published: bool = False) -> Table:
    """The disparity at every floor of the grid and at the plan's, or the paper's."""

    def found_in(row: PairRow) -> PairResult | PublishedPair:
        return row.published if as_published else row.pair

    def cell(position: int, row: PairRow) -> str:
        _, summary = floor_rows(audit, found_in(row))[position]
        return _floor_text(summary, row.setting.n_seeds)

    columns: list[Column] = []
    for position, floor in enumerate(audit_floors(audit)):
        columns.append((f"floor {floor:g}", partial(cell, position)))
    columns.append(
        ("slope", lambda row: wording.decimals(found_in(row).floor_slope, 2))
    )

    by = f", by {audit.attack_kind.label}"
    more = ""
    at_floors = audit.settings[0].pairs[0].floors
    if as_published:
        by = f" as published, by {GAP.label}"
    elif any(at.mean is not None and at.n_positive_seeds is None for at in at_floors):
        more = " This attack is one number for all seeds: it has no spread over them."
    return table_of_pairs(
        audit, "floors", columns, by_gap=as_published, by=by, more=more
    )


def _floor_text(row: Summary, n_seeds: int) -> str:
    """The disparity at one floor, its interval, and counts over seeds."""
    above = wording.NOTHING
    floored = wording.NOTHING
    if_nothing = ""
    if isinstance(row, records.FloorRow):
        if row.n_positive_seeds is not None:
            above = f"{row.n_positive_seeds}/{n_seeds}"
        if row.floor_dominated_share is not None:
            floored = f"{100 * row.floor_dominated_share:.0f}%"
        if row.null_mean is not None:
            if_nothing = f"\n({signed(row.null_mean)})"
    interval = wording.bounds(row.ci)
    return f"{plus_minus(row)}\n{interval}\n{above}; {floored}{if_nothing}"


def audit_floors(audit: Audit) -> list[float]:
    """The floors at which an audit has intervals, ascending."""
    return sorted({*audit.plan.floors, audit.plan.floor})


def floor_rows(
    audit: Audit, pair: PairResult | PublishedPair
) -> list[tuple[float, Summary]]:
    """A pair's disparity at every floor of the grid, and at the plan's."""
    rows: dict[float, Summary] = {row.floor: row for row in pair.floors}
    rows.setdefault(audit.plan.floor, pair.pcer_disparity)
    return sorted(rows.items())


# The paper's numbers


class PaperForm(NamedTuple):
    """How many decimals the paper's numbers have."""

    ratio_digits: int
    null_digits: int
    floor: float

    def symbols(self, group: GroupResult, ratio: Summary) -> Row:
        """R, δ, PCER and R/δ of one group.

        PCER is a mean of ratios over seeds, which R over δ of the means is not.
        """
        rate = no_zero(group.benefit.mean, 3)
        mean_ratio = wording.decimals(ratio.mean, self.ratio_digits)
        return rate, _gap_with_sign(group), mean_ratio, self._of_means(group)

    def _of_means(self, group: GroupResult) -> str:
        rate = group.benefit.mean
        gap = group.overfitting_gap.mean
        if rate is None or gap is None:
            return wording.NOTHING
        return wording.decimals(rate / max(gap, self.floor), self.ratio_digits)

    def disparity(self, found: records.Disparity | None) -> Row:
        """Δ PCER with its interval, and what it would be if nothing were memorised."""
        if found is None:
            return "reference", ""
        value = _signed_interval(found.mean, found.ci, self.ratio_digits)
        null_ends = found.null_interval
        null = _signed_interval(found.null_mean, null_ends, self.null_digits)
        return value, null


def _gap_with_sign(group: GroupResult) -> str:
    """δ, clipped at 0 seed by seed; in brackets unclipped, where that differs."""
    clipped = no_zero(group.overfitting_gap.mean, 4)
    signed_gap = no_zero(group.accuracy_difference.mean, 4)
    return clipped if clipped == signed_gap else f"{clipped} ({signed_gap})"


def paper_numbers(audit: Audit) -> Table:
    """The paper's numbers: a row a setting and group."""
    published = background.published_by_setting(audit)
    form = _paper_form(published.values(), audit.plan.floor)
    rows: list[Row] = []
    for setting in background.least_private_first(audit):
        found = published[setting.model, setting.epsilon]
        rows += _rows_of_groups(setting, found, form)
    level = f"[{100 * audit.plan.confidence_level:g}%]"
    last = (f"Δ PCER\n{level}", "if nothing\nmemorised", "parity\ngap", "odds\ngap")
    heads = ("ε", "group", *SYMBOLS, *last)
    note = certainty.paper_note(audit)
    return Table("The paper's numbers", heads, tuple(rows), 2, note)


def _with_breaks(name: str) -> str:
    """A name that may break after its hyphens, where a terminal would cut anywhere."""
    return name.replace("-", f"-{MAY_BREAK}")


def _paper_form(settings: Iterable[PublishedSetting], floor: float) -> PaperForm:
    ratios: list[float | None] = []
    null_ends: list[float] = []
    for setting in settings:
        ratios += [ratio.mean for ratio in setting.pcer.values()]
        for pair in setting.pairs:
            null_ends += pair.pcer_disparity.null_interval or ()
    return PaperForm(_digits(ratios), _digits(null_ends), floor)


def _rows_of_groups(
    setting: SettingResult, found: PublishedSetting, form: PaperForm
) -> list[Row]:
    disparities = {pair.groups[1]: pair.pcer_disparity for pair in found.pairs}
    gaps = _outcome_gaps(setting)
    rows = []
    for name, group in setting.groups.items():
        cells = form.symbols(group, found.pcer[name])
        disparity = form.disparity(disparities.get(name))
        rows.append((setting.name.paper, name, *cells, *disparity, *gaps))
        gaps = ("", "")  # they are the setting's, so they stand in its first row
    return rows


def _outcome_gaps(setting: SettingResult) -> Row:
    gaps = (setting.demographic_parity_gap, setting.equalized_odds_gap)
    return tuple(no_zero(gap.mean, 3) for gap in gaps)


def _signed_interval(mean: float | None, ends: Ends | None, digits: int) -> str:
    """A signed number with its interval in brackets, where there is one."""
    if mean is None:
        return wording.NOTHING
    value = _signed(mean, digits)
    if ends is None:
        return value
    low, high = ends
    return f"{value} [{_signed(low, digits)}, {_signed(high, digits)}]"


def _signed(value: float, digits: int) -> str:
    return f"{value:+z.{digits}f}".replace("-", "−")


def _digits(values: Iterable[float | None]) -> int:
    """Decimals that give the largest of some numbers three digits."""
    sizes = [abs(value) for value in values if value is not None]
    largest = max([1.0, *sizes])
    return max(0, 2 - math.floor(math.log10(largest)))


# The paper's own columns, Algorithm 1, rankings


def _published_table(audit: Audit) -> Table:
    """The paper's columns for every setting and pair, by the overfitting gap."""
    columns: list[Column] = [
        ("accuracy", lambda row: _rate(row.setting.accuracy, 3)),
        ("parity\ngap", lambda row: _rate(row.setting.demographic_parity_gap, 3)),
        ("odds\ngap", lambda row: _rate(row.setting.equalized_odds_gap, 3)),
    ]
    names = audit.subject.groups
    if len(names) <= MOST_GAP_COLUMNS:
        for name in names:
            head = _with_breaks(name) if len(name) > LONGEST_HEADER else name
            columns.append((f"δ\n{head}", partial(_gap, name)))
    columns += [("Δ PCER", _disparity), ("if nothing\nmemorised", _null)]
    return table_of_pairs(audit, "published", columns, by_gap=True)


def _rate(found: Summary, digits: int) -> str:
    return f"{plus_minus(found, digits)}\n{wording.bounds(found.ci, digits)}"


def _gap(name: str, row: PairRow) -> str:
    group = row.setting.groups[name]
    gap = _rate(group.overfitting_gap, 4)
    if group.null_gap is None:
        return gap
    return f"{gap}\n({no_zero(group.null_gap.mean, 4)})"


def _disparity(row: PairRow) -> str:
    found = row.published.pcer_disparity
    return f"{plus_minus(found)}\n{wording.bounds(found.ci)}"


def _null(row: PairRow) -> str:
    found = row.published.pcer_disparity
    return f"{signed(found.null_mean)}\n{wording.bounds(found.null_interval)}"


def _algorithm_table(audit: Audit, published: records.AsPublished) -> Table:
    """Algorithm 1 of one model: which budget has the smallest disparity per floor."""
    found = published.algorithm1
    rows = []
    for row in found.equitable_budget:
        is_informative = row.floor in found.informative_floors
        word = "yes" if is_informative else "no: not below a detected gap"
        if row.repeats_demographic_parity:
            word = "no: above every gap, so it repeats the parity gap"
        rows.append((f"{row.floor:g}", wording.budget_list(row.budgets), word))
    informative = "no floor is informative, since no gap is detected"
    if found.informative_verdict:
        informative = f"over the informative floors: {found.informative_verdict.words}"
    verdict = "No disparity is known" if found.verdict is None else found.verdict.words
    return titled_table(
        audit,
        "algorithm",
        ("floor", "budget", "informative?"),
        rows,
        3,
        model=_of_model(audit, published.model),
        found=found,
        verdict=verdict,
        informative=informative,
    )


def _rankings_table(audit: Audit, compared: Comparison) -> Table:
    rows = []
    for row in compared.rankings:
        ranked = " < ".join(map(wording.short_budget, row.budgets)) or wording.NOTHING
        disagrees = wording.yes_no(compared.ranking_disagreement.get(row.measure))
        rows.append((MEASURES[row.measure], ranked, disagrees))
    turned = [epsilon for epsilon, _ in compared.opposite]
    refuted = [claim.epsilon for claim in compared.equal_gap_claims if claim.refuted]
    return titled_table(
        audit,
        "rankings",
        ("measure", "budgets, smallest first", "other best budget\nthan Δ PCER"),
        rows,
        3,
        model=_of_model(audit, compared.model),
        turned=_distinct_budgets(turned),
        refuted=_distinct_budgets(refuted),
        more=_correlations(compared),
    )


def _distinct_budgets(budgets: Iterable[float | None]) -> str:
    names = dict.fromkeys(map(wording.short_budget, budgets))
    return ", ".join(names) or "no budget"


def _correlations(compared: Comparison) -> str:
    """Correlations by pair, in sentences; empty where none is known."""
    texts = []
    for pair, of_pair in compared.correlations.items():
        known = [_correlation_text(found) for found in of_pair if found.r is not None]
        if known:
            texts.append(f"{pair_name(pair)}: {'; '.join(known)}")
    return say("correlations", "over", texts=". ".join(texts)) if texts else ""


def _correlation_text(found: Correlation) -> str:
    return f"{signed(found.r)} over {found.over} ({found.n_points} points)"


def _of_model(audit: Audit, model: str | None) -> str:
    return f", {model}" if len(audit.published) > 1 else ""


def _agreement_table(audit: Audit, attacks: Sequence[AttackAgreement]) -> Table:
    columns: list[Column] = [
        ("attack", lambda row: attack_kind(row.attack).label),
        ("r of\nexposures", lambda row: wording.decimals(row.correlation, 2)),
        ("same sign of\ndisparity", lambda row: _share(row.n_same_sign, row)),
        ("larger\ndisparity", lambda row: _share(row.n_larger_disparity, row)),
        (
            "r of dis-\nparities",
            lambda row: wording.decimals(row.disparity_correlation, 2),
        ),
        ("exceeds gap\n(beyond error)", _exceeding),
    ]
    return background.table_of(audit, "agreement", columns, attacks, 1)


def _share(count: int, row: AttackAgreement) -> str:
    return f"{count}/{row.n_settings}" if row.n_settings else wording.NOTHING


def _exceeding(row: AttackAgreement) -> str:
    """Cells in which the attack exceeds the gap; in brackets those beyond its error."""
    if row.exceeding is None:
        return wording.NOTHING
    n_above, n_beyond_error, n_cells = row.exceeding
    return f"{n_above}/{n_cells} ({n_beyond_error})"
