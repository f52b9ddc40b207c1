"""The card of a report: what was audited, by which files, and how anybody can check it."""

from __future__ import annotations

from typing import NamedTuple

from pcer.auditing import Audit, GroupResult, number_range
from pcer.release import Release


class Fact(NamedTuple):
    """A line of the card; ``code`` is what must be copied as it is."""

    name: str
    text: str
    code: str = ""


MOST_GROUPS = 6
MECHANISMS = {
    "none": "trained without differential privacy",
    "unknown": "how it was trained is not said",
}
NOT_SAID = "who trained the model, when the plan was declared, whom to ask"


def card(audit: Audit, release: Release) -> list[Fact]:
    """What a reader needs to ask further, and to check."""
    return [
        Fact("Model", _model(audit, release)),
        Fact("Data", _data(audit, release)),
        Fact("Compared", _compared(audit)),
        Fact("Cost", audit.choice),
        Fact("Not said", f"{NOT_SAID}."),
        Fact("Release", "SHA-256", audit.release_sha256),
        Fact("Plan", "SHA-256", audit.plan_sha256),
        Fact("Check it", "recomputes every number and compares every byte:", "pcer verify FILE"),
    ]


def _model(audit: Audit, release: Release) -> str:
    named = [name for name in audit.models if name is not None]
    seeds = number_range(sorted({one.n_seeds for one in audit.budgets}))
    count = len(audit.budgets)
    parts = [
        ", ".join(named),
        MECHANISMS.get(mechanism := release.training.mechanism, f"trained with {mechanism}"),
        f"{count} setting{'s' if count > 1 else ''} of {seeds} models",
    ]
    return "; ".join(part for part in parts if part) + "."


def _data(audit: Audit, release: Release) -> str:
    subject = audit.subject
    people = f", {subject.n_records:,} records" if subject.n_records else ""
    missing = f", {subject.n_missing_group:,} without a group" if subject.n_missing_group else ""
    positive = release.subject.positive_label
    means = "" if positive is None else f" A positive prediction: {positive}."
    return f"{subject.dataset}{people}{missing}.{means}"


def _compared(audit: Audit) -> str:
    names = audit.subject.groups[:MOST_GROUPS]
    told = [f"{name} ({_size(audit.told.groups[name])})" for name in names]
    more = len(audit.subject.groups) - len(names)
    rest = f" and {more} more" if more else ""
    return f"{audit.subject.attribute}: {', '.join(told)}{rest}."


def _size(group: GroupResult) -> str:
    if group.n_train is None or group.n_test is None:
        return "size not said"
    return f"{group.n_train + group.n_test:,.0f}"
