"""From any estimator to a release: fitted anew on many splits, attacked, counted.

Anything with scikit-learn's protocol will do: pipelines, searches, XGBoost, LightGBM, skorch. What
leaves is a release; the models' scores of single records stay here, or in a store that only their
owner can read.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pcer.errors import InputError, require_at_least
from pcer.metrics import DEFAULT_SPLITS
from pcer.models.candidates import (
    Candidate,
    candidates_of,
    described,
    fingerprint,
    require_sklearn,
    versions,
)
from pcer.models.division import LabelledRecords, divided, release_of
from pcer.models.fits import FitData, Fits, OnProgress, n_rows
from pcer.models.labels import disclosure_rule_of, positive_of, require_one_index
from pcer.models.precision import StopRule
from pcer.models.splits import Splits, given_splits, members, random_splits
from pcer.release.build import ReleaseFacts
from pcer.release.columns import (
    CROSSING,
    column_of,
    cross,
    named_columns,
    required_column,
    values_of,
)
from pcer.release.disclosure import LEAST_PEOPLE
from pcer.release.format import Outcome, Release

N_SPLITS, TEST_SIZE, MOST_SPLITS = DEFAULT_SPLITS, 0.3, 200


def release_from_estimator(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    n_splits: int = N_SPLITS,
    test_size: float = TEST_SIZE,
    outcome: Outcome,
    positive_label: str | int | float | bool | None = None,
    threshold: float | None = None,
    person_id: Any = None,
    epsilon: float | Mapping[str, float | None] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool | OnProgress = True,
    cv: Any = None,
    budgets: Mapping[str, Sequence[float | None]] | None = None,
    until_detectable: float | None = None,
    max_splits: int = MOST_SPLITS,
    dataset: str = "records",
    attribute: str | None = None,
    groups: Sequence[Any] | None = None,
    dp_delta: float | None = None,
    notes: Sequence[str] = (),
    public_data: bool = False,
    least_people: int = LEAST_PEOPLE,
    small_groups: Literal["join", "withhold"] = "join",
    certain_cells: bool = True,
    secret: bytes = b"",
) -> Release:
    """Fit an estimator on many random splits and release what it gives and takes, group by group.

    The release carries every cost that the splits allow: the gap, paired costs, AUC, and from 8
    splits on LiRA and RMIA. ``not_computed`` says why one is missing. It depends on the arguments
    and ``random_state`` alone, not on ``n_jobs`` nor on how often the call was interrupted.

    Args:
        estimator: anything that scikit-learn can clone, fitted or not; or several by name, which
            become the models of one release.
        X: features of all records: numpy, pandas, polars, sparse, or what the estimator takes.
        y: labels.
        sensitive_features: the group of each record; several named columns are crossed.
        n_splits: how many splits, each drawn by itself.
        test_size: share of the records, or people, that a split holds out.
        outcome: whether a positive prediction is a "benefit" or a "harm".
        positive_label: which label is positive; needed unless labels are 0 and 1, or booleans.
            There may be more than two labels: the others are then negative.
        threshold: positive from this probability on; None is the estimator's own ``predict``.
        person_id: who has the record, where people have several: they are kept together.
        epsilon: the budget that the estimator spends, or by name; None without privacy.
        random_state: of splits and estimators.
        n_jobs: how many are fitted at once, as for joblib; ``joblib.parallel_config`` is heeded.
        store: folder that keeps every finished split; the same call goes on from there.
        progress: show a bar on stderr; or a function of (models done, models in all).
        cv: a splitter of scikit-learn instead of random splits.
        budgets: the name of the parameter that carries epsilon, and the values it takes:
            ``{"epsilon": [0.5, 1, None]}``; None is a model without privacy (infinity).
        until_detectable: add splits until an exposure as small as this would show, by precision
            alone, so that stopping favours no verdict.
        max_splits: the most splits that this may take.
        dataset: a name for the data.
        attribute: name of the protected attribute; taken from named columns if not given.
        groups: the groups in the order wanted; sorted names by default.
        dp_delta: the delta of every model with a budget.
        notes: sentences to travel with the release.
        public_data: whether anybody may have the records; then groups of any size are released.
        least_people: of one group, label and part; a group with fewer is joined or withheld.
        small_groups: "join" small groups into one, or "withhold" them.
        certain_cells: release cells that tell someone's membership with certainty, and count
            them; False coarsens those tables.
        secret: 16 to 64 bytes that key the digest which names the records; without one the
            release of private records holds none.

    Raises:
        InputError: one sentence that names the argument or the split, and the remedy.

    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> release = release_from_estimator(
    ...     LogisticRegression(), X, X[:, 0] > 0, n_splits=2, outcome="benefit",
    ...     sensitive_features={"side": np.where(X[:, 1] > 0, "left", "right")},
    ... )
    >>> [run.split for run in release.runs], release.subject.groups
    (['split 1', 'split 2'], ['left', 'right'])
    """
    require_sklearn()
    candidates = candidates_of(estimator, epsilon, budgets)
    records = _records(X, y, sensitive_features, person_id, attribute, positive_label)
    drawn = _splits(cv, records, test_size, random_state)
    if threshold is not None:
        _require_threshold(threshold, candidates)
    facts = ReleaseFacts(
        dataset=dataset,
        outcome=outcome,
        split_kind=drawn.claim.kind,
        stratified_by=drawn.claim.stratified_by,
        unit_of_split=drawn.claim.unit,
        positive_label=positive_label,
        groups=groups,
        dp_delta=dp_delta,
        notes=notes,
        disclosure=disclosure_rule_of(public_data, least_people, small_groups, certain_cells),
        mechanism="none" if all(math.isinf(one.epsilon) for one in candidates) else "unknown",
        config=_config(candidates, drawn, threshold, random_state if public_data else None),
        data_digest=_digest(X, records.y, secret) if public_data or secret else None,
    )
    data = FitData(
        X=X, y=records.y, classes=records.classes, positive=records.positive, threshold=threshold
    )
    rule = StopRule.of(drawn, n_splits, until_detectable, max_splits)
    with _shown(progress) as tell:
        fits = Fits(
            data=data,
            splits=drawn,
            candidates=candidates,
            random_state=random_state,
            n_jobs=n_jobs,
            store=None if store is None else Path(store),
            identity={} if store is None else _identity(data, records, drawn, random_state),
            names=[] if store is None else [fingerprint(one) for one in candidates],
            on_progress=tell,
        )
        return _audited(fits, records, facts, rule)


def _records(
    X: Any, y: Any, features: Any, person_id: Any, attribute: str | None, positive: object
) -> LabelledRecords:
    require_one_index(X=X, y=y, sensitive_features=features, person_id=person_id)
    columns = named_columns(features, attribute)
    group = cross([column_of(values, name) for name, values in columns.items()])
    classes, (labels, _) = required_column(y, name="y"), values_of(y, name="y")
    persons = None if person_id is None else required_column(person_id, name="person_id").codes
    lengths = {
        "X": n_rows(X),
        "y": len(labels),
        "sensitive_features": len(group.codes),
        **({} if persons is None else {"person_id": len(persons)}),
    }
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length:,}" for name, length in lengths.items())
        raise InputError(f"All must be of the same records, but their numbers are: {told}.")
    if len(labels) < 2:
        raise InputError("There is nothing to divide: give at least two records.")
    if len(classes.names) < 2:
        raise InputError("y holds one label only, and a classifier needs two or more.")
    return LabelledRecords(
        y=labels,
        classes=classes,
        positive=positive_of(classes.names, positive, where="y"),
        attribute=CROSSING.join(columns) if attribute is None else attribute,
        group=group,
        persons=persons,
    )


def _splits(cv: Any, records: LabelledRecords, test_size: float, random_state: int) -> Splits:
    require_at_least(0, random_state=random_state)
    if cv is None:
        return random_splits(
            len(records.y), records.persons, test_size=test_size, random_state=random_state
        )
    return given_splits(cv, records.classes.codes, records.persons, random_state=random_state)


def _require_threshold(threshold: float, candidates: Sequence[Candidate]) -> None:
    if not 0 <= threshold <= 1:
        raise InputError(f"threshold must be a probability, not {threshold!r}.")
    for one in candidates:
        if not one.has_probabilities:
            raise InputError(
                f"threshold needs probabilities, and {one.name} has no predict_proba; leave "
                "threshold out, or calibrate the estimator (CalibratedClassifierCV)."
            )


def _config(
    candidates: Sequence[Candidate],
    splits: Splits,
    threshold: float | None,
    random_state: int | None,
) -> dict[str, Any]:
    """What was fitted; the random state of private records would tell who was in which split."""
    return {
        **splits.claim.config,
        "threshold": "the estimator's own" if threshold is None else threshold,
        "models": described(candidates),
        "versions": versions(candidates),
        **({} if random_state is None else {"random_state": random_state}),
    }


def _digest(X: Any, y: Any, secret: bytes) -> str:
    """What names the records in a release: keyed, unless anybody may have them."""
    import joblib

    content = str(joblib.hash((X, y), hash_name="sha1")).encode()
    if not secret:
        return f"sha256:{hashlib.sha256(content).hexdigest()}"
    return f"hmac-sha256:{hmac.new(secret, content, hashlib.sha256).hexdigest()}"


def _identity(
    data: FitData, records: LabelledRecords, splits: Splits, random_state: int
) -> dict[str, Any]:
    """What the rows of a store depend on, besides the estimator and the split."""
    import joblib

    return {
        "kind": "estimator",
        "records": joblib.hash((data.X, data.y, records.persons), hash_name="sha1"),
        **splits.identity,
        "random_state": random_state,
        "positive_label": data.positive,
        "threshold": data.threshold,
    }


def _audited(fits: Fits, records: LabelledRecords, facts: ReleaseFacts, rule: StopRule) -> Release:
    """Fit as many splits as the rule wants, and build the release."""
    with fits.opened():
        n_splits = 0
        more = rule.first
        while more > n_splits:
            n_splits = more
            division = divided(records, facts, members(fits.splits, n_splits, len(records.y)))
            said = fits.up_to(n_splits)
            smallest = division.smallest_gap(said)
            more = rule.next(n_splits, smallest)
    notes = [*facts.notes, *fits.splits.claim.notes, *rule.note(n_splits, smallest)]
    return release_of(replace(facts, notes=notes), division, fits.candidates, said)


@contextmanager
def _shown(progress: bool | OnProgress) -> Iterator[OnProgress]:
    """A bar on stderr where somebody may see it; or the caller's own."""
    if callable(progress):
        yield progress
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    hidden = not progress or not (console.is_terminal or console.is_jupyter)
    with Bar(console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("Fitting", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
