"""What can one choose about a training run, and which choices change its numbers?

``TrainConfig`` holds the settings that do, and is written whole into the release;
``EngineFlags`` those that change only the speed, and the rounding of another processor.
The command line, the sweep and every module of this room read them. To add a setting:
a field of ``TrainConfig``; and of ``_CHOICES``, if its values are words.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
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

# Outside of these no accountant finds noise.
SMALLEST_EPSILON = 1e-4
LARGEST_EPSILON = 1e4
LARGEST_DELTA = 0.1  # with a larger one, a mechanism may publish one record in ten
MAX_EPOCHS = 1_000_000
MAX_WEIGHTS = 100_000_000
MAX_STEPS = 1_000_000_000
RATE_ERROR = 1e-9  # share by which 1/sample_rate may miss a whole number

# How far noise may move a weight between two computations of norms: beyond it,
# estimates of what people spent correlate by less than .999 with the truth (COMPAS at
# epsilon 0.1).
LARGEST_MOVE = 0.17

# Models of a block. On a CPU more would only take memory.
MAX_BLOCK_ON_A_CORE = 25
BLOCK_ON_A_GPU = 512


class Accountant(StrEnum):
    """Who adds up the privacy loss of a training run."""

    PLD = "pld"  # privacy loss distributions of dp-accounting: the tightest
    PRV = "prv"  # privacy random variables of Opacus: what the paper used
    RDP = "rdp"  # Renyi divergences of dp-accounting: looser, hence more noise


class Engine(StrEnum):
    """Who runs the blocks."""

    LOCAL = "local"  # processes of this machine
    RAY = "ray"  # tasks of a Ray cluster, or of one Ray node on this machine


class SplitRule(StrEnum):
    """How records are divided; a seed's split comes from the data, not the engine."""

    WITHIN_LABELS = "random 70/30 within each label"  # the paper's
    GIVEN = "given"  # whatever rows the caller names


class Adjacency(StrEnum):
    """Which two data sets an epsilon compares, and so what counts as public."""

    # One record has a gradient of zero instead: the number of training records is
    # public, and sample rate, steps and divisor may follow from it.
    ZERO_OUT = "zero-out"
    # One record is added or removed: the number is secret, and fixes none of these.
    ADD_OR_REMOVE = "add-or-remove"


class ReceiptMode(StrEnum):
    """How the privacy that each person spends is counted while a model trains."""

    NONE = "none"  # not at all
    EXACT = "exact"  # from the norms of all training records at every step
    # An estimate, from norms of every so many steps, assumed constant between.
    REFRESHED = "refreshed"
    HELD = "held"  # a bound: likewise, but clipped at the counted norm (rule "held")


@dataclass(frozen=True)
class Sampling:
    """How batches are drawn: every record joins every step independently."""

    n_train: int
    steps_per_epoch: int  # after them a record has been drawn once in expectation
    n_steps: int
    divisor: int | None = None  # of sums of gradients, where it is fixed
    share: float = field(default=1.0, repr=False)  # of the rate, where a group has less

    @property
    def sample_rate(self) -> float:
        """Probability of a record to join a step."""
        return self.share / self.steps_per_epoch

    @property
    def expected_batch(self) -> int:
        """Divisor of sums of gradients: n_train times the rate, rounded down."""
        if self.divisor is not None:
            return self.divisor
        return max(1, self.n_train // self.steps_per_epoch)


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
        for name, words in _CHOICES.items():
            object.__setattr__(self, name, _choice(words, name, getattr(self, name)))
        self._require_allowed_numbers()
        self._require_feasible_sizes()
        if self.receipts is ReceiptMode.HELD and self.rule == DpSgd.name:
            object.__setattr__(self, "rule", str(ReceiptMode.HELD))
        self._require_stated_sampling()
        _ = self.training_rule  # refuses a name that is none
        self._require_one_way_to_count()

    def _require_allowed_numbers(self) -> None:
        counts = {
            "epochs": self.epochs,
            "expected_batch": self.expected_batch,
            "n_steps": self.n_steps,
            "divisor": self.divisor,
            "refresh_every": self.refresh_every,
        }
        require_at_least(1, **_without_none(counts))
        for units in self.hidden:
            require_at_least(1, hidden=units)
        sizes = {
            "learning_rate": self.learning_rate,
            "clip_norm": self.clip_norm,
            "budget_per_person": self.budget_per_person,
        }
        require_positive(**_without_none(sizes))
        require_open_unit(dp_delta=self.dp_delta)
        if not 0 <= self.momentum < 1:
            raise ValueError(
                f"momentum must lie in [0, 1), but {self.momentum!r} was given."
            )

    def _require_feasible_sizes(self) -> None:
        """Refuse what no machine could train, or no delta could mean."""
        layers = pairwise((1, *self.hidden))
        n_weights = sum(inputs * outputs for inputs, outputs in layers)
        limits = (
            ("dp_delta", self.dp_delta, LARGEST_DELTA),
            ("epochs", self.epochs, MAX_EPOCHS),
            ("the number of weights between hidden layers", n_weights, MAX_WEIGHTS),
            ("n_steps", self.n_steps, MAX_STEPS),
            ("divisor", self.divisor, MAX_STEPS),
        )
        for name, value, largest in limits:
            if value is not None and value > largest:
                raise ValueError(
                    f"{name} must be at most {largest:,}, but {value!r:.40} was given."
                )

    def _require_stated_sampling(self) -> None:
        """Refuse a sample rate that is not 1/m, and rates that would give n away."""
        rate = self.sample_rate
        if rate is not None and not _is_one_over_a_whole_number(rate):
            raise InputError(
                "sample_rate must be one over a whole number (1/100), but "
                f"{rate!r} was given."
            )
        fixed = {
            "sample_rate": rate,
            "n_steps": self.n_steps,
            "divisor": self.divisor,
        }
        missing = [name for name, value in fixed.items() if value is None]
        if self.adjacency is Adjacency.ADD_OR_REMOVE and missing:
            raise InputError(
                "adjacency 'add-or-remove' keeps the number of training records "
                "secret, so nothing may be derived from it: set "
                f"{', '.join(missing)} too."
            )

    def _require_one_way_to_count(self) -> None:
        is_held = self.receipts is ReceiptMode.HELD
        if is_held and self.rule != ReceiptMode.HELD:
            raise InputError(
                "receipts 'held' are counted under the rule 'held', but rule "
                f"{self.rule!r} was given; leave one of them out."
            )
        if self.receipts is ReceiptMode.EXACT and self.refresh_every not in (None, 1):
            raise InputError(
                "receipts 'exact' need the norms of every step, but refresh_every "
                f"{self.refresh_every!r} was given; leave it out."
            )
        if self.budget_per_person is not None and not is_held:
            raise InputError(
                "budget_per_person needs receipts 'held', which bound what a step "
                "spends before it is taken, but receipts "
                f"{str(self.receipts)!r} was given."
            )

    @property
    def training_rule(self) -> DpSgd:
        """What a step clips, samples and adds."""
        return rule_named(self.rule)

    def refresh_steps(self, n_train: int, noise_multiplier: float) -> int | None:
        """Most steps from one computation of all norms to the next; None for no norms.

        In h steps noise moves a weight by about m sqrt(h), where m = lr / (1 -
        momentum) sigma C / B for learning rate lr, noise multiplier sigma, clip norm C
        and expected batch B. What is not set otherwise takes the largest h that keeps
        this within ``LARGEST_MOVE``, at most an epoch.
        """
        adapts = self.training_rule.adapts
        if self.receipts is ReceiptMode.NONE and not adapts:
            return None
        if self.receipts is ReceiptMode.EXACT:
            return 1
        sampling = self.sampling(n_train)
        if self.refresh_every is not None:
            return self.refresh_every
        noise = noise_multiplier * self.clip_norm
        if adapts or noise == 0:
            return sampling.steps_per_epoch
        per_unit = self.learning_rate / (1 - self.momentum)
        move = per_unit * noise / sampling.expected_batch
        return max(1, int(min(sampling.steps_per_epoch, (LARGEST_MOVE / move) ** 2)))

    def sampling(self, n_train: int) -> Sampling:
        """How batches of ``n_train`` records are drawn.

        >>> TrainConfig().sampling(32_223)
        Sampling(n_train=32223, steps_per_epoch=126, n_steps=3150, divisor=None)
        """
        rate = self.sample_rate
        if rate is None and self.expected_batch > n_train:
            raise InputError(
                f"expected_batch must be at most the {n_train} training records, but "
                f"{self.expected_batch} was given; use a smaller batch."
            )
        if rate is None:
            steps_per_epoch = math.ceil(n_train / self.expected_batch)
        else:
            steps_per_epoch = round(1 / rate)
        n_steps = self.n_steps
        if n_steps is None:
            n_steps = steps_per_epoch * self.epochs
        return Sampling(n_train, steps_per_epoch, n_steps, self.divisor)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain JSON values, for the release."""
        words = {name: str(getattr(self, name)) for name in _CHOICES}
        return {**asdict(self), **words, "hidden": list(self.hidden)}


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
        counts = {"block_size": self.block_size, "jobs": self.jobs}
        require_at_least(1, **_without_none(counts))
        kind, _, number = self.device.partition(":")
        is_known = kind in ("cpu", "cuda")
        is_numbered = number != ""
        if not is_known or (is_numbered and not (kind == "cuda" and number.isdigit())):
            raise ValueError(
                "device must be 'cpu', 'cuda' or 'cuda:N', but "
                f"{self.device!r} was given."
            )
        if self.engine is Engine.LOCAL and self.address is not None:
            raise ValueError(
                "address is for engine 'ray' only, but "
                f"{self.address!r} was given; add it."
            )
        if self.engine is Engine.RAY and is_numbered:
            raise ValueError(
                "device must be 'cuda', as engine 'ray' gives out the GPUs, not "
                f"{self.device!r}."
            )

    def models_per_block(self, n_models: int) -> int:
        """Models that step together, of so many in all: on a CPU few, so few splits."""
        if self.block_size is not None:
            return self.block_size
        if self.device != "cpu":
            return BLOCK_ON_A_GPU
        blocks_per_core = math.ceil(n_models / (MAX_BLOCK_ON_A_CORE * self.n_processes))
        return math.ceil(n_models / (blocks_per_core * self.n_processes))

    @property
    def n_processes(self) -> int:
        """Processes that train blocks at the same time; a GPU is driven by one."""
        return self.n_attackers if self.device == "cpu" else 1

    @property
    def n_attackers(self) -> int:
        """Processes that attack the trained models: on the CPU, even after a GPU."""
        return usable_cores() if self.jobs is None else self.jobs


def usable_cores() -> int:
    """Cores that this process may use; all of the machine's where that is unknown."""
    if hasattr(os, "sched_getaffinity"):  # Linux has it, macOS and Windows do not
        return len(os.sched_getaffinity(0))
    # The first is there from Python 3.13 on.
    count = getattr(os, "process_cpu_count", os.cpu_count)
    return count() or 1


def parse_budgets(text: str) -> tuple[float, ...]:
    """Budgets from a list such as "none,0.1,1": epsilons above 0, or "none" for no DP.

    >>> parse_budgets("none,0.5")
    (inf, 0.5)
    """
    budgets = []
    for part in text.split(","):
        word = part.strip()
        epsilon = _epsilon_of(word)
        require_budget(epsilon, given=word)
        budgets.append(epsilon)
    if len(set(budgets)) < len(budgets):
        raise InputError(
            f"budgets must name each one once, but {text!r} names one twice."
        )
    return tuple(budgets)


def parse_hidden(text: str) -> tuple[int, ...]:
    """Units of the hidden layers from "64-32" or "64,32"; "none": logistic regression.

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
    """Raise InputError unless noise can be found for an epsilon; infinity is no DP."""
    if epsilon != NO_DP and not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        written = epsilon if given is None else given
        raise InputError(
            f"A budget must be an epsilon between {SMALLEST_EPSILON:g} and "
            f"{LARGEST_EPSILON:g}, where noise can be found for it, or 'none', but "
            f"{written!r} was given."
        )


def _epsilon_of(word: str) -> float:
    """NaN where the word names no epsilon."""
    if word.lower() in ("none", "no-dp", "inf"):
        return NO_DP
    try:
        return min(float(word), 2 * LARGEST_EPSILON)  # 1e999 does not mean "none"
    except ValueError:
        return math.nan


def _is_one_over_a_whole_number(rate: float) -> bool:
    if not 1 / MAX_STEPS <= rate <= 1:
        return False
    return abs(1 / rate - round(1 / rate)) <= RATE_ERROR / rate


def _without_none(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _choice(words: type[StrEnum], name: str, value: str) -> StrEnum:
    allowed = [str(word) for word in words]
    if value not in allowed:
        raise InputError(f"{name} must be one of {allowed}, but {value!r} was given.")
    return words(value)
