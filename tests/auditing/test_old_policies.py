"""Policies of earlier versions: rules that still exist are held as they were.

What each release broke was written down by the version that had neither sizes nor six
answers. Bounds are the printed ends since, which are a little wider: limits that lie
between the old end and the new one are not here.
"""

from collections import Counter
from pathlib import Path

import pytest

import pcer

ROOT = Path(__file__).parents[2]
RELEASES = {
    "forest": "examples/compas-forest.release.json",
    "logistic": "examples/compas-logistic.release.json",
    "compas": "studies/paper/compas.race.release.json",
    "counts": "tests/releases/counts.release.json",
    "rates": "tests/releases/rates.release.json",
}
POLICIES = {
    "lax": {
        "min_splits": 5,
        "required_attacks": ["overfitting_gap"],
        "largest_exposure": 75,
        "largest_difference": 10,
        "largest_detectable": 55,
        "largest_outcome_gap": 40,
        "least_accuracy": 55,
        "most_spent": 20,
        "fail_on": ["insufficient_data"],
    },
    "middling": {
        "min_splits": 20,
        "required_attacks": ["rmia_advantage"],
        "largest_exposure": 55,
        "largest_difference": 2,
        "largest_detectable": 52,
        "largest_outcome_gap": 20,
        "least_accuracy": 66,
        "most_spent": 1,
        "fail_on": ["double_disadvantage", "exposure_differs", "outcomes_differ"],
    },
    "tight": {
        "min_splits": 21,
        "required_attacks": ["lira_advantage", "overfitting_gap"],
        "largest_exposure": 50.2,
        "largest_difference": 0.2,
        "largest_detectable": 50.1,
        "largest_outcome_gap": 5,
        "least_accuracy": 90,
        "most_spent": 0.05,
        "fail_on": [
            "double_disadvantage",
            "exposure_differs",
            "ratio_differs",
            "no_difference_shown",
            "floor_dominated",
            "none_detected",
            "insufficient_data",
            "outcomes_differ",
            "floor_sensitive",
        ],
    },
}
# By release and policy: how many sentences each broken rule had.
BROKEN = {
    ("forest", "lax"): {"most_spent": 1},
    ("forest", "middling"): {
        "fail_on": 3,
        "largest_difference": 1,
        "largest_exposure": 1,
        "largest_outcome_gap": 1,
        "most_spent": 1,
    },
    ("forest", "tight"): {
        "fail_on": 4,
        "largest_detectable": 1,
        "largest_difference": 1,
        "largest_exposure": 1,
        "largest_outcome_gap": 1,
        "least_accuracy": 1,
        "min_splits": 1,
        "most_spent": 1,
    },
    ("logistic", "lax"): {"most_spent": 1},
    ("logistic", "middling"): {
        "fail_on": 1,
        "largest_outcome_gap": 1,
        "most_spent": 1,
        "required_attacks": 1,
    },
    ("logistic", "tight"): {
        "fail_on": 3,
        "largest_detectable": 1,
        "largest_difference": 1,
        "largest_exposure": 1,
        "largest_outcome_gap": 1,
        "least_accuracy": 1,
        "min_splits": 1,
        "most_spent": 1,
        "required_attacks": 1,
    },
    ("compas", "lax"): {"most_spent": 1},
    ("compas", "middling"): {
        "fail_on": 3,
        "largest_outcome_gap": 1,
        "least_accuracy": 1,
        "most_spent": 1,
    },
    ("compas", "tight"): {
        "fail_on": 6,
        "largest_detectable": 1,
        "largest_difference": 1,
        "largest_exposure": 1,
        "largest_outcome_gap": 1,
        "least_accuracy": 1,
        "most_spent": 1,
    },
    ("counts", "lax"): {"min_splits": 1},
    ("counts", "middling"): {
        "fail_on": 1,
        "largest_difference": 1,
        "largest_exposure": 1,
        "largest_outcome_gap": 1,
        "min_splits": 1,
        "required_attacks": 1,
    },
    ("counts", "tight"): {
        "fail_on": 2,
        "largest_detectable": 1,
        "largest_difference": 1,
        "largest_exposure": 1,
        "largest_outcome_gap": 1,
        "least_accuracy": 1,
        "min_splits": 1,
        "most_spent": 1,
        "required_attacks": 1,
    },
    ("rates", "lax"): {"largest_detectable": 1, "min_splits": 1},
    ("rates", "middling"): {
        "largest_detectable": 1,
        "largest_difference": 1,
        "largest_exposure": 1,
        "min_splits": 1,
        "required_attacks": 1,
    },
    ("rates", "tight"): {
        "fail_on": 1,
        "largest_detectable": 1,
        "largest_difference": 1,
        "largest_exposure": 1,
        "largest_outcome_gap": 1,
        "least_accuracy": 1,
        "min_splits": 1,
        "most_spent": 1,
        "required_attacks": 1,
    },
}


@pytest.mark.parametrize(("name", "policy"), BROKEN)
def test_an_old_policy_gives_the_result_it_gave(name, policy):
    release = pcer.read_release(ROOT / RELEASES[name])
    rules = pcer.Policy(**POLICIES[policy])
    audit = pcer.audit(release, pcer.Plan(resamples=20, null_draws=20, policy=rules))
    found = Counter(one.rule for one in audit.broken_rules)
    assert found == BROKEN[name, policy]
