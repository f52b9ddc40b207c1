"""What did our run measure, and how would it have been with other seeds?

The view of our run that claims are put to; made by ``ledger``, once for each reading of
Adult, and by ``facts``. To add a question: a method of ``View`` (views.py), answered
here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pcer.auditing.record import Audit, GroupResult, PairResult, SettingResult
from pcer.errors import InputError
from pcer.metrics import FloatArray
from pcer.paper.rankings import EqualGapClaim, comparisons
from pcer.release.file import Release
from pcer.release.panel import Panel
from pcer_studies.claims.views import (
    COUNTED,
    N_DRAWS,
    View,
    budget_in_error,
    known,
    normal_draws,
    stream_of,
)
from pcer_studies.numbers import our_number, study_seeds
from pcer_studies.protocol import DEFAULT_FLOOR, Configuration
from pcer_studies.published import FigureKey, NotThere, key_at
from pcer_studies.results import GAP, Study

LEAST_SEEDS = 2
LEAST_VARIANCE = 1e-18
"""A variance over seeds below this is taken for this where one divides by it."""


class OurRun(View):
    """What our run measured, by the audit with the overfitting gap."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.n_seeds = max(map(_n_seeds, study.releases.values()))

    def drawn(self, key: FigureKey) -> FloatArray:
        """Mean over the seeds, then over seeds drawn with replacement."""
        return self.study.keep(("drawn", key), lambda: self._drawn(key))

    def _drawn(self, key: FigureKey) -> FloatArray:
        if key.quantity not in COUNTED:
            return self._resampled(key, self.of_seeds(key))
        disparity = self.of_seeds(replace(key, quantity="pcer_disparity"))
        sign = 1.0 if key.quantity == "n_positive_seeds" else -1.0
        is_counted = sign * disparity > 0
        return self._resampled(key, is_counted.astype(np.float64)) * len(disparity)

    def spread(
        self,
        configuration: Configuration,
        epsilon: float,
        quantity: str = "pcer_disparity",
        floor: float = DEFAULT_FLOOR,
    ) -> FloatArray:
        """Over the same draws of seeds: sqrt((mean(v²) - mean(v)²) n / (n - 1))."""
        key = key_at(configuration, epsilon, quantity, floor=floor)
        values = self.of_seeds(key)
        n = len(values)
        mean_square = self._resampled(key, np.square(values))
        variance = mean_square - self._resampled(key, values) ** 2
        return np.asarray(np.sqrt(np.maximum(variance, 0) * n / (n - 1)))

    def interval(
        self, configuration: Configuration, epsilon: float, floor: float = DEFAULT_FLOOR
    ) -> tuple[float, float]:
        """By the audit's bootstrap over seeds."""
        self.setting(configuration, epsilon)
        key = key_at(configuration, epsilon, "pcer_disparity", floor=floor)
        return known(our_number(self.study, key).ci, "an interval", configuration)

    def of_seeds(self, key: FigureKey) -> FloatArray:
        """(seed,) what single models give."""
        configuration = known(key.configuration, "a configuration", None)
        self.setting(configuration, key.budgets[0])
        try:
            values = study_seeds(
                self.study,
                configuration,
                key.budgets[0],
                key.quantity,
                group=key.group,
                floor=DEFAULT_FLOOR if key.floor is None else key.floor,
            )
        except InputError as error:
            raise NotThere(str(error)) from None
        if len(values) < LEAST_SEEDS:
            raise NotThere(f"an error (one seed) of {configuration.name} is not there")
        if not np.isfinite(values).all():
            quantity = key.quantity.replace("_", " ")
            raise NotThere(f"the {quantity} of {configuration.name} is not there")
        return values

    def _resampled(self, key: FigureKey, values: FloatArray) -> FloatArray:
        """(1 + draws,) a mean over seeds, then over seeds drawn with replacement."""
        dataset = known(key.configuration, "a configuration", None).dataset
        n = len(values)
        weights = self.study.keep(
            ("weights", dataset, n), lambda: _seed_weights(dataset, n)
        )
        return np.concatenate([[values.mean()], weights @ values])

    def noise_level(
        self, configuration: Configuration, epsilon: float, group: int
    ) -> float:
        """Mean of the gaps that splits like ours would give without memorisation."""
        null_gap = self.group(configuration, epsilon, group).null_gap
        mean = None if null_gap is None else null_gap.mean
        return known(mean, "the noise level", configuration)

    def base_rate(
        self, configuration: Configuration, epsilon: float, group: int
    ) -> FloatArray:
        """(1 + draws,) share of positive labels among a group's test records."""
        panel = self.panel(configuration, epsilon)
        if panel.test is None:
            raise NotThere(f"our release of {configuration.title} has no labels")
        n_positive = panel.test.tp + panel.test.fn
        shares = np.asarray(n_positive / panel.n_test, dtype=np.float64)
        key = key_at(configuration, epsilon, "accuracy")
        return self._resampled(key, shares[:, group])

    def steadiness(
        self, configuration: Configuration, epsilon: float, group: int, quantity: str
    ) -> FloatArray:
        """(1 + draws,) a group's mean exposure over its deviation over seeds."""
        name = configuration.groups[group]
        key = key_at(configuration, epsilon, quantity, group=name)
        values = self.of_seeds(key)
        mean = self._resampled(key, values)
        variance = self._resampled(key, values**2) - mean**2
        return np.asarray(mean / np.sqrt(np.maximum(variance, LEAST_VARIANCE)))

    def measured(
        self, configuration: Configuration, epsilon: float, group: int, attack_name: str
    ) -> FloatArray:
        """(1 + draws,) what the audit makes of a group's exposure, with its error."""
        exposure = self.group(configuration, epsilon, group, attack_name).exposure
        attack = attack_name.replace("_", " ")
        value = known(exposure.value, f"the {attack}", configuration)
        error = known(exposure.standard_error, f"the error of {attack}", configuration)
        stream = f"{attack_name}|{configuration.name}|{epsilon}|{group}"
        return normal_draws(value, error, stream)

    def stands_out(
        self, configuration: Configuration, epsilon: float, group: int
    ) -> bool:
        """Detected by the audit."""
        return self.group(configuration, epsilon, group).detected

    def disparity_is_evidence(
        self, configuration: Configuration, epsilon: float
    ) -> bool:
        """The audit finds that the ratio differs, with the disparity's sign."""
        pair = self.pair(configuration, epsilon)
        lower = pair.groups[1 if self.disparity(configuration, epsilon)[0] > 0 else 0]
        return pair.ratio.answer == "differs" and pair.ratio.group == lower

    def exposures_differ(self, configuration: Configuration, epsilon: float) -> bool:
        """The audit refutes equal exposures, in the direction of the mean gaps."""
        claim = self._equal_gap_claim(configuration, epsilon)
        first = self.gap(configuration, epsilon, 0)
        second = self.gap(configuration, epsilon, 1)
        difference = float((first - second)[0])
        return claim.refuted and claim.exposure_difference * difference > 0

    def _equal_gap_claim(
        self, configuration: Configuration, epsilon: float
    ) -> EqualGapClaim:
        """The audit's test of equal exposures at a budget."""
        for claim in comparisons(self.audit(configuration))[0].equal_gap_claims:
            if claim.epsilon == self.setting(configuration, epsilon).epsilon:
                return claim
        raise NotThere(
            f"a test of equal exposures of {configuration.name} is not there"
        )

    def release(self, configuration: Configuration) -> Release:
        """The release of a configuration."""
        self._require(configuration)
        return self.study.release(configuration.dataset, configuration.attribute)

    def audit(self, configuration: Configuration, attack_name: str = GAP) -> Audit:
        """The audit of a configuration."""
        self._require(configuration)
        if attack_name != GAP and attack_name not in _attacks(
            self.release(configuration)
        ):
            attack = attack_name.replace("_", " ")
            raise NotThere(f"our release of {configuration.name} carries no {attack}")
        return self.study.audit(
            configuration.dataset, configuration.attribute, attack=attack_name
        )

    def _require(self, configuration: Configuration) -> None:
        if not self.study.has(configuration.dataset, configuration.attribute):
            raise NotThere(f"the study has no {configuration.name}")

    def carries(self, configuration: Configuration, attack: str) -> bool:
        """Whether the release of a configuration carries this attack."""
        if not self.study.has(configuration.dataset, configuration.attribute):
            return False
        return attack in _attacks(self.release(configuration))

    def setting(
        self, configuration: Configuration, epsilon: float, attack: str = GAP
    ) -> SettingResult:
        """One budget of it."""
        for setting in self.audit(configuration, attack).settings:
            if setting.budget == epsilon:
                return setting
        budget_name = budget_in_error(epsilon)
        raise NotThere(
            f"our release of {configuration.name} has no models at {budget_name}"
        )

    def group(
        self,
        configuration: Configuration,
        epsilon: float,
        group: int,
        attack: str = GAP,
    ) -> GroupResult:
        """One group at a budget."""
        name = configuration.groups[group]
        return self.setting(configuration, epsilon, attack).groups[name]

    def pair(
        self, configuration: Configuration, epsilon: float, attack: str = GAP
    ) -> PairResult:
        """The two groups at a budget."""
        return self.setting(configuration, epsilon, attack).pairs[0]

    def panel(self, configuration: Configuration, epsilon: float) -> Panel:
        """All models of a budget as arrays."""
        self.setting(configuration, epsilon)
        return self.study.panel(configuration.dataset, configuration.attribute, epsilon)


def _n_seeds(release: Release) -> int:
    return len({run.seed for run in release.runs})


def _seed_weights(dataset: str, n: int) -> FloatArray:
    """(draws, seed) shares of seeds drawn with replacement.

    Attributes and budgets of a dataset share them, as they share their splits.
    """
    stream = stream_of(dataset)
    return np.asarray(stream.multinomial(n, np.full(n, 1 / n), size=N_DRAWS) / n)


def _attacks(release: Release) -> set[str]:
    """Every attack that a release carries, of all models together or of each."""
    pooled = {row.attack for row in release.pooled_exposure}
    groups = release.runs[0].groups.values()
    return pooled.union(*(group.exposure for group in groups))
