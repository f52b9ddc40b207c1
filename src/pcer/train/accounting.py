"""From a privacy budget to a noise level, and from a noise level to the privacy it spends.

DP-SGD composes n_steps Gaussian mechanisms on Poisson samples. Neighbouring data sets
differ as ``TrainConfig.adjacency`` says: one record has a gradient of zero instead, and
their number is public; or one is added or removed, and rate, steps and divisor are
fixed. Both give the same pair of mechanisms. Every epsilon here is an upper bound, and
every noise multiplier is rounded up, so that the budget holds.

A calibration takes seconds, so its result is cached, one small file per question. A
file counts only if it is complete, unaltered and answers exactly this question, and its
noise is checked again; any other file is ignored and replaced.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

from pcer.errors import InputError, OutputError
from pcer.files import cache_folder, canonical_json, read_json, write_files
from pcer.metrics import FloatArray
from pcer.store.blocks import file_digest, record_digest, sealed
from pcer.train.config import NO_DP, Accountant, Sampling, TrainConfig, require_budget

# Grid of privacy losses, and as a share of epsilon: 1e-3 is visibly wrong at epsilon
# 0.1; above epsilon 10 a finer grid gains nothing.
PLD_INTERVAL, PLD_RELATIVE_INTERVAL = 1e-4, 1e-5
COARSE = 100  # how much coarser the grid is that finds a starting point
COARSE_ERROR = 0.01  # share of the budget by which a coarse answer may exceed it

# Share of epsilon (at most 0.01, Opacus' default) that Opacus may add as its error
# bound.
PRV_ERROR = 0.01
NOISE_STEPS = 1000  # a noise multiplier is a whole number of thousandths
NOISE_RANGE = (0.05, 1e5)  # noise multipliers that are searched

CACHE_FORMAT = {"format": "pcer-calibration", "version": 1}
MAX_CACHE_BYTES = 10_000


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A privacy budget and the noise that keeps it.

    Attributes:
        epsilon: the budget asked for; ``math.inf`` without privacy.
        noise_multiplier: standard deviation of the noise in units of the clip norm.
        epsilon_by_accountant: epsilon spent, by the accountant that chose the noise and
            by a second one; empty without privacy.
    """

    epsilon: float
    noise_multiplier: float
    epsilon_by_accountant: Mapping[str, float]


def calibrate(epsilon: float, *, n_train: int, config: TrainConfig) -> Budget:
    """The least noise, in thousandths, that keeps the budget when training on n_train records."""
    require_budget(epsilon)
    if epsilon == NO_DP:
        return Budget(epsilon=NO_DP, noise_multiplier=0.0, epsilon_by_accountant={})
    sampling = config.sampling(n_train)
    delta = config.dp_delta
    budget = _calibrated(sampling, delta, float(epsilon), config.accountant)
    return replace(budget, epsilon=epsilon)


def epsilon_spent(
    noise_multiplier: float,
    *,
    n_train: int,
    config: TrainConfig,
    accountant: Accountant,
) -> float:
    """Upper bound of the epsilon that training with this noise spends, at the config's dp_delta."""
    sampling = config.sampling(n_train)
    delta = config.dp_delta
    return _spent(sampling, delta, noise_multiplier, 1.0, accountant)


def promised(
    budget: Budget,
    shares: FloatArray | None,
    *,
    n_train: int,
    config: TrainConfig,
    by: str,
) -> FloatArray | None:
    """(record,) upper bound of epsilons, by an accountant, under shares of a rule; None if none.

    Who is clipped at a share c sees noise of 1/c times the multiplier, and a share of
    the samples.
    """
    if shares is None:
        return None
    pairs, place = np.unique(shares, axis=1, return_inverse=True)
    sampling = config.sampling(n_train)
    found = []
    for clip, share in pairs.T.tolist():
        noise = budget.noise_multiplier / clip
        own = replace(sampling, share=share)
        found.append(
            _spent(own, config.dp_delta, noise, budget.epsilon, Accountant(by))
        )
    return np.array(found)[place.ravel()]


def joint_epsilon(
    models: Sequence[tuple[float, TrainConfig]], *, n_train: int
) -> float:
    """Upper bound of the epsilon of releasing many models trained on overlapping records.

    Renyi composition over all models, each with its noise multiplier and its settings
    (of one delta): as if every record were in every training set.
    """
    from dp_accounting.rdp import RdpAccountant

    if not models:
        return 0.0
    accountant = RdpAccountant()
    alike = Counter((noise, config.sampling(n_train)) for noise, config in models)
    with _without_remarks_on_skipped_orders():
        for (noise, sampling), n_models in alike.items():
            accountant.compose(_training(sampling, noise, n_models))
        return float(accountant.get_epsilon(models[0][1].dp_delta))


@lru_cache(maxsize=1024)
def _calibrated(
    sampling: Sampling, delta: float, epsilon: float, accountant: Accountant
) -> Budget:
    """The cached answer if it is sound; else one that is computed and cached."""
    both = _accountants(accountant)
    question = {  # all that the answer depends on
        "epsilon": epsilon,
        **asdict(sampling),
        "dp_delta": delta,
        "accountants": [str(each) for each in both],
        "method": file_digest(Path(__file__)),
        "versions": {
            name: version(name)
            for name in ("dp-accounting", "numpy", "opacus", "scipy")
        },
    }
    path = cache_folder() / "calibrations" / f"{record_digest(question)[:32]}.json"
    kept = _kept_answer(path, question)
    if kept is not None and _keeps_budget(kept, sampling, delta, accountant):
        return kept
    noise = _least_noise(sampling, delta, epsilon, accountant)
    spent = {str(each): _spent(sampling, delta, noise, epsilon, each) for each in both}
    answer = Budget(
        epsilon=epsilon, noise_multiplier=noise, epsilon_by_accountant=spent
    )
    with suppress(
        OSError, OutputError
    ):  # without a writable folder everything takes longer
        path.parent.mkdir(parents=True, exist_ok=True)
        write_files({path: canonical_json(_record(question, answer))})
    return answer


def _accountants(chosen: Accountant) -> tuple[Accountant, Accountant]:
    """The accountant that chooses the noise, and the second one."""
    return chosen, Accountant.RDP if chosen is Accountant.PLD else Accountant.PLD


def _record(question: Mapping[str, Any], answer: Budget) -> dict[str, Any]:
    epsilon = dict(answer.epsilon_by_accountant)
    noise = answer.noise_multiplier
    kept = {"noise_multiplier": noise, "epsilon": epsilon}
    return sealed({**CACHE_FORMAT, "question": question, "answer": kept})


def _kept_answer(path: Path, question: Mapping[str, Any]) -> Budget | None:
    """The cached answer; None unless it is complete and answers exactly this question."""
    try:
        record = read_json(path, max_bytes=MAX_CACHE_BYTES)
        noise = record["answer"]["noise_multiplier"]
        spent = record["answer"]["epsilon"]
        numbers = [noise, *spent.values()]
    except (InputError, KeyError, TypeError, AttributeError):
        return None
    answer = Budget(
        epsilon=question["epsilon"], noise_multiplier=noise, epsilon_by_accountant=spent
    )
    is_sound = all(isinstance(x, float) and math.isfinite(x) and x > 0 for x in numbers)
    return answer if is_sound and record == _record(question, answer) else None


def _keeps_budget(
    kept: Budget, sampling: Sampling, delta: float, accountant: Accountant
) -> bool:
    """Check again that the noise of a cached answer keeps the budget.

    A privacy loss distribution on a coarse grid takes some 30 ms. It is an upper bound,
    and may lie a little above the budget.
    """
    if tuple(kept.epsilon_by_accountant) != _accountants(accountant):
        return False
    spent = _pld(sampling, delta, kept.noise_multiplier, kept.epsilon, COARSE)
    is_kept = kept.epsilon_by_accountant[str(accountant)] <= kept.epsilon
    return is_kept and spent <= kept.epsilon * (1 + COARSE_ERROR)


def _least_noise(
    sampling: Sampling, delta: float, epsilon: float, accountant: Accountant
) -> float:
    def spent(thousandths: int) -> float:
        return _spent(sampling, delta, thousandths / NOISE_STEPS, epsilon, accountant)

    estimate = _ESTIMATE[accountant]
    start = _rough_noise(
        lambda s: estimate(sampling, delta, s, epsilon, COARSE), epsilon
    )
    thousandths = math.ceil(start * NOISE_STEPS)
    while spent(thousandths) > epsilon:
        thousandths += 1
    while thousandths > 1 and spent(thousandths - 1) <= epsilon:
        thousandths -= 1
    return thousandths / NOISE_STEPS


def _rough_noise(spent: Callable[[float], float], epsilon: float) -> float:
    """Solve spent(noise) = epsilon approximately; ``spent`` decreases with the noise."""
    low = high = 1.0
    while spent(high) > epsilon:
        low = high
        high = 2 * high
        if high > NOISE_RANGE[1]:
            raise InputError(
                f"No noise multiplier up to {NOISE_RANGE[1]:g} keeps epsilon {epsilon!r}; "
                "ask for a larger epsilon."
            )
    while low == high or spent(low) <= epsilon:
        low, high = low / 1.5, low
        if low < NOISE_RANGE[0]:
            return high
    return float(brentq(lambda s: math.log(spent(s) / epsilon), low, high, xtol=1e-4))


@lru_cache(maxsize=4096)
def _spent(
    sampling: Sampling, delta: float, noise: float, scale: float, accountant: Accountant
) -> float:
    return _ESTIMATE[accountant](sampling, delta, noise, scale, 1)


def _pld(
    sampling: Sampling, delta: float, noise: float, scale: float, coarse: int
) -> float:
    from dp_accounting.pld import PLDAccountant

    interval = max(PLD_INTERVAL, PLD_RELATIVE_INTERVAL * scale * coarse)
    accountant = PLDAccountant(value_discretization_interval=interval)
    return float(accountant.compose(_training(sampling, noise)).get_epsilon(delta))


def _rdp(
    sampling: Sampling, delta: float, noise: float, scale: float, coarse: int
) -> float:
    from dp_accounting.rdp import RdpAccountant

    with _without_remarks_on_skipped_orders():
        return float(
            RdpAccountant().compose(_training(sampling, noise)).get_epsilon(delta)
        )


def _prv(
    sampling: Sampling, delta: float, noise: float, scale: float, coarse: int
) -> float:
    from opacus.accountants import PRVAccountant

    _training(sampling, noise)  # refuses noise that no accountant can handle
    accountant = PRVAccountant()
    accountant.history = [(noise, sampling.sample_rate, sampling.n_steps)]
    with warnings.catch_warnings(), np.errstate(over="ignore"):
        # Its first guess of the range warns about Renyi orders and overflows to
        # infinity.
        warnings.filterwarnings(
            "ignore", message="Optimal order is the", category=UserWarning
        )
        return float(
            accountant.get_epsilon(delta, eps_error=PRV_ERROR * min(1.0, scale))
        )


_ESTIMATE = {Accountant.PLD: _pld, Accountant.RDP: _rdp, Accountant.PRV: _prv}


def _training(sampling: Sampling, noise: float, n_models: int = 1) -> Any:
    """The event that dp-accounting composes: all steps of some trainings."""
    import dp_accounting as dpa

    if not NOISE_RANGE[0] / 5 <= noise <= 10 * NOISE_RANGE[1]:
        must = "noise_multiplier must be between 0.01 and 1,000,000, where epsilons can be computed"
        raise InputError(
            f"{must}, but {noise!r:.60} was given.", field="noise_multiplier"
        )
    step = dpa.PoissonSampledDpEvent(sampling.sample_rate, dpa.GaussianDpEvent(noise))
    return dpa.SelfComposedDpEvent(step, sampling.n_steps * n_models)


@contextmanager
def _without_remarks_on_skipped_orders() -> Iterator[None]:
    """Silence dp-accounting's log of skipped Renyi orders, which only loosen the bound."""
    log = logging.getLogger("absl")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)
