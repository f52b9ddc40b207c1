"""What does choosing among settings cost in privacy?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Literal, cast

import numpy as np

from pcer.deciding.candidates import Candidate
from pcer.files import Record
from pcer.metrics import FloatArray
from pcer.renyi import ORDERS, epsilon_of, sampled_gaussian
from pcer.wording import say

SHAPES: Final = tuple(k / 10 for k in range(11))  # eta of the negative binomial law
JOINT: Final = (
    "epsilon_of_the_private_models"  # of all models of a release, as it says itself
)
Law = Literal["poisson", "negative_binomial"]  # of the number of runs


class Price(Record):
    """What reading and choosing cost, by Renyi divergences; None: no promise, or not known.

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


def price_of(settings: Sequence[Candidate]) -> Price:
    """Costs of all models that were read, and of a fresh private selection."""
    private = [each for each in settings if each.epsilon is not None]
    counts = [len(each.panel.seeds) for each in private]
    k = len(private)
    n_models = sum(len(each.panel.seeds) for each in settings)
    n_without = n_models - sum(counts)
    together = None
    fresh = cast(Any, (None, None, None))
    known = [each for each in map(_divergence, private) if each is not None]
    delta = min((delta for _, delta in known), default=None)
    if delta is not None and len(known) == k:
        one = np.array([each for each, _ in known])
        if not n_without:  # as the release says, but no less than its own noise allows
            stated = cast(Any, settings[0].release.training.joint_privacy).get(JOINT)
            together = float(epsilon_of(np.array(counts) @ one, dp_delta=delta))
            together = max(
                together, float(stated if isinstance(stated, int | float) else 0.0)
            )
        if k > 1:
            fresh = selection_epsilon(one.max(axis=0), mean=k, dp_delta=delta)
    form = (
        "no_promise" if n_without else "not_known" if together is None else "together"
    )
    facts = {"n": n_models, "others": n_without, "delta": f"{delta or 0:g}", "k": k}
    sentences = [say("recommend", form, epsilon=f"{together or 0:.3g}", **facts)]
    if fresh[0] is not None:
        law = say("recommend", fresh[1], eta=f"{fresh[2] or 0:g}", k=k)
        sentences.append(
            say("recommend", "fresh", epsilon=f"{fresh[0]:.3g}", law=law, **facts)
        )
    fields: dict[str, Any] = dict(zip(("fresh", "law", "eta"), fresh, strict=True))
    fields |= {"together": together, "n_models": n_models, "n_without": n_without}
    return Price(**fields, mean_runs=k, dp_delta=delta, sentences=sentences)


def _divergence(setting: Candidate) -> tuple[FloatArray, float] | None:
    """One training's divergence and delta; None where the release does not say all it takes."""
    joint: Any = setting.release.training.joint_privacy
    own = setting.model, setting.epsilon
    noises: Any = {
        x.noise_multiplier for x in setting.release.runs if (x.model, x.epsilon) == own
    }
    try:
        steps = joint["trainings"][setting.model or ""]
        delta = joint["dp_delta"]
        (noise,) = noises
        rate = steps["sample_rate"]
        n = steps["n_steps"]
        is_one = (
            0.01 <= noise <= 1e6 and 0 < rate <= 1 <= n <= 1e9 and 0 < delta < 1
        )  # a training
        return (
            (n * sampled_gaussian(np.array([noise]), rate)[0], delta)
            if is_one
            else None
        )
    except (KeyError, TypeError, ValueError):  # any JSON may stand there
        return None


def selection_epsilon(
    divergence: FloatArray, *, mean: float, dp_delta: float
) -> tuple[float, Law, float | None]:
    """Epsilon of the best of a random number of runs, the law that costs least, and its eta.

    Papernot and Steinke (2022): Theorem 6 (Poisson) and Theorem 2 (truncated negative
    binomial, eta from 0 to 1). Other runs stay secret, and the score is public or
    within the divergence.
    """
    from scipy.optimize import brentq

    once = divergence + math.log(mean) / (ORDERS - 1)
    laws = list[tuple[float, Law, float | None]]()
    # Theorem 6 takes the delta of one run at this epsilon, for each order.
    hat = np.log1p(1 / (ORDERS - 1))[:, None]
    log_delta = (ORDERS - 1) * (divergence - hat + np.log1p(-1 / ORDERS)) - np.log(
        ORDERS
    )
    apart = (
        np.log(np.maximum(-np.expm1(-divergence), math.ulp(0.0))) / 2
    )  # by total variation
    delta = np.exp(np.minimum(np.minimum(log_delta, apart).min(axis=1), 0.0))
    laws.append(
        (float(epsilon_of(once + mean * delta, dp_delta=dp_delta)), "poisson", None)
    )
    for eta in SHAPES:

        def beyond(log_gamma: float, eta: float = eta) -> float:
            spread = -log_gamma if eta == 0 else -math.expm1(eta * log_gamma) / eta
            return math.expm1(-log_gamma) / spread - mean

        log_gamma = brentq(beyond, -50.0, -1e-9)
        more = (1 + eta) * ((1 - 1 / ORDERS) * divergence - log_gamma / ORDERS).min()
        cost = float(epsilon_of(once + more, dp_delta=dp_delta))
        laws.append((cost, "negative_binomial", eta))
    return min(laws, key=lambda law: law[0])
