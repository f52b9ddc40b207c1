"""Counting predictions where they lie: the same integers from everywhere."""

from collections import Counter
from dataclasses import replace

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcer.errors import InputError
from pcer.models.arrays import release_from_predictions, releases_from_predictions
from pcer.release.build import ReleaseFacts
from pcer.release.disclosure import DisclosureRule
from pcer.tables.count import count_cells
from pcer.tables.release import releases_from_table
from pcer.tables.source import PredictionColumns, connect, open_predictions

COLUMNS = PredictionColumns(
    attributes=("sex",), epsilon="epsilon", seed="seed", split_id="split_id"
)
FACTS = ReleaseFacts(
    disclosure=DisclosureRule(public=True),
    dataset="made up",
    outcome="benefit",
    split_kind="random",
    positive_label="yes",
)


def predictions(n, *, seed=0):
    """A table of several models, with gaps in the groups and models without DP."""
    rng = np.random.default_rng(seed)
    model = rng.integers(0, 6, n)
    return pd.DataFrame(
        {
            "epsilon": np.array([0.5, 8.0, np.nan])[model % 3],
            "seed": model // 3,
            "split_id": np.array([f"split {i}" for i in range(6)])[model],
            "split": np.array(["train", "test"])[rng.integers(0, 10, n) // 7],
            "sex": np.array(["Male", "Female", None], dtype=object)[rng.integers(0, 20, n) // 8],
            "race": np.array(["blue", "green", "red"])[rng.integers(0, 3, n)],
            "y_true": np.array(["no", "yes"])[rng.integers(0, 2, n)],
            "y_pred": np.array(["no", "yes"])[rng.integers(0, 3, n) // 2],
            "loss": rng.exponential(size=n).round(3),
        }
    )


def write_parts(frame, folder, n_parts):
    frame = pl.from_pandas(frame, nan_to_null=True)
    folder.mkdir()
    for part in range(n_parts):
        frame[part::n_parts].write_parquet(folder / f"part-{part:02}.parquet")
    return str(folder / "*.parquet")


def from_frame(frame):
    """The auditor's own counting, in numpy."""
    return release_from_predictions(
        frame["y_true"],
        frame["y_pred"],
        sensitive_features=frame["sex"],
        attribute="sex",
        split=frame["split"],
        epsilon=frame["epsilon"],
        seed=frame["seed"],
        split_id=frame["split_id"],
        split_kind="random",
        dataset="made up",
        outcome="benefit",
        positive_label="yes",
        public_data=True,
    ).to_json()


def counted(source, **options):
    return releases_from_table(source, COLUMNS, FACTS, **options)["sex"].to_json()


def test_the_same_release_from_everywhere(tmp_path):
    frame = predictions(20_000)
    pattern = write_parts(frame, tmp_path / "parts", 5)
    polars_frame = pl.read_parquet(pattern)
    polars_frame.write_csv(tmp_path / "one.csv")
    polars_frame.write_csv(tmp_path / "two.csv", separator=";", include_bom=True)
    expected = from_frame(frame)
    assert from_frame(polars_frame) == expected
    assert counted(pattern) == expected
    assert counted(tmp_path / "one.csv") == expected
    assert counted(tmp_path / "two.csv") == expected
    assert counted(frame) == expected
    assert counted(polars_frame) == expected
    assert counted(connect("duckdb").read_parquet(pattern)) == expected
    assert counted(pattern, backend=ibis.duckdb.connect(threads=1)) == expected
    assert counted(pattern, backend="polars") == expected


def test_a_table_in_a_database_is_counted_by_name(tmp_path):
    frame = predictions(500)
    address = f"duckdb://{tmp_path / 'some.duckdb'}"
    pattern = write_parts(frame, tmp_path / "parts", 2)
    with duckdb.connect(tmp_path / "some.duckdb") as connection:
        connection.execute(f"CREATE TABLE results AS FROM read_parquet('{pattern}')")
    assert counted("results", backend=address) == from_frame(frame)
    with pytest.raises(InputError, match="no table 'other'; it has: results"):
        counted("other", backend=address)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Spark leaves sockets to the garbage collector
def test_two_million_rows_give_the_same_release_on_spark(tmp_path):
    reason = 'needs pip install "ibis-framework[pyspark]" and Java 17'
    session_class = pytest.importorskip("pyspark.sql", reason=reason).SparkSession
    frame = predictions(2_000_000)
    pattern = write_parts(frame, tmp_path / "parts", 20)
    expected = from_frame(frame)
    assert from_frame(pl.read_parquet(pattern)) == expected
    assert counted(pattern) == expected
    session = (
        session_class.builder.master("local[2]")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    spark = ibis.pyspark.connect(session)
    assert counted(pattern, backend=spark) == expected
    scored = replace(COLUMNS, loss="loss")
    releases = {
        (name, exact_rows): releases_from_table(
            pattern, scored, FACTS, backend=backend, exact_rows=exact_rows
        )["sex"].to_json()
        for name, backend in (("duckdb", None), ("spark", spark))
        for exact_rows in (5_000_000, 500_000, 100_000)
    }
    session.stop()
    assert releases["spark", 5_000_000] == releases["duckdb", 5_000_000]
    assert releases["spark", 500_000] == releases["duckdb", 5_000_000]
    assert releases["spark", 100_000] == releases["duckdb", 100_000]


def test_crossed_attributes_agree_with_the_auditors_counting():
    frame = predictions(3_000)
    ours = releases_from_table(frame, replace(COLUMNS, attributes=("sex", "race")), FACTS)
    theirs = releases_from_predictions(
        frame["y_true"],
        frame["y_pred"],
        sensitive_features=frame[["sex", "race"]],
        split=frame["split"],
        epsilon=frame["epsilon"],
        seed=frame["seed"],
        split_id=frame["split_id"],
        split_kind="random",
        dataset="made up",
        outcome="benefit",
        positive_label="yes",
        public_data=True,
    )
    assert list(ours) == ["sex", "race", "sex & race"]
    assert {name: one.to_json() for name, one in ours.items()} == {
        name: one.to_json() for name, one in theirs.items()
    }


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 4, st.integers(0, 2)), min_size=1, max_size=40))
@settings(max_examples=25, deadline=None)
def test_cells_are_what_a_loop_counts(rows):
    rows = [*rows, (0, 0, 0, 0, 0), (0, 1, 1, 1, 1)]  # both splits, both labels
    names = ("seed", "train", "y_true", "y_pred", "sex")
    frame = pd.DataFrame(rows, columns=names)
    frame["split"] = ["train" if one else "test" for one in frame["train"]]
    frame["sex"] = [("a", "b", None)[one] for one in frame["sex"]]
    columns = PredictionColumns(attributes=("sex",), seed="seed")
    cells = count_cells(open_predictions(frame)[0], columns)
    expected = Counter(
        (seed, ("test", "train")[train], ("a", "b", None)[sex], bool(y), bool(p))
        for seed, train, y, p, sex in rows
    )
    found = {(c.run.seed, c.split, c.groups[0], c.positive, c.predicted): c.n for c in cells}
    assert found == expected


def test_scores_are_cut_at_the_threshold():
    frame = predictions(2_000)
    frame["probability"] = np.where(frame["y_pred"] == "yes", 0.7, 0.6999)
    columns = replace(COLUMNS, y_pred=None, y_score="probability", threshold=0.7)
    assert releases_from_table(frame, columns, FACTS)["sex"].to_json() == from_frame(frame)


def test_groups_can_be_ordered_and_left_out():
    frame = predictions(2_000)
    columns = replace(COLUMNS, attributes=("race",))
    release = releases_from_table(frame, columns, replace(FACTS, groups=["red", "blue"]))["race"]
    assert release.subject.groups == ["red", "blue"]
    greens = frame[frame["race"] == "green"].groupby(["epsilon", "seed"], dropna=False).size()
    assert release.subject.n_missing_group == greens.max()
    with pytest.raises(InputError, match="for one attribute only"):
        releases_from_table(
            frame, replace(COLUMNS, attributes=("sex", "race")), replace(FACTS, groups=["red"])
        )


def small(**changes):
    table = {
        "y_true": [0, 1, 0, 1] * 4,
        "y_pred": [0, 1, 1, 0] * 4,
        "split": ["train", "train", "test", "test"] * 4,
        "sex": ["a"] * 8 + ["b"] * 8,
        "epsilon": [1.0] * 16,
        "seed": [3] * 16,
    }
    return pd.DataFrame({**table, **changes})


LARGE = 2**60  # as a float, the next whole number is 2**60 + 256


def write_csv(frame, folder):
    frame.to_csv(folder / "seeds.csv", index=False)
    return folder / "seeds.csv"


def write_parquet(frame, folder):
    pl.from_pandas(frame).write_parquet(folder / "seeds.parquet")
    return folder / "seeds.parquet"


SOURCES = {
    "pandas": lambda frame, folder: frame,
    "polars": lambda frame, folder: pl.from_pandas(frame),
    "pyarrow": lambda frame, folder: pa.Table.from_pandas(frame),
    "csv": write_csv,
    "parquet": write_parquet,
}


@pytest.mark.parametrize(
    ("kind", "backend"), [*((kind, None) for kind in SOURCES), ("parquet", "polars")]
)
def test_seeds_are_exact_whole_numbers(kind, backend, tmp_path):
    frame = pd.concat([small(seed=[seed] * 16) for seed in (LARGE, LARGE + 1)])
    frame["p"], frame["id"] = np.linspace(0, 1, 32), [*range(16), *range(16)]
    columns = PredictionColumns(
        attributes=("sex",), y_pred=None, y_score="p", loss="p", record_id="id"
    )
    source = SOURCES[kind](frame, tmp_path)
    facts = replace(FACTS, positive_label=None)
    release = releases_from_table(source, columns, facts, backend=backend)["sex"]
    assert [run.seed for run in release.runs] == [LARGE, LARGE + 1]
    assert {table.n for run in release.runs for table in (run.groups["a"].train,)} == {4}
    assert all(run.groups["b"].exposure["auc_advantage"].n_members == 4 for run in release.runs)


@pytest.mark.parametrize(
    ("seed", "sentence"),
    [
        (np.array([2**63] * 16, dtype=np.uint64), "seed must lie between -2^63 and 2^63 - 1"),
        ([float(LARGE)] * 16, "seed holds 1.152921504606847e+18 as a floating-point number"),
        (np.array([1] * 16, dtype=np.float32), "column 'seed' holds short floating-point numbers"),
        ([None] * 16, "seed must hold whole numbers, not None"),
        ([0.0] * 15 + [np.inf], "seed must hold whole numbers, not inf; number the models"),
        ([0.0] * 15 + [np.nan], "seed must hold whole numbers, not None"),
    ],
)
def test_seeds_that_could_not_be_exact_are_refused(seed, sentence):
    columns = PredictionColumns(attributes=("sex",), y_pred=None, y_score="p", record_id="id")
    frame = small(seed=seed, p=[0.5] * 16, id=range(16))
    with pytest.raises(InputError) as caught:
        releases_from_table(frame, columns, replace(FACTS, positive_label=None))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_seeds_beyond_the_format_in_a_csv_file_are_refused(tmp_path):
    frame = small(seed=[2**63] * 8 + [2**63 + 1] * 8)
    with pytest.raises(InputError, match=r"seed holds 9\.2\d+e\+18 as a floating-point number"):
        releases_from_table(
            write_csv(frame, tmp_path),
            PredictionColumns(attributes=("sex",)),
            replace(FACTS, positive_label=None),
        )


def test_labels_may_be_numbers_booleans_or_text():
    columns = PredictionColumns(attributes=("sex",))
    facts = replace(FACTS, positive_label=None)
    numbers = releases_from_table(small(), columns, facts)["sex"].runs
    booleans = small(y_true=[False, True] * 8, y_pred=[False, True, True, False] * 4)
    floats = small(y_true=[0.0, 1.0] * 8)
    assert releases_from_table(booleans, columns, facts)["sex"].runs == numbers
    assert releases_from_table(floats, columns, facts)["sex"].runs == numbers
    named = replace(facts, positive_label="true")
    assert releases_from_table(booleans, columns, named)["sex"].runs == numbers
    flipped = releases_from_table(small(), columns, replace(facts, positive_label="0"))["sex"].runs
    assert flipped[0].groups["a"].train.tp == numbers[0].groups["a"].train.tn


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"y_true": [0, 1, 2, 1] * 4}, "column 'y_true' must have two values, but has more"),
        ({"y_pred": np.linspace(0, 1, 16)}, "name a column of probabilities (y_score)"),
        ({"y_pred": [5, 1, 1, 5] * 4}, "two values between them, but have 3 ('0', '1', '5')"),
        (
            {"y_true": ["no", "yes"] * 8, "y_pred": ["no", "yes"] * 8},
            "which of these labels is positive",
        ),
        ({"y_pred": [None, 1.0, 1.0, 0.0] * 4}, "column 'y_pred' is missing in 4 records"),
        ({"split": ["train", "valid"] * 8}, "must hold 'train' or 'test', but holds 'valid'"),
        ({"split": ["train"] * 16}, "holds only 'train', and the privacy cost needs both"),
        ({"split": [None, "test"] * 8}, "column 'split' is missing in 8 records"),
        ({"sex": ["a"] * 16}, "attribute 'sex' has one group only"),
        ({"sex": [f"g{i % 2}" for i in range(8)] + ["c"] * 8}, None),
        ({"epsilon": [-1.0] * 16}, "epsilon must be above 0"),
        ({"epsilon": ["high"] * 16}, "epsilon must hold numbers, not 'high'"),
        ({"seed": [0.5] * 16}, "seed must hold whole numbers, not 0.5"),
        ({"split": ["train"] * 14 + ["test"] * 2}, "runs[0].groups.a.test: the group is empty"),
    ],
)
def test_bad_tables_are_explained(changes, sentence):
    columns = PredictionColumns(attributes=("sex",), epsilon="epsilon", seed="seed")
    facts = replace(FACTS, positive_label=None)
    if sentence is None:
        assert len(releases_from_table(small(**changes), columns, facts)["sex"].runs) == 1
        return
    with pytest.raises(InputError) as caught:
        releases_from_table(small(**changes), columns, facts)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_many_groups_are_refused_before_counting():
    frame = pd.concat([small(sex=[f"{i} {j}" for j in range(16)]) for i in range(20)])
    with pytest.raises(InputError, match="attribute 'sex' has more than 200 values"):
        count_cells(open_predictions(frame)[0], PredictionColumns(attributes=("sex",)))


def test_bad_requests_are_explained(tmp_path):
    with pytest.raises(InputError, match="either predicted labels or a score column"):
        PredictionColumns(attributes=("sex",), y_score="p")
    with pytest.raises(InputError, match="either a membership score or a loss"):
        PredictionColumns(attributes=("sex",), membership_score="p", loss="l")
    with pytest.raises(InputError, match="at least one column in attributes"):
        PredictionColumns(attributes=())
    with pytest.raises(InputError, match="split_kind must be 'random' or 'other', not 'maybe'"):
        replace(FACTS, split_kind="maybe")
    with pytest.raises(InputError, match="outcome must be 'benefit' or 'harm'"):
        replace(FACTS, outcome="good")
    with pytest.raises(InputError, match=r"no column 'sex'; it has: y_true, y_pred, split"):
        count_cells(
            open_predictions(small().drop(columns="sex"))[0], PredictionColumns(attributes=("sex",))
        )
    with pytest.raises(InputError, match="the table has no records"):
        count_cells(open_predictions(small()[:0])[0], PredictionColumns(attributes=("sex",)))
    with pytest.raises(InputError, match="backend 'oracle' cannot be used here"):
        connect("oracle")
    with pytest.raises(InputError, match="backend 'no_such' cannot be used here"):
        connect("no_such")
    with pytest.raises(InputError, match="predictions must be a path"):
        open_predictions(42)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match=r"broken\.parquet cannot be read"):
        open_predictions(broken)
    with pytest.raises(InputError, match="probabilities in"):
        releases_from_table(
            small(p=[1.5] * 16),
            PredictionColumns(attributes=("sex",), y_pred=None, y_score="p"),
            replace(FACTS, positive_label=None),
        )
