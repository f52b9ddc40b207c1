"""AUCs counted where a table lies: against loops, against scikit-learn, within their bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from pcer.release.build import ReleaseFacts
from pcer.release.disclosure import DisclosureRule
from pcer.tables import PredictionColumns, count, release, releases_from_table
from pcer.tables.count import auc_from_counts

FACTS = ReleaseFacts(
    disclosure=DisclosureRule(public=True), dataset="made up", outcome="harm", split_kind="random"
)
COLUMNS = PredictionColumns(attributes=("sex",), membership_score="score")


def as_counts(members, nonmembers):
    scores = np.unique([*members, *nonmembers]).astype(float)
    sides = [
        np.array([np.sum(np.array(side) == score) for score in scores])
        for side in (members, nonmembers)
    ]
    return scores, scores, *sides


def won(members, nonmembers):
    return np.array([[(m > n) + 0.5 * (m == n) for n in nonmembers] for m in members])


sides = st.lists(st.integers(-5, 5), min_size=2, max_size=12)


@given(sides, sides)
@settings(max_examples=100, deadline=None)
def test_auc_is_what_loops_and_scikit_learn_say(members, nonmembers):
    counts = as_counts(members, nonmembers)
    (auc, bound), wins = auc_from_counts(*counts), won(members, nonmembers)
    assert auc.value == pytest.approx(wins.mean() - 0.5, abs=1e-15)
    truth = [1] * len(members) + [0] * len(nonmembers)
    assert auc.value == pytest.approx(
        roc_auc_score(truth, [*members, *nonmembers]) - 0.5, abs=1e-12
    )
    by_side = wins.mean(axis=1), wins.mean(axis=0)
    delong = sum(np.var(side, ddof=1) / len(side) for side in by_side) ** 0.5
    if delong > 0.2:  # smaller errors are raised to what one record at chance would make of them
        assert auc.standard_error == pytest.approx(delong, abs=1e-12)
    assert auc.standard_error >= delong - 1e-12
    assert (bound, auc.n_members, auc.n_nonmembers) == (0, len(members), len(nonmembers))
    twice = [np.concatenate([column, column]) for column in counts]
    assert auc_from_counts(*twice)[0].value == pytest.approx(auc.value, abs=1e-15)


def test_few_and_many_records():
    assert auc_from_counts(*as_counts([1, 2], [])) is None
    assert auc_from_counts(*as_counts([1], [0]))[0][:2] == (0.5, None)
    scores, many = np.array([0.0, 1.0]), np.array([10**15, 10**15])  # pairs beyond 64 bits
    assert auc_from_counts(scores, scores, many, many)[0].value == 0


def test_pairs_within_a_bin_are_the_bound():
    low, high = np.array([0.0, 1.0]), np.array([0.5, 1.0])
    auc, bound = auc_from_counts(low, high, np.array([2, 3]), np.array([4, 1]))
    assert auc.value == pytest.approx((2 * 2 + 3 * 4 + 1.5) / 25 - 0.5)
    assert bound == 4 / 25  # half of the 8 pairs in the wide bin; the tie at 1.0 is exact


DRAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy tails": lambda rng, n: rng.standard_cauchy(size=n),
    "crowded near zero": lambda rng, n: np.exp(rng.normal(-10, 3, size=n)),
    "few values": lambda rng, n: rng.integers(0, 5, n).astype(float),
    "constant": lambda rng, n: np.zeros(n),
    "infinite and missing": lambda rng, n: np.where(
        np.arange(n) < n // 50, np.inf, np.where(np.arange(n) < n // 20, np.nan, rng.normal(size=n))
    ),
}


def scored(n, draw, *, seed=0):
    rng = np.random.default_rng(seed)
    train = rng.random(n) < 0.7
    return pd.DataFrame(
        {
            "split": np.where(train, "train", "test"),
            "sex": np.where(rng.random(n) < 0.3, "a", "b"),
            "y_true": rng.integers(0, 2, n),
            "y_pred": rng.integers(0, 2, n),
            "score": DRAWS[draw](rng, n) + 0.1 * train,
        }
    )


def exposures(frame, columns=COLUMNS):
    made = releases_from_table(frame, columns, FACTS)["sex"]
    found = {
        (run.epsilon, run.seed, name): tables.exposure["auc_advantage"]
        for run in made.runs
        for name, tables in run.groups.items()
    }
    return found, [note for note in made.subject.notes if "histogram" in note]


@pytest.mark.parametrize("kind", DRAWS)
def test_counted_in_memory_in_the_database_and_in_bins(kind, monkeypatch):
    frame = scored(5_000, kind)
    exact, _ = exposures(frame)
    for (_, _, group), found in exact.items():
        part = frame[(frame["sex"] == group) & frame["score"].notna()]
        truth, ranks = part["split"] == "train", part["score"].clip(-1e300, 1e300)
        assert found.value == pytest.approx(roc_auc_score(truth, ranks) - 0.5, abs=1e-12)
        assert (found.n_members, found.n_nonmembers) == (truth.sum(), (~truth).sum())
        assert found.n_excluded == (frame["sex"] == group).sum() - len(part)
    monkeypatch.setattr(release, "IN_MEMORY", 0)
    counted, notes = exposures(frame)
    assert notes == []
    for key, found in counted.items():
        assert found.value == pytest.approx(exact[key].value, abs=1e-12)
        assert found.standard_error == pytest.approx(exact[key].standard_error, rel=1e-9)
        assert (found.n_members, found.n_excluded) == (exact[key].n_members, exact[key].n_excluded)
    monkeypatch.setattr(count, "EXACT_ROWS", 10)
    binned, notes = exposures(frame)
    assert bool(notes) <= (kind not in ("few values", "constant"))
    for key, found in binned.items():
        assert abs(found.value - exact[key].value) < 1e-3
    monkeypatch.setattr(count, "N_BINS", 8)
    monkeypatch.setattr(count, "N_CELLS", 2)
    coarse, (note,) = exposures(frame) if kind == "normal" else ({}, [""])
    for key, found in coarse.items():  # the bound is large, and still holds
        assert 0 < abs(found.value - exact[key].value) <= float(note.split()[-5])


def test_batches_of_models_give_what_one_pass_gives(monkeypatch):
    frames = []
    for seed in range(6):
        frame = scored(500 + 100 * seed, "normal", seed=seed)
        frames.append(frame.assign(seed=seed % 3, epsilon=[1.0, None][seed // 3]))
    frame = pd.concat(frames)
    whole, _ = exposures(frame)
    assert len(whole) == 12
    monkeypatch.setattr(release, "IN_MEMORY", 0)
    monkeypatch.setattr(count, "EXACT_ROWS", 1_700)
    in_parts, notes = exposures(frame)
    assert notes == []
    assert in_parts.keys() == whole.keys()
    for key, found in in_parts.items():
        assert found.value == pytest.approx(whole[key].value, abs=1e-12)


@pytest.mark.parametrize("in_memory", [0, 10_000])
def test_a_loss_is_a_score_the_other_way_round(in_memory, monkeypatch):
    monkeypatch.setattr(release, "IN_MEMORY", in_memory)
    frame = scored(2_000, "normal")
    by_loss = replace(COLUMNS, membership_score=None, loss="loss")
    assert exposures(frame.assign(loss=-frame["score"]), by_loss) == exposures(frame)
