"""How is a prediction said of people: what is predicted, and what was?

Releases say in ``subject.positive_means`` what becomes of people whose prediction is
positive: "are predicted to be charged again". Rows, headline and the table of settings
take the forms here, so that an error rate always names its denominator. To add a form:
a field of ``Predicted`` and its words in ``predicted``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pcer.auditing.record import Audit
from pcer.wording import say

PREDICTED_TO_BE = re.compile(r"are predicted to be (.+)")
PREDICTED_TO = re.compile(r"are predicted to (.+)")


class Predicted(NamedTuple):
    """Forms of one prediction; each follows a number of people or a group's name."""

    positive: str  # "predicted to be charged again", heads a column
    brief: str  # "predicted", before a rate
    truth: str  # "were", before the rate of those who were
    those_who_were: str  # "were charged again", after "who"
    those_who_were_not: str
    wrongly: str  # "were predicted to be", of people who were not
    missed: str  # "were not predicted to be", of people who were
    those: str  # "charged again", after a number of people
    those_not: str


def predicted(positive_means: str | None) -> Predicted:
    """The forms of what a release says of positive predictions.

    >>> said = predicted("are predicted to be charged again")
    >>> said.those_who_were_not, said.wrongly
    ('were not charged again', 'were predicted to be')
    >>> said = predicted("are predicted to earn much")
    >>> said.those_who_were_not, said.missed
    ('do not earn much', 'were not predicted to')
    >>> predicted("are promoted").positive, predicted(None).wrongly
    ('promoted', 'got a positive prediction')
    """
    means = positive_means or ""
    state = PREDICTED_TO_BE.fullmatch(means)
    if state is not None:
        return Predicted(
            positive=f"predicted to be {state[1]}",
            brief="predicted",
            truth="were",
            those_who_were=f"were {state[1]}",
            those_who_were_not=f"were not {state[1]}",
            wrongly="were predicted to be",
            missed="were not predicted to be",
            those=state[1],
            those_not=f"not {state[1]}",
        )
    deed = PREDICTED_TO.fullmatch(means)
    if deed is not None:
        return Predicted(
            positive=f"predicted to {deed[1]}",
            brief="predicted",
            truth="do",
            those_who_were=deed[1],
            those_who_were_not=f"do not {deed[1]}",
            wrongly="were predicted to",
            missed="were not predicted to",
            those=f"who {deed[1]}",
            those_not=f"who do not {deed[1]}",
        )
    is_passive = means.startswith("are ")
    what = means.removeprefix("are ")
    return Predicted(
        positive=what if is_passive else "predicted positive",
        brief=what if is_passive else "predicted positive",
        truth="labelled so",
        those_who_were="have a positive label",
        those_who_were_not="have a negative label",
        wrongly=f"were {what}" if is_passive else "got a positive prediction",
        missed=f"were not {what}" if is_passive else "got a negative prediction",
        those="labelled so",
        those_not="not labelled so",
    )


def predicted_in(audit: Audit) -> Predicted:
    """The forms that an audit's sentences take."""
    return predicted(audit.subject.positive_means)


def means(audit: Audit) -> str:
    """What becomes of people whose prediction is positive, as a verb."""
    return audit.subject.positive_means or say("serving", audit.subject.prediction_is)


def error_name(said: Predicted, *, of_true: bool) -> str:
    """An error with its denominator, briefly: people who were, or who were not."""
    form = "missed" if of_true else "wrongly"
    if said.truth in ("were", "do"):
        return say("settings", form, verb=said.truth)
    return say("settings", f"{form}_label")


def error_title(said: Predicted, *, of_true: bool) -> str:
    """An error above its picture, with its denominator in full."""
    if of_true:
        return say("serving", "bars_missed", those=said.those)
    return say("serving", "bars_wrongly", those=said.those_not)
