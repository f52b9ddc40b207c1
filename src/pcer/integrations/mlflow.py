"""MLflow: audits as runs of a tracking server, and ``mlflow.models.evaluate(evaluators="pcer")``.

MLflow is imported when something is logged or evaluated, and not before.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from pcer.auditing.audit import audit
from pcer.auditing.record import Audit, parse_plan, write_audit
from pcer.errors import InputError, clipped, not_installed, shown
from pcer.measuring.plan import Plan
from pcer.models.arrays import THRESHOLD, release_from_predictions
from pcer.models.options import Options
from pcer.release.file import Release, write_release
from pcer.wording import listed, setting_name

FOLDER, REPORT = "pcer", "report.html"  # of the artifacts
MOST_AT_ONCE = 1_000  # metrics that MLflow takes in one call
RELEASE_TAG, PLAN_TAG = "pcer_release_sha256", "pcer_plan_sha256"
OWN_RUN = "its own run: with mlflow.start_run(nested=True): log_audit(found)"
LONGEST_TAG = 5_000  # characters; MLflow keeps 8,000
# What ``evaluator_config`` must say, and what it may; a model decides by its own
# threshold.
REQUIRED = ("sensitive_features", "split", "split_kind", "outcome")
OPTIONS = tuple(field.name for field in fields(Options) if field.name != "threshold")


def log_audit(found: Audit, run: Any = None, *, model_id: str | None = None) -> str:
    """Log an audit: metrics, tags with the verdict, and report, release and audit as artifacts.

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

    run_id = getattr(getattr(run, "info", None), "run_id", run)
    if run_id is None and (active := mlflow.active_run()) is not None:
        run_id = active.info.run_id
    client = mlflow.MlflowClient()
    tags = _tags(found)
    kept = client.get_run(run_id).data.tags if run_id else {}
    if any(
        kept.get(name, tags[name]) != tags[name] for name in (RELEASE_TAG, PLAN_TAG)
    ):
        raise InputError(
            f"The run holds another audit; log this one in {OWN_RUN}.", field="run"
        )
    with tempfile.TemporaryDirectory() as folder:
        found.save_html(
            Path(folder) / REPORT
        )  # first: without its release nothing is logged
        write_audit(found, Path(folder) / "audit.json")
        for k, release in enumerate(
            found.sources
        ):  # its own, then those judged together with it
            write_release(
                release,
                Path(folder) / f"{f'family-{k}' if k else 'model'}.release.json",
            )
        title = clipped(shown(found.title))
        context: Any = nullcontext(run) if run_id else mlflow.start_run(run_name=title)
        with context as new:
            run_id = run_id or new.info.run_id
            numbers = [*found.metrics().items()]
            for k in range(0, len(numbers), MOST_AT_ONCE):
                some = dict(numbers[k : k + MOST_AT_ONCE])
                mlflow.log_metrics(some, run_id=run_id, model_id=model_id)
            for name, text in tags.items():
                client.set_tag(run_id, name, clipped(shown(text), LONGEST_TAG))
            client.log_artifacts(run_id, folder, FOLDER)
    return str(run_id)


def _tags(found: Audit) -> dict[str, str]:
    """What an audit says that is no number."""
    policy = {"pcer_policy": " ".join(found.policy_lines)} if found.policy_lines else {}
    return policy | {
        "pcer_verdict": found.verdict.value,
        "pcer_headline": found.headline,
        "pcer_setting": setting_name(found.told.model, found.told.epsilon),
        "pcer_attack": found.cost,
        RELEASE_TAG: found.release_sha256,
        PLAN_TAG: found.plan_sha256,
    }


class Evaluator:
    """What ``mlflow.models.evaluate(..., evaluators="pcer")`` runs; MLflow finds and makes it.

    It has the two methods of MLflow's ``ModelEvaluator``, which cannot be imported
    here. The table holds the records that the model was trained on and those that it
    was not, and says which; ``docs/integrations.md`` lists the keys of
    ``evaluator_config``.
    """

    @classmethod
    def can_evaluate(cls, *, evaluator_config: Mapping[str, Any], **_: Any) -> bool:
        """Whether the config is for pcer: evaluations that name no evaluator ask every one."""
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
        """Audit a model's predictions, or those in the dataset, and log the audit into the run."""
        from mlflow.models import EvaluationResult

        plan = evaluator_config.get("plan", {})
        plan = (
            plan
            if isinstance(plan, Plan)
            else parse_plan(plan, file="evaluator_config: plan")
        )
        found = audit(_release(dataset, model, evaluator_config), plan)
        log_audit(found, run_id, model_id=model_id)
        return EvaluationResult(metrics=found.metrics(), artifacts={}, run_id=run_id)


def _release(dataset: Any, model: Any, config: Mapping[str, Any]) -> Release:
    """The release of a table and of what one model predicts for it."""
    if lacking := [key for key in REQUIRED if key not in config]:
        raise InputError(
            f"evaluator_config lacks {listed(lacking)}; add it.", field=lacking[0]
        )
    if unknown := [
        key for key in config if key not in (*REQUIRED, *OPTIONS, "record_id", "plan")
    ]:
        raise InputError(
            f"evaluator_config does not take {unknown[0]!r}; see docs/integrations.md.",
            field=unknown[0],
        )
    table = dataset.features_data
    names = config["sensitive_features"]
    groups = [names] if isinstance(names, str) else list(names)
    own = [
        *groups,
        config["split"],
        *([config["record_id"]] if "record_id" in config else []),
    ]
    if missing := [name for name in own if name not in getattr(table, "columns", ())]:
        raise InputError(
            f"evaluator_config names the column {missing[0]!r}, which the evaluated data do not "
            "have; give a data frame with it.",
            field="evaluator_config",
        )
    given = {"y_pred": dataset.predictions_data}
    answers = given if model is None else _answers(model, table, own)
    more = {name: config[name] for name in OPTIONS if name in config}
    return release_from_predictions(
        dataset.labels_data,
        **answers,
        sensitive_features={name: table[name] for name in groups},
        split=table[config["split"]],
        split_kind=config["split_kind"],
        outcome=config["outcome"],
        record_id=table[own[-1]] if "record_id" in config else np.arange(len(table)),
        options=Options(**more),
    )


def _answers(model: Any, table: Any, own: list[str]) -> dict[str, Any]:
    """The model's probabilities where they decide its predictions, else its predictions."""
    schema = model.metadata.get_input_schema() if hasattr(model, "metadata") else None
    raw: Any = None
    with suppress(
        AttributeError, NotImplementedError
    ):  # models that are no wrapped estimator
        raw = model.get_raw_model()
    wanted = (
        schema.input_names()
        if schema is not None and schema.has_input_names()
        else None
    )
    wanted = getattr(raw, "feature_names_in_", None) if wanted is None else wanted
    features = table.drop(columns=own) if wanted is None else table[[*wanted]]
    predicted = np.asarray(model.predict(features))
    if predicted.ndim == 2 and predicted.shape[1] > 1:
        return {"y_score": predicted}
    predicted = predicted.ravel()
    if hasattr(raw, "predict_proba"):
        scores = raw.predict_proba(features)
        is_chosen = predicted[:, None] == raw.classes_
        is_tied = (
            scores == THRESHOLD
        ) & ~is_chosen  # as likely as the label that was predicted
        scores = np.where(is_tied, np.nextafter(THRESHOLD, 0), scores)
        if ((scores >= THRESHOLD) == is_chosen).all():
            return {"y_score": scores}
    return {"y_pred": predicted}
