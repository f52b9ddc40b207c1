"""What an audit does where sizes are missing, or costs are larger than there can be."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pcer
from pcer.auditing.planner import MeasuredError
from pcer.release.format import parse_release
from tests.conftest import make_plain_release


def test_an_attack_on_every_run_says_nothing_without_sizes():
    tree = make_plain_release()
    for run in tree["runs"]:
        for name, cells in run["groups"].items():
            run["groups"][name] = {
                "train": {"accuracy": 0.9},
                "test": {"accuracy": 0.8, "positive_rate": 0.5},
                "exposure": {"auc_advantage": {"value": 0.1, "standard_error": 0.01}},
            }
            assert cells
    audit = pcer.audit(parse_release(json.loads(json.dumps(tree)), file="x"), cost="auc_advantage")
    assert audit.verdict is pcer.Verdict.INSUFFICIENT_DATA
    assert audit.told.reason == "group sizes (n) are not in the release"


def test_a_planned_cost_beyond_the_largest_leaves_no_room_for_people():
    error = MeasuredError(
        standard_error=np.array([0.01, 0.01]),
        cost=np.array([0.1, 0.1]),
        n_people=np.array([100.0, 100.0]),
        n_splits=2,
        scale="auc",
    )
    assert error.people(np.array([0.25, 0.7])) == pytest.approx([0.25, 0.0])
    assert (error.variance(np.array([0.6, 0.9]), 4) >= 0).all()
