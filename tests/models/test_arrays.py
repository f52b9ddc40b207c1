"""From tables of predictions to releases, in four dataframe libraries."""

from __future__ import annotations

import decimal
import json
import math
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pcer
from pcer.cli import app
from pcer.errors import InputError
from pcer.release.format import Training

COLUMNS = {
    "label": ["yes", "no", "yes", "no", "yes", "no", "yes", "no"],
    "guess": ["yes", "yes", "no", "no", "yes", "no", "no", "yes"],
    "score": [0.9, 0.5, 0.2, 0.1, 0.7, 0.3, 0.49, 0.8],
    "sex": ["f", "f", "m", "m", "f", "f", "m", "m"],
    "race": ["x", "y", "x", "y", "x", "y", "x", "y"],
    "part": ["train"] * 4 + ["test"] * 4,
}
SAID = {
    "public_data": True,
    "split_kind": "random",
    "dataset": "toy",
    "outcome": "benefit",
    "positive_label": "yes",
}


def release(frame, **changes):
    options = {"sensitive_features": frame["sex"], "split": frame["part"], "attribute": "sex"}
    return pcer.release_from_predictions(
        frame["label"], frame["guess"], **{**SAID, **options, **changes}
    )


FRAMES = {
    "dict": lambda columns: columns,
    "numpy": lambda columns: {name: np.array(values) for name, values in columns.items()},
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}


@pytest.mark.parametrize("library", FRAMES)
def test_same_release_from_every_library(library):
    built = release(FRAMES[library](COLUMNS))
    train = built.runs[0].groups["f"].train
    assert (train.tp, train.fp, train.tn, train.fn) == (1, 1, 0, 0)
    assert built.to_json() == release(COLUMNS).to_json()
    assert built.subject.groups == ["f", "m"]
    assert built.training.split_kind == "random"


def test_scores_with_a_threshold():
    scored = pcer.release_from_predictions(
        COLUMNS["label"],
        y_score=COLUMNS["score"],
        sensitive_features=COLUMNS["sex"],
        split=COLUMNS["part"],
        attribute="sex",
        **SAID,
    )
    assert scored.runs == release(COLUMNS).runs


def test_labels_of_0_and_1_need_no_positive_label():
    labels = [int(value == "yes") for value in COLUMNS["label"]]
    guesses = [value == "yes" for value in COLUMNS["guess"]]
    numeric = pcer.release_from_predictions(
        labels,
        [int(guess) for guess in guesses],
        sensitive_features={"sex": COLUMNS["sex"]},
        split=COLUMNS["part"],
        **{**SAID, "positive_label": None},
    )
    assert numeric.runs == release(COLUMNS).runs


def test_many_models_in_one_table():
    n = len(COLUMNS["label"])
    table = {name: values * 4 for name, values in COLUMNS.items()}
    epsilon = [1.0] * n + [None] * n + [1.0] * n + [math.inf] * n
    seed = [0] * 2 * n + [1] * 2 * n
    built = release(table, epsilon=epsilon, seed=seed)
    assert [(run.epsilon, run.seed) for run in built.runs] == [
        (1.0, 0),
        (1.0, 1),
        (None, 0),
        (None, 1),
    ]
    assert built.subject.n_records == n
    alone = release(COLUMNS)
    assert all(run.groups == alone.runs[0].groups for run in built.runs)


def test_what_is_known_of_the_training_travels():
    table = {name: values * 2 for name, values in COLUMNS.items()}
    epsilon = [1.0] * len(COLUMNS["label"]) + [None] * len(COLUMNS["label"])
    said = Training(mechanism="dp-sgd", split_kind="other", config={"epochs": 2}, joint_privacy=3.0)
    built = release(table, epsilon=epsilon, dp_delta=1e-5, training=said)
    assert built.training == said.model_copy(update={"split_kind": "random"})
    assert [run.dp_delta for run in built.runs] == [1e-5, None]


LARGE = 2**60  # as a float, the next whole number is 2**60 + 256
SEED_COLUMNS = {
    "list": list,
    "objects": lambda seeds: np.array(seeds, dtype=object),
    "numpy": np.array,
    "numpy, unsigned": lambda seeds: np.array(seeds, dtype=np.uint64),
    "pandas": pd.Series,
    "pandas, nullable": lambda seeds: pd.Series(seeds, dtype="Int64"),
    "pandas, arrow": lambda seeds: pd.Series(seeds, dtype="int64[pyarrow]"),
    "polars": pl.Series,
    "polars, unsigned": lambda seeds: pl.Series(seeds, dtype=pl.UInt64),
    "pyarrow": pa.array,
    "pyarrow, chunks": lambda seeds: pa.chunked_array([seeds]),
    "decimals": lambda seeds: pa.array([decimal.Decimal(seed) for seed in seeds]),
    "texts": lambda seeds: [str(seed) for seed in seeds],
}


@pytest.mark.parametrize("kind", SEED_COLUMNS)
def test_seeds_are_exact_whole_numbers(kind):
    n = len(COLUMNS["label"])
    table = {name: values * 2 for name, values in COLUMNS.items()}
    built = release(table, seed=SEED_COLUMNS[kind]([LARGE] * n + [LARGE + 1] * n))
    assert [run.seed for run in built.runs] == [LARGE, LARGE + 1]
    assert all(run.groups == release(COLUMNS).runs[0].groups for run in built.runs)
    assert built.subject.n_records == n


@pytest.mark.parametrize("seed", [-(2**63), -LARGE - 1, LARGE + 1, 2**63 - 1])
def test_one_large_seed_for_all_records(seed):
    assert [run.seed for run in release(COLUMNS, seed=seed).runs] == [seed]
    assert json.loads(release(COLUMNS, seed=seed).to_json())["runs"][0]["seed"] == seed


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        (2**63, r"seed must lie between -2\^63 and 2\^63 - 1, but holds 9223372036854775808;"),
        (-(2**63) - 1, "seed must lie between"),
        (2**64, "seed must lie between"),
        ([10**5000] * 8, r"but holds 1\.0.*e\+5000; number the models from 0"),
        ([0] * 7 + [2**64], "seed must lie between"),
        (np.array([2**63] * 8, dtype=np.uint64), "seed must lie between"),
        ("1e999999999", "seed must lie between"),
        (float(LARGE), "as a floating-point number, and at that size these skip whole numbers"),
        (float(2**53), "as a floating-point number"),
        ([0.0] * 7 + [-float(2**53)], "as a floating-point number"),
        (np.full(8, 2**24, dtype=np.float32), "as a floating-point number"),
    ],
)
def test_seeds_that_could_not_be_exact_are_refused(seed, message):
    with pytest.raises(InputError, match=message):
        release(COLUMNS, seed=seed)


@pytest.mark.parametrize("seed", [float(2**53 - 1), np.full(8, 2**24 - 1, dtype=np.float32)])
def test_floats_are_seeds_while_they_are_exact(seed):
    assert release(COLUMNS, seed=seed).runs[0].seed == int(np.max(seed))


@pytest.mark.parametrize(
    "seed", [np.int64(3), np.uint8(3), np.float32(3), np.str_("3"), pa.scalar(3), 3.0, "3"]
)
def test_one_seed_of_any_library_stands_for_all_records(seed):
    built = release(COLUMNS, seed=seed, epsilon=np.float32(2))
    assert [(run.epsilon, run.seed) for run in built.runs] == [(2.0, 3)]


def test_record_ids_name_the_split():
    n = len(COLUMNS["label"])
    table = {name: values * 2 for name, values in COLUMNS.items()}
    table["part"] = COLUMNS["part"] + [
        "test",
        "train",
        "test",
        "train",
        "train",
        "test",
        "train",
        "test",
    ]
    seed = [0] * n + [1] * n
    ids = list(range(n)) * 2
    built = release(table, seed=seed, record_id=ids)
    first, second = (run.split for run in built.runs)
    assert first != second
    same = {**table, "part": COLUMNS["part"] * 2}
    assert len({run.split for run in release(same, seed=seed, record_id=ids).runs}) == 1
    with pytest.raises(InputError, match="appears twice"):
        release(table, record_id=ids)


def test_split_ids_as_given():
    table = {name: values * 2 for name, values in COLUMNS.items()}
    n = len(COLUMNS["label"])
    built = release(table, seed=[0] * n + [1] * n, split_id=["a"] * n + ["b"] * n)
    assert [run.split for run in built.runs] == ["a", "b"]
    with pytest.raises(InputError, match="split_id must be one value within a run"):
        release(table, split_id=["a"] * n + ["b"] * n)


@pytest.mark.parametrize("library", ["dict", "pandas", "polars", "pyarrow"])
def test_missing_groups_are_counted_and_told(library):
    gappy = {**COLUMNS, "sex": ["f", "f", "m", "m", "f", None, "m", None]}
    built = release(FRAMES[library](gappy))
    assert built.subject.n_missing_group == 2
    assert built.subject.n_records == 8
    assert "2 records with a missing or unlisted sex" in built.subject.notes[0]
    assert built.runs[0].groups["f"].test.n == 1


def test_whole_numbers_keep_their_name_beside_gaps():
    codes = [1, 1, 2, 2, 1, None, 2, 2]
    built = [
        release({**COLUMNS, "sex": column})
        for column in (codes, pd.Series(codes), pl.Series(codes), np.array(codes, float))
    ]
    assert {tuple(one.subject.groups) for one in built} == {("1", "2")}
    assert len({one.sha256 for one in built}) == 1


def test_chosen_groups_and_their_order():
    built = release(COLUMNS, groups=["m", "f"])
    assert built.subject.groups == ["m", "f"]
    three = {**COLUMNS, "sex": ["f", "f", "m", "m", "f", "f", "m", "d"]}
    built = release(three, groups=["m", "f"])
    assert built.subject.n_missing_group == 1


def test_several_attributes_are_crossed():
    both = {"sex": COLUMNS["sex"], "race": COLUMNS["race"]}
    crossed = release(COLUMNS, sensitive_features=both, attribute=None)
    assert crossed.subject.attribute == "sex & race"
    assert crossed.subject.groups == ["f & x", "f & y", "m & x", "m & y"]
    every = pcer.releases_from_predictions(
        COLUMNS["label"],
        COLUMNS["guess"],
        sensitive_features=pd.DataFrame(both),
        split=COLUMNS["part"],
        **SAID,
    )
    assert list(every) == ["sex", "race", "sex & race"]
    assert every["sex & race"].sha256 == crossed.sha256
    assert every["sex"].sha256 == release(COLUMNS).sha256


def test_a_gap_in_one_attribute_is_a_gap_in_the_crossing():
    both = {"sex": COLUMNS["sex"], "race": ["x", None, "x", "y", "x", "y", "x", "y"]}
    crossed = release(COLUMNS, sensitive_features=both, attribute=None, groups=["m & x", "m & y"])
    assert crossed.subject.n_missing_group == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"split": ["train"] * 8}, "split holds only"),
        ({"split": ["train"] * 7 + ["valid"]}, "'valid'"),
        ({"split": ["train"] * 3 + ["test"] * 4}, "one length"),
        ({"record_id": range(7)}, "one length"),
        ({"split_id": ["a"] * 9}, "one length"),
        ({"split": ["train"] * 4 + ["test"] * 3 + [None]}, "split is missing in 1 records"),
        ({"split_kind": "shuffled"}, "split_kind must be"),
        ({"positive_label": None}, "say which of these labels is positive"),
        ({"positive_label": "maybe"}, "'maybe' is not among"),
        ({"sensitive_features": ["f"] * 8}, "at least 2|at least two"),
        ({"sensitive_features": ["f"] * 8, "attribute": None}, "Name the protected attribute"),
        ({"sensitive_features": np.zeros((8, 2))}, "one column"),
        ({"groups": ["f", "z"]}, "groups.z.train: the group is empty"),
        ({"epsilon": -1.0}, "epsilon must be above 0"),
        ({"epsilon": ["a"] * 8}, "epsilon must hold numbers"),
        ({"seed": 0.5}, "seed must hold whole numbers, not 0.5"),
        ({"seed": math.inf}, "seed must hold whole numbers, not inf; number the models"),
        ({"seed": -math.inf}, "seed must hold whole numbers, not -inf"),
        ({"seed": [0] * 7 + [math.inf]}, "seed must hold whole numbers, not inf"),
        ({"seed": "inf"}, "seed must hold whole numbers, not 'inf'"),
        ({"seed": math.nan}, "seed is missing in 8 records"),
        ({"seed": None}, "seed is missing in 8 records"),
        ({"seed": object()}, "seed must be one column, but a single object was given"),
        ({"seed": [[0]] * 8}, r"seed must hold whole numbers, not \[0\]"),
        ({"seed": np.array([0] * 8, "M8[ns]")}, "seed must hold whole numbers"),
        ({"record_id": 3}, "record_id must be one column, but a single int was given"),
        ({"seed": "zero"}, "seed must hold whole numbers, not 'zero'"),
        ({"seed": [0] * 7 + [None]}, "seed is missing in 1 records"),
        ({"outcome": "good"}, "outcome"),
    ],
)
def test_bad_tables_get_one_clear_sentence(changes, message):
    with pytest.raises(InputError, match=message):
        release(COLUMNS, **changes)


@pytest.mark.parametrize(
    ("label", "guess", "score", "message"),
    [
        (["a", "b", "c", "a", "a", "a", "a", "a"], ["a"] * 8, None, "'yes' is not among them"),
        (COLUMNS["label"], None, [1.5] * 8, r"probabilities in \[0, 1\]"),
        (COLUMNS["label"], None, [math.nan] * 8, r"probabilities in \[0, 1\]"),
        (COLUMNS["label"], None, ["x"] * 8, "must hold numbers"),
        (COLUMNS["label"], None, None, "either y_pred"),
        (COLUMNS["label"], COLUMNS["guess"], [0.5] * 8, "either y_pred"),
        (COLUMNS["label"], COLUMNS["guess"][:7], None, "one length"),
        ([None, *COLUMNS["label"][1:]], COLUMNS["guess"], None, "y_true is missing in 1 records"),
        ([], [], None, "y_true|empty|label|split"),
    ],
)
def test_bad_labels_get_one_clear_sentence(label, guess, score, message):
    with pytest.raises(InputError, match=message):
        pcer.release_from_predictions(
            label,
            guess,
            y_score=score,
            sensitive_features=COLUMNS["sex"],
            split=COLUMNS["part"],
            attribute="sex",
            **SAID,
        )


def test_counts_against_a_loop():
    rng = np.random.default_rng(0)
    n = 500
    truth, guess, group, seed = rng.integers(0, 2, (4, n))
    part = np.where(rng.random(n) < 0.7, "train", "test")
    built = pcer.release_from_predictions(
        truth,
        guess,
        sensitive_features=group,
        split=part,
        split_kind="other",
        dataset="d",
        attribute="g",
        outcome="harm",
        seed=seed,
        public_data=True,
    )
    for run in built.runs:
        for name, tables in run.groups.items():
            for split, table in (("train", tables.train), ("test", tables.test)):
                rows = (seed == run.seed) & (group == int(name)) & (part == split)
                assert table.tp == sum(1 for r in np.flatnonzero(rows) if truth[r] and guess[r])
                assert table.n == rows.sum()


def test_a_mask_says_who_was_trained_on():
    mask = [part == "train" for part in COLUMNS["part"]]
    for column in (mask, np.array(mask), pd.Series(mask), pl.Series(mask), pa.array(mask)):
        assert release(COLUMNS, split=column).to_json() == release(COLUMNS).to_json()
    with pytest.raises(InputError, match="split holds only 'train'"):
        release(COLUMNS, split=[True] * 8)


def scored(y_score, label=COLUMNS["label"], **changes):
    options = {"sensitive_features": COLUMNS["sex"], "split": COLUMNS["part"], "attribute": "sex"}
    return pcer.release_from_predictions(label, y_score=y_score, **{**SAID, **options, **changes})


def test_two_columns_of_probabilities_are_those_of_the_sorted_labels():
    score = np.array(COLUMNS["score"])
    plain = scored(score).to_json()
    assert scored(np.column_stack([1 - score, score])).to_json() == plain
    for frame in (pd.DataFrame, pl.DataFrame, pa.table):
        assert scored(frame({"yes": score, "no": 1 - score})).to_json() == plain
    other = scored(np.column_stack([1 - score, score]), positive_label="no")
    assert other.runs == scored(1 - score, positive_label="no").runs
    numbers = [10 if value == "yes" else 9 for value in COLUMNS["label"]]
    by_size = scored(np.column_stack([1 - score, score]), numbers, positive_label=10)
    assert by_size.runs == scored(score).runs


@pytest.mark.parametrize(
    ("y_score", "message"),
    [
        (np.full((8, 3), 0.3), r"has 3 columns, and y_true holds 2 labels \(no, yes\)"),
        (np.full((8, 1), 0.3), r"or the positive one alone, such as y_score\[:, 1\]"),
        (pd.DataFrame({"a": [0.5] * 8, "b": [0.5] * 8}), "no column for the label 'yes'"),
        (np.full((7, 2), 0.5), "one length"),
        (np.full((8, 2), 1.5), "probabilities in"),
    ],
)
def test_columns_of_scores_that_fit_no_label_are_refused(y_score, message):
    with pytest.raises(InputError, match=message):
        scored(y_score)


def test_two_columns_without_a_positive_label_show_how():
    with pytest.raises(InputError, match="say which of these labels is positive"):
        scored(np.full((8, 2), 0.5), positive_label=None)


def test_any_threshold():
    score = np.array(COLUMNS["score"])
    found = scored(score, threshold=0.75).runs[0].groups["m"].test
    assert (found.tp, found.fp, found.tn, found.fn) == (0, 1, 0, 1)


def test_several_labels_of_which_one_is_positive():
    label = ["a", "b", "c", "b", "a", "c", "b", "a"]
    guess = ["a", "a", "c", "b", "a", "b", "a", "c"]
    several = release({**COLUMNS, "label": label, "guess": guess}, positive_label="a")
    two = {
        **COLUMNS,
        "label": [str(one == "a") for one in label],
        "guess": [str(one == "a") for one in guess],
    }
    assert several.runs == release(two, positive_label="True").runs
    with pytest.raises(InputError, match="say positive_label='a', for example"):
        release({**COLUMNS, "label": label, "guess": guess}, positive_label=None)


def swept(frame, **changes):
    """The release of ``sweep``."""
    return pcer.release_from_predictions(
        frame["y_true"],
        y_score=frame["score"],
        sensitive_features=frame["sex"],
        split=frame["split"],
        seed=frame["seed"],
        **{**SAID, "positive_label": None, "attribute": "sex", **changes},
    )


def sweep(n_models: int = 9, n: int = 400, *, budgets=(None,), seed: int = 0) -> pd.DataFrame:
    """A table of models that remember half of those they were trained on."""
    rng = np.random.default_rng(seed)
    truth, sex = rng.integers(0, 2, n), rng.choice(["f", "m"], n)
    tables = []
    for epsilon in budgets:
        for model in range(n_models):
            inside = rng.permutation(n) < 0.7 * n
            logit = rng.normal(size=n) + (2 * truth - 1) * (0.5 + inside * (rng.random(n) < 0.5))
            columns = {
                "id": [f"p{k}" for k in range(n)],
                "y_true": truth,
                "score": 1 / (1 + np.exp(-logit)),
                "sex": sex,
                "split": np.where(inside, "train", "test"),
                "seed": model,
                "epsilon": epsilon,
            }
            tables.append(pd.DataFrame(columns).sample(frac=1, random_state=model))
    return pd.concat(tables, ignore_index=True)


def from_arrays(table: pd.DataFrame, **changes):
    options = {
        "y_score": table["score"],
        "sensitive_features": table["sex"],
        "split": table["split"],
        "split_kind": "random",
        "dataset": "loans",
        "outcome": "benefit",
        "seed": table["seed"],
        "epsilon": table["epsilon"],
        "record_id": table["id"],
        **changes,
    }
    return pcer.release_from_predictions(table["y_true"], **options)


SECRET = np.random.default_rng(0).bytes(32)


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize("n_models", [3, 9])
def test_the_same_counts_and_costs_as_the_command_line_from_the_same_columns(
    tmp_path, monkeypatch, n_models, public
):
    table = sweep(n_models, budgets=(2.0, None))
    table.to_parquet(tmp_path / "loans.parquet")
    options = [
        "--score",
        "score",
        "--record-id",
        "id",
        "--attribute",
        "sex",
        "--outcome",
        "benefit",
    ]
    more = ["--public-data"] if public else []
    if not public:
        (tmp_path / "secret").write_bytes(SECRET)
        more = ["--secret-file", str(tmp_path / "secret")]
    arguments = [
        str(tmp_path / "loans.parquet"),
        *options,
        "--outcome",
        "benefit",
        "--split-kind",
        "random",
        *more,
    ]
    monkeypatch.setattr(sys, "argv", ["pcer", "release", *arguments, "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert not ended.value.code
    told = pcer.read_release(tmp_path / "loans.sex.release.json")
    secret = b"" if public else SECRET
    found = from_arrays(table, public_data=public, secret=secret)
    assert found.subject == told.subject
    assert found.disclosure == told.disclosure
    for ours, theirs in zip(found.runs, told.runs, strict=True):
        assert (ours.epsilon, ours.seed, ours.split) == (theirs.epsilon, theirs.seed, theirs.split)
        for name, tables in ours.groups.items():
            assert (tables.train, tables.test) == (
                theirs.groups[name].train,
                theirs.groups[name].test,
            )
    ours = {(row.epsilon, row.group, row.proxy): row for row in found.pooled_exposure}
    theirs = {(row.epsilon, row.group, row.proxy): row for row in told.pooled_exposure}
    assert ours.keys() == theirs.keys()
    assert len(theirs) == (8 if n_models < 8 else 14) * 2
    assert len(found.placebo) == len(told.placebo) > 0
    for one, other in zip(found.placebo, told.placebo, strict=True):
        assert (one.epsilon, one.proxy, one.groups) == (other.epsilon, other.proxy, other.groups)
        assert one.n_shown == pytest.approx(other.n_shown, abs=1)  # draws follow the rows' order
    for key, row in theirs.items():
        assert ours[key].value == pytest.approx(row.value, abs=1e-12)
        assert ours[key].standard_error == pytest.approx(row.standard_error, abs=1e-12)
        assert ours[key].n_records == row.n_records


def test_answers_alone_give_the_paired_gap():
    table = sweep()
    answers = (table["score"] >= 0.5).astype(int)
    options = {name: table[name] for name in ("seed", "split")}
    made = pcer.release_from_predictions(
        table["y_true"],
        answers,
        sensitive_features=table["sex"],
        split_kind="random",
        dataset="loans",
        outcome="harm",
        record_id=table["id"],
        **options,
    )
    assert {row.proxy for row in made.pooled_exposure} == {"paired_gap"}
    scores = {
        row.group: row for row in from_arrays(table).pooled_exposure if row.proxy == "paired_gap"
    }
    for row in made.pooled_exposure:
        measured = scores[row.group].separation  # of probabilities, which answers do not have
        assert row.model_copy(update={"separation": measured}) == scores[row.group]
    assert "y_score" in made.not_computed["paired_confidence"]
    assert pcer.audit(made, pcer.Plan(cost="paired_gap", resamples=10, null_draws=10)).budgets


def test_costs_follow_the_threshold_that_the_counts_have():
    table = sweep()
    found = from_arrays(table, threshold=0.8)
    wide = table.sort_values(["seed", "id"])
    shape = (9, 400)
    right = ((wide["score"] >= 0.8) == (wide["y_true"] == 1)).to_numpy().reshape(shape)
    inside = (wide["split"] == "train").to_numpy().reshape(shape)
    sex = wide["sex"].to_numpy()[:400]
    gaps = [
        right[own, r].mean() - right[~own, r].mean()
        for r, own in enumerate(inside.T)
        if sex[r] == "f" and 0 < own.sum() < 9
    ]
    (row,) = (r for r in found.pooled_exposure if (r.group, r.proxy) == ("f", "paired_gap"))
    assert row.value == pytest.approx(np.mean(gaps), abs=1e-12)


def test_several_labels_are_scored_by_the_probability_of_the_true_one():
    rng = np.random.default_rng(0)
    n, models = 120, 3
    label, sex = (np.tile(rng.choice(names, n), models) for names in (["a", "b", "c"], ["f", "m"]))
    chance = rng.dirichlet(np.ones(3), n * models)
    inside = np.concatenate([rng.permutation(n) < 80 for _ in range(models)])
    seed = np.repeat(np.arange(models), n)
    made = pcer.release_from_predictions(
        label,
        y_score=chance,
        sensitive_features=sex,
        split=inside,
        attribute="sex",
        split_kind="random",
        dataset="d",
        outcome="benefit",
        positive_label="b",
        seed=seed,
        record_id=np.tile(np.arange(n), models),
        public_data=True,
    )
    truth = chance[np.arange(n * models), np.searchsorted(["a", "b", "c"], label)]
    for name, tables in made.runs[1].groups.items():
        own = (seed == 1) & (sex == name)
        beaten = truth[own & inside][:, None] - truth[own & ~inside][None]
        auc = ((beaten > 0) + (beaten == 0) / 2).mean()
        assert tables.exposure["auc_advantage"].value == pytest.approx(auc - 0.5, abs=1e-12)
        positive = int((chance[own & ~inside, 1] >= 0.5).sum())
        assert tables.test.tp + tables.test.fp == positive


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(index=0), "must have scored the same records, but models of the budget"),
        (
            lambda t: t.assign(sex=np.where(t.index == 0, "x", t["sex"])),
            "sensitive_features",
        ),
        (lambda t: t.assign(y_true=np.where(t.index == 0, 1 - t["y_true"], t["y_true"])), "y_true"),
    ],
)
def test_records_that_cannot_be_compared_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        from_arrays(change(sweep()).reset_index(drop=True), public_data=True)
