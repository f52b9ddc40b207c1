"""What is a quantity of every single model, as an array over seeds?

``numbers`` and ``agreement`` ask for what no audit holds, the claims for draws of
seeds, ``sensitivity.analysis`` for all values of a variant.

To add a quantity: a row of ``_OF_MODEL``, or of ``_OF_GROUP`` if every group has one.
"""

from __future__ import annotations

from collections.abc import Callable

from pcer import metrics
from pcer.errors import InputError
from pcer.metrics import Counts, FloatArray
from pcer.release.panel import Panel
from pcer_studies.protocol import DEFAULT_FLOOR, Configuration
from pcer_studies.results import AUC, Study

CHANCE = 0.5
"""AUC of an attack that only guesses."""


def study_seeds(
    study: Study,
    configuration: Configuration,
    epsilon: float,
    quantity: str,
    *,
    group: str | None = None,
    floor: float = DEFAULT_FLOOR,
) -> FloatArray:
    """(seed,) a quantity of a budget's models.

    Raises:
        InputError: names the release that lacks the quantity.
    """
    panel = study.panel(*configuration.key, epsilon)
    try:
        return seed_values(panel, quantity, group=group, floor=floor)
    except InputError as error:
        path = study.folder / configuration.file_name
        raise InputError(f"{path}: {error}") from None


def seed_values(
    panel: Panel,
    quantity: str,
    *,
    group: str | None = None,
    floor: float = DEFAULT_FLOOR,
) -> FloatArray:
    """(seed,) a quantity of every model.

    Args:
        panel: models of one budget.
        quantity: a name of ``_OF_MODEL``, ``_OF_GROUP`` or ``_EXPOSURES``.
        group: of which group, where the quantity is a group's.
        floor: of PCER, where the quantity is a disparity.
    """
    if quantity in _OF_GROUP:
        return _OF_GROUP[quantity](panel)[:, panel.group_names.index(str(group))]
    if quantity in _EXPOSURES:
        ratio = metrics.pcer(
            panel.positive_rate, _EXPOSURES[quantity](panel), floor=floor
        )
        return metrics.pcer_disparity(ratio)[:, 0]
    return _OF_MODEL[quantity](panel)


def _accuracy(panel: Panel) -> FloatArray:
    over_groups = (count.sum(axis=-1) for count in _test_counts(panel))
    return metrics.accuracy(Counts(*over_groups))


def _parity_gap(panel: Panel) -> FloatArray:
    return metrics.demographic_parity_gap(panel.positive_rate)


def _odds_gap(panel: Panel) -> FloatArray:
    test = _test_counts(panel)
    return metrics.equalized_odds_gap(
        metrics.true_positive_rate(test), metrics.false_positive_rate(test)
    )


def _gap(panel: Panel) -> FloatArray:
    return metrics.overfitting_gap(panel.train_accuracy, panel.test_accuracy)


def _advantage(panel: Panel) -> FloatArray:
    if AUC not in panel.exposure:
        raise InputError(
            f"no run carries {AUC}, which the paper's attack tables need; train the "
            "release with pcer reproduce or pcer train."
        )
    return panel.exposure[AUC].value


def _test_counts(panel: Panel) -> Counts:
    if panel.test is None:
        raise InputError(
            "a release without counts cannot be compared; train it with pcer."
        )
    return panel.test


_OF_MODEL: dict[str, Callable[[Panel], FloatArray]] = {
    "accuracy": _accuracy,
    "demographic_parity_gap": _parity_gap,
    "equalized_odds_gap": _odds_gap,
}
_OF_GROUP: dict[str, Callable[[Panel], FloatArray]] = {
    "overfitting_gap": _gap,
    "positive_rate": lambda panel: panel.positive_rate,
    "auc_advantage": _advantage,
    "attack_auc": lambda panel: CHANCE + _advantage(panel),
}
_EXPOSURES: dict[str, Callable[[Panel], FloatArray]] = {
    "pcer_disparity": _gap,
    "pcer_disparity_auc": _advantage,
}
"""What each disparity takes for the cost."""
