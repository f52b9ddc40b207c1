"""Who is wrongly judged: rates by hand, their own family, and who is too few."""

import numpy as np
import pytest
from scipy import stats

import pcer
from pcer.measuring.tested import run_tests
from tests import reference
from tests.auditing.made import drawn

QUICK = pcer.Plan(resamples=10, null_draws=10, attack="overfitting_gap")


def errors_by_hand(release, group, error):
    """Counted and among, (split,), of the test part."""
    rows = []
    for run in release.runs:
        test = run.groups[group].test
        cells = {
            "false_positive_rate": (test.fp, test.fp + test.tn),
            "false_negative_rate": (test.fn, test.fn + test.tp),
        }
        rows.append(cells[error])
    return np.array(rows, dtype=float).T


@pytest.mark.parametrize(
    ("outcome", "error"),
    [("harm", "false_positive_rate"), ("benefit", "false_negative_rate")],
)
def test_the_error_that_harms_is_compared_by_its_own_denominator(outcome, error):
    release = drawn((3000, 2000), (0.4, 0.5), (0.0, 0.0), rng=4, outcome=outcome)
    found = pcer.audit(release, QUICK)
    for setting in found.settings:
        (pair,) = setting.pairs
        rates = []
        for name in pair.groups:
            counted, among = errors_by_hand(
                release.model_copy(
                    update={
                        "runs": [
                            run
                            for run in release.runs
                            if run.epsilon == setting.epsilon
                        ]
                    }
                ),
                name,
                error,
            )
            rates.append((counted / among).mean())
        assert pair.wrongly.error == error
        value = pair.wrongly.difference.value
        assert value == pytest.approx(rates[0] - rates[1])
        served = {one.group: one for one in setting.answers.served.groups}
        assert [served[name].wrongly for name in pair.groups] == pytest.approx(rates)


def test_errors_have_a_family_of_their_own_and_simultaneous_intervals():
    release = drawn((3000, 2000, 900), (0.4, 0.5, 0.3), (0.0, 0.0, 0.0), rng=5)
    tested = run_tests(release, QUICK)
    difference = tested.wrongly.difference
    alone = difference.p_alone.ravel()
    assert difference.p_value.ravel() == pytest.approx(reference.holm(alone))
    found = pcer.audit(release, QUICK)
    pairs = [pair for setting in found.settings for pair in setting.pairs]
    tail = 0.05 / (2 * len(pairs))
    for pair in pairs:
        wrongly = pair.wrongly
        t = stats.t.isf(tail, wrongly.degrees_of_freedom)
        z = stats.norm.isf(tail)
        both = z**2 * wrongly.people_variance + t**2 * wrongly.training_variance
        low, high = wrongly.difference.interval
        assert (high - low) / 2 == pytest.approx(np.sqrt(both))
        assert wrongly.difference.upper_bound == max(abs(low), abs(high))


def test_the_other_error_is_that_of_the_opposite_outcome():
    """Who is missed by a harm is who would be passed over by a benefit, and inversely.

    Groups differ in both, in opposite directions, as where one is predicted more.
    """
    harm = drawn((3000, 2000), (0.3, 0.5), (0.0, 0.0), rng=4, outcome="harm")
    subject = harm.subject.model_copy(update={"outcome": "benefit"})
    benefit = harm.model_copy(update={"subject": subject})
    for one, other in ((harm, benefit), (benefit, harm)):
        settings = pcer.audit(one, QUICK).settings
        swapped = pcer.audit(other, QUICK).settings
        for here, there in zip(settings, swapped, strict=True):
            assert here.pairs[0].missed == there.pairs[0].wrongly
            assert here.pairs[0].missed != here.pairs[0].wrongly


def test_few_errors_are_too_few_and_no_verdict_changes():
    release = drawn((3000, 60), (0.4, 0.4), (0.0, 0.0), rng=6, right=(0.99, 0.99))
    found = pcer.audit(release, QUICK)
    answers = {p.wrongly.answer for setting in found.settings for p in setting.pairs}
    assert answers == {"too_few"}
    assert "wrongly_differs" not in found.statements()
