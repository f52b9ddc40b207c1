"""What does choosing among settings cost in privacy?

Called by ``recommend``. Two costs, by Renyi divergences: of reading all models that
were compared, and of a fresh private selection over the private settings, which is a
plan and no promise about the choice that was made. To add a law of the number of runs:
its name in ``Law``, and a function as ``_poisson``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from pcer.deciding.candidates import Candidate
from pcer.files import Record
from pcer.metrics import FloatArray
from pcer.renyi import ORDERS, epsilon_of, sampled_gaussian
from pcer.wording import SettingName, say

SHAPES: Final = tuple(k / 10 for k in range(11))  # eta of the negative binomial law
# Epsilon of all models of a release, as it says itself.
JOINT: Final = "epsilon_of_the_private_models"
Law = Literal["poisson", "negative_binomial"]  # of the number of runs


class Price(Record):
    """What reading and choosing cost, by Renyi divergences.

    None stands for a cost that has no promise, or that is not known.

    Attributes:
        together: epsilon of all models that were read, ``n_without`` of them not
            private.
        fresh: epsilon of a fresh private selection over the private settings: runs with
            a setting drawn at random each, their number drawn by the law, ``mean_runs``
            on average.
    """

    together: float | None
    n_models: int
    n_without: int
    fresh: float | None
    law: Law | None
    eta: float | None
    mean_runs: int
    dp_delta: float | None
    sentences: list[str]


class Training(NamedTuple):
    """What one training of a setting costs."""

    divergence: FloatArray  # (order,)
    dp_delta: float


class Selection(NamedTuple):
    """What the best of a random number of runs costs, and the law of that number."""

    epsilon: float
    law: Law
    eta: float | None  # None for Poisson, which has none


def price_of(settings: Sequence[Candidate]) -> Price:
    """Costs of all models that were read, and of a fresh private selection."""
    private = [setting for setting in settings if setting.epsilon is not None]
    n_models = _n_models(settings)
    n_without = n_models - _n_models(private)
    known = [training for training in map(_training, private) if training is not None]
    dp_delta = min((training.dp_delta for training in known), default=None)
    together = None
    fresh = None
    if dp_delta is not None and len(known) == len(private):
        divergences = np.array([training.divergence for training in known])
        if n_without == 0:
            together = _together(private, divergences, dp_delta)
        if len(private) > 1:
            fresh = selection_epsilon(
                divergences.max(axis=0), mean=len(private), dp_delta=dp_delta
            )
    price = Price(
        fresh=None if fresh is None else fresh.epsilon,
        law=None if fresh is None else fresh.law,
        eta=None if fresh is None else fresh.eta,
        together=together,
        n_models=n_models,
        n_without=n_without,
        mean_runs=len(private),
        dp_delta=dp_delta,
        sentences=[],
    )
    return price.model_copy(update={"sentences": _sentences(price)})


def _n_models(settings: Iterable[Candidate]) -> int:
    return sum(_n_trained(setting) for setting in settings)


def _n_trained(setting: Candidate) -> int:
    """Models of a setting: those of the release, and repeats that show noise."""
    noise = setting.panel.training_noise.values()
    n_repeats = max((row.degrees_of_freedom for row in noise), default=0)
    return len(setting.panel.seeds) + n_repeats


def _together(
    private: Sequence[Candidate], divergences: FloatArray, dp_delta: float
) -> float:
    """Epsilon of all models: as the release says, but no less than its noise allows."""
    n_models = np.array([_n_trained(setting) for setting in private])
    by_noise = float(epsilon_of(n_models @ divergences, dp_delta=dp_delta))
    joint: Any = private[0].release.training.joint_privacy
    stated = joint.get(JOINT)
    return max(by_noise, float(stated) if isinstance(stated, int | float) else 0.0)


def _sentences(price: Price) -> list[str]:
    """The costs in words."""
    if price.n_without:
        form = "no_promise"
    elif price.together is None:
        form = "not_known"
    else:
        form = "together"
    delta = f"{price.dp_delta or 0:g}"
    sentences = [
        say(
            "recommend",
            form,
            n=price.n_models,
            others=price.n_without,
            epsilon=f"{price.together or 0:.3g}",
            delta=delta,
        )
    ]
    if price.fresh is not None:
        k = price.mean_runs
        law = say("recommend", str(price.law), eta=f"{price.eta or 0:g}", k=k)
        fresh = f"{price.fresh:.3g}"
        sentences.append(
            say("recommend", "fresh", k=k, epsilon=fresh, delta=delta, law=law)
        )
    return sentences


def _training(setting: Candidate) -> Training | None:
    """One training's cost; None where the release does not say all that it takes."""
    release = setting.release
    joint: Any = release.training.joint_privacy
    noises: Any = {
        run.noise_multiplier
        for run in release.runs
        if SettingName(run.model, run.epsilon) == setting.name
    }
    try:
        steps = joint["trainings"][setting.model or ""]
        delta = joint["dp_delta"]
        (noise,) = noises
        rate = steps["sample_rate"]
        n = steps["n_steps"]
        is_a_training = (
            0.01 <= noise <= 1e6 and 0 < rate <= 1 <= n <= 1e9 and 0 < delta < 1
        )
        if not is_a_training:
            return None
        return Training(n * sampled_gaussian(np.array([noise]), rate)[0], delta)
    except (KeyError, TypeError, ValueError):  # any JSON may stand there
        return None


def selection_epsilon(
    divergence: FloatArray, *, mean: float, dp_delta: float
) -> Selection:
    """The best of a random number of runs, by the law that costs least.

    Papernot and Steinke (2022), "Hyperparameter tuning with Renyi differential
    privacy". Theorem 6 is of a Poisson number of runs, Theorem 2 of a truncated
    negative binomial one with eta from 0 to 1. Other runs stay secret, and the score is
    public or within the divergence.

    Args:
        divergence: (order,) of one run at ``ORDERS``.
        mean: expected number of runs, above 1.
        dp_delta: of the whole selection.
    """
    laws = [_poisson(divergence, mean, dp_delta)]
    for eta in SHAPES:
        laws.append(_negative_binomial(divergence, mean, dp_delta, eta))
    return min(laws, key=lambda law: law.epsilon)


def _poisson(divergence: FloatArray, mean: float, dp_delta: float) -> Selection:
    """Theorem 6: ``once + mean * delta``, with ``once = d(a) + log(mean) / (a - 1)``.

    The delta is that of one run at epsilon ``hat = log(1 + 1 / (a - 1))``: the least
    over orders b of ``exp((b - 1) (d(b) - hat)) (1 - 1 / b)**(b - 1) / b``, or of the
    bound of the total variation, ``sqrt(1 - exp(-d(b)))``.
    """
    once = divergence + math.log(mean) / (ORDERS - 1)
    hat = np.log1p(1 / (ORDERS - 1))[:, None]  # (a, 1)
    log_delta = (ORDERS - 1) * (divergence - hat + np.log1p(-1 / ORDERS)) - np.log(
        ORDERS
    )
    log_variation = np.log(np.maximum(-np.expm1(-divergence), math.ulp(0.0))) / 2
    least = np.minimum(log_delta, log_variation).min(axis=1)
    delta = np.exp(np.minimum(least, 0.0))
    epsilon = float(epsilon_of(once + mean * delta, dp_delta=dp_delta))
    return Selection(epsilon, "poisson", None)


def _negative_binomial(
    divergence: FloatArray, mean: float, dp_delta: float, eta: float
) -> Selection:
    """Theorem 2: ``once + (1 + eta) min_a ((1 - 1 / a) d(a) - log(gamma) / a)``.

    Gamma is the parameter with which the law has this mean: ``(1 / gamma - 1) /
    spread``, where ``spread = (1 - gamma**eta) / eta``, or ``-log(gamma)`` at eta 0.
    """
    from scipy.optimize import brentq

    def excess_mean(log_gamma: float) -> float:
        spread = -log_gamma if eta == 0 else -math.expm1(eta * log_gamma) / eta
        return math.expm1(-log_gamma) / spread - mean

    log_gamma = brentq(excess_mean, -50.0, -1e-9)
    once = divergence + math.log(mean) / (ORDERS - 1)
    more = (1 + eta) * ((1 - 1 / ORDERS) * divergence - log_gamma / ORDERS).min()
    epsilon = float(epsilon_of(once + more, dp_delta=dp_delta))
    return Selection(epsilon, "negative_binomial", eta)
