"""What does a step of training clip and sample? The rules that decide it.

A rule decides for every training record its clip bound and how often it joins a batch:
again every so many steps, from the norms of gradients, or for good by a record's group.
The engine holds both below their largest values. A rule itself must decide about a
record by that record and the weights only: otherwise one person would move everybody's
bounds, which no noise hides. ``TrainConfig`` finds its rule by name; the engine asks it
for shares, ``receipts.Watch`` for bounds. To add a rule: a class, and its name in
``RULES``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pcer.errors import InputError
from pcer.metrics import FloatArray, IntArray

Names = NDArray[np.str_]  # (record,) of groups; empty where a group is not known

N_BINS = 200  # to which clipped norms are rounded up, from 0 to the largest clip bound


@dataclass(frozen=True)
class Refresh:
    """What a rule sees when it decides."""

    step: int  # the first that the decision is for
    # (private model, training record) uint8: the norm of each gradient, clipped at the
    # largest bound and rounded up to a whole number of ``N_BINS``-ths of that bound.
    bins: Tensor
    records: Tensor  # (private model, training record), rows of the data
    largest_clip: float


@dataclass(frozen=True)
class DpSgd:
    """The paper's rule: one clip bound and one sample rate for all.

    Other rules are made from it.

    Attributes:
        name: as in ``TrainConfig.rule``.
        adapts: whether ``refresh`` is called, before the first step and every so many
            steps.
        attribute: whose groups ``shares`` needs; None where it needs none.
    """

    name: str = "dp-sgd"
    adapts: bool = False
    attribute: str | None = None

    def shares(self, groups: Mapping[str, Names]) -> FloatArray | None:
        """Clip bound and sample rate (2, record), as shares; None is 1 for all.

        ``groups`` has the group of every record, by attribute.
        """
        return None

    def sample_shares(self, records: IntArray) -> FloatArray | None:
        """How often each training record joins, as a share; None is 1 for all."""
        return None

    def refresh(self, seen: Refresh) -> Tensor:
        """The clip bound of every record (private model, training record)."""
        return torch.full(seen.bins.shape, seen.largest_clip, device=seen.bins.device)


@dataclass(frozen=True)
class Held(DpSgd):
    """Clip each record at its last known norm, rounded up; so accounting is exact."""

    name: str = "held"
    adapts: bool = True

    def refresh(self, seen: Refresh) -> Tensor:
        """The upper end of every record's bin."""
        return seen.bins.double().mul_(seen.largest_clip / N_BINS)


@dataclass(frozen=True)
class GroupBudget(DpSgd):
    """A record's own group settles its clip bound or its sample rate."""

    # Shares of the groups that are named; others have 1.
    by_group: Mapping[str, float] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """What the group settles: one of ``KINDS``."""
        return self.name.partition(":")[0]

    def shares(self, groups: Mapping[str, Names]) -> FloatArray | None:
        """Shares by group; InputError where there is no such group."""
        names = groups.get(str(self.attribute), np.array([], dtype=np.str_))
        unknown = [group for group in self.by_group if group not in names]
        if unknown:
            there = ", ".join(sorted({*names.tolist()} - {""})) or "no such attribute"
            raise InputError(
                f"rule {self.name!r} names the group {unknown[0]!r} of "
                f"{self.attribute!r}, but there is: {there}.",
                field="rule",
            )
        shares = np.ones((2, len(names)))
        for group, share in self.by_group.items():
            shares[KINDS.index(self.kind), names == group] = share
        return shares if (shares < 1).any() else None


RULES: dict[str, DpSgd] = {
    DpSgd.name: DpSgd(),
    Held.name: Held(),
}

# How names of group budgets begin, in the order of shares.
KINDS = ("group-clip", "group-sample")


def rule_named(name: str) -> DpSgd:
    """A rule of ``RULES``, or a group budget; InputError where there is none.

    >>> rule_named("group-clip:sex:Male=0.8,Female=1").by_group
    {'Male': 0.8, 'Female': 1.0}
    """
    if name in RULES:
        return RULES[name]
    kind, _, rest = name.partition(":")
    attribute, _, listed = rest.partition(":")
    shares = _shares_by_group(listed)
    if kind not in KINDS or not attribute or not shares:
        raise InputError(
            f"rule must be one of {list(RULES)}, or such as "
            "group-clip:sex:Male=0.8,Female=1 or group-sample:sex:Male=0.5 with shares "
            f"above 0, at most 1, but {name!r} was given.",
            field="rule",
        )
    return GroupBudget(name=name, attribute=attribute, by_group=shares)


def _shares_by_group(text: str) -> dict[str, float]:
    """Shares from a list such as "Male=0.8,Female=1"; none if any of it is wrong."""
    pairs = re.findall(r"(.+?)=(\d+\.?\d*|\.\d+)(?:,|$)", text)
    shares = {group: float(share) for group, share in pairs}
    is_whole = ",".join(map("=".join, pairs)) == text
    names_a_group_twice = len(shares) < len(pairs)
    are_shares = all(0 < share <= 1 for share in shares.values())
    if names_a_group_twice or not (is_whole and are_shares):
        return {}
    return shares
