"""In which ways can the paper be read where it leaves a choice open?

``sensitivity.run`` trains every row of ``VARIANTS``; ``analysis`` compares them. Each
variant says what it changes, which of the paper's words it rests on, and which of
them it contradicts. The first variant of a dataset is pcer's own reading, the baseline
of the others.

To add a variant: a row of ``VARIANTS``; for other features, a row of
``readings.READINGS`` of the same name as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pcer_studies.protocol import BUDGETS, CONFIGURATIONS, NO_DP


class OpenQuestion(StrEnum):
    """What is left open."""

    FEATURES = "which columns of Adult are features, and how they are encoded"
    ACCOUNTANT = "who calibrates the noise at epsilon 0.1"
    SCALING = "whether features are standardised inside or outside the split"


class Noise(StrEnum):
    """Who calibrates the noise."""

    PLD = "pld"
    """pcer's default: the least noise that keeps the budget."""
    PRV = "prv"
    """Opacus' accountant, asked for the least noise by pcer's search."""
    OPACUS = "opacus"
    """Opacus' accountant and Opacus' own search, both as they come."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to read the paper.

    Attributes:
        name: in file names and in ``sensitivity.json``.
        question: the open question that it answers.
        dataset: what it is trained on.
        title: in tables.
        baseline: name of the variant it is compared with; None for a baseline.
        change: what it changes.
        support: which of the paper's words it rests on.
        contradicts: statements of the paper that it contradicts.
        budgets: the paper's budgets at which it is trained.
        noise: who calibrates the noise.
        scaled_outside: whether features are standardised over all records.
    """

    name: str
    question: OpenQuestion
    dataset: str
    title: str
    baseline: str | None
    change: str
    support: str
    contradicts: tuple[str, ...] = ()
    budgets: tuple[float, ...]
    noise: Noise = Noise.PLD
    scaled_outside: bool = False

    @property
    def attributes(self) -> tuple[str, ...]:
        """Protected attributes the paper has for the dataset."""
        return tuple(
            known.attribute for known in CONFIGURATIONS if known.dataset == self.dataset
        )


ADULT_BUDGETS = (NO_DP, 0.1, 1.0, 10.0)
STRONG = (0.1,)
ADULT, COMPAS = "adult-named", "compas-inside"

_NO_CAPITAL = "The paper names capital gain/loss among the features."
_PROTECTED = "The paper says that the protected attributes are not among the features."
_EXAMPLES = (
    "The appendix on Adult speaks of census attributes in general; the list of "
    "features would then name only some of them."
)
_OPACUS = (
    "The models are said to be trained with Opacus 1.5, whose default accountant is "
    "PRV."
)


def _features(
    name: str, title: str, change: str, support: str, contradicts: tuple[str, ...] = ()
) -> Variant:
    return Variant(
        name=f"adult-{name}",
        question=OpenQuestion.FEATURES,
        dataset="adult",
        title=title,
        baseline=ADULT,
        change=change,
        support=support,
        contradicts=contradicts,
        budgets=ADULT_BUDGETS,
    )


def _accountant(dataset: str, baseline: str, noise: Noise, change: str) -> Variant:
    return Variant(
        name=f"{dataset}-{noise}",
        question=OpenQuestion.ACCOUNTANT,
        dataset=dataset,
        title="PRV, least noise" if noise is Noise.PRV else "Opacus as it comes",
        baseline=baseline,
        change=change,
        support=_OPACUS,
        budgets=STRONG,
        noise=noise,
    )


_PRV = (
    "The noise is the least that keeps the budget by Opacus' PRV accountant instead of "
    "by PLD."
)
_SEARCH = (
    "The noise is what Opacus finds when it is called with a target epsilon and "
    "nothing else: its accountant adds an error bound of 0.01 to every epsilon, and "
    "its search stops once epsilon is within 0.01 of the target."
)

VARIANTS = (
    Variant(
        name=ADULT,
        question=OpenQuestion.FEATURES,
        dataset="adult",
        title="named columns (pcer)",
        baseline=None,
        change="pcer's own reading: age, education as its ordered number, one "
        "indicator per occupation, hours, capital gain and capital loss; everything "
        "standardised.",
        support="The paper's list of features, taken as complete.",
        budgets=ADULT_BUDGETS,
    ),
    _features(
        "education-indicators",
        "education as indicators",
        "Education becomes one indicator per level.",
        "The files give education as a category too, and the paper does not say which "
        "it took.",
    ),
    _features(
        "occupation-number",
        "occupation as a number",
        "Occupation becomes its place in alphabetical order.",
        "The paper does not say how categories become numbers; this is what a label "
        "encoder does.",
    ),
    _features(
        "plain-indicators",
        "indicators not standardised",
        "Indicators stay 0 and 1; only numbers are standardised (here over all "
        "records).",
        "Features are said to be standardised, which can mean the numeric ones alone.",
    ),
    _features(
        "protected-inside",
        "named columns, sex and race",
        "Sex and race are features as well, as indicators.",
        "No words; but the published gaps by sex are of this size.",
        (_PROTECTED,),
    ),
    _features(
        "all-indicators",
        "all columns, indicators",
        "All UCI columns but sex and race are features; one indicator per value of a "
        "category.",
        _EXAMPLES,
    ),
    _features(
        "all-numbers",
        "all columns, numbers",
        "All UCI columns but sex and race are features; a category becomes its place "
        "in alphabetical order.",
        _EXAMPLES,
    ),
    _features(
        "all-numbers-no-capital",
        "all columns but capital, numbers",
        "As all columns as numbers, without capital gain and capital loss.",
        _EXAMPLES,
        (_NO_CAPITAL,),
    ),
    _features(
        "all-numbers-no-capital-protected",
        "all columns but capital, numbers, sex and race",
        "As all columns as numbers, without capital gain and loss, with sex and race.",
        _EXAMPLES,
        (_NO_CAPITAL, _PROTECTED),
    ),
    Variant(
        name=COMPAS,
        question=OpenQuestion.SCALING,
        dataset="compas",
        title="inside the split (pcer)",
        baseline=None,
        change="pcer's own reading: mean and standard deviation of the training "
        "records; noise by PLD.",
        support="The usual care: nothing of a test record reaches the model.",
        budgets=BUDGETS,
    ),
    _accountant("compas", COMPAS, Noise.PRV, _PRV),
    _accountant("compas", COMPAS, Noise.OPACUS, _SEARCH),
    _accountant("adult", ADULT, Noise.PRV, _PRV),
    _accountant("adult", ADULT, Noise.OPACUS, _SEARCH),
    Variant(
        name="compas-outside",
        question=OpenQuestion.SCALING,
        dataset="compas",
        title="outside the split",
        baseline=COMPAS,
        change="Mean and standard deviation of all records, test records included.",
        support="Standardising is mentioned before the split, with no word on what it "
        "was fitted on.",
        budgets=BUDGETS,
        scaled_outside=True,
    ),
)
"""Baselines before what is compared with them."""


def variant(name: str) -> Variant:
    """The variant of that name.

    Raises:
        KeyError: there is none.

    >>> variant("compas-prv").baseline
    'compas-inside'
    """
    for known in VARIANTS:
        if known.name == name:
            return known
    raise KeyError(f"there is no variant {name}")
