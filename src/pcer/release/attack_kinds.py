"""Which attacks are there: name, scale, what each needs, and its words for people?

``attacks`` asks this file what to run, ``measuring`` which attack decides, and every
output how to name an attack and write its amounts. A release may carry other attacks,
from any tool: those get the same tests, and general words (``attack_kind``). What the
paper calls privacy cost is exposure here.

To add an attack: a row below, and a row of ``ATTACKS`` in ``attacks/scorers`` that
measures it. ``docs/attacks.md`` explains each attack.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from pcer.errors import normalised
from pcer.wording import two_digits

SMALLEST_PRINTED = 0.05  # a smaller amount is printed as 0


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The unit of an exposure, and how amounts of it are written for people.

    Texts have places for ``{label}``, the attack's name, ``{found}``, amounts by group,
    and ``{amount}``, one amount.
    """

    unit: str
    full: str = "exposure measured by {label} is {found} hundredths"
    said: str = "hundredths"  # follows an amount
    points: str = "hundredths"  # follows a difference of amounts
    coin: str = ""  # how often a coin would be right
    column: str = "exposure,\nhundredths"  # heads a column of a table
    counted: str = "Exposure ({label}), in hundredths"  # titles an axis
    most: str = "exposure is at most {amount} hundredths in any group"
    is_advantage: bool = False  # over a coin: written as right answers of 100
    largest: float = math.inf  # the largest exposure that there can be
    per_unit: float = 100.0  # what 1 is written as: 100 hundredths, or its own unit
    # What 1 adds to an attacker's 50 right answers of 100: all of an advantage, half of
    # a difference of rates; None where the unit says nothing about an attacker.
    per_success: float | None = None

    def hundredths(self, exposure: float) -> str:
        """An exposure as it is printed: in hundredths, or in its own unit.

        An advantage is printed as how often of 100 the attacker is right.

        >>> AUC.hundredths(0.026), ACCURACY.hundredths(0.0091)
        ('52.6', '0.91')
        """
        if self.is_advantage:
            return f"{50 + 100 * exposure:z.1f}"
        if abs(self.per_unit * exposure) < SMALLEST_PRINTED:
            return "0"
        return self.difference(exposure)

    def written(self, exposure: float) -> float:
        """An exposure on an axis: an advantage as right answers of 100.

        >>> AUC.written(0.026), ACCURACY.written(0.0091)
        (52.6, 0.91)
        """
        coin = 50.0 if self.is_advantage else 0.0
        return coin + self.per_unit * exposure

    def difference(self, exposure: float) -> str:
        """A difference of exposures, or an exposure in its own unit."""
        return two_digits(self.per_unit * exposure)


def _advantage(unit: str, question: str) -> Scale:
    """The scale of an attacker who answers a question more often right than a coin."""
    attacker = f"an attacker who is asked {question}"
    most = "the attacker is right at most {amount} of 100 times in any group"
    return Scale(
        unit=unit,
        full=f"{attacker} is right {{found}} of 100 times (coin: 50)",
        said="of 100",
        points="points",
        coin=" (coin: 50)",
        column="attacker right,\nof 100",
        counted="Attacker right, of 100 (coin: 50)",
        most=f"{most} (coin: 50)",
        is_advantage=True,
        largest=0.5,
        per_success=100.0,
    )


def _gain(rates: str, what: str, which: str = "") -> Scale:
    """The scale of what training on a person adds to ``what`` of the model on them."""
    gains = "being in the training data adds"
    at_most = f"{gains} at most {{amount}} points of {what}"
    return Scale(
        unit=f"difference of {rates}",
        full=f"{gains} {{found}} points of {what}{which}",
        said="points",
        points="points",
        column=f"{what} gained,\npoints",
        counted=f"What {gains} to {what}{which}, in points",
        most=f"if the model memorises, {at_most} in any group",
        largest=1.0,
        per_success=50.0,
    )


ACCURACY = _gain("accuracies", "accuracy")
PROBABILITY = _gain("probabilities", "confidence", " in the true label")
BALANCED = _advantage(
    "balanced accuracy − 1/2", "whether a person was in the training data"
)
AUC = _advantage("AUC − 1/2", "which of two people was in the training data")
OWN_RANKS = _advantage("AUC − 1/2, within people", "which of two tables a person is in")
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
    MODELS = (
        "every record's score by at least {n} models of a budget, each with its own "
        "split"
    )
    TABLES = "every record's signal in at least {n} synthetic tables"
    REFERENCE = (
        "every record's score by the model and by reference models that never saw it"
    )
    TRAINING = "what training itself counted of every person, where it kept receipts"
    ELSEWHERE = "a release whose trainer measured it"


# Models of one budget that paired attacks need, and attacks whose models calibrate each
# other: with fewer too many records have nobody in, or nobody out, among the others.
PAIR = 2
SHADOWS = 8
OWN = "_auc_advantage"  # follows the name of a user's own attack whose AUC was measured
OWN_STRENGTH = 20  # of such an attack, which is taken to be better than the plain loss


@dataclass(frozen=True)
class AttackKind:
    """One way to measure exposure: signed, 0 at chance."""

    name: str  # in files and on the command line
    phrase: str  # as part of a sentence
    scale: Scale
    basis: Basis
    least_models: int = 1  # of a budget, each with its own split
    floor: float = 0.0  # the smallest exposure that counts in a ratio, for any plan
    called: str = ""  # in tables that have little room, where that is not the label
    # Where an audit chooses, the carried attack of the highest strength decides; 0 for
    # one that is never chosen. One advantage and one other attack decide together: an
    # advantage near its ceiling cannot show differences, and a paired attack misses
    # weak ones that concern everybody.
    strength: int = 0
    # Whether a setting's other models calibrate each record. Such models are not
    # independent: audits take one number over all of them, and compare only those of as
    # many models.
    is_calibrated: bool = False
    # Whether the first placebo groupings are attacked exactly, too, to see how far the
    # first-order numbers of the others are off.
    is_tried_exactly: bool = False
    # Whether it compares each person with themselves, in training and out.
    is_paired: bool = False

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


GAP = AttackKind(
    "overfitting_gap", "the overfitting gap", ACCURACY, Basis.COUNTS, called="gap"
)
THRESHOLD = AttackKind(
    "attack_advantage", "the threshold attack", BALANCED, Basis.MODEL
)
AUC_ADVANTAGE = AttackKind("auc_advantage", "the AUC", AUC, Basis.MODEL, strength=10)
TPR_AT_1_PERCENT = AttackKind(
    "tpr_excess_at_1_percent", "TPR at 1% FPR", RATE, Basis.MODEL
)
TPR_AT_01_PERCENT = AttackKind(
    "tpr_excess_at_0.1_percent", "TPR at 0.1% FPR", RATE, Basis.MODEL
)
PAIRED_GAP = AttackKind(
    "paired_gap",
    "the paired gap",
    ACCURACY,
    Basis.MODELS,
    PAIR,
    strength=40,
    is_paired=True,
)
PAIRED_CONFIDENCE = AttackKind(
    "paired_confidence",
    "paired confidence",
    PROBABILITY,
    Basis.MODELS,
    PAIR,
    strength=50,
    is_paired=True,
)
OWN_AUC = AttackKind(
    "own_auc_advantage",
    "own AUC",
    OWN_RANKS,
    Basis.TABLES,
    PAIR,
    strength=55,
    is_paired=True,
)
LIRA = AttackKind(
    "lira_advantage",
    "LiRA",
    AUC,
    Basis.MODELS,
    SHADOWS,
    strength=60,
    is_calibrated=True,
    is_tried_exactly=True,
)
LIRA_OFFLINE = AttackKind(
    "lira_offline_advantage",
    "offline LiRA",
    AUC,
    Basis.MODELS,
    SHADOWS,
    is_calibrated=True,
)
SPENT = AttackKind(
    "spent_epsilon", "the spent epsilon", EPSILON, Basis.TRAINING, floor=0.01
)
RMIA = AttackKind(
    "rmia_advantage",
    "RMIA",
    AUC,
    Basis.MODELS,
    SHADOWS,
    strength=70,
    is_calibrated=True,
    is_tried_exactly=True,
)
REFERENCE = AttackKind(
    "reference_advantage", "the reference attack", AUC, Basis.REFERENCE, strength=30
)
# Every row above, by name.
ATTACK_KINDS: dict[str, AttackKind] = {
    row.name: row for row in tuple(globals().values()) if isinstance(row, AttackKind)
}


def attack_named(text: str, carried: Collection[str] = ()) -> str:
    """The name in files of the attack that a user means; unknown names stay.

    Any name that outputs print will do, in capitals or not; also of ``carried`` ones.

    >>> attack_named("LiRA"), attack_named("Gap")
    ('lira_advantage', 'overfitting_gap')
    >>> attack_named("My attack", ["my_attack"])
    'my_attack'
    """
    if text in ATTACK_KINDS or text in carried:
        return text
    names: dict[str, str] = {}
    for name in (*ATTACK_KINDS, *carried):
        kind = attack_kind(name)
        bare = kind.label.removesuffix(" attack")
        for form in (name, kind.phrase, kind.label, kind.short, bare):
            names.setdefault(_folded(form), name)
    return names.get(_folded(text), text)


def _folded(text: str) -> str:
    """A name without what people leave out or vary: capitals, hyphens, underscores."""
    return normalised(re.sub("[_-]", " ", text))


def attack_kind(name: str) -> AttackKind:
    """The attack of that name; for one that pcer does not run, what can be said of any.

    >>> attack_kind("lira_advantage").short, attack_kind("their_attack").label
    ('LiRA', 'their attack')
    """
    if name in ATTACK_KINDS:
        return ATTACK_KINDS[name]
    phrase = name.removesuffix(OWN).replace("_", " ")
    if name.endswith(OWN):
        return AttackKind(name, phrase, AUC, Basis.ELSEWHERE, strength=OWN_STRENGTH)
    return AttackKind(name, phrase, UNKNOWN, Basis.ELSEWHERE)
