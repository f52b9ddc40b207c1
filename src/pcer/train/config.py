"""What a training run is: settings that change its numbers, flags that change its speed.

``TrainConfig`` is written whole into the release. ``EngineFlags`` is not: no flag
changes a number beyond the rounding of another processor.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from itertools import pairwise
from typing import Any

from pcer.errors import (
    InputError,
    require_at_least,
    require_open_unit,
    require_positive,
)
from pcer.metrics import NO_DP as NO_DP
from pcer.train.rules import DpSgd, rule_named

# Settings of ``TrainConfig`` added after version 0.1.0, each with the value that
# describes older versions. A folder or release without the setting counts as having
# that value, so that it resumes after an upgrade. An entry stays as it is even if the
# default changes.
ADDED_SETTINGS: Mapping[str, Any] = {
    "adjacency": "zero-out",
    "sample_rate": None,
    "n_steps": None,
    "divisor": None,
    "rule": "dp-sgd",
    "receipts": "none",
    "refresh_every": None,
    "budget_per_person": None,
}

# Outside of these no accountant finds noise.
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-4, 1e4
LARGEST_DELTA = 0.1  # with a larger one, a mechanism may publish one record in ten
MOST_EPOCHS = 1_000_000
MOST_WEIGHTS = 100_000_000
MOST_STEPS = 1_000_000_000

# How far noise may move a weight between two computations of norms: beyond it,
# estimates of what people spent correlate by less than .999 with the truth (COMPAS at
# epsilon 0.1).
LARGEST_MOVE = 0.17
MOST_ON_A_CORE = 25  # models of a block on a CPU: more would only take memory


class Accountant(StrEnum):
    """Who adds up the privacy loss of a training run."""

    # privacy loss distributions of dp-accounting: the tightest, and the default
    PLD = "pld"
    PRV = "prv"  # privacy random variables of Opacus: what the paper used
    # Renyi divergences of dp-accounting: looser, hence more noise for the same budget
    RDP = "rdp"


class Engine(StrEnum):
    """Who runs the blocks."""

    LOCAL = "local"  # processes of this machine
    RAY = "ray"  # tasks of a Ray cluster, or of one Ray node on this machine


class SplitRule(StrEnum):
    """How records are divided; the split of a seed comes from the data, not from the engine."""

    WITHIN_LABELS = "random 70/30 within each label"  # the paper's
    GIVEN = "given"  # whatever rows the caller names


class Adjacency(StrEnum):
    """Which two data sets an epsilon compares, and so what counts as public."""

    # One record is replaced by one that joins batches with a gradient of zero: the
    # number of training records is public, and sample rate, steps and divisor may
    # follow from it.
    ZERO_OUT = "zero-out"
    # One record is added or removed: the number of training records is secret, so that
    # sample rate, steps and divisor must be fixed without it.
    ADD_OR_REMOVE = "add-or-remove"


class ReceiptMode(StrEnum):
    """How the privacy that each person spends is counted while a model trains."""

    NONE = "none"  # not at all
    EXACT = "exact"  # from the norms of all training records at every step
    # From norms that are computed every so many steps and assumed constant between: an
    # estimate.
    REFRESHED = "refreshed"
    # Likewise, but each record is clipped at the counted norm (the rule "held"): a
    # bound.
    HELD = "held"


@dataclass(frozen=True)
class Sampling:
    """How batches are drawn: every record joins every step independently with one probability."""

    n_train: int
    steps_per_epoch: int  # after which a record has been drawn once in expectation
    n_steps: int  # of the whole training
    divisor: int | None = None  # of sums of gradients, where it is fixed
    share: float = field(
        default=1.0, repr=False
    )  # of the rate, for a group that joins less often

    @property
    def sample_rate(self) -> float:
        """Probability of a record to join a step."""
        return self.share / self.steps_per_epoch

    @property
    def expected_batch(self) -> int:
        """Divisor of sums of gradients: n_train times the sample rate, rounded down."""
        return self.divisor or max(1, self.n_train // self.steps_per_epoch)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything that can change a trained model; the defaults are the paper's.

    Attributes:
        hidden: units of the hidden layers (ReLU), first to last; none is logistic
            regression.
        epochs: passes over the training data in expectation.
        expected_batch: target of the Poisson batches; the sample rate is
            1/ceil(n/expected_batch).
        learning_rate: of SGD, above 0.
        momentum: of SGD, in [0, 1).
        clip_norm: largest Euclidean norm one record's gradient keeps.
        dp_delta: the delta of (epsilon, delta)-differential privacy.
        accountant: who calibrates the noise.
        standardise: shift and scale each feature by the mean and standard deviation of
            the training records (outside the epsilon).
        split: how records are divided into training and test records.
        adjacency: which two data sets an epsilon compares; "zero-out" takes the number
            of training records as public.
        sample_rate: probability of a record to join a step, one over a whole number;
            None: from ``expected_batch`` and the number of training records.
        n_steps: steps of the whole training; None: from ``epochs`` and the sample rate.
        divisor: what sums of gradients are divided by; None: the expected batch.
        rule: what a step clips, samples and adds; see ``rule_named``.
        receipts: how the privacy that each person spends is counted; "held" implies its
            rule.
        refresh_every: steps from one computation of all norms to the next, at most;
            None: an epoch, and for receipts "refreshed" fewer where noise is large
            (``refresh_steps``).
        budget_per_person: an epsilon after which a person is left out; needs receipts
            "held".

    >>> TrainConfig(epochs=5).epochs
    5
    """

    hidden: tuple[int, ...] = (64, 32)
    epochs: int = 25
    expected_batch: int = 256
    learning_rate: float = 0.05
    momentum: float = 0.9
    clip_norm: float = 1.0
    dp_delta: float = 1e-5
    accountant: Accountant = Accountant.PLD
    standardise: bool = True
    split: SplitRule = SplitRule.WITHIN_LABELS
    adjacency: Adjacency = Adjacency.ZERO_OUT
    sample_rate: float | None = None
    n_steps: int | None = None
    divisor: int | None = None
    rule: str = DpSgd.name
    receipts: ReceiptMode = ReceiptMode.NONE
    refresh_every: int | None = None
    budget_per_person: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        for name, kind in _CHOICES.items():
            object.__setattr__(self, name, _choice(kind, name, getattr(self, name)))
        counts = {"epochs": self.epochs, "expected_batch": self.expected_batch}
        require_at_least(
            1, **counts, **_given(self, "n_steps", "divisor", "refresh_every")
        )
        for units in self.hidden:
            require_at_least(1, hidden=units)
        positive = {"learning_rate": self.learning_rate, "clip_norm": self.clip_norm}
        require_positive(**positive, **_given(self, "budget_per_person"))
        require_open_unit(dp_delta=self.dp_delta)
        if not 0 <= self.momentum < 1:
            raise ValueError(
                f"momentum must lie in [0, 1), but {self.momentum!r} was given."
            )
        weights = sum(
            inputs * outputs for inputs, outputs in pairwise((1, *self.hidden))
        )
        for name, value, most in (
            ("dp_delta", self.dp_delta, LARGEST_DELTA),
            ("epochs", self.epochs, MOST_EPOCHS),
            ("the number of weights between hidden layers", weights, MOST_WEIGHTS),
            ("n_steps", self.n_steps or 1, MOST_STEPS),
            ("divisor", self.divisor or 1, MOST_STEPS),
        ):
            if value > most:
                raise ValueError(
                    f"{name} must be at most {most:,}, but {value!r:.40} was given."
                )
        if self.receipts is ReceiptMode.HELD and self.rule == DpSgd.name:
            object.__setattr__(self, "rule", str(ReceiptMode.HELD))
        for fault in self._contradictions():
            raise InputError(fault)

    def _contradictions(self) -> Iterator[str]:
        """Sentences about settings that contradict each other or do not exist."""
        rate = self.sample_rate
        is_held = self.receipts is ReceiptMode.HELD
        is_whole = rate is None or (
            1 / MOST_STEPS <= rate <= 1
            and abs(1 / rate - round(1 / rate)) <= 1e-9 / rate
        )
        if not is_whole:
            yield f"sample_rate must be one over a whole number (1/100), but {rate!r} was given."
        fixed = ("sample_rate", "n_steps", "divisor")
        missing = [name for name in fixed if getattr(self, name) is None]
        if self.adjacency is Adjacency.ADD_OR_REMOVE and missing:
            yield (
                "adjacency 'add-or-remove' keeps the number of training records secret, so "
                f"nothing may be derived from it: set {', '.join(missing)} too."
            )
        _ = self.training_rule  # refuses a name that is none
        if is_held and self.rule != ReceiptMode.HELD:
            yield (
                f"receipts 'held' are counted under the rule 'held', but rule {self.rule!r} was "
                "given; leave one of them out."
            )
        if self.receipts is ReceiptMode.EXACT and self.refresh_every not in (None, 1):
            yield (
                "receipts 'exact' need the norms of every step, but refresh_every "
                f"{self.refresh_every!r} was given; leave it out."
            )
        if self.budget_per_person is not None and not is_held:
            yield (
                "budget_per_person needs receipts 'held', which bound what a step spends before it "
                f"is taken, but receipts {str(self.receipts)!r} was given."
            )

    @property
    def training_rule(self) -> DpSgd:
        """What a step clips, samples and adds."""
        return rule_named(self.rule)

    def refresh_steps(self, n_train: int, noise_multiplier: float) -> int | None:
        """Most steps from one computation of all norms to the next; None where none is needed."""
        if self.receipts is ReceiptMode.NONE and not self.training_rule.adapts:
            return None
        if self.receipts is ReceiptMode.EXACT:
            return 1
        sampling = self.sampling(n_train)
        noise = noise_multiplier * self.clip_norm
        if self.refresh_every or self.training_rule.adapts or not noise:
            return self.refresh_every or sampling.steps_per_epoch
        # In h steps noise moves a weight by about ``move`` times the root of h.
        move = (
            self.learning_rate / (1 - self.momentum) * noise / sampling.expected_batch
        )
        return max(1, int(min(sampling.steps_per_epoch, (LARGEST_MOVE / move) ** 2)))

    def sampling(self, n_train: int) -> Sampling:
        """How batches of ``n_train`` records are drawn.

        >>> TrainConfig().sampling(32_223)
        Sampling(n_train=32223, steps_per_epoch=126, n_steps=3150, divisor=None)
        """
        if self.sample_rate is None and self.expected_batch > n_train:
            raise InputError(
                f"expected_batch must be at most the {n_train} training records, but "
                f"{self.expected_batch} was given; use a smaller batch."
            )
        rate = self.sample_rate
        steps = (
            math.ceil(n_train / self.expected_batch)
            if rate is None
            else round(1 / rate)
        )
        return Sampling(
            n_train, steps, self.n_steps or steps * self.epochs, self.divisor
        )

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain JSON values, for the release."""
        words = {name: str(getattr(self, name)) for name in _CHOICES}
        return {**asdict(self), **words, "hidden": list(self.hidden)}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> TrainConfig:
        """Settings read from a file, perhaps an older version's; an unknown key is an error.

        >>> TrainConfig.from_dict(TrainConfig().to_dict()) == TrainConfig()
        True
        """
        settable = {each.name for each in fields(cls)}
        for key in settings:
            if key not in settable:
                names = ", ".join(sorted(settable))
                raise InputError(
                    f"The training config has no setting {key!r}; it has {names}."
                )
        return cls(**{**ADDED_SETTINGS, **settings})


_CHOICES: Mapping[str, type[StrEnum]] = {
    "accountant": Accountant,
    "split": SplitRule,
    "adjacency": Adjacency,
    "receipts": ReceiptMode,
}


@dataclass(frozen=True, kw_only=True)
class EngineFlags:
    """How the engine runs; no flag changes a number beyond rounding.

    Attributes:
        device: "cpu", "cuda" or "cuda:1" and so on.
        block_size: models that step together; None picks what suits the device.
        jobs: single-threaded processes that train on the CPU and attack the trained
            models; None takes every core this process may use. On a Ray cluster: blocks
            in flight; None suits the cluster.
        engine: who runs the blocks.
        address: of the Ray cluster; None starts a Ray node on this machine.
    """

    device: str = "cpu"
    block_size: int | None = None
    jobs: int | None = None
    engine: Engine = Engine.LOCAL
    address: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "engine", _choice(Engine, "engine", self.engine))
        require_at_least(1, **_given(self, "block_size", "jobs"))
        kind, _, number = self.device.partition(":")
        if kind not in ("cpu", "cuda") or (
            number and (kind == "cpu" or not number.isdigit())
        ):
            fault = f"device must be 'cpu', 'cuda' or 'cuda:N', but {self.device!r} was given"
        elif self.engine is Engine.LOCAL and self.address is not None:
            fault = f"address is for engine 'ray' only, but {self.address!r} was given; add it"
        elif self.engine is Engine.RAY and number:
            fault = f"device must be 'cuda', as engine 'ray' gives out the GPUs, not {self.device!r}"
        else:
            return
        raise ValueError(f"{fault}.")

    def models_per_block(self, n_models: int) -> int:
        """Models that step together, of so many in all."""
        # On a CPU few splits and equally many blocks per core; on a GPU what its memory
        # holds.
        if self.block_size is not None:
            return self.block_size
        if self.device != "cpu":
            return 512
        rounds = math.ceil(n_models / (MOST_ON_A_CORE * self.n_processes))
        return math.ceil(n_models / (rounds * self.n_processes))

    @property
    def n_processes(self) -> int:
        """Processes that train blocks at the same time; a GPU is driven by one."""
        return self.n_attackers if self.device == "cpu" else 1

    @property
    def n_attackers(self) -> int:
        """Processes that attack the trained models, on the CPU even where a GPU trains."""
        return self.jobs or usable_cores()


def usable_cores() -> int:
    """Cores that this process may use; all of the machine's where that is unknown."""
    if hasattr(os, "sched_getaffinity"):  # Linux has it, macOS and Windows do not
        return len(os.sched_getaffinity(0))
    count = getattr(
        os, "process_cpu_count", os.cpu_count
    )  # the first from Python 3.13 on
    return count() or 1


def parse_budgets(text: str) -> tuple[float, ...]:
    """Budgets from a list such as "none,0.1,1": epsilons above 0, or "none" for no privacy.

    >>> parse_budgets("none,0.5")
    (inf, 0.5)
    """
    budgets = []
    for word in map(str.strip, text.split(",")):
        try:
            is_none = word.lower() in ("none", "no-dp", "inf")
            epsilon = NO_DP if is_none else min(float(word), 2 * LARGEST_EPSILON)
        except ValueError:
            epsilon = math.nan
        require_budget(epsilon, given=word)
        budgets.append(epsilon)
    if len(set(budgets)) < len(budgets):
        raise InputError(
            f"budgets must name each one once, but {text!r} names one twice."
        )
    return tuple(budgets)


def parse_hidden(text: str) -> tuple[int, ...]:
    """Units of the hidden layers from "64-32" or "64,32"; "none" is logistic regression.

    >>> parse_hidden("64-32"), parse_hidden("none")
    ((64, 32), ())
    """
    try:
        words = [] if text == "none" else text.replace("-", ",").split(",")
        return tuple(int(word) for word in words)
    except ValueError:
        must = "hidden must be whole numbers such as 64-32, or none"
        raise InputError(f"{must}, but {text!r} was given.", field="hidden") from None


def require_budget(epsilon: float, *, given: str | None = None) -> None:
    """Raise InputError unless noise can be found for it (infinity is training without privacy)."""
    if epsilon != NO_DP and not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        shown = epsilon if given is None else given
        raise InputError(
            f"A budget must be an epsilon between {SMALLEST_EPSILON:g} and {LARGEST_EPSILON:g}, "
            f"where noise can be found for it, or 'none', but {shown!r} was given."
        )


def _given(settings: object, *names: str) -> dict[str, Any]:
    """The named settings, without those that are None."""
    values = {name: getattr(settings, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _choice(kind: type[StrEnum], name: str, value: str) -> StrEnum:
    words = [str(each) for each in kind]
    if value not in words:
        raise InputError(f"{name} must be one of {words}, but {value!r} was given.")
    return kind(value)
