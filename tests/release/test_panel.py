"""A release as arrays: made once, never altered, and never those of another release."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import pcer
from pcer.release import panel as panel_file
from pcer.release.panel import carried_attacks, panels
from pcer.report import to_report

ROOT = Path(__file__).parents[2]
QUICK = pcer.Plan(resamples=10, null_draws=10)


@pytest.fixture
def release():
    return pcer.read_release(ROOT / "studies" / "paper" / "compas.race.release.json")


def test_an_audit_and_its_report_make_the_arrays_once(release, monkeypatch):
    monkeypatch.setattr(panel_file, "_panel", build := Mock(wraps=panel_file._panel))
    to_report([pcer.audit(release, QUICK)], [release])
    n_settings = len({run.epsilon for run in release.runs})
    assert build.call_count == n_settings == len(panels(release))


@pytest.mark.parametrize("deep", [False, True])
def test_a_copy_with_other_runs_has_arrays_and_a_digest_of_its_own(release, deep):
    before = panels(release), release.sha256
    gone = {"pooled_exposure": [], "placebo": [], "bounds": []}
    part = release.model_copy(update={"runs": release.runs[:2], **gone}, deep=deep)
    assert [panel.seeds for panel in panels(part)] == [(0, 1)]
    assert part.sha256 != release.sha256
    assert part.sha256 == pcer.Release.model_validate(part.to_tree()).sha256
    assert (panels(release), release.sha256) == before
    again = pcer.Release.model_validate(
        release.to_tree()
    )  # of which nothing was made yet
    assert release.model_copy() == release == again
    assert [name for name, _ in release] == list(pcer.Release.model_fields)
    assert release.to_json() == again.to_json()


def test_arrays_by_hand_that_nobody_alters():
    release = pcer.read_release(ROOT / "tests" / "releases" / "counts.release.json")
    (first, *_) = panels(release)
    run = release.runs[0]
    tables = [run.groups[name] for name in release.subject.groups]
    row = first.seeds.index(run.seed)
    assert first.epsilon == run.budget
    assert first.n_train[row].tolist() == [table.train.n for table in tables]
    right = [(table.test.tp + table.test.tn) / table.test.n for table in tables]
    assert np.array_equal(first.test_accuracy[row], right)
    positive = [(table.test.tp + table.test.fp) / table.test.n for table in tables]
    assert np.array_equal(first.positive_rate[row], positive)
    for array in (first.train_accuracy, first.test.tp):
        with pytest.raises(ValueError, match="read-only"):
            array += 1


def test_attacks_that_a_release_carries(release):
    per_run = {
        name for run in release.runs for g in run.groups.values() for name in g.exposure
    }
    pooled = {row.attack for row in release.pooled_exposure}
    assert release.bounds
    assert carried_attacks(panels(release)) == sorted(
        per_run | pooled | {"spent_epsilon"}
    )
