"""Which attacks are there: name, scale, what each needs, and its words for people?"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from pcer.errors import alike
from pcer.wording import two_digits


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The unit of an exposure, and how amounts of it are written for people.

    Texts have places for ``{label}``, the attack's name, ``{found}``, amounts by group,
    and ``{amount}``, one amount.
    """

    unit: str
    full: str = "exposure measured by {label} is {found} hundredths"
    said: str = "hundredths"  # follows an amount
    points: str = "hundredths"  # follows a difference
    coin: str = ""  # how often a coin would be right
    column: str = "exposure,\nhundredths"
    counted: str = "Exposure ({label}), in hundredths"
    most: str = "exposure is at most {amount} hundredths in any group"
    is_advantage: bool = False  # over a coin: written as right answers of 100
    largest: float = math.inf
    per_unit: float = (
        100.0  # what an exposure of 1 is written as: 100 hundredths, or its own unit
    )
    # What an exposure of 1 adds to an attacker's 50 right answers of 100: all of an
    # advantage, half of a difference of rates; None where the unit says nothing about
    # an attacker.
    per_success: float | None = None

    def hundredths(self, cost: float) -> str:
        """An exposure in hundredths or its own unit; of an attacker, how often of 100 it is right.

        >>> AUC.hundredths(0.026), ACCURACY.hundredths(0.0091)
        ('52.6', '0.91')
        """
        if self.is_advantage:
            return f"{50 + 100 * cost:z.1f}"
        return self.difference(cost) if abs(self.per_unit * cost) >= 0.05 else "0"

    def difference(self, cost: float) -> str:
        """A difference of exposures, or an exposure in its own unit."""
        return two_digits(self.per_unit * cost)


def _advantage(unit: str, question: str) -> Scale:
    return Scale(
        unit=unit,
        full=f"an attacker who is asked {question} is right {{found}} of 100 times (coin: 50)",
        said="of 100",
        points="points",
        coin=" (coin: 50)",
        column="attacker right,\nof 100",
        counted="Attacker right, of 100 (coin: 50)",
        most="the attacker is right at most {amount} of 100 times in any group (coin: 50)",
        is_advantage=True,
        largest=0.5,
        per_success=100.0,
    )


def _gain(rates: str, what: str, which: str = "") -> Scale:
    gains = "being in the training data adds"
    return Scale(
        unit=f"difference of {rates}",
        full=f"{gains} {{found}} points of {what}{which}",
        said="points",
        points="points",
        column=f"{what} gained,\npoints",
        counted=f"What {gains} to {what}{which}, in points",
        most=f"if the model memorises, {gains} at most {{amount}} points of {what} in any group",
        largest=1.0,
        per_success=50.0,
    )


ACCURACY = _gain("accuracies", "accuracy")
PROBABILITY = _gain("probabilities", "confidence", " in the true label")
BALANCED = _advantage(
    "balanced accuracy − 1/2", "whether a person was in the training data"
)
AUC = _advantage("AUC − 1/2", "which of two people was in the training data")
RATE = Scale(unit="difference of true positive rates", per_success=50.0)
EPSILON = Scale(
    unit="epsilon",
    full="training spent on average an epsilon of {found}",
    said="of epsilon",
    points="of epsilon",
    column="epsilon\nspent",
    counted="Average epsilon that training spent",
    most="training spent on average an epsilon of at most {amount} in any group",
    per_unit=1.0,
)
UNKNOWN = Scale(unit="not known")


class Basis(StrEnum):
    """What an attack is run on."""

    COUNTS = "the counts, or the rates and sizes, that every release holds"
    MODEL = "every record's score by each model"
    MODELS = "every record's score by at least {n} models of a budget, each with its own split"
    REFERENCE = (
        "every record's score by the model and by reference models that never saw it"
    )
    TRAINING = "what training itself counted of every person, where it kept receipts"
    ELSEWHERE = "a release whose trainer measured it"


# Models of one budget that paired attacks need, and attacks whose models calibrate each
# other: with fewer too many records have nobody in, or nobody out, among the others.
PAIR, SHADOWS = 2, 8
OWN = "_auc_advantage"  # follows the name of a user's own attack whose AUC was measured


@dataclass(frozen=True)
class Proxy:
    """One way to measure exposure: signed, 0 at chance."""

    name: str  # in files and on the command line
    phrase: str  # as part of a sentence
    scale: Scale
    basis: Basis
    least_models: int = 1  # of one budget, that it needs
    floor: float = (
        0.0  # smallest that counts in a ratio, whatever smaller one a plan names
    )
    called: str = (
        ""  # in tables that have little room, where that is less than the label
    )

    @property
    def label(self) -> str:
        """The name as it is printed."""
        return self.phrase.removeprefix("the ")

    @property
    def short(self) -> str:
        """The name in tables that have little room."""
        return self.called or self.label

    @property
    def is_from_counts(self) -> bool:
        """Whether every release has it, and how much chance adds to it is known."""
        return self.basis is Basis.COUNTS


GAP = Proxy(
    "overfitting_gap", "the overfitting gap", ACCURACY, Basis.COUNTS, called="gap"
)
THRESHOLD = Proxy("attack_advantage", "the threshold attack", BALANCED, Basis.MODEL)
AUC_ADVANTAGE = Proxy("auc_advantage", "the AUC", AUC, Basis.MODEL)
TPR_AT_1_PERCENT = Proxy("tpr_excess_at_1_percent", "TPR at 1% FPR", RATE, Basis.MODEL)
TPR_AT_01_PERCENT = Proxy(
    "tpr_excess_at_0.1_percent", "TPR at 0.1% FPR", RATE, Basis.MODEL
)
PAIRED_GAP = Proxy("paired_gap", "the paired gap", ACCURACY, Basis.MODELS, PAIR)
PAIRED_CONFIDENCE = Proxy(
    "paired_confidence", "paired confidence", PROBABILITY, Basis.MODELS, PAIR
)
LIRA = Proxy("lira_advantage", "LiRA", AUC, Basis.MODELS, SHADOWS)
LIRA_OFFLINE = Proxy(
    "lira_offline_advantage", "offline LiRA", AUC, Basis.MODELS, SHADOWS
)
SPENT = Proxy("spent_epsilon", "the spent epsilon", EPSILON, Basis.TRAINING, floor=0.01)
RMIA = Proxy("rmia_advantage", "RMIA", AUC, Basis.MODELS, SHADOWS)
REFERENCE = Proxy("reference_advantage", "the reference attack", AUC, Basis.REFERENCE)
# Attacks that calibrate each record by a setting's other models. Their models are not
# independent, so audits take one number over all of them, and only those of as many
# models are comparable.
BY_SHADOWS = (LIRA, LIRA_OFFLINE, RMIA)
# Every row above, by name.
PROXIES: dict[str, Proxy] = {
    row.name: row for row in tuple(globals().values()) if isinstance(row, Proxy)
}


def attack_named(text: str, carried: Collection[str] = ()) -> str:
    """The attack that a user calls so, by its name in files; what is not known stays as it is.

    Any name that outputs print will do, in capitals or not: "LiRA", "gap", "paired
    confidence".

    Args:
        text: as the user writes it.
        carried: names of further attacks, such as those that a release carries.

    >>> attack_named("LiRA"), attack_named("Gap"), attack_named("My attack", ["my_attack"])
    ('lira_advantage', 'overfitting_gap', 'my_attack')
    """
    if text in PROXIES or text in carried:
        return text
    names: dict[str, str] = {}
    for own in map(proxy_named, (*PROXIES, *carried)):
        for form in (
            own.name,
            own.phrase,
            own.label,
            own.short,
            own.label.removesuffix(" attack"),
        ):
            names.setdefault(alike(re.sub("[_-]", " ", form)), own.name)
    return names.get(alike(re.sub("[_-]", " ", text)), text)


def proxy_named(name: str) -> Proxy:
    """The attack of that name; for one that pcer does not run, what can be said of any.

    >>> proxy_named("lira_advantage").short, proxy_named("their_attack").label
    ('LiRA', 'their attack')
    """
    scale = AUC if name.endswith(OWN) else UNKNOWN
    other = Proxy(
        name, name.removesuffix(OWN).replace("_", " "), scale, Basis.ELSEWHERE
    )
    return PROXIES.get(name, other)
