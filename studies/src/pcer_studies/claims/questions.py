"""Which questions do the claims about several datasets ask?

Called by the modules of claims, one for each dataset. A question is made by a rule
(``rules``) from numbers (``quantities``). To add a question: a function here.
"""

from __future__ import annotations

from collections.abc import Sequence

from pcer_studies.claims.judgement import ClaimQuestion
from pcer_studies.claims.quantities import (
    GROUPS,
    INFORMATIVE,
    ClaimNumber,
    NumberPair,
    cells_of,
    disparity_sizes,
    extreme,
    gap_of,
    parities,
    printed,
)
from pcer_studies.claims.rules import as_printed, best, flat, together
from pcer_studies.claims.wording import threshold
from pcer_studies.protocol import BUDGETS, NO_DP, Configuration


def places(budgets: Sequence[float], wanted: Sequence[float]) -> list[int]:
    """Where some budgets stand among others."""
    return [budgets.index(epsilon) for epsilon in wanted]


def best_parity(
    configuration: Configuration, wanted: Sequence[float], *, largest: bool = False
) -> ClaimQuestion:
    """The DP gap is smallest (largest) at these budgets."""
    return best(
        parities(configuration, BUDGETS),
        places(BUDGETS, wanted),
        largest=largest,
        what="DP gap",
    )


def best_disparity(
    configuration: Configuration, wanted: Sequence[float], *, largest: bool = False
) -> ClaimQuestion:
    """The disparity is smallest (largest) at these, of the budgets that are ranked."""
    return best(
        disparity_sizes(configuration, INFORMATIVE),
        places(INFORMATIVE, wanted),
        largest=largest,
        what="disparity, without ε = 0.1",
    )


def larger_without_privacy(
    configuration: Configuration, budgets: Sequence[float]
) -> list[NumberPair]:
    """Pairs: both gaps are larger without privacy than at each of these budgets."""
    pairs = []
    for _, epsilon, group in cells_of([configuration], budgets):
        without = gap_of(configuration, NO_DP, group)
        pairs.append((without, gap_of(configuration, epsilon, group)))
    return pairs


def nearly_equal(configuration: Configuration, epsilon: float) -> ClaimQuestion:
    """The two gaps differ by less than the word allows."""
    pair = [gap_of(configuration, epsilon, group) for group in GROUPS]
    return flat(pair, 1 - 1 / threshold("nearly_equal"))


def printed_range(name: str) -> tuple[float, float]:
    """The two ends of a range in the paper's text."""
    return printed(f"{name}_low"), printed(f"{name}_high")


def ends_as_printed(
    numbers: Sequence[ClaimNumber], what: str, name: str
) -> ClaimQuestion:
    """The ends of a range in the paper's text are those of its table."""
    questions = []
    for end in ("low", "high"):
        number = extreme(numbers, end, what)
        questions.append(as_printed(number, f"{name}_{end}", exact=True))
    return together(*questions)
