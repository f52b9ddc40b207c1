"""What can an overfitting gap show, and what do other attacks on the same models say?

The sections of ``findings.md`` about method. Called by ``findings``. To add a column of
the table of attacks: a head in ``attack_table`` and a count in ``_attack_line``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pcer_studies.claims.charts import FIGURES
from pcer_studies.claims.evidence import SHARPER
from pcer_studies.claims.facts import (
    ATTACKS,
    AttackRow,
    Background,
    GapRow,
    standing_out_from,
)
from pcer_studies.claims.noise import (
    CLIPPED_MEAN,
    CLIPPED_STD,
    PrintedGap,
    SpreadSource,
    published_gaps,
)
from pcer_studies.claims.wording import gap_words, range_words
from pcer_studies.protocol import SEEDS
from pcer_studies.results import GAP


def method_section(background: Background) -> list[str]:
    """What the gap can show, published and ours, and the other attacks beside it."""
    n_gaps = len(background.gaps)
    published = [row.published for row in background.gaps]
    levels = [gap.noise_level for gap in published]
    n_below = sum(gap.value <= gap.noise_level for gap in published)
    return [
        "## How we know: what a gap is when nothing is memorised",
        "The paper takes a group's overfitting gap, max(0, training accuracy − test "
        "accuracy), for its privacy cost. If nothing is memorised, the difference X is "
        "chance: mean 0, nearly normal, with a standard deviation s that group size "
        "and accuracy fix (s² = p(1−p)(1/n_train + 1/n_test)). Cut at 0 it becomes a "
        "positive number: E max(0, X) = s/√(2π) = "
        f"{CLIPPED_MEAN:.3f} s, the **noise level**, with standard deviation "
        f"{CLIPPED_STD:.3f} s. For the paper's groups it is "
        f"{range_words(levels, gap_words)}; the smaller group tends to have the larger "
        "one, which by itself looks like a disparity.",
        f"**Published gaps** are tested as means over {len(SEEDS)} splits against the "
        "exact distribution if nothing is memorised, one-sided, Holm over all "
        f"{n_gaps}; the first to stand out must be {standing_out_from(n_gaps):.2f} "
        "times its noise level. **Ours** are tested by the audit: exact over random "
        "splits, Holm over a configuration ([method.md](../../docs/method.md)).",
        f"![Mean gaps over noise level]({FIGURES}/findings-gaps.svg)",
        "*Every mean gap divided by its noise level, published and ours. Grey: where "
        "95% of means lie if nothing is memorised. Dashed: where the first published "
        "gap stands out.*",
        _gap_table(background),
        f"{_gaps_sentence(background)} {n_below} published gaps are not even above "
        f"their noise level. {_readings(background)}",
        "A gap at its noise level makes the disparity the difference of positive rates "
        "divided by noise. Its bootstrap interval can then exclude 0 because the rates "
        "differ, its sign be stable over floors because the rates have a sign, and it "
        "can agree with a threshold attack's because both have the same rates on top. "
        "None of this needs memorisation.",
        "## The same models by every attack",
        "Paired attacks compare a record with itself, over models that trained on it "
        "and models that did not; LiRA is the attack of Carlini et al. with the "
        "sweep's models as each other's shadow models "
        "([attacks.md](../../docs/attacks.md)). Each attack is audited alone, as if it "
        "were the only one; the page's verdicts are by the strongest.",
        attack_table(background),
    ]


def _gap_table(background: Background) -> str:
    """By configuration: how many gaps are beyond chance, published and ours."""
    lines = [
        "| beyond chance | published, no-DP | published, with privacy | ours, no-DP | "
        "ours, with privacy |",
        "|---|--:|--:|--:|--:|",
    ]
    for configuration in background.study.configurations:
        rows = [row for row in background.gaps if row.configuration == configuration]
        private = [row for row in rows if row.private]
        without = [row for row in rows if not row.private]
        cells = (
            background.name_of(configuration),
            count(without, stands_out),
            count(private, stands_out),
            count(without, _is_detected),
            count(private, _is_detected),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _gaps_sentence(background: Background) -> str:
    gaps = background.gaps
    private = [row for row in gaps if row.private]
    n_published = sum(map(stands_out, gaps))
    n_ours = sum(map(_is_detected, gaps))
    return (
        f"Of the {len(gaps)} published mean gaps {n_published} differ from chance, "
        f"{count(private, stands_out)} with privacy{_silent(background)}; of ours "
        f"{n_ours}, {count(private, _is_detected)} with privacy."
    )


def _silent(background: Background) -> str:
    """Configurations whose published gaps, with privacy, are all within chance."""
    loud = {
        row.configuration for row in background.gaps if row.private and stands_out(row)
    }
    configurations = background.study.configurations
    silent = [one.name for one in configurations if one not in loud]
    return f" (none in {', '.join(silent)})" if silent else ""


def _readings(background: Background) -> str:
    """How far the count depends on what was assumed."""
    n_standing_out = []
    for rounding in (-1, 0, 1):
        gaps = published_gaps(background.study, rounding=rounding)
        n_standing_out.append(_n_standing_out(gaps))
    fewest = min(n_standing_out)
    most = max(n_standing_out)
    rounded = f"between {fewest} and {most}" if fewest < most else "the same"

    others = []
    for source in SpreadSource:
        if source is not SpreadSource.COUNTS:
            gaps = published_gaps(background.study, source)
            others.append(f"{_n_standing_out(gaps)} of {len(gaps)} by {source.value}")
    return (
        f"The count of {n_standing_out[1]} is {rounded} whichever way the last printed "
        "digits were rounded. With other readings of the spread: "
        f"{'; '.join(others)}."
    )


def _n_standing_out(gaps: Iterable[PrintedGap]) -> int:
    return sum(gap.stands_out for gap in gaps)


def attack_table(background: Background) -> str:
    """What each attack would say alone."""
    carried = {row.attack for row in background.attacks}
    lines = [
        "| attack | groups detected | with privacy | exposures differ | ratio differs "
        "| double disadvantage |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for attack in (GAP, *SHARPER):
        if attack == GAP or attack in carried:
            lines.append(_attack_line(ATTACKS[attack], background.attacks_by(attack)))
    return "\n".join(lines)


def _attack_line(name: str, rows: Sequence[AttackRow]) -> str:
    private = [row for row in rows if row.private]
    cells = (
        name,
        f"{n_detected(rows)}/{2 * len(rows)}",
        f"{n_detected(private)}/{2 * len(private)}",
        count(rows, lambda row: row.more_exposed is not None),
        count(rows, lambda row: "ratio_differs" in row.statements),
        count(rows, lambda row: "double_disadvantage" in row.statements),
    )
    return f"| {' | '.join(cells)} |"


def stands_out(row: GapRow) -> bool:
    """Whether a published gap is beyond chance."""
    return row.published.stands_out


def _is_detected(row: GapRow) -> bool:
    return row.detected


def n_detected(rows: Iterable[AttackRow]) -> int:
    """In how many groups exposure is detected; each setting has two."""
    return sum(sum(row.detected) for row in rows)


def count(
    rows: Sequence[GapRow] | Sequence[AttackRow], test: Callable[..., bool]
) -> str:
    """How many rows pass a test, of how many.

    >>> count([], bool)
    '0/0'
    """
    return f"{sum(test(row) for row in rows)}/{len(rows)}"
