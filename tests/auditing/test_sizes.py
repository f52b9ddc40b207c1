"""What an audit does where sizes are missing, or costs are larger than there can be."""

from __future__ import annotations

import json

import pcer
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
