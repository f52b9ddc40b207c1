"""Options of the functions that make releases, in one object."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pcer.errors import InputError, as_code, door, require_open_unit
from pcer.release import columns as convert
from pcer.release.build import ReleaseFacts
from pcer.release.columns import CROSSING
from pcer.release.disclosure import LEAST_PEOPLE, DisclosureRule
from pcer.release.records import Outcome, SplitKind, Training
from pcer.release.small_groups import Attribute, attribute_of
from pcer.store.secret import require_random

# By function, the options that it does not take, and what to do instead.
OF_FITTING = ("test_size", "cv", "person_id", "budgets", "n_jobs", "store", "version")
OF_SCORES = (
    "positive_label",
    "threshold",
    "split_id",
    "reference",
    "membership_score",
    "training",
)
NOT_TAKEN = {
    "release_from_predictions": (
        (*OF_FITTING, "drop_sensitive"),
        "it is about fitting, which release_from_estimator does",
    ),
    "release_from_signals": (
        (*OF_FITTING, "drop_sensitive", *OF_SCORES[:-1]),
        "it is about fitting or predictions (person_id is an argument here)",
    ),
    "release_from_training": (
        (*OF_SCORES, "budgets", "epsilon"),
        "positive_label and epsilon are arguments here, several settings are a dict of functions "
        "by name, and the rest is about predictions",
    ),
    "release_from_estimator": (
        ("version", *OF_SCORES),
        "it is about predictions made elsewhere (positive_label is an argument here, and "
        "scikit-learn's FixedThresholdClassifier has a threshold)",
    ),
}
# What other packages call an argument.
HABITS = {
    **dict.fromkeys(("y_proba", "y_prob"), "probabilities go into y_score="),
    **dict.fromkeys(
        ("delta", "target_delta"), "pass options=pcer.Options(dp_delta={})"
    ),
}


def option_remedies(function: str, given: Mapping[str, Any]) -> dict[str, str]:
    """By argument that is an option, the call that passes it; or why the function has no use."""
    refused, why = NOT_TAKEN[function.replace("releases", "release")]
    own = {
        name: value
        for name, value in given.items()
        if name in Options.__dataclass_fields__
    }
    taken = {name: as_code(value) for name, value in own.items() if name not in refused}
    are = " and ".join(taken) + (" is an option" if len(taken) == 1 else " are options")
    if type(given.get("cv")) is int:
        taken["cv"] = (
            f"sklearn.model_selection.StratifiedKFold({given['cv']}, shuffle=True)"
        )
    if "store" in taken and function == "release_from_training":
        taken.setdefault("version", "1")
    call = ", ".join(f"{name}={code}" for name, code in taken.items())
    passed = dict.fromkeys(taken, f"{are}: pass options=pcer.Options({call})")
    passed |= {
        name: HABITS[name].format(as_code(given[name]))
        for name in given
        if name in HABITS
    }
    return {name: f"{function} does not take {name}; {why}" for name in own} | passed


@dataclass(frozen=True, kw_only=True, eq=False)
class Options:
    """Options of the functions that make releases, checked when made.

    What is said of estimators holds for training functions, too.

    Args:
        dataset: a name for the data.
        attribute: name of the protected attribute; taken from named columns if not
            given.
        groups: the groups in the order wanted (group 0 minus group 1 is the disparity's
            sign); sorted names by default. Records of other groups are counted as left
            out.
        group_names: what readers call groups, ``{"1": "White"}``; the others keep their
            names.
        people: whom the records are about, a plural noun: "defendants".
        positive_means: what a positive prediction says of them: "are predicted to pay
            back".
        epsilon: the privacy budget; None, NaN or infinity is a model without DP. Of
            predictions one number or a column, of estimators one number or a dict by
            the estimator's name.
        dp_delta: the delta of every model with a budget.
        notes: sentences to travel with the release.
        public_data: whether anybody may have the records; then groups of any size are
            released.
        least_people: of one group, label and part; groups with fewer are joined into
            one.
        certain_cells: release cells that reveal a membership with certainty, and count
            them; False coarsens those tables, at a loss of power that a note states.
        secret: 16 to 64 random bytes that key the names of splits (predictions with
            ``record_id``) and of records (estimators), and draw estimators' splits.

        positive_label: predictions: which label is positive; needed unless labels are 0 and 1.
        threshold: predictions: positive from this ``y_score`` on; 0.5 by default.
        split_id: predictions: one name or a column: which runs used the same split.
        reference: predictions of one model that cannot be retrained: a column of scores for each
            reference model, trained on other people only, which cannot be checked. Gives
            ``reference_advantage``.
        membership_score: predictions: a column of your attack's scores, higher for likely
            members; its AUC is released beside ours, by the column's name.
        training: predictions: what else is known of the training; its ``split_kind`` is replaced.

        test_size: estimators: share of the records, or people, that a split holds out.
        cv: estimators: a random splitter of scikit-learn instead of independent splits.
        person_id: estimators: who has the record, where people have several: they are kept
            together.
        budgets: estimators: the name of the parameter that carries epsilon, and the values it
            takes: ``{"epsilon": [0.5, 1, None]}``; None is a model without privacy (infinity).
        n_jobs: estimators: how many are fitted at once, as for joblib;
            ``joblib.parallel_config`` works, too.
        store: estimators: folder that keeps every finished split; the same call resumes there.
        version: training functions: what you call the present state of the function, for a store:
            change it with the function.
        drop_sensitive: estimators: leave columns that ``sensitive_features`` names out of X.

    Raises:
        InputError: one sentence that names the option and the remedy.

    >>> Options(dataset="loans", least_people=20).disclosure.least_people
    20
    """

    dataset: str = "records"
    attribute: str | None = None
    groups: Sequence[Any] | None = None
    group_names: Mapping[Any, str] = field(default_factory=dict)
    people: str | None = None
    positive_means: str | None = None
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
    version: str | int | float | None = None
    drop_sensitive: bool = False

    def __post_init__(self) -> None:
        self.facts("benefit", "random")  # what the release itself refuses
        given = self.threshold
        if given is not None and not (
            isinstance(given, int | float) and 0 <= given <= 1
        ):
            raise InputError(
                f"threshold must be a probability, not {given!r}.", field="threshold"
            )
        require_open_unit(test_size=self.test_size)
        if self.secret:
            require_random(
                self.secret, "secret", make="secrets.token_bytes(32), and keep it"
            )
        is_one = isinstance(self.budgets, Mapping) and len(self.budgets) == 1
        if self.budgets is not None and (self.epsilon is not None or not is_one):
            raise InputError(
                'give either epsilon or budgets, and as budgets one parameter: {"epsilon": [1]}.',
                field="budgets",
            )

    @classmethod
    def of(cls, given: Options | Mapping[str, Any] | None) -> Options:
        """Options as they are, by name in a dict, or none."""
        return given if isinstance(given, Options) else cls(**(given or {}))

    @property
    def disclosure(self) -> DisclosureRule:
        """What a release may reveal about few people, or about one."""
        return DisclosureRule(
            public=self.public_data,
            least_people=self.least_people,
            certain_cells=self.certain_cells,
        )

    def facts(
        self, outcome: Outcome, split_kind: SplitKind, **further: Any
    ) -> ReleaseFacts:
        """What a release says beside its counts; ``further`` are more fields of it."""
        given = {} if self.training is None else dict(self.training)
        names = (each.name for each in fields(ReleaseFacts))
        own = {name: getattr(self, name) for name in names if hasattr(self, name)}
        said = {"outcome": outcome, "split_kind": split_kind}
        return ReleaseFacts(**{**given, **own, **said, **further})

    def attribute_of(self, features: Any) -> Attribute:
        """The protected attribute: one column, or several crossed."""
        columns = convert.named_columns(features, self.attribute)
        coded = [convert.column_of(values, name) for name, values in columns.items()]
        return attribute_of(
            self.attribute or CROSSING.join(columns), coded, self.groups
        )

    def require_taken(self, door: str) -> None:
        """Raise InputError where an option is given to a function that does not take it."""
        names, remedy = NOT_TAKEN[door]
        for option in fields(self):
            value = getattr(self, option.name)
            given = (
                value is not None if option.default is None else value != option.default
            )
            if option.name in names and given:
                raise InputError(
                    f"{door} does not take the option {option.name}; {remedy}.",
                    field=option.name,
                )


Options.__init__ = door()(Options.__init__)  # type: ignore[method-assign]
