"""Every privacy cost once: its name, its scale, what it needs, and its words for people.

A new cost is a row here and the function that measures it (``docs/attacks.md`` tells what each
is). A release may carry any other, from any tool: it is audited alike and told in general words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The unit of a cost, and how amounts of it are told to people.

    Texts have places for ``{label}``, the cost's name, ``{found}``, the amounts by group, and
    ``{amount}``, hundredths of a limit.
    """

    unit: str
    full: str = "the privacy cost measured as {label} is {found} hundredths"
    short: str = "the cost is {found} hundredths"
    column: str = "cost,\nhundredths"
    counted: str = "Privacy cost ({label}), in hundredths"
    most: str = "in no group is the cost more than {amount} hundredths"
    is_advantage: bool = False  # over guessing: told as right answers in 100, held against the gap
    largest: float = math.inf
    per_unit: float = 100.0  # what a cost of 1 is told as: 100 hundredths, or 1 of its own unit

    def hundredths(self, cost: float) -> str:
        """A cost in hundredths or its own unit; of an attacker, how often he is right in 100."""
        if self.is_advantage:
            return f"{50 + 100 * cost:z.1f}"
        amount = self.per_unit * cost
        text = f"{amount:z.2g}" if abs(amount) < 10 else f"{amount:z.0f}"
        return text.replace("-", "−")

    def at_most(self, cost: float) -> str:
        """A limit as part of a sentence.

        >>> UNKNOWN.at_most(0.031)
        'in no group is the cost more than 3.1 hundredths'
        """
        return self.most.format(amount=self.hundredths(cost))


def _advantage(unit: str, question: str) -> Scale:
    return Scale(
        unit=unit,
        full=f"an attacker who is asked {question} is right {{found}} times in 100, where guessing "
        "gives 50",
        column="guessed right,\nof 100",
        counted=f"Right answers in 100 of an attacker who is asked {question}; guessing gives 50",
        short="an attacker guesses right {found} times in 100, where chance gives 50",
        most="in no group does an attacker guess right more than {amount} times in 100, where "
        "chance gives 50",
        is_advantage=True,
        largest=0.5,
    )


ACCURACY = Scale(
    unit="difference of accuracies",
    full="having been in the training data makes the model right for about {found} more people in "
    "100",
    column="right for\nmore, of 100",
    counted="For how many more people in 100 the model is right because it was trained on them",
    short="training on people makes the model right for {found} more of them in 100",
    most="in no group does training on people make the model right for more than {amount} more of "
    "them in 100",
    largest=1.0,
)
PROBABILITY = Scale(
    unit="difference of probabilities",
    full="having been in the training data raises the model's confidence in a person's true label "
    "by about {found} hundredths",
    column="surer by,\nhundredths",
    counted="By how many hundredths the model is surer of people's true label because it was "
    "trained on them",
    short="training on people makes the model surer of their true label by {found} hundredths",
    most="in no group does it make the model surer by more than {amount} hundredths",
    largest=1.0,
)
BALANCED = _advantage("balanced accuracy − 1/2", "whether a person was in the training data")
AUC = _advantage("AUC − 1/2", "which of two people was in the training data")
RATE = Scale(unit="difference of true positive rates")
EPSILON = Scale(
    unit="epsilon",
    full="what training spent of people's privacy is, as an epsilon, on average {found}",
    column="epsilon\nspent",
    counted="What training spent of people's privacy: their mean epsilon",
    short="training spends on average an epsilon of {found}",
    most="in no group does training spend on average an epsilon of more than {amount}",
    per_unit=1.0,
)
UNKNOWN = Scale(unit="not known")


class Basis(StrEnum):
    """What a cost is measured from."""

    COUNTS = "the counts, or the rates and sizes, that every release holds"
    MODEL = "every record's score by each model"
    MODELS = "every record's score by at least {n} models of a budget, each with its own split"
    REFERENCE = "every record's score by the model and by reference models that never saw it"
    TRAINING = "what training itself counted of every person, where it kept receipts"
    ELSEWHERE = "a release whose trainer measured it"


# Models of one budget that paired costs need, and attacks whose models calibrate each other: with
# fewer too many records have nobody in, or nobody out, among the others.
PAIR, SHADOWS = 2, 8


@dataclass(frozen=True)
class Proxy:
    """One way to measure what a group pays: signed, 0 at chance."""

    name: str  # in files and on the command line
    phrase: str  # as part of a sentence
    scale: Scale
    basis: Basis
    least_models: int = 1  # of one budget, that it needs
    floor: float = 0.0  # smallest that counts in a ratio, whatever smaller one a plan names
    called: str = ""  # in tables that have little room, where that is less than the label

    @property
    def label(self) -> str:
        """The name as it is printed."""
        return self.phrase.removeprefix("the ")

    @property
    def short(self) -> str:
        """The name in tables that have little room."""
        return self.called or self.label

    @property
    def needs(self) -> str:
        """What it takes to measure the cost."""
        return self.basis.format(n=self.least_models)

    @property
    def is_from_counts(self) -> bool:
        """Whether every release has it, and how much chance adds to it is known."""
        return self.basis is Basis.COUNTS


GAP = Proxy("overfitting_gap", "the overfitting gap", ACCURACY, Basis.COUNTS, called="gap")
THRESHOLD = Proxy("attack_advantage", "the threshold attack", BALANCED, Basis.MODEL)
AUC_ADVANTAGE = Proxy("auc_advantage", "the AUC", AUC, Basis.MODEL)
TPR_AT_1_PERCENT = Proxy("tpr_excess_at_1_percent", "TPR at 1 % FPR", RATE, Basis.MODEL)
TPR_AT_01_PERCENT = Proxy("tpr_excess_at_0.1_percent", "TPR at 0.1 % FPR", RATE, Basis.MODEL)
PAIRED_GAP = Proxy("paired_gap", "the paired gap", ACCURACY, Basis.MODELS, PAIR)
PAIRED_CONFIDENCE = Proxy("paired_confidence", "paired confidence", PROBABILITY, Basis.MODELS, PAIR)
LIRA = Proxy("lira_advantage", "LiRA", AUC, Basis.MODELS, SHADOWS)
LIRA_OFFLINE = Proxy("lira_offline_advantage", "offline LiRA", AUC, Basis.MODELS, SHADOWS)
SPENT = Proxy("spent_epsilon", "the spent epsilon", EPSILON, Basis.TRAINING, floor=0.01)
RMIA = Proxy("rmia_advantage", "RMIA", AUC, Basis.MODELS, SHADOWS)
REFERENCE = Proxy("reference_advantage", "the reference attack", AUC, Basis.REFERENCE)

# Every row above, by name.
PROXIES: dict[str, Proxy] = {
    row.name: row for row in tuple(globals().values()) if isinstance(row, Proxy)
}


def proxy_named(name: str) -> Proxy:
    """The cost of that name; for one that pcer does not measure, what can be said of any.

    >>> proxy_named("lira_advantage").short, proxy_named("their_attack").label
    ('LiRA', 'their attack')
    """
    other = Proxy(name, name.replace("_", " "), UNKNOWN, Basis.ELSEWHERE)
    return PROXIES.get(name, other)
