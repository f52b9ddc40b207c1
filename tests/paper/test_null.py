"""No statement where no group differs: 200 releases of every kind; power elsewhere.

``benchmarks/alarms.py`` (nulls, audits) runs thousands and prints the rates.
"""

import numpy as np
import pytest
from benchmarks import alarms
from benchmarks.worlds.nulls import KINDS, unequal_rates

import pcer
from tests.worlds.people import draw_null

N = 200
PLAN = pcer.Plan(resamples=1, null_draws=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, alarms.UNEQUAL, alarms.FAMILY])
def test_no_kind_of_null_alarms_more_than_five_of_a_hundred(kind):
    """Remembered alike at unequal rates: exposures do not differ, but outcomes do."""
    worlds = {**KINDS, alarms.UNEQUAL: unequal_rates, alarms.FAMILY: None}
    found = alarms.run(kind, worlds[kind], N, seed=14)
    for what, is_false in alarms.false_shares(kind, found).items():
        assert alarms.chance(int(is_false.sum()), N) >= alarms.BAR, what
    assert kind != alarms.UNEQUAL or (found[:, [1, 3]].mean(axis=0) > 0.1).all()


def test_what_is_counted_is_what_whole_audits_say():
    """An audit alarms only where the quick way does, also with splits by person."""
    rng = np.random.default_rng(5)
    agree = 0
    for draw in [*KINDS.values(), unequal_rates, unequal_rates, unequal_rates]:
        drawn = draw(rng)
        alarm = alarms.put_to(drawn, PLAN)
        audit = pcer.audit(drawn.release(), PLAN)
        said = set()
        for setting in audit.settings:
            for pair in setting.pairs:
                said |= set(pair.statements)
        alarmed = {what for what, is_raised in alarm._asdict().items() if is_raised}
        assert said & set(alarm._asdict()) <= alarmed
        agree += alarmed <= said
    assert agree >= len(KINDS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exposure", "n_splits", "n", "least"), [(0.03, 1, 200, 0.8), (0.005, 50, 20, 0.7)]
)
def test_a_memorising_group_is_detected_as_by_the_exact_test(
    exposure, n_splits, n, least
):
    rng = np.random.default_rng(22)
    detected = []
    for _ in range(n):
        drawn = draw_null(alarms.planted(exposure, n_splits, 1), rng)
        found = alarms.evidence_of(drawn, PLAN).detected
        assert (found == alarms.exact_detected(drawn)).all()
        detected.append(found[0, 0])
    assert np.mean(detected) >= least


TRUE_WORDS = ("random", "by label", "by both")
FALSE_WORDS = (
    "one random split, 2 names",
    "one split by label, 3 names",
    "drift from .2, 1 split",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TRUE_WORDS, *FALSE_WORDS])
def test_false_words_about_splits_cap_the_whole_audit_and_true_ones_none(name):
    if name in TRUE_WORDS:
        assert (
            alarms.capped_share(alarms.TRUE[name], 25, np.random.default_rng(7)) <= 0.04
        )
    else:
        assert (
            alarms.capped_share(alarms.FALSE[name], 20, np.random.default_rng(8)) >= 0.9
        )
