"""How does ``sensitivity.md`` answer what the paper leaves open?

``sensitivity.run`` writes the page from what ``analysis.analyse`` gives. A section each
for features, accountant and standardising, then how readings are paired.

To add a section: a function that gives its parts, and a line of ``to_page``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from pcer.report.formats.markdown import markdown_text, to_markdown
from pcer.report.table import Table
from pcer.wording import NOTHING, budget_name, p_value, short_budget, signed
from pcer_studies.protocol import NO_DP, PAPER, configuration
from pcer_studies.published import key_at, own_cell, text_figure
from pcer_studies.sensitivity.analysis import MEASURES, Moved, moved
from pcer_studies.sensitivity.records import (
    Closest,
    Sensitivity,
    VariantNumber,
    VariantResult,
    VariantRow,
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


def to_page(sensitivity: Sensitivity) -> str:
    """The page; the same file gives the same bytes."""
    parts = [
        "# What the paper leaves open",
        f"{markdown_text(PAPER)}. Some choices that change its numbers are not stated "
        "there. Here each is trained in several readings, and the readings are "
        "compared with the published tables and, seed by seed, with the reading that "
        "pcer uses. This page follows from `sensitivity.json` beside it, which holds "
        "the values of every single model; `pcer reproduce --sensitivity` makes both.",
        *(f"Not trained: {markdown_text(one.reason)}" for one in sensitivity.skipped),
        *_features(sensitivity),
        *_accountant(sensitivity),
        *_scaling(sensitivity),
        *_pairing(sensitivity),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _features(sensitivity: Sensitivity) -> list[str]:
    readings = _answers(sensitivity, OpenQuestion.FEATURES)
    if not readings:
        return []
    budgets = [epsilon for epsilon in ADULT_BUDGETS if readings[0].has_budget(epsilon)]
    return [
        "## Adult: which columns are features",
        _closest_words(sensitivity),
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


def _answers(sensitivity: Sensitivity, question: OpenQuestion) -> list[VariantResult]:
    """The variants that were trained for one question."""
    return [result for result in sensitivity.results if result.question == question]


def _closest_words(sensitivity: Sensitivity) -> str:
    lines = [
        "The distance of a reading from the paper is the root mean square, over the "
        "cells of Tables S3 and S4 for accuracy, demographic parity gap and equalized "
        "odds gap at the budgets trained here, of (our mean − published mean) / "
        "published standard deviation over seeds. At 1 a reading is as far off as one "
        "of the paper's own models usually is from their mean. Overfitting gaps and "
        "disparities do not enter: most of their published means are no larger than "
        "their deviations over seeds. Tables of both stand below.",
        _closest_line("Closest of all readings", sensitivity.closest),
        _closest_line(
            "Closest of those that contradict no statement of the paper",
            sensitivity.closest_uncontradicted,
        ),
    ]
    return "\n\n".join(line for line in lines if line)


def _closest_line(what: str, closest: Closest | None) -> str:
    """The nearest of some readings, in a sentence; nothing where there are none."""
    if closest is None:
        return ""
    reading = variant(closest.name)
    line = (
        f"**{what}: {markdown_text(reading.title)}** (`{closest.name}`), distance "
        f"{closest.distance:.2f}; it is the closest of them in "
        f"{closest.share_of_resamples:.0%} of resamples of the seeds. "
        f"{markdown_text(reading.change)}"
    )
    if reading.contradicts:
        line += f" Against it: {markdown_text(' '.join(reading.contradicts))}"
    return line


def _distances(readings: Sequence[VariantResult]) -> Table:
    rows = [
        (
            _title(reading),
            str(reading.n_features),
            NOTHING if reading.distance is None else f"{reading.distance:.2f}",
            str(len(reading.contradicts)),
        )
        for reading in sorted(readings, key=_farther)
    ]
    return Table(
        "Readings by distance",
        ("reading", "features", "distance", "statements contradicted"),
        tuple(rows),
    )


def _farther(reading: VariantResult) -> tuple[bool, float]:
    """Sorts the nearest first, and what is not known last."""
    if reading.distance is None:
        return True, 0.0
    return False, reading.distance


def _readings_at(readings: Sequence[VariantResult], epsilon: float) -> Table:
    """Published beside all readings at one budget."""
    published = [_published("adult", name, epsilon, what) for name, what in COLUMNS]
    rows = [(PUBLISHED, *published)]
    for reading in readings:
        cells = [
            _compared(reading.number(name, epsilon, what)) for name, what in COLUMNS
        ]
        rows.append((_title(reading), *cells))
    heads = ("accuracy", "sex DP gap", "sex EO gap", "race DP gap", "race EO gap")
    return Table(
        f"Adult at {_budget(epsilon)}",
        ("reading", *heads),
        tuple(rows),
    )


def _rates(readings: Sequence[VariantResult]) -> Table:
    """A check outside the distance: the positive rates that the paper's text gives."""
    groups = ("Male", "Female")
    rows = [(PUBLISHED, *map(_published_rates, groups))]
    for reading in readings:
        ranges = [_range_of_rates(reading, group) for group in groups]
        rows.append((_title(reading), *ranges))
    return Table(
        "Adult: share predicted positive, over budgets",
        ("reading", *groups),
        tuple(rows),
        note="The text of the paper gives these ranges; they did not enter the "
        "distance.",
    )


def _published_rates(group: str) -> str:
    low = text_figure(f"adult_rate_{group.lower()}_low")
    high = text_figure(f"adult_rate_{group.lower()}_high")
    return f"{low.printed} to {high.printed}"


def _range_of_rates(reading: VariantResult, group: str) -> str:
    """Smallest and largest mean positive rate over budgets."""
    means = []
    for row in reading.rows:
        number = row.number("positive_rate", group)
        if number is not None:
            means.append(number.mean)
    return f"{min(means):.1%} to {max(means):.1%}"


def _gaps(readings: Sequence[VariantResult]) -> Table:
    """Overfitting gaps without differential privacy, where training is remembered."""
    keys: list[tuple[str, str]] = []
    for attribute in ("sex", "race"):
        groups = configuration("adult", attribute).groups
        keys += [(attribute, group) for group in groups]
    published = [
        _published("adult", attribute, NO_DP, "overfitting_gap", group)
        for attribute, group in keys
    ]
    rows = [(PUBLISHED, *published)]
    for reading in readings:
        gaps = []
        for attribute, group in keys:
            gap = reading.number(attribute, NO_DP, "overfitting_gap", group)
            gaps.append(_with_error(gap, 4))
        rows.append((_title(reading), *gaps))
    return Table(
        "Adult: overfitting gap at no-DP",
        ("reading", *(group for _, group in keys)),
        tuple(rows),
        note="Published: mean ± standard deviation over seeds. Ours: mean ± standard "
        "error. They did not enter the distance.",
    )


def _disparities(readings: Sequence[VariantResult], budgets: Sequence[float]) -> Table:
    keys = list(product(("sex", "race"), budgets))
    published = [
        _published("adult", attribute, epsilon, "pcer_disparity")
        for attribute, epsilon in keys
    ]
    rows = [(PUBLISHED, *published)]
    for reading in readings:
        cells = []
        for attribute, epsilon in keys:
            disparity = reading.number(attribute, epsilon, "pcer_disparity")
            cells.append(_with_interval(disparity))
        rows.append((_title(reading), *cells))
    heads = [f"{attribute}, {_budget(epsilon)}" for attribute, epsilon in keys]
    return Table(
        "Adult: PCER disparity, mean and 95 % interval",
        ("reading", *heads),
        tuple(rows),
        note="Floor 0.001; intervals by bootstrap over seeds, as in the paper.",
    )


def _words(readings: Sequence[VariantResult]) -> Table:
    rows = [
        (
            _title(reading),
            reading.change,
            reading.support,
            " ".join(reading.contradicts) or "Nothing.",
        )
        for reading in readings
    ]
    return Table(
        "What each reading rests on",
        ("reading", "what it takes", "for it", "against it"),
        tuple(rows),
        n_labels=4,
        note="Settled by the paper: the 46,033 records are those of both UCI files "
        "with a known occupation. Both tables of Adult print the same accuracies and "
        "deviations in all six rows, so that one set of models served sex and race: no "
        "reading may leave out only the attribute that is audited.",
    )


def _accountant(sensitivity: Sensitivity) -> list[str]:
    answers = _answers(sensitivity, OpenQuestion.ACCOUNTANT)
    if not answers:
        return []
    tables = []
    for name in (COMPAS, ADULT):
        baseline = sensitivity.result(name)
        if baseline is not None:
            compared = [answer for answer in answers if answer.baseline == name]
            tables.append(to_markdown(_accountants_beside(baseline, compared)))
    return [
        "## Accountant: who calibrates the noise at ε = 0.1",
        *tables,
        "\n".join(f"- {_moved_words(answer)}" for answer in answers),
        _noise_words(sensitivity, answers),
    ]


def _noise_words(sensitivity: Sensitivity, answers: Sequence[VariantResult]) -> str:
    """How much more noise than pcer's each variant has."""
    shares = []
    for answer in answers:
        baseline = sensitivity.result(str(answer.baseline))
        row = answer.rows[0]
        beside = None if baseline is None else baseline.row(row.attribute, 0.1)
        theirs = None if beside is None else beside.noise_multiplier
        if row.noise_multiplier and theirs:
            more = row.noise_multiplier / theirs - 1
            shares.append(f"`{answer.name}` {more:+.1%}")
    return (
        f"Noise beside pcer's: {', '.join(shares)}. Given a target epsilon alone, "
        "Opacus counts its accountant's error bound of 0.01 as spent, and its search "
        "stops as soon as epsilon is within 0.01 of the target. Together that is up to "
        "a fifth of ε = 0.1, and next to nothing of ε = 1: such models are more "
        "private than asked for."
    )


def _accountants_beside(
    baseline: VariantResult, answers: Sequence[VariantResult]
) -> Table:
    """Published, pcer's own and the other accountants at the strongest protection."""
    is_compas = baseline.name == COMPAS
    attribute = "race" if is_compas else "sex"
    title = "COMPAS (race)" if is_compas else "Adult (sex)"
    dataset = variant(baseline.name).dataset
    quantities = (*MEASURES, "pcer_disparity")

    published = [_published(dataset, attribute, 0.1, what) for what in quantities]
    rows = [(PUBLISHED, NOTHING, NOTHING, *published)]
    for result in (baseline, *answers):
        name = "PLD (pcer)" if result is baseline else _title(result)
        row = result.row(attribute, 0.1)
        if row is not None:
            rows.append((name, *_accountant_cells(row)))
    heads = [SHORT[what] for what in quantities]
    return Table(
        f"{title} at ε = 0.1",
        ("calibrated by", "noise multiplier", "ε by PLD", *heads),
        tuple(rows),
    )


def _accountant_cells(row: VariantRow) -> tuple[str, ...]:
    measured = [_compared(row.number(what)) for what in MEASURES]
    disparity = row.number("pcer_disparity")
    both = f"{_with_interval(disparity)} {_in_brackets(disparity)}".strip()
    return (_noise(row), _spent(row), *measured, both)


def _scaling(sensitivity: Sensitivity) -> list[str]:
    outside = sensitivity.result("compas-outside")
    if outside is None:
        return []
    return [
        "## Standardising: inside or outside the split",
        _moved_words(outside),
        to_markdown(_scaling_table(outside)),
        "What it costs: fitted inside, the means and deviations are statistics of the "
        "training records that the noise of DP-SGD does not cover. Fitted outside, "
        "they are statistics of all records: the epsilon does not cover them either, "
        "and the test records, which are to play the people who were not trained on, "
        "then had a part in the training. Categories are encoded from a fixed list of "
        "values in both, so that there is no encoder to fit; the text encoding of Bios "
        "is fitted on all texts, as the paper says.",
    ]


def _scaling_table(outside: VariantResult) -> Table:
    quantities = (*MEASURES, "pcer_disparity")
    rows = []
    for row in outside.rows:
        numbers = [row.number(what) for what in quantities]
        numbers += _gaps_of(row)
        cells = [_difference(number) for number in numbers]
        rows.append((short_budget(row.epsilon), *cells, _smallest_p(numbers)))
    heads = [SHORT[what] for what in quantities]
    heads += [f"gap of {gap.group}" for gap in _gaps_of(outside.rows[0])]
    return Table(
        "COMPAS: outside minus inside",
        ("ε", *heads, "smallest p"),
        tuple(rows),
        note="Paired differences over the same seeds ± standard error; p adjusted over "
        "all numbers of all budgets (Holm).",
    )


def _gaps_of(row: VariantRow) -> list[VariantNumber]:
    return [number for number in row.numbers if number.quantity == "overfitting_gap"]


def _smallest_p(numbers: Iterable[VariantNumber | None]) -> str:
    known = []
    for number in numbers:
        paired = None if number is None else number.paired
        if paired is not None and paired.p_value is not None:
            known.append(paired.p_value)
    return p_value(min(known, default=None))


def _pairing(sensitivity: Sensitivity) -> list[str]:
    compared = [one for one in sensitivity.results if one.baseline is not None]
    seeds = sorted({(one.dataset, len(one.seeds)) for one in sensitivity.results})
    seed_words = [f"{n} of {dataset}" for dataset, n in seeds]
    environments = [_environment_words(made) for made in sensitivity.made_with]
    made_with = "; ".join(environments) or "versions that are not recorded"
    other_splits = [one.name for one in compared if not one.same_splits]
    other_streams = [one.name for one in compared if not one.same_streams]
    sentences = [
        f"Seeds: {', '.join(seed_words)}.",
        _splits_sentence(other_splits),
        _streams_sentence(other_streams),
        "Differences tell about the luck of splits and training, not about other "
        "people's data.",
        f"Made with {markdown_text(made_with)}.",
    ]
    return ["## How the comparisons are paired", " ".join(sentences)]


def _splits_sentence(others: Sequence[str]) -> str:
    """Which variants have not the splits of their baselines."""
    known = "Splits depend on the records and the seed alone."
    if not others:
        return f"{known} They are the same in every variant of a dataset."
    return f"{known} They are not those of the baseline in {', '.join(others)}."


def _streams_sentence(others: Sequence[str]) -> str:
    """Which variants have not the random streams of their baselines."""
    known = (
        "First weights, batches and noise come from streams named by seed and budget"
    )
    names = " and ".join(others)
    if not others:
        return f"{known}."
    if len(others) == 1:
        return (
            f"{known}; only {names} was trained at the budget its noise really spends, "
            "and so shares the splits alone."
        )
    return (
        f"{known}; {names} were trained at the budgets that their noise really spends, "
        "and so share the splits alone."
    )


def _environment_words(environment: Mapping[str, Any]) -> str:
    words = []
    for name, value in environment.items():
        if value is not None:
            words.append(f"{name.replace('_', ' ')} {value}")
    return ", ".join(words)


def _moved_words(result: VariantResult) -> str:
    """Which numbers of a variant differ from pcer's reading, in a sentence."""
    pairs = []
    for row in result.rows:
        pairs += [number.paired for number in row.numbers if number.paired is not None]
    title = f"{_title(result)} (`{result.name}`)"
    if all(pair.p_value is None for pair in pairs):
        return f"{title}: too few seeds to tell a difference from chance."
    beyond_chance = moved(result)
    if not beyond_chance:
        return (
            f"{title}: none of {len(pairs)} numbers differs from pcer's reading beyond "
            "chance."
        )
    which = "; ".join(map(_moved_number, beyond_chance))
    return (
        f"{title}: {len(beyond_chance)} of {len(pairs)} numbers differ beyond chance: "
        f"{markdown_text(which)}."
    )


def _moved_number(moved_number: Moved) -> str:
    row, number = moved_number
    what = SHORT[number.quantity]
    if number.group:
        what += f" of {number.group}"
    return f"{what} by {row.attribute} at {_budget(row.budget)}"


def _title(result: VariantResult) -> str:
    return variant(result.name).title


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
    mean = f"{number.mean:.{digits}f}"
    error = number.standard_error
    return mean if error is None else f"{mean} ± {error:.{digits}f}"


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
