"""What it would take to see more: the planner, fed with what an audit has measured."""

from __future__ import annotations

import numpy as np

from pcer.auditing.file import BudgetResult
from pcer.auditing.inference import compare_pairs
from pcer.auditing.measure import PEOPLE_PARTS, Exposed, Measured
from pcer.auditing.people import people_part
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
        n_pair_tests=max(1, setting.whole.n_pair_tests),
        n_attacks=len(setting.attacks),
    )


def design_of_measured(
    one: Measured, *, n_cost_tests: int, n_pair_tests: int, n_attacks: int = 1
) -> Design | None:
    """One setting and one cost as a study; None where nothing could be learnt from it.

    The families are those of the audit: see ``Design``.
    """
    panel, exposed = one.panel, one.exposed
    if exposed is None or not one.told.all() or not (exposed.one_split > 0).all():
        return None
    return Design(
        group_names=panel.group_names,
        people=exposed.n,
        n_splits=panel.n_splits,
        n_cost_tests=n_cost_tests,
        n_pair_tests=n_pair_tests,
        error=_counts_error(panel) if exposed.is_counted else _measured_error(one, exposed),
        n_attacks=n_attacks,
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


def _measured_error(one: Measured, exposed: Exposed) -> MeasuredError:
    """The release's own errors; those of differences as ``compare_pairs`` has them in an audit."""
    n = len(exposed.value)
    first, second = np.triu_indices(n, 1)
    pairs = tuple(zip(first.tolist(), second.tolist(), strict=True))
    difference = np.zeros((n, n))
    difference[first, second] = compare_pairs(one, pairs).exposure.error ** 2
    return MeasuredError(
        exposure=exposed.null_variance,
        difference=difference + difference.T,
        people=PEOPLE_PARTS.get(one.proxy.scale, people_part),
        largest=np.full(n, min(1.0, one.proxy.scale.largest)),
        n_people=exposed.n,
        n_splits=one.panel.n_splits,
    )


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
