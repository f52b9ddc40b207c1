"""Reference models: what models say of the same records that never saw any of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pcer.errors import InputError
from pcer.metrics import BoolArray, FloatArray
from pcer.release.columns import values_of


def reference_columns(reference: Any) -> FloatArray | None:
    """(record, model) probabilities of the positive label by reference models; None where none.

    Args:
        reference: a column for each reference model: an array (record, model), one column alone,
            a data frame of any library, or a dict.
    """
    if reference is None:
        return None
    columns = [*_columns(reference)]
    if not columns or len({len(column) for column in columns}) > 1:
        raise InputError(
            "reference must have at least one column of scores, and all of one length; give one "
            "for each reference model."
        )
    return np.stack(columns, axis=1)


def reference_notes(reference: FloatArray | None) -> list[str]:
    """What a reader of the release must know."""
    if reference is None:
        return []
    n = reference.shape[1]
    models = "one reference model" if n == 1 else f"{n} reference models"
    return [
        f"reference_advantage holds each record against {models}, which never saw any of these "
        "records, as whoever made this release says; nobody can check that."
    ]


def beyond(reference: FloatArray, logits: FloatArray | None, truth: BoolArray) -> FloatArray:
    """(record,) log odds of the true label beyond those of the reference models."""
    from pcer.attacks import beyond_reference

    if logits is None:
        raise InputError("reference holds scores against scores: give y_score, not y_pred.")
    if len(reference) != len(truth):
        raise InputError(
            f"All columns must have one length: reference has {len(reference):,} rows and y_true "
            f"{len(truth):,}; score the same records in the same order."
        )
    return beyond_reference(np.where(truth, logits, -logits), reference, truth)


def _columns(reference: Any) -> list[FloatArray]:
    import narwhals as nw

    if isinstance(reference, Mapping):
        return [_scores(values, str(name)) for name, values in reference.items()]
    if nw.dependencies.is_into_dataframe(reference):
        frame = nw.from_native(reference, eager_only=True)
        places = range(len(frame.columns))
        return [_scores(frame[:, k].to_native(), str(frame.columns[k])) for k in places]
    if getattr(reference, "ndim", 1) == 2:
        return [_scores(column, str(k)) for k, column in enumerate(np.asarray(reference).T)]
    return [_scores(reference, "0")]


def _scores(values: Any, name: str) -> FloatArray:
    column, missing = values_of(values, name=f"reference[{name!r}]")
    try:
        scores = column.astype(np.float64)
    except (TypeError, ValueError):
        scores = np.array([np.nan])
    if missing.any() or not ((scores >= 0) & (scores <= 1)).all():
        raise InputError(
            f"reference[{name!r}] must be probabilities of the positive label in [0, 1] without "
            "gaps, as y_score is."
        )
    return np.asarray(scores)
