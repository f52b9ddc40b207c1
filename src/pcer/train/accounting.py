"""How much noise keeps a privacy budget, and how much privacy does some noise spend?

DP-SGD composes n_steps Gaussian mechanisms on Poisson samples; both adjacencies of
``TrainConfig`` give the same pair of mechanisms. Every epsilon is an upper bound, and
every noise multiplier is rounded up, so that the budget holds. A calibration takes
seconds and is cached, one small file per question, checked again when it is read.

``fleet.calibrated`` calibrates the budgets of a training; the sweep asks for epsilons
of groups and of all models together. To add an accountant: a member of
``config.Accountant``, and its function in ``_ESTIMATES``.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from pcer.errors import InputError, OutputError
from pcer.files import cache_folder, canonical_json, read_json, write_files
from pcer.metrics import FloatArray
from pcer.store.blocks import file_digest, is_sealed, record_digest, sealed
from pcer.train.config import NO_DP, Accountant, Sampling, TrainConfig, require_budget

# Grid of privacy losses, and as a share of epsilon: 1e-3 is visibly wrong at epsilon
# 0.1; above epsilon 10 a finer grid gains nothing.
PLD_INTERVAL = 1e-4
PLD_RELATIVE_INTERVAL = 1e-5
COARSE = 100  # how much coarser the grid is that finds a starting point
COARSE_ERROR = 0.01  # share of the budget by which a coarse answer may exceed it

# Share of epsilon (at most 0.01, Opacus' default) that Opacus may add as its error
# bound.
PRV_ERROR = 0.01
NOISE_STEPS = 1000  # a noise multiplier is a whole number of thousandths

# Noise multipliers that are searched, and for which an epsilon can be computed.
SMALLEST_SEARCHED = 0.05
LARGEST_SEARCHED = 1e5
SMALLEST_NOISE = 0.01
LARGEST_NOISE = 1e6

CACHE_FORMAT = {"format": "pcer-calibration", "version": 1}
MAX_CACHE_BYTES = 10_000
# Whose versions a calibration depends on.
PACKAGES = ("dp-accounting", "numpy", "opacus", "scipy")


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


class _Training(NamedTuple):
    """What an accountant composes, and the delta at which it gives the epsilon."""

    sampling: Sampling
    noise_multiplier: float
    dp_delta: float


@dataclass(frozen=True)
class _Question:
    """What is asked of a calibration: the least noise that keeps an epsilon."""

    epsilon: float
    sampling: Sampling
    dp_delta: float
    accountant: Accountant  # chooses the noise

    @property
    def accountants(self) -> tuple[Accountant, Accountant]:
        """The accountant that chooses the noise, and a second one."""
        is_pld = self.accountant is Accountant.PLD
        second = Accountant.RDP if is_pld else Accountant.PLD
        return self.accountant, second

    def training(self, noise_multiplier: float) -> _Training:
        return _Training(self.sampling, noise_multiplier, self.dp_delta)

    def to_dict(self) -> dict[str, Any]:
        """All that the answer depends on, this file and its packages included."""
        versions = {name: version(name) for name in PACKAGES}
        return {
            "epsilon": self.epsilon,
            **asdict(self.sampling),
            "dp_delta": self.dp_delta,
            "accountants": [str(accountant) for accountant in self.accountants],
            "method": file_digest(Path(__file__)),
            "versions": versions,
        }


def calibrate(epsilon: float, *, n_train: int, config: TrainConfig) -> Budget:
    """The least noise, in thousandths, that keeps a budget on ``n_train`` records."""
    require_budget(epsilon)
    if epsilon == NO_DP:
        return Budget(epsilon=NO_DP, noise_multiplier=0.0, epsilon_by_accountant={})
    sampling = config.sampling(n_train)
    question = _Question(float(epsilon), sampling, config.dp_delta, config.accountant)
    return replace(_calibrated(question), epsilon=epsilon)


def epsilon_spent(
    noise_multiplier: float,
    *,
    n_train: int,
    config: TrainConfig,
    accountant: Accountant,
) -> float:
    """Upper bound of the epsilon that a training with this noise spends.

    At the config's ``dp_delta``, when training on ``n_train`` records.
    """
    sampling = config.sampling(n_train)
    training = _Training(sampling, noise_multiplier, config.dp_delta)
    return _spent(training, 1.0, accountant)


def promised(
    budget: Budget,
    shares: FloatArray | None,
    *,
    n_train: int,
    config: TrainConfig,
    by: str,
) -> FloatArray | None:
    """Upper bounds of the records' epsilons (record,) under the shares of a rule.

    A record clipped at a share c of the clip norm, and sampled at a share s of the rate
    q, sees noise of sigma / c, sigma being the budget's noise multiplier, at the rate
    s q. ``shares`` (2, record) holds c and s, and is None where the rule settles none.
    """
    if shares is None:
        return None
    pairs, pair_of_record = np.unique(shares, axis=1, return_inverse=True)
    sampling = config.sampling(n_train)
    epsilons = []
    for clip, share in pairs.T.tolist():
        noise = budget.noise_multiplier / clip
        training = _Training(replace(sampling, share=share), noise, config.dp_delta)
        epsilons.append(_spent(training, budget.epsilon, Accountant(by)))
    return np.array(epsilons)[pair_of_record.ravel()]


def joint_epsilon(
    models: Sequence[tuple[float, TrainConfig]], *, n_train: int
) -> float:
    """Upper bound of the epsilon of releasing models trained on overlapping records.

    Renyi composition of their noise multipliers and settings (of one delta), as if
    every record were in every training set.
    """
    if not models:
        return 0.0
    repeats = Counter((noise, config.sampling(n_train)) for noise, config in models)
    events = []
    for (noise, sampling), n_models in repeats.items():
        events.append(_event(sampling, noise, n_models))
    _, first_config = models[0]
    return _renyi_epsilon(events, first_config.dp_delta)


@lru_cache(maxsize=1024)
def _calibrated(question: _Question) -> Budget:
    cached = _cached_answer(question)
    if cached is not None and _keeps_budget(cached, question):
        return cached

    noise = _least_noise(question)
    training = question.training(noise)
    spent = {
        str(accountant): _spent(training, question.epsilon, accountant)
        for accountant in question.accountants
    }
    answer = Budget(
        epsilon=question.epsilon, noise_multiplier=noise, epsilon_by_accountant=spent
    )
    # Without a writable folder everything takes longer.
    with suppress(OSError, OutputError):
        path = _cache_path(question)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_files({path: canonical_json(_cache_record(question, answer))})
    return answer


def _cache_path(question: _Question) -> Path:
    name = f"{record_digest(question.to_dict())[:32]}.json"
    return cache_folder() / "calibrations" / name


def _cached_answer(question: _Question) -> Budget | None:
    """None unless the question's file is complete and answers exactly it."""
    try:
        record = read_json(_cache_path(question), max_bytes=MAX_CACHE_BYTES)
        if not is_sealed(record) or record["question"] != question.to_dict():
            return None
        noise = record["answer"]["noise_multiplier"]
        spent = record["answer"]["epsilon"]
        numbers = [noise, *spent.values()]
    except (InputError, KeyError, TypeError, AttributeError):
        return None
    if not all(isinstance(x, float) and math.isfinite(x) and x > 0 for x in numbers):
        return None
    return Budget(
        epsilon=question.epsilon, noise_multiplier=noise, epsilon_by_accountant=spent
    )


def _cache_record(question: _Question, answer: Budget) -> dict[str, Any]:
    kept = {
        "noise_multiplier": answer.noise_multiplier,
        "epsilon": dict(answer.epsilon_by_accountant),
    }
    return sealed({**CACHE_FORMAT, "question": question.to_dict(), "answer": kept})


def _keeps_budget(answer: Budget, question: _Question) -> bool:
    """Check a cached answer by a coarse grid, whose bound may be a little above."""
    if tuple(answer.epsilon_by_accountant) != question.accountants:
        return False
    training = question.training(answer.noise_multiplier)
    spent = _pld(training, answer.epsilon, COARSE)
    is_kept = answer.epsilon_by_accountant[question.accountant] <= answer.epsilon
    return is_kept and spent <= answer.epsilon * (1 + COARSE_ERROR)


def _least_noise(question: _Question) -> float:
    """The least noise, in thousandths, that keeps the epsilon of a question."""
    epsilon = question.epsilon
    estimate = _ESTIMATES[question.accountant]

    def roughly_spent(noise: float) -> float:
        return estimate(question.training(noise), epsilon, COARSE)

    def spent(thousandths: int) -> float:
        training = question.training(thousandths / NOISE_STEPS)
        return _spent(training, epsilon, question.accountant)

    thousandths = math.ceil(_rough_noise(roughly_spent, epsilon) * NOISE_STEPS)
    while spent(thousandths) > epsilon:
        thousandths += 1
    while thousandths > 1 and spent(thousandths - 1) <= epsilon:
        thousandths -= 1
    return thousandths / NOISE_STEPS


def _rough_noise(spent: Callable[[float], float], epsilon: float) -> float:
    """Solve spent(noise) = epsilon roughly; ``spent`` decreases with the noise."""
    low = high = 1.0
    while spent(high) > epsilon:
        low = high
        high = 2 * high
        if high > LARGEST_SEARCHED:
            raise InputError(
                f"No noise multiplier up to {LARGEST_SEARCHED:g} keeps epsilon "
                f"{epsilon!r}; ask for a larger epsilon."
            )
    while low == high or spent(low) <= epsilon:
        high = low
        low = low / 1.5
        if low < SMALLEST_SEARCHED:
            return high
    return float(brentq(lambda s: math.log(spent(s) / epsilon), low, high, xtol=1e-4))


@lru_cache(maxsize=4096)
def _spent(
    training: _Training, expected_epsilon: float, accountant: Accountant
) -> float:
    """Upper bound of an epsilon; errors are kept small beside ``expected_epsilon``."""
    return _ESTIMATES[accountant](training, expected_epsilon, 1)


def _pld(training: _Training, expected_epsilon: float, coarseness: int) -> float:
    """By privacy loss distributions of dp-accounting, on a grid of losses."""
    from dp_accounting.pld import PLDAccountant

    interval = max(PLD_INTERVAL, PLD_RELATIVE_INTERVAL * expected_epsilon * coarseness)
    accountant = PLDAccountant(value_discretization_interval=interval)
    accountant.compose(_event(training.sampling, training.noise_multiplier))
    return float(accountant.get_epsilon(training.dp_delta))


def _rdp(training: _Training, expected_epsilon: float, coarseness: int) -> float:
    """By Renyi divergences of dp-accounting, which have no grid."""
    event = _event(training.sampling, training.noise_multiplier)
    return _renyi_epsilon([event], training.dp_delta)


def _renyi_epsilon(events: Sequence[Any], dp_delta: float) -> float:
    """By Renyi composition; the log of skipped orders, which only loosen it, is off."""
    from dp_accounting.rdp import RdpAccountant

    log = logging.getLogger("absl")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        accountant = RdpAccountant()
        for event in events:
            accountant.compose(event)
        return float(accountant.get_epsilon(dp_delta))
    finally:
        log.setLevel(before)


def _prv(training: _Training, expected_epsilon: float, coarseness: int) -> float:
    """By privacy random variables of Opacus, equally exact in a rough search."""
    from opacus.accountants import PRVAccountant

    sampling = training.sampling
    noise = training.noise_multiplier
    _event(sampling, noise)  # refuses noise that no accountant can handle
    accountant = PRVAccountant()
    accountant.history = [(noise, sampling.sample_rate, sampling.n_steps)]
    error = PRV_ERROR * min(1.0, expected_epsilon)
    with warnings.catch_warnings(), np.errstate(over="ignore"):
        # Its first guess of the range warns about Renyi orders and overflows to
        # infinity.
        warnings.filterwarnings(
            "ignore", message="Optimal order is the", category=UserWarning
        )
        return float(accountant.get_epsilon(training.dp_delta, eps_error=error))


_ESTIMATES = {Accountant.PLD: _pld, Accountant.RDP: _rdp, Accountant.PRV: _prv}


def _event(sampling: Sampling, noise_multiplier: float, n_models: int = 1) -> Any:
    """All steps of ``n_models`` trainings."""
    import dp_accounting as dpa

    if not SMALLEST_NOISE <= noise_multiplier <= LARGEST_NOISE:
        raise InputError(
            "noise_multiplier must be between 0.01 and 1,000,000, where epsilons can "
            f"be computed, but {noise_multiplier!r:.60} was given.",
            field="noise_multiplier",
        )
    noise = dpa.GaussianDpEvent(noise_multiplier)
    step = dpa.PoissonSampledDpEvent(sampling.sample_rate, noise)
    return dpa.SelfComposedDpEvent(step, sampling.n_steps * n_models)
