"""Signals of one model and of references: texts that are as hard for all, one group memorised."""

from typing import Any, NamedTuple

import numpy as np

import pcer


class Signals(NamedTuple):
    """Arrays over the record; ``references`` is (reference, record)."""

    signal: np.ndarray
    references: np.ndarray
    member: np.ndarray
    group: np.ndarray
    person: np.ndarray


def draw_signals(
    seed: int,
    *,
    n: int = 1200,
    n_people: int | None = None,
    planted: float = 0.0,
    n_references=1,
) -> Signals:
    """One model and its references; with people, each has a style that the model alone likes."""
    rng = np.random.default_rng(seed)
    person = (
        np.arange(n) if n_people is None else np.sort(rng.integers(n_people, size=n))
    )
    several = person.max() + 1
    member = (rng.permutation(several) < several // 2)[person]
    group = np.where(rng.random(several) < 0.4, "Welsh", "English")[person]
    usual, style = rng.normal(-6, 2, n), rng.normal(0, 0.5, several)[person]
    signal = usual + rng.normal(size=n) + style * (n_people is not None)
    references = usual + rng.normal(size=(n_references, n))
    return Signals(
        signal + planted * (member & (group == "Welsh")),
        references,
        member,
        group,
        person,
    )


def signals_release(drawn: Signals, **changes: Any) -> pcer.Release:
    """Their release; clustered by person where one has several texts."""
    several = len(np.unique(drawn.person)) < len(drawn.person)
    given = {
        "signal": drawn.signal,
        "reference_signal": drawn.references,
        "kind": "log_likelihood",
        "member": drawn.member,
        "split_kind": "random",
        "sensitive_features": {"language": drawn.group},
        "person_id": drawn.person if several else None,
    }
    given |= changes
    return pcer.release_from_signals(
        given.pop("signal"), given.pop("reference_signal"), **given
    )
