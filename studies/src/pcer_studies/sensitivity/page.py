"""``sensitivity.md``: what the paper leaves open, answered by the numbers of the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pcer.report.formats.markdown import markdown_text, to_markdown
from pcer.report.table import Table
from pcer.wording import NOTHING, budget_name, p_value, short_budget, signed
from pcer_studies.protocol import NO_DP, PAPER, configuration
from pcer_studies.published import key_at, own_cell, text_figure
from pcer_studies.sensitivity.analysis import (
    MEASURES,
    Closest,
    Sensitivity,
    VariantNumber,
    VariantResult,
    VariantRow,
    moved,
)
from pcer_studies.sensitivity.variants import (
    ADULT,
    ADULT_BUDGETS,
    COMPAS,
    OpenQuestion,
    variant,
)

SHORT = {
    "accuracy": "accuracy",
    "demographic_parity_gap": "DP gap",
    "equalized_odds_gap": "EO gap",
    "pcer_disparity": "disparity",
    "overfitting_gap": "overfitting gap",
    "positive_rate": "positive rate",
}
COLUMNS = (
    ("sex", "accuracy"),
    ("sex", "demographic_parity_gap"),
    ("sex", "equalized_odds_gap"),
    ("race", "demographic_parity_gap"),
    ("race", "equalized_odds_gap"),
)
"""Of the tables of Adult readings; accuracy is the same for both attributes."""

PUBLISHED = "published"


def to_page(found: Sensitivity) -> str:
    """The page; the same file gives the same bytes."""
    parts = [
        "# What the paper leaves open",
        f"{markdown_text(PAPER)}. Some choices that change its numbers are not stated "
        "there. Here each is trained in several readings, and the readings are "
        "compared with the published tables and, seed by seed, with the reading that "
        "pcer uses. This page follows from `sensitivity.json` beside it, which holds "
        "the values of every single model; `pcer reproduce --sensitivity` makes both.",
        *(f"Not trained: {markdown_text(one.reason)}" for one in found.skipped),
        *_features(found),
        *_accountant(found),
        *_scaling(found),
        *_pairing(found),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _features(found: Sensitivity) -> list[str]:
    readings = [one for one in found.results if one.question == OpenQuestion.FEATURES]
    if not readings:
        return []
    budgets = [epsilon for epsilon in ADULT_BUDGETS if readings[0].has_budget(epsilon)]
    return [
        "## Adult: which columns are features",
        _closest_words(found),
        to_markdown(_distances(readings)),
        "In the tables of single budgets, published is mean ± standard deviation over "
        "50 seeds; ours is mean ± standard error, and in brackets the paired "
        "difference from the reading of pcer ± its standard error.",
        *(to_markdown(_readings_at(readings, epsilon)) for epsilon in budgets),
        to_markdown(_rates(readings)),
        to_markdown(_gaps(readings)),
        to_markdown(_disparities(readings, budgets)),
        to_markdown(_words(readings)),
    ]


def _closest_words(found: Sensitivity) -> str:
    lines = [
        "The distance of a reading from the paper is the root mean square, over the "
        "cells of Tables S3 and S4 for accuracy, demographic parity gap and equalized "
        "odds gap at the budgets trained here, of (our mean − published mean) / "
        "published standard deviation over seeds. At 1 a reading is as far off as one "
        "of the paper's own models usually is from their mean. Overfitting gaps and "
        "disparities do not enter: most of their published means are no larger than "
        "their deviations over seeds. Tables of both stand below.",
        _closest_line("Closest of all readings", found.closest),
        _closest_line(
            "Closest of those that contradict no statement of the paper",
            found.closest_uncontradicted,
        ),
    ]
    return "\n\n".join(line for line in lines if line)


def _closest_line(what: str, one: Closest | None) -> str:
    if one is None:
        return ""
    chosen = variant(one.name)
    against = " ".join(chosen.contradicts)
    return (
        f"**{what}: {markdown_text(chosen.title)}** (`{one.name}`), distance "
        f"{one.distance:.2f}; it is the closest of them in "
        f"{one.share_of_resamples:.0%} of resamples of the seeds. "
        f"{markdown_text(chosen.change)}"
        + (f" Against it: {markdown_text(against)}" if against else "")
    )


def _distances(readings: Sequence[VariantResult]) -> Table:
    ordered = sorted(readings, key=_farther)
    rows = [
        (
            variant(one.name).title,
            str(one.n_features),
            NOTHING if one.distance is None else f"{one.distance:.2f}",
            str(len(one.contradicts)),
        )
        for one in ordered
    ]
    return Table(
        "Readings by distance",
        ("reading", "features", "distance", "statements contradicted"),
        tuple(rows),
    )


def _farther(one: VariantResult) -> tuple[bool, float]:
    """Sorts the nearest first, and what is not known last."""
    return (True, 0.0) if one.distance is None else (False, one.distance)


def _readings_at(readings: Sequence[VariantResult], epsilon: float) -> Table:
    """Published beside all readings at one budget."""
    rows = [(PUBLISHED, *(_published("adult", a, epsilon, q) for a, q in COLUMNS))]
    for one in readings:
        cells = (_compared(one.number(a, epsilon, q)) for a, q in COLUMNS)
        rows.append((variant(one.name).title, *cells))
    heads = ("accuracy", "sex DP gap", "sex EO gap", "race DP gap", "race EO gap")
    return Table(
        f"Adult at {_budget(epsilon)}",
        ("reading", *heads),
        tuple(rows),
    )


def _rates(readings: Sequence[VariantResult]) -> Table:
    """A check that did not enter the distance: the positive rates that the text gives."""
    groups = ("Male", "Female")
    printed = [
        " to ".join(
            text_figure(f"adult_rate_{g.lower()}_{end}").printed for end in ends
        )
        for g, ends in ((g, ("low", "high")) for g in groups)
    ]
    rows = [(PUBLISHED, *printed)]
    for one in readings:
        means = [
            [
                n.mean
                for row in one.rows
                if (n := row.number("positive_rate", group)) is not None
            ]
            for group in groups
        ]
        rows.append(
            (variant(one.name).title, *(f"{min(m):.1%} to {max(m):.1%}" for m in means))
        )
    return Table(
        "Adult: share predicted positive, over budgets",
        ("reading", *groups),
        tuple(rows),
        note="The text of the paper gives these ranges; they did not enter the distance.",
    )


def _gaps(readings: Sequence[VariantResult]) -> Table:
    """Overfitting gaps without differential privacy, where there is something to memorise."""
    keys = [
        (attribute, group)
        for attribute in ("sex", "race")
        for group in configuration("adult", attribute).groups
    ]
    rows = [
        (
            PUBLISHED,
            *(_published("adult", a, NO_DP, "overfitting_gap", g) for a, g in keys),
        )
    ]
    for one in readings:
        gaps = (one.number(a, NO_DP, "overfitting_gap", g) for a, g in keys)
        rows.append((variant(one.name).title, *(_with_error(gap, 4) for gap in gaps)))
    return Table(
        "Adult: overfitting gap at no-DP",
        ("reading", *(group for _, group in keys)),
        tuple(rows),
        note="Published: mean ± standard deviation over seeds. Ours: mean ± standard error. They "
        "did not enter the distance.",
    )


def _disparities(readings: Sequence[VariantResult], budgets: Sequence[float]) -> Table:
    keys = [
        (attribute, epsilon) for attribute in ("sex", "race") for epsilon in budgets
    ]
    rows = [
        (PUBLISHED, *(_published("adult", a, e, "pcer_disparity") for a, e in keys))
    ]
    for one in readings:
        numbers = (one.number(a, e, "pcer_disparity") for a, e in keys)
        rows.append((variant(one.name).title, *map(_with_interval, numbers)))
    heads = tuple(f"{attribute}, {_budget(epsilon)}" for attribute, epsilon in keys)
    return Table(
        "Adult: PCER disparity, mean and 95 % interval",
        ("reading", *heads),
        tuple(rows),
        note="Floor 0.001; intervals by bootstrap over seeds, as in the paper.",
    )


def _words(readings: Sequence[VariantResult]) -> Table:
    rows = [
        (
            variant(one.name).title,
            one.change,
            one.support,
            " ".join(one.contradicts) or "Nothing.",
        )
        for one in readings
    ]
    return Table(
        "What each reading rests on",
        ("reading", "what it takes", "for it", "against it"),
        tuple(rows),
        n_labels=4,
        note="Settled by the paper: the 46,033 records are those of both UCI files with a known "
        "occupation. Both tables of Adult print the same accuracies and deviations in "
        "all six rows, so that one set of models served sex and race: no reading may "
        "leave out only the attribute that is audited.",
    )


def _accountant(found: Sensitivity) -> list[str]:
    tables = [
        to_markdown(_accountants_on(found, baseline, title))
        for baseline, title in ((COMPAS, "COMPAS (race)"), (ADULT, "Adult (sex)"))
        if found.result(baseline) is not None
    ]
    answers = [one for one in found.results if one.question == OpenQuestion.ACCOUNTANT]
    if not answers:
        return []
    return [
        "## Accountant: who calibrates the noise at ε = 0.1",
        *tables,
        "\n".join(f"- {_moved_words(one)}" for one in answers),
        _noise_words(found, answers),
    ]


def _noise_words(found: Sensitivity, answers: Sequence[VariantResult]) -> str:
    """How much more noise than pcer's each variant has."""
    told = []
    for one in answers:
        first = found.result(str(one.baseline))
        base = None if first is None else first.row(one.rows[0].attribute, 0.1)
        ours = one.rows[0].noise_multiplier
        theirs = base.noise_multiplier if base else None
        if ours and theirs:
            told.append(f"`{one.name}` {ours / theirs - 1:+.1%}")
    return (
        f"Noise beside pcer's: {', '.join(told)}. Given a target epsilon alone, Opacus "
        "counts its accountant's error bound of 0.01 as spent, and its search stops as "
        "soon as epsilon is within 0.01 of the target. Together that is up to a fifth "
        "of ε = 0.1, and next to nothing of ε = 1: such models are more private than "
        "asked for."
    )


def _accountants_on(found: Sensitivity, baseline: str, title: str) -> Table:
    quantities = (*MEASURES, "pcer_disparity")
    first = found.result(baseline)
    results = [first] if first else []
    results += [
        one
        for one in found.results
        if one.question == OpenQuestion.ACCOUNTANT and one.baseline == baseline
    ]
    attribute = "race" if baseline == COMPAS else "sex"
    dataset = variant(baseline).dataset
    rows = [
        (
            PUBLISHED,
            NOTHING,
            NOTHING,
            *(_published(dataset, attribute, 0.1, q) for q in quantities),
        )
    ]
    for one in results:
        row = one.row(attribute, 0.1)
        if row is None:
            continue
        name = "PLD (pcer)" if one.name == baseline else variant(one.name).title
        cells = [_compared(row.number(q)) for q in MEASURES]
        disparity = row.number("pcer_disparity")
        both = f"{_with_interval(disparity)} {_in_brackets(disparity)}".strip()
        rows.append((name, _noise(row), _spent(row), *cells, both))
    return Table(
        f"{title} at ε = 0.1",
        (
            "calibrated by",
            "noise multiplier",
            "ε by PLD",
            *(SHORT[q] for q in quantities),
        ),
        tuple(rows),
    )


def _scaling(found: Sensitivity) -> list[str]:
    one = found.result("compas-outside")
    if one is None:
        return []
    return [
        "## Standardising: inside or outside the split",
        _moved_words(one),
        to_markdown(_scaling_table(one)),
        "What it costs: fitted inside, the means and deviations are statistics of the "
        "training records that the noise of DP-SGD does not cover. Fitted outside, "
        "they are statistics of all records: the epsilon does not cover them either, "
        "and the test records, which are to play the people who were not trained on, "
        "then had a part in the training. Categories are encoded from a fixed list of "
        "values in both, so that there is no encoder to fit; the text encoding of Bios "
        "is fitted on all texts, as the paper says.",
    ]


def _scaling_table(one: VariantResult) -> Table:
    quantities = (*MEASURES, "pcer_disparity")
    rows = []
    for row in one.rows:
        groups = [n for n in row.numbers if n.quantity == "overfitting_gap"]
        numbers = [*(row.number(q) for q in quantities), *groups]
        tested = [n.paired.p_value for n in numbers if n and n.paired]
        known = [p for p in tested if p is not None]
        rows.append(
            (
                short_budget(row.epsilon),
                *map(_difference, numbers),
                p_value(min(known, default=None)),
            )
        )
    gaps = tuple(
        f"gap of {n.group}"
        for n in one.rows[0].numbers
        if n.quantity == "overfitting_gap"
    )
    return Table(
        "COMPAS: outside minus inside",
        ("ε", *(SHORT[q] for q in quantities), *gaps, "smallest p"),
        tuple(rows),
        note="Paired differences over the same seeds ± standard error; p adjusted over all numbers "
        "of all budgets (Holm).",
    )


def _pairing(found: Sensitivity) -> list[str]:
    compared = [one for one in found.results if one.baseline is not None]
    other = [one.name for one in compared if not one.same_splits]
    streams = [one.name for one in compared if not one.same_streams]
    seeds = sorted({(one.dataset, len(one.seeds)) for one in found.results})
    told = ", ".join(f"{n} of {dataset}" for dataset, n in seeds)
    made = (
        "; ".join(_made(one) for one in found.made_with)
        or "versions that are not recorded"
    )
    lines = [
        f"Seeds: {told}.",
        "Splits depend on the records and the seed alone. "
        + (
            "They are the same in every variant of a dataset."
            if not other
            else f"They are not those of the baseline in {', '.join(other)}."
        ),
        "First weights, batches and noise come from streams named by seed and budget"
        + (
            f"; only {_and(streams)} was trained at the budget its noise really "
            "spends, and so shares the splits alone."
            if len(streams) == 1
            else f"; {_and(streams)} were trained at the budgets that their noise really spends, "
            "and so share the splits alone."
            if streams
            else "."
        ),
        "Differences tell about the luck of splits and training, not about other "
        "people's data.",
        f"Made with {markdown_text(made)}.",
    ]
    return ["## How the comparisons are paired", " ".join(lines)]


def _made(one: Mapping[str, Any]) -> str:
    known = {name: value for name, value in one.items() if value is not None}
    return ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in known.items()
    )


def _moved_words(one: VariantResult) -> str:
    pairs = [
        number.paired for row in one.rows for number in row.numbers if number.paired
    ]
    total = len(pairs)
    found = moved(one)
    title = f"{variant(one.name).title} (`{one.name}`)"
    if all(pair.p_value is None for pair in pairs):
        return f"{title}: too few seeds to tell a difference from chance."
    if not found:
        return f"{title}: none of {total} numbers differs from pcer's reading beyond chance."
    which = "; ".join(
        f"{SHORT[n.quantity]}{f' of {n.group}' if n.group else ''} by {row.attribute} "
        f"at {_budget(row.budget)}"
        for row, n in found
    )
    return f"{title}: {len(found)} of {total} numbers differ beyond chance: {markdown_text(which)}."


def _and(names: Iterable[str]) -> str:
    return " and ".join(names)


def _published(
    dataset: str,
    attribute: str,
    epsilon: float,
    quantity: str,
    group: str | None = None,
) -> str:
    """A cell of the dataset's own table, as printed there."""
    which = configuration(dataset, attribute)
    cell = own_cell(key_at(which, epsilon, quantity, group=group))
    if cell is None or cell.value is None:
        return NOTHING
    if cell.ci is not None:
        return f"{signed(cell.value)} [{signed(cell.ci[0])}, {signed(cell.ci[1])}]"
    spread = "" if cell.std is None else f" ± {cell.std:.{cell.digits}f}"
    return f"{cell.value:.{cell.digits}f}{spread}"


def _compared(number: VariantNumber | None) -> str:
    """Mean ± standard error, with the paired difference in brackets."""
    return f"{_with_error(number, 3)} {_in_brackets(number)}".strip()


def _with_error(number: VariantNumber | None, digits: int) -> str:
    """Mean ± standard error."""
    if number is None:
        return NOTHING
    error = number.standard_error
    return f"{number.mean:.{digits}f}" + (
        "" if error is None else f" ± {error:.{digits}f}"
    )


def _in_brackets(number: VariantNumber | None) -> str:
    """The paired difference in brackets; nothing for a baseline."""
    if number is None or number.paired is None:
        return ""
    return f"({_difference(number)})"


def _difference(number: VariantNumber | None) -> str:
    """The paired difference ± its standard error."""
    if number is None or number.paired is None:
        return NOTHING
    digits = 0 if number.quantity == "pcer_disparity" else 4
    text = f"{number.paired.difference:+.{digits}f}".replace("-", "−")
    error = number.paired.standard_error
    return text if error is None else f"{text} ± {error:.{digits}f}"


def _with_interval(number: VariantNumber | None) -> str:
    """Mean and interval."""
    if number is None:
        return NOTHING
    if number.interval is None:
        return signed(number.mean)
    low, high = number.interval
    return f"{signed(number.mean)} [{signed(low)}, {signed(high)}]"


def _noise(row: VariantRow) -> str:
    """The noise multiplier."""
    return NOTHING if row.noise_multiplier is None else f"{row.noise_multiplier:.3f}"


def _spent(row: VariantRow) -> str:
    """Epsilon that the noise really spends."""
    return NOTHING if row.epsilon_spent is None else f"{row.epsilon_spent:.4f}"


def _budget(epsilon: float) -> str:
    return budget_name(None if epsilon == NO_DP else epsilon)
