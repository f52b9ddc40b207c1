"""Rules of training: what a step clips, samples and adds, and what of it is accounted.

The paper's DP-SGD is one rule among others. A rule decides three things for every training record,
as tensors that every device understands: the bound its gradient is clipped at, how often it joins
a batch, and, through the largest bound, the noise. It may decide anew every so many steps, from the
norms of the records' gradients.

No bound exceeds the largest, and no record is drawn more often than the config says. One more thing
a rule must keep itself: what it decides for a record may depend on that record and on the weights,
never on another record, or one person would move everybody's bounds, which no noise hides. Then
the calibrated epsilon holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pcer.metrics import FloatArray, IntArray

if TYPE_CHECKING:
    from torch import Tensor

N_BINS = 200
"""Steps of the grid to which clipped norms are rounded up, from 0 to the largest clip bound."""


class RuleState(NamedTuple):
    """What a rule has decided for the private models of a block, until it decides again."""

    clip: Tensor | None = None  # (private model, training record); None: the largest for all
    memory: Any = None  # what else the rule wants to remember


@dataclass(frozen=True)
class Refresh:
    """What a rule sees when it decides.

    Bins are the norm of each record's gradient, clipped at the largest bound, and rounded up to a
    whole number of ``N_BINS``-ths of that bound.
    """

    step: int  # the first that the decision is for
    bins: Tensor  # (private model, training record) uint8
    records: Tensor  # (private model, training record), rows of the data
    largest_clip: float


class TrainingRule(Protocol):
    """One way to train; add it to ``RULES``."""

    @property
    def name(self) -> str:
        """As in ``TrainConfig.rule``."""

    @property
    def adapts(self) -> bool:
        """Whether ``refresh`` is to be called, before the first step and every so many steps."""

    @property
    def binds(self) -> bool:
        """Whether a record's bound is its norm as it was seen.

        What is accounted from the norms is then what happened, and not only an estimate of it.
        """

    def largest_clip(self, clip_norm: float) -> float:
        """The largest bound of any record; noise is in units of it."""

    def sample_shares(self, records: IntArray) -> FloatArray | None:
        """How often each training record joins a step, as a share of the sample rate, in [0, 1].

        None is 1 for all. Given the rows of a split's training records.
        """

    def refresh(self, state: RuleState, seen: Refresh) -> RuleState:
        """Decide anew for every record by itself, on the device where the tensors lie."""


@dataclass(frozen=True)
class DpSgd:
    """The paper's: one clip bound and one sample rate for all."""

    name: str = "dp-sgd"
    adapts: bool = False
    binds: bool = False

    def largest_clip(self, clip_norm: float) -> float:
        """The clip norm."""
        return clip_norm

    def sample_shares(self, records: IntArray) -> FloatArray | None:
        """Everybody alike."""
        return None

    def refresh(self, state: RuleState, seen: Refresh) -> RuleState:
        """Nothing changes."""
        return state


@dataclass(frozen=True)
class Held(DpSgd):
    """Each record is clipped at its last seen norm, rounded up: what is booked is what it spent."""

    name: str = "held"
    adapts: bool = True
    binds: bool = True

    def refresh(self, state: RuleState, seen: Refresh) -> RuleState:
        """The upper end of every record's bin."""
        return RuleState(seen.bins.double().mul_(seen.largest_clip / N_BINS))


RULES: dict[str, TrainingRule] = {rule.name: rule for rule in (DpSgd(), Held())}
"""Every rule by its name."""
