"""How does an audit get into MLflow?

``log_audit`` logs one as a run of a tracking server; ``Evaluator`` is what
``mlflow.models.evaluate(evaluators="pcer")`` runs. MLflow is imported when something is
logged or evaluated, and not before. To log one more text: an entry of ``_tags``; one
more file: a line of ``_write_artifacts``.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from pcer.auditing.audit import audit
from pcer.auditing.record import Audit, parse_plan, write_audit
from pcer.errors import InputError, clipped, not_installed, printable
from pcer.files import write_files
from pcer.measuring.plan import Plan
from pcer.models.about import About
from pcer.models.arrays import release_from_predictions
from pcer.models.rows import THRESHOLD
from pcer.release.disclosure import Disclosure
from pcer.release.file import Release
from pcer.wording import listed, setting_name

FOLDER = "pcer"  # of the artifacts
REPORT = "report.html"
MOST_AT_ONCE = 1_000  # metrics that MLflow takes in one call
RELEASE_TAG = "pcer_release_sha256"
PLAN_TAG = "pcer_plan_sha256"
OWN_RUN = "its own run: with mlflow.start_run(nested=True): log_audit(found)"
LONGEST_TAG = 5_000  # characters; MLflow keeps 8,000
# What ``evaluator_config`` must say, and what it may; a model decides by its own
# threshold.
REQUIRED = ("sensitive_features", "split", "split_kind", "outcome")
IN_CALL = (
    "split_id",
    "positive_label",
    "reference",
    "membership_score",
    "epsilon",
    "dp_delta",
)
IN_ABOUT = tuple(field.name for field in fields(About))
IN_DISCLOSURE = tuple(field.name for field in fields(Disclosure))
TAKEN = (*REQUIRED, *IN_CALL, *IN_ABOUT, *IN_DISCLOSURE, "record_id", "plan")


def log_audit(found: Audit, run: Any = None, *, model_id: str | None = None) -> str:
    """Log an audit: metrics, tags, and report, releases and audit as artifacts.

    Returns the id of the run; ``docs/integrations.md`` lists metrics and tags.

    Args:
        found: what ``pcer.audit`` gave.
        run: a run of MLflow or its id; by default the active run, and without one a new
            run.
        model_id: the logged model that the metrics are also shown with.

    Raises:
        InputError: MLflow is not installed, the audit does not hold its release, or the
            run holds the audit of another release or plan: their numbers would be
            mixed.
    """
    if not isinstance(found, Audit):
        raise InputError(
            f"log_audit takes one audit; log each in {OWN_RUN}.", field="found"
        )
    if importlib.util.find_spec("mlflow") is None:
        raise not_installed("mlflow", extra="mlflow", needed_by="log_audit")
    import mlflow

    own_run = mlflow.active_run() if run is None else run
    # Of MLflow's runs, or given as such; None: a new run.
    run_id = getattr(getattr(own_run, "info", None), "run_id", own_run) or None
    client = mlflow.MlflowClient()
    tags = _tags(found)
    if run_id is not None:
        _require_same_audit(client.get_run(run_id).data.tags, tags)
    with tempfile.TemporaryDirectory() as folder:
        _write_artifacts(found, Path(folder))
        context: Any = nullcontext(run)
        if run_id is None:
            context = mlflow.start_run(run_name=clipped(printable(found.title)))
        with context as new:
            run_id = run_id or new.info.run_id
            numbers = [*found.metrics().items()]
            for start in range(0, len(numbers), MOST_AT_ONCE):
                some = dict(numbers[start : start + MOST_AT_ONCE])
                mlflow.log_metrics(some, run_id=run_id, model_id=model_id)
            for name, text in tags.items():
                client.set_tag(run_id, name, clipped(printable(text), LONGEST_TAG))
            client.log_artifacts(run_id, folder, FOLDER)
    return str(run_id)


def _require_same_audit(kept: Mapping[str, str], tags: Mapping[str, str]) -> None:
    """Raise InputError where a run's tags are of another release or plan."""
    for name in (RELEASE_TAG, PLAN_TAG):
        if name in kept and kept[name] != tags[name]:
            raise InputError(
                f"The run holds another audit; log this one in {OWN_RUN}.",
                field="run",
            )


def _write_artifacts(found: Audit, folder: Path) -> None:
    """Write the report, the audit and its releases."""
    found.save_html(folder / REPORT)  # first: without its release nothing is logged
    write_audit(found, folder / "audit.json")
    own, *family = found.sources
    # By their texts: what ``write_release`` keeps beside a release is for its owner.
    write_files({folder / "model.release.json": own.to_json()})
    for number, release in enumerate(family, 1):  # those judged together with it
        write_files({folder / f"family-{number}.release.json": release.to_json()})


def _tags(found: Audit) -> dict[str, str]:
    """What an audit says that is no number."""
    tags = {
        "pcer_verdict": found.verdict.value,
        "pcer_headline": found.headline,
        "pcer_setting": setting_name(found.told.model, found.told.epsilon),
        "pcer_attack": found.attack,
        RELEASE_TAG: found.release_sha256,
        PLAN_TAG: found.plan_sha256,
    }
    if found.policy_lines:
        tags["pcer_policy"] = " ".join(found.policy_lines)
    return tags


class Evaluator:
    """What ``mlflow.models.evaluate(..., evaluators="pcer")`` finds and runs.

    It has the two methods of MLflow's ``ModelEvaluator``, which cannot be imported
    here. The table holds the records that the model was trained on and those that it
    was not, and says which; ``docs/integrations.md`` lists the keys of
    ``evaluator_config``.
    """

    @classmethod
    def can_evaluate(cls, *, evaluator_config: Mapping[str, Any], **_: Any) -> bool:
        """Whether the config is for pcer; MLflow may ask every evaluator."""
        return REQUIRED[0] in evaluator_config

    def evaluate(
        self,
        *,
        dataset: Any,
        run_id: str,
        evaluator_config: Mapping[str, Any],
        model: Any = None,
        model_id: str | None = None,
        **_: Any,
    ) -> Any:
        """Audit a model's predictions, or the dataset's, and log the audit."""
        from mlflow.models import EvaluationResult

        plan = evaluator_config.get("plan", {})
        if not isinstance(plan, Plan):
            plan = parse_plan(plan, file="evaluator_config: plan")
        found = audit(evaluated_release(dataset, model, evaluator_config), plan)
        log_audit(found, run_id, model_id=model_id)
        return EvaluationResult(metrics=found.metrics(), artifacts={}, run_id=run_id)


def evaluated_release(dataset: Any, model: Any, config: Mapping[str, Any]) -> Release:
    """The release of MLflow's table and of what a model predicts, or the table says."""
    _require_keys(config)
    table = dataset.features_data
    stated = config["sensitive_features"]
    groups = [stated] if isinstance(stated, str) else list(stated)
    columns = [*groups, config["split"]]
    if "record_id" in config:
        columns.append(config["record_id"])
    _require_columns(table, columns)
    if model is None:
        answers = {"y_pred": dataset.predictions_data}
    else:
        answers = _answers(model, table, columns)
    record_id: Any = np.arange(len(table))
    if "record_id" in config:
        record_id = table[config["record_id"]]
    return release_from_predictions(
        dataset.labels_data,
        **answers,
        sensitive_features={name: table[name] for name in groups},
        split=table[config["split"]],
        split_kind=config["split_kind"],
        outcome=config["outcome"],
        record_id=record_id,
        about=About(**_chosen(config, IN_ABOUT)),
        disclosure=Disclosure(**_chosen(config, IN_DISCLOSURE)),
        **_chosen(config, IN_CALL),
    )


def _chosen(config: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: config[name] for name in names if name in config}


def _require_keys(config: Mapping[str, Any]) -> None:
    """Raise InputError unless a config says what is needed, and nothing unknown."""
    lacking = [key for key in REQUIRED if key not in config]
    if lacking:
        raise InputError(
            f"evaluator_config lacks {listed(lacking)}; add it.", field=lacking[0]
        )
    for key in config:
        if key not in TAKEN:
            raise InputError(
                f"evaluator_config does not take {key!r}; see docs/integrations.md.",
                field=key,
            )


def _require_columns(table: Any, columns: Sequence[str]) -> None:
    """Raise InputError unless the evaluated data are a frame with these columns."""
    present = getattr(table, "columns", ())
    for name in columns:
        if name not in present:
            raise InputError(
                f"evaluator_config names the column {name!r}, which the evaluated data "
                "do not have; give a data frame with it.",
                field="evaluator_config",
            )


def _answers(model: Any, table: Any, columns: Sequence[str]) -> dict[str, Any]:
    """The model's probabilities where they decide its predictions, else predictions.

    ``columns`` of the table are about the records, and no features.
    """
    estimator: Any = None
    # Models that are no wrapped estimator.
    with suppress(AttributeError, NotImplementedError):
        estimator = model.get_raw_model()
    names = _feature_names(model, estimator)
    features = table.drop(columns=[*columns]) if names is None else table[[*names]]
    predicted = np.asarray(model.predict(features))
    if predicted.ndim == 2 and predicted.shape[1] > 1:
        return {"y_score": predicted}
    predicted = predicted.ravel()
    if hasattr(estimator, "predict_proba"):
        scores = estimator.predict_proba(features)
        is_chosen = predicted[:, None] == estimator.classes_
        # A label that is as likely as the predicted one counts as less likely.
        is_tied = (scores == THRESHOLD) & ~is_chosen
        scores = np.where(is_tied, np.nextafter(THRESHOLD, 0), scores)
        if ((scores >= THRESHOLD) == is_chosen).all():
            return {"y_score": scores}
    return {"y_pred": predicted}


def _feature_names(model: Any, estimator: Any) -> Any:
    """The columns that a model was fitted on; None where it does not say so."""
    schema = None
    if hasattr(model, "metadata"):
        schema = model.metadata.get_input_schema()
    if schema is not None and schema.has_input_names():
        return schema.input_names()
    return getattr(estimator, "feature_names_in_", None)
