"""Per-group AUC from counts: against scikit-learn, against loops, and within its bound."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from pcer.errors import InputError
from pcer.release.build import ReleaseFacts
from pcer.release.disclosure import DisclosureRule
from pcer.tables import membership
from pcer.tables.auc import ScoreCounts, auc_from_counts
from pcer.tables.count import RunKey, count_cells
from pcer.tables.membership import membership_scores
from pcer.tables.release import releases_from_table
from pcer.tables.source import PredictionColumns, open_predictions

FACTS = ReleaseFacts(
    disclosure=DisclosureRule(public=True), dataset="made up", outcome="harm", split_kind="random"
)
COLUMNS = PredictionColumns(attributes=("sex",), membership_score="score")


def as_counts(members, nonmembers):
    scores = np.unique([*members, *nonmembers]).astype(float)
    count = lambda side: np.array([np.sum(np.array(side) == score) for score in scores])  # noqa: E731
    return ScoreCounts(
        low=scores, high=scores, members=count(members), nonmembers=count(nonmembers)
    )


def slow_auc(members, nonmembers):
    return np.mean([(m > n) + 0.5 * (m == n) for m in members for n in nonmembers])


def slow_delong(members, nonmembers):
    """DeLong's variance from single placements."""
    won = [np.mean([(m > n) + 0.5 * (m == n) for n in nonmembers]) for m in members]
    lost = [np.mean([(m > n) + 0.5 * (m == n) for m in members]) for n in nonmembers]
    variance = np.var(won, ddof=1) / len(won) + np.var(lost, ddof=1) / len(lost)
    return np.sqrt(variance)


sides = st.lists(st.integers(-5, 5), min_size=2, max_size=12)


@given(sides, sides)
@settings(max_examples=100, deadline=None)
def test_auc_is_what_loops_and_scikit_learn_say(members, nonmembers):
    auc = auc_from_counts([as_counts(members, nonmembers)])
    assert auc.value == pytest.approx(slow_auc(members, nonmembers), abs=1e-15)
    truth = [1] * len(members) + [0] * len(nonmembers)
    assert auc.value == pytest.approx(roc_auc_score(truth, [*members, *nonmembers]), abs=1e-12)
    assert auc.standard_error == pytest.approx(slow_delong(members, nonmembers), abs=1e-12)
    assert auc.bound == 0
    assert (auc.n_members, auc.n_nonmembers) == (len(members), len(nonmembers))


@given(sides, sides, sides, sides)
@settings(max_examples=50, deadline=None)
def test_parts_together_are_the_whole(a, b, c, d):
    parts = auc_from_counts([as_counts(a, b), as_counts(c, d)])
    whole = auc_from_counts([as_counts(a + c, b + d)])
    assert parts.value == whole.value
    assert parts.standard_error == pytest.approx(whole.standard_error, abs=1e-14)


def test_one_side_alone_has_no_auc():
    assert auc_from_counts([as_counts([1, 2], [])]) is None
    assert auc_from_counts([as_counts([1], [0])]).standard_error is None
    assert auc_from_counts([as_counts([1], [0])]).value == 1


def test_counts_beyond_64_bits_stay_exact():
    scores = np.array([0.0, 1.0])
    many = ScoreCounts(
        low=scores,
        high=scores,
        members=np.array([10**15, 10**15]),
        nonmembers=np.array([10**15, 10**15]),
    )
    assert auc_from_counts([many]).value == 0.5


def test_pairs_within_a_bin_are_the_bound():
    bins = ScoreCounts(
        low=np.array([0.0, 1.0]),
        high=np.array([0.5, 1.0]),
        members=np.array([2, 3]),
        nonmembers=np.array([4, 1]),
    )
    auc = auc_from_counts([bins])
    assert auc.value == (2 * 2 + 3 * 4 + 1.5) / 25
    assert auc.bound == 4 / 25  # half of the 8 pairs in the wide bin; the tie at 1.0 is exact


def scored(n, draw, *, seed=0):
    rng = np.random.default_rng(seed)
    train = rng.random(n) < 0.7
    return pd.DataFrame(
        {
            "split": np.where(train, "train", "test"),
            "sex": np.where(rng.random(n) < 0.3, "a", "b"),
            "y_true": rng.integers(0, 2, n),
            "y_pred": rng.integers(0, 2, n),
            "score": draw(rng, n) + 0.1 * train,
        }
    )


DRAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy tails": lambda rng, n: rng.standard_cauchy(size=n),
    "crowded near zero": lambda rng, n: np.exp(rng.normal(-10, 3, size=n)),
    "few values": lambda rng, n: rng.integers(0, 5, n).astype(float),
    "constant": lambda rng, n: np.zeros(n),
}


def aucs(frame, exact_rows, columns=COLUMNS):
    table, _ = open_predictions(frame)
    rows = {}
    for cell in count_cells(table, columns):
        rows[cell.run] = rows.get(cell.run, 0) + cell.n
    found = membership_scores(table, columns, rows, exact_rows=exact_rows)
    return {
        (run, groups): auc_from_counts([part])
        for run, scores in found
        for groups, part in scores.items()
    }


@pytest.mark.parametrize("kind", DRAWS)
def test_exact_auc_per_group_equals_scikit_learn(kind):
    frame = scored(3_000, DRAWS[kind])
    for (_, (group,)), auc in aucs(frame, exact_rows=5_000).items():
        part = frame[frame["sex"] == group]
        assert auc.value == pytest.approx(
            roc_auc_score(part["split"] == "train", part["score"]), abs=1e-12
        )
        assert auc.bound == 0


@pytest.mark.parametrize("kind", DRAWS)
def test_histogram_is_within_its_bound(kind):
    frame = scored(20_000, DRAWS[kind])
    exact, binned = aucs(frame, exact_rows=10**6), aucs(frame, exact_rows=10)
    assert exact.keys() == binned.keys()
    for key, auc in binned.items():
        assert abs(auc.value - exact[key].value) <= auc.bound + 1e-15
        assert auc.bound < 1e-3
    if kind in ("few values", "constant"):
        assert all(auc.bound < 1e-15 for auc in binned.values())


def test_histogram_bound_is_not_vacuous(monkeypatch):
    """With eight bins for smooth scores the bound is large, and still holds."""
    monkeypatch.setattr(membership, "N_BINS", 8)
    monkeypatch.setattr(membership, "N_CELLS", 2)
    frame = scored(20_000, DRAWS["normal"])
    exact, binned = aucs(frame, exact_rows=10**6), aucs(frame, exact_rows=10)
    for key, auc in binned.items():
        assert 0.01 < auc.bound < 0.2
        assert 0 < abs(auc.value - exact[key].value) <= auc.bound


def test_infinite_and_missing_scores():
    frame = scored(4_000, DRAWS["normal"])
    frame.loc[:50, "score"] = np.inf
    frame.loc[51:90, "score"] = -np.inf
    frame.loc[91:140, "score"] = np.nan
    exact, binned = aucs(frame, exact_rows=10**6), aucs(frame, exact_rows=10)
    known = frame[frame["score"].notna()]
    for (run, (group,)), auc in exact.items():
        part = known[known["sex"] == group]
        ranks = part["score"].clip(-1e300, 1e300)
        assert auc.value == pytest.approx(roc_auc_score(part["split"] == "train", ranks), abs=1e-12)
        assert abs(binned[run, (group,)].value - auc.value) <= binned[run, (group,)].bound
    release = releases_from_table(frame, COLUMNS, FACTS)["sex"]
    found = release.runs[0].groups
    assert sum(one.exposure["auc_advantage"].n_excluded for one in found.values()) == 50


def test_batches_of_models_give_what_one_pass_gives():
    frames = []
    for seed in range(6):
        frame = scored(500 + 100 * seed, DRAWS["normal"], seed=seed)
        frames.append(frame.assign(seed=seed % 3, epsilon=[1.0, None][seed // 3]))
    frame = pd.concat(frames)
    columns = replace(COLUMNS, seed="seed", epsilon="epsilon")
    whole = aucs(frame, exact_rows=10**6, columns=columns)
    in_parts = aucs(frame, exact_rows=1_700, columns=columns)
    assert len(whole) == 12
    assert in_parts == whole
    first = frames[3]
    part = first[first["sex"] == "a"]
    assert whole[RunKey(None, 0, None), ("a",)].value == pytest.approx(
        roc_auc_score(part["split"] == "train", part["score"]), abs=1e-12
    )


def test_a_loss_is_a_score_the_other_way_round():
    frame = scored(2_000, DRAWS["normal"])
    frame["loss"] = -frame["score"]
    by_loss = replace(COLUMNS, membership_score=None, loss="loss")
    ours = releases_from_table(frame, by_loss, FACTS)["sex"]
    assert ours.to_json() == releases_from_table(frame, COLUMNS, FACTS)["sex"].to_json()
    part = frame[frame["sex"] == "a"]
    expected = roc_auc_score(part["split"] == "train", -part["loss"]) - 0.5
    exposure = ours.runs[0].groups["a"].exposure["auc_advantage"]
    assert exposure.value == pytest.approx(expected, abs=1e-12)
    assert exposure.n_members == (part["split"] == "train").sum()


def test_a_binned_release_says_so():
    frame = scored(5_000, DRAWS["normal"])
    release = releases_from_table(frame, COLUMNS, FACTS, exact_rows=100)["sex"]
    assert any("histogram of 65,536 bins" in note for note in release.subject.notes)


def test_a_score_of_text_is_refused():
    frame = scored(50, DRAWS["normal"]).assign(score="high")
    with pytest.raises(InputError, match="column 'score' must hold numbers"):
        releases_from_table(frame, COLUMNS, FACTS)
