"""What the two front doors may be told beyond their arguments, in one object."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pcer.errors import InputError, require_open_unit
from pcer.release.build import ReleaseFacts
from pcer.release.disclosure import LEAST_PEOPLE, DisclosureRule
from pcer.release.format import Outcome, SplitKind, Training

OF_PREDICTIONS = (
    *("positive_label", "threshold", "split_id"),
    *("reference", "membership_score", "training"),
)
OF_ESTIMATORS = ("test_size", "cv", "person_id", "budgets", "n_jobs", "store")


@dataclass(frozen=True, kw_only=True, eq=False)
class Options:
    """Options of ``release_from_predictions`` and ``release_from_estimator``, checked when made.

    Args:
        dataset: a name for the data.
        attribute: name of the protected attribute; taken from named columns if not given.
        groups: the groups in the order wanted (group 0 minus group 1 is the disparity's sign);
            sorted names by default. Records of other groups are counted as left out.
        epsilon: the privacy budget; None, NaN or infinity is a model without DP. Of predictions
            one number or a column, of estimators one number or a dict by the estimator's name.
        dp_delta: the delta of every model with a budget.
        notes: sentences to travel with the release.
        public_data: whether anybody may have the records; then groups of any size are released.
        least_people: of one group, label and part; groups with fewer are joined into one.
        certain_cells: release cells that tell someone's membership with certainty, and count
            them; False coarsens those tables, at a loss of power that a note states.
        secret: 16 to 64 bytes that key what names splits (of predictions with ``record_id``) and
            records (of estimators); without one a release of private records names neither.

        positive_label: predictions: which label is positive; needed unless labels are 0 and 1.
        threshold: predictions: positive from this ``y_score`` on; 0.5 by default.
        split_id: predictions: one name or a column: which runs used the same split.
        reference: predictions of one model that cannot be retrained: scores, a column for each
            model, by models that never saw any of these records, such as ones trained by you on
            other people; nobody can check that. Gives ``reference_advantage``.
        membership_score: predictions: a column of your own attack's scores, higher where a record
            seems a member; its AUC is released as ``auc_advantage`` instead of ours.
        training: predictions: what else is known of the training; its ``split_kind`` is replaced.

        test_size: estimators: share of the records, or people, that a split holds out.
        cv: estimators: a random splitter of scikit-learn instead of independent splits.
        person_id: estimators: who has the record, where people have several: they are kept
            together.
        budgets: estimators: the name of the parameter that carries epsilon, and the values it
            takes: ``{"epsilon": [0.5, 1, None]}``; None is a model without privacy (infinity).
        n_jobs: estimators: how many are fitted at once, as for joblib;
            ``joblib.parallel_config`` is heeded.
        store: estimators: folder that keeps every finished split; the same call goes on from there.

    Raises:
        InputError: one sentence that names the option and the remedy.

    >>> Options(dataset="loans", least_people=20).disclosure.least_people
    20
    """

    dataset: str = "records"
    attribute: str | None = None
    groups: Sequence[Any] | None = None
    epsilon: Any = None
    dp_delta: float | None = None
    notes: Sequence[str] = ()
    public_data: bool = False
    least_people: int = LEAST_PEOPLE
    certain_cells: bool = True
    secret: bytes = field(default=b"", repr=False)

    positive_label: str | int | float | bool | None = None
    threshold: float | None = None
    split_id: Any = None
    reference: Any = None
    membership_score: Any = None
    training: Training | None = None

    test_size: float = 0.3
    cv: Any = None
    person_id: Any = None
    budgets: Mapping[str, Sequence[float | None]] | None = None
    n_jobs: int | None = None
    store: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        self.facts("benefit", "random")  # what the release itself refuses
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise InputError(
                f"threshold must be a probability, not {self.threshold!r}.", field="threshold"
            )
        require_open_unit(test_size=self.test_size)
        if self.budgets is not None and (self.epsilon is not None or len(self.budgets) != 1):
            raise InputError(
                'give either epsilon or budgets, and as budgets one parameter: {"epsilon": [1]}.',
                field="budgets",
            )

    @property
    def disclosure(self) -> DisclosureRule:
        """What may be let out about few people, or about one."""
        return DisclosureRule(
            public=self.public_data,
            least_people=self.least_people,
            certain_cells=self.certain_cells,
        )

    def facts(self, outcome: Outcome, split_kind: SplitKind, **further: Any) -> ReleaseFacts:
        """What a release says beside its counts; ``further`` are more fields of it."""
        given = {} if self.training is None else dict(self.training)
        return ReleaseFacts(
            **{
                **given,
                "dataset": self.dataset,
                "outcome": outcome,
                "split_kind": split_kind,
                "positive_label": self.positive_label,
                "groups": self.groups,
                "dp_delta": self.dp_delta,
                "notes": self.notes,
                "disclosure": self.disclosure,
                "secret": self.secret,
                **further,
            }
        )

    def refuse(self, names: Sequence[str], *, door: str, remedy: str) -> None:
        """Raise InputError where one of the named options is given to a door that lacks it."""
        for option in fields(self):
            value = getattr(self, option.name)
            given = value is not None if option.default is None else value != option.default
            if option.name in names and given:
                raise InputError(
                    f"{door} does not take the option {option.name}; {remedy}.", field=option.name
                )
