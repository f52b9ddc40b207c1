"""Rates of weighted people: beside the counts of a release, which no weight ever enters.

Whoever weighs people (a survey, a sample that was drawn unevenly) can release what the rates are
with their weights. Every test of an audit is about counts, and none has been shown to hold for
weighted rates; so these are there to be read, and no test takes them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pcer.files import Record
from pcer.release.fields import Epsilon, Name, Rate

WEIGHTED_NOTE = (
    "Weighted rates are given beside the counts; every test counts people and takes no weights."
)


class WeightedRates(Record):
    """Rates of one group in one setting, every person counted by a weight.

    Attributes:
        model: with ``epsilon``, the setting.
        epsilon: of the setting.
        group: whose.
        positive_rate: on test records, mean over the setting's models, as all rates here.
        train_accuracy: on training records.
        test_accuracy: on test records.
        effective_n_train: Kish's number of equally weighted people, (sum of weights)^2 over the sum
            of their squares; that of the model which has fewest.
        effective_n_test: the same on test records.
    """

    model: Name | None = None
    epsilon: Epsilon | None
    group: Name
    positive_rate: Rate
    train_accuracy: Rate
    test_accuracy: Rate
    effective_n_train: Annotated[float, Field(ge=1)]
    effective_n_test: Annotated[float, Field(ge=1)]
