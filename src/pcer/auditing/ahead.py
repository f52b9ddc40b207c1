"""What it would take to see more: the planner, fed with what an audit has measured."""

from __future__ import annotations

import numpy as np

from pcer.auditing.file import BudgetResult
from pcer.auditing.measure import Measured
from pcer.auditing.planner import (
    CountsError,
    Design,
    DifferenceBetween,
    ExposureOf,
    MeasuredError,
    Question,
    advice,
)
from pcer.auditing.results import Setting
from pcer.auditing.verdict import Verdict
from pcer.metrics import FloatArray
from pcer.release import Panel


def more_would_show(setting: Setting, budget: BudgetResult) -> str | None:
    """One sentence: how many more splits or people would show how much; None where unknown."""
    question = _question(setting, budget)
    study = None if question is None else design_of(setting)
    return None if study is None or question is None else advice(study, question)


def design_of(setting: Setting) -> Design | None:
    """The setting as a study that could be repeated with more splits or people."""
    return design_of_measured(
        setting.measured,
        n_cost_tests=max(1, setting.whole.n_cost_tests),
        n_pair_tests=max(1, 2 * setting.whole.n_pair_tests),
    )


def design_of_measured(one: Measured, *, n_cost_tests: int, n_pair_tests: int) -> Design | None:
    """One setting and one cost as a study; None where nothing could be learnt from it."""
    panel = one.panel
    if one.exposed is None or not one.told.all() or not (one.exposed.one_split > 0).all():
        return None
    people = one.exposed.n
    error: CountsError | MeasuredError = (
        _counts_error(panel)
        if one.exposed.is_counted
        else MeasuredError(
            standard_error=np.sqrt(one.exposed.variance),
            cost=one.exposed.value,
            n_people=people,
            n_splits=panel.n_splits,
            scale="auc" if one.proxy.scale.is_advantage else "difference",
        )
    )
    return Design(
        group_names=panel.group_names,
        people=people,
        n_splits=panel.n_splits,
        n_cost_tests=n_cost_tests,
        n_pair_tests=n_pair_tests,
        error=error,
    )


def _question(setting: Setting, budget: BudgetResult) -> Question | None:
    """Whose exposure, or whose difference, was too small to be told."""
    exposed = setting.measured.exposed
    if exposed is None or budget.reason is not None:
        return None
    if budget.verdict is Verdict.NOT_RESOLVED:
        return ExposureOf(group=int(np.argmax(exposed.null_variance)))
    if budget.verdict not in (Verdict.NO_DISPARITY_SHOWN, Verdict.FLOOR_DOMINATED):
        return None
    difference = np.abs(setting.evidence.exposure)
    if not np.isfinite(difference).any():
        return None
    i, j = setting.pairs[int(np.nanargmax(difference))]
    lower, higher = (i, j) if exposed.value[i] <= exposed.value[j] else (j, i)
    return DifferenceBetween(lower=lower, higher=higher, base=max(0.0, float(exposed.value[lower])))


def _counts_error(panel: Panel) -> CountsError:
    share = float(panel.n_train.mean() / (panel.n_train + panel.n_test).mean())
    by_label = _by_label(panel)
    if by_label is None:
        return CountsError(accuracy=panel.test_accuracy.mean(axis=0), train_share=share)
    return CountsError(accuracy=by_label[0], train_share=share, label_share=by_label[1])


def _by_label(panel: Panel) -> tuple[FloatArray, FloatArray] | None:
    """Test accuracy (group, label) and the labels' shares; None where a label has no records."""
    if panel.test is None:
        return None
    test = panel.test
    right = np.stack([test.tp, test.tn], axis=2).mean(axis=0)
    n = right + np.stack([test.fn, test.fp], axis=2).mean(axis=0)
    if not (n > 0).all():
        return None
    return right / n, n / n.sum(axis=1, keepdims=True)
