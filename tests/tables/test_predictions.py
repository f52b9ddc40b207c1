"""Tables of predictions: the same release from everywhere, in memory or counted."""

import math
from dataclasses import replace

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

import pcer
from pcer.errors import InputError
from pcer.release.build import ReleaseFacts
from pcer.release.disclosure import Disclosure
from pcer.tables import PredictionColumns, releases_from_table
from pcer.tables import predictions as counting
from pcer.tables.predictions import connect, open_predictions
from tests.commands import passed, refusal
from tests.models.test_arrays import GIVEN, sweep
from tests.models.worlds import called

COLUMNS = PredictionColumns(
    attributes=("sex",), epsilon="epsilon", seed="seed", split_id="split_id"
)
PLAIN = PredictionColumns(attributes=("sex",))
FACTS = ReleaseFacts(
    disclosure=Disclosure(public_data=True),
    dataset="made up",
    outcome="benefit",
    split_kind="random",
    positive_label="yes",
)
UNNAMED = replace(FACTS, positive_label=None)
LARGE = 2**60  # as a float, the next whole number is 2**60 + 256


@pytest.fixture(params=[0, 1_000_000], ids=["counted", "in memory"])
def both_ways(request, monkeypatch):
    monkeypatch.setattr(counting, "IN_MEMORY", request.param)


def predictions(n, *, seed=0):
    """A table of several models, with gaps in the groups and models without DP."""
    rng = np.random.default_rng(seed)
    model = rng.integers(0, 6, n)
    return pd.DataFrame(
        {
            "epsilon": np.array([0.5, 8.0, np.nan])[model % 3],
            "seed": LARGE + model // 3,
            "split_id": np.array([f"split {i}" for i in range(6)])[model],
            "split": np.array(["train", "test"])[rng.integers(0, 10, n) // 7],
            "sex": np.array(["Male", "Female", None], dtype=object)[
                rng.integers(0, 20, n) // 8
            ],
            "race": np.array(["blue", "green", "red"])[rng.integers(0, 3, n)],
            "y_true": np.array(["no", "yes"])[rng.integers(0, 2, n)],
            "y_pred": np.array(["no", "yes"])[rng.integers(0, 3, n) // 2],
            "loss": rng.exponential(size=n).round(3),
        }
    )


def from_frame(frame, *attributes, **changes):
    """The releases of arrays."""
    columns = ("y_pred", "split", "epsilon", "seed", "split_id")
    given = {name: frame[name] for name in columns if name in frame}
    given |= {
        "sensitive_features": frame[[*attributes]],
        "attribute": None,
        "dataset": "made up",
    }
    return called(
        pcer.releases_from_predictions, frame["y_true"], **{**GIVEN, **given, **changes}
    )


def counted(source, **options):
    return releases_from_table(source, COLUMNS, FACTS, **options)["sex"].to_json()


def test_the_same_release_from_everywhere(tmp_path, both_ways):
    frame = predictions(5_000)
    whole = pl.from_pandas(frame, nan_to_null=True)
    for part in range(5):
        whole[part::5].write_parquet(tmp_path / f"part-{part}.parquet")
    pattern = str(tmp_path / "*.parquet")
    whole.write_csv(tmp_path / "one.csv")
    whole.write_csv(tmp_path / "two.csv", separator=";", include_bom=True)
    with duckdb.connect(tmp_path / "some.duckdb") as connection:
        connection.execute(f"CREATE TABLE results AS FROM read_parquet('{pattern}')")
    made = from_frame(frame, "sex")["sex"]
    assert [run.seed for run in made.runs] == [LARGE, LARGE + 1] * 3
    expected = made.to_json()
    assert from_frame(whole, "sex")["sex"].to_json() == expected
    files = (pattern, tmp_path / "one.csv", tmp_path / "two.csv")
    for source in (*files, frame, whole, whole.to_arrow()):
        assert counted(source) == expected
    assert counted(connect("duckdb").read_parquet(pattern)) == expected
    assert counted(pattern, backend=ibis.duckdb.connect(threads=1)) == expected
    assert counted(pattern, backend="polars") == expected
    address = f"duckdb://{tmp_path / 'some.duckdb'}"
    assert counted("results", backend=address) == expected
    with pytest.raises(InputError, match="no table 'other'; it has: results"):
        counted("other", backend=address)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Spark leaves sockets to the garbage collector
def test_two_million_rows_give_the_same_release_on_spark(tmp_path):
    reason = 'needs pip install "ibis-framework[pyspark]" and Java 17'
    builder = pytest.importorskip("pyspark.sql", reason=reason).SparkSession.builder
    frame = predictions(2_000_000)
    path = str(tmp_path / "all.parquet")
    pl.from_pandas(frame, nan_to_null=True).write_parquet(path)
    settings = {"spark.driver.memory": "2g", "spark.ui.enabled": "false"}
    session = builder.master("local[2]").config(map=settings).getOrCreate()
    expected = from_frame(frame, "sex")["sex"].to_json()
    assert (
        counted(path, backend=ibis.pyspark.connect(session))
        == counted(path)
        == expected
    )
    session.stop()


def test_attributes_are_crossed_ordered_and_left_out(both_ways):
    frame = predictions(3_000)
    both = replace(COLUMNS, attributes=("sex", "race", "sex & race"))
    theirs = from_frame(frame, "sex", "race", attributes=both.attributes)
    ours = releases_from_table(frame, both, FACTS)
    assert list(ours) == ["sex", "race", "sex & race"]
    for name, made in ours.items():
        assert made.to_json() == theirs[name].to_json()
    by_race = replace(COLUMNS, attributes=("race",))
    subject = releases_from_table(
        frame, by_race, replace(FACTS, groups=["red", "blue"])
    )
    subject = subject["race"].subject
    assert subject.groups == ["red", "blue"]
    greens = (
        frame[frame["race"] == "green"]
        .groupby(["epsilon", "seed"], dropna=False)
        .size()
    )
    assert subject.n_missing_group == greens.max()
    with pytest.raises(InputError, match="for one attribute only"):
        releases_from_table(frame, both, replace(FACTS, groups=["red"]))


def test_small_groups_are_joined_as_with_arrays(both_ways):
    frame = predictions(4_000).assign(loss=0.5)
    frame.loc[frame.index < 12, "race"] = "grey"
    columns = replace(COLUMNS, attributes=("race",), loss="loss")
    ours = releases_from_table(frame, columns, replace(FACTS, disclosure=Disclosure()))[
        "race"
    ]
    given = {
        "public_data": False,
        "membership_score": {"auc_advantage": -frame["loss"]},
    }
    assert ours.to_json() == from_frame(frame, "race", **given)["race"].to_json()
    assert "1 small group" in " ".join(ours.subject.groups)
    assert "grey" not in ours.to_json()


def test_scores_are_cut_at_the_threshold(both_ways):
    frame = predictions(2_000)
    frame["probability"] = np.where(frame["y_pred"] == "yes", 0.7, 0.6999)
    columns = replace(COLUMNS, y_pred=None, y_score="probability", threshold=0.7)
    made = releases_from_table(frame, columns, FACTS)["sex"]
    by_label = from_frame(frame, "sex")["sex"]
    for run, other in zip(made.runs, by_label.runs, strict=True):
        for name, group in run.groups.items():
            assert group.train == other.groups[name].train
            assert group.test == other.groups[name].test
            # Scores of a table that its database has counted are gone.
            assert bool(group.exposure) != bool(made.not_computed)


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


def test_labels_may_be_numbers_booleans_or_text(both_ways):
    def runs(facts=UNNAMED, **changes):
        return releases_from_table(small(**changes), PLAIN, facts)["sex"].runs

    booleans = {"y_true": [False, True] * 8, "y_pred": [False, True, True, False] * 4}
    assert runs(**booleans) == runs(y_true=[0.0, 1.0] * 8) == runs()
    assert runs(replace(FACTS, positive_label="true"), **booleans) == runs()
    flipped = runs(replace(FACTS, positive_label="0"))
    assert flipped[0].groups["a"].train.tp == runs()[0].groups["a"].train.tn
    several = {"y_true": [0, 1, 2, 1] * 4, "y_pred": [2, 1, 1, 0] * 4}
    assert runs(replace(FACTS, positive_label=1), **several) == runs()


SCORED = PredictionColumns(attributes=("sex",), y_pred=None, y_score="p")


@pytest.mark.parametrize(
    ("changes", "columns", "field"),
    [
        ({"y_true": [0, 1, 2, 1] * 4}, PLAIN, "positive_label"),
        ({"y_pred": [None, 1.0, 1.0, 0.0] * 4}, PLAIN, "y_pred"),
        ({"split": ["train", "valid"] * 8}, PLAIN, "split"),
        ({"split": [None, "test"] * 8}, PLAIN, "split"),
        ({"sex": ["a"] * 16}, PLAIN, "groups"),
        ({"epsilon": ["high"] * 16}, PLAIN, "epsilon"),
        ({"seed": [float(LARGE)] * 16}, PLAIN, "seed"),
        ({"seed": [0.0] * 15 + [np.nan]}, PLAIN, "seed"),
        ({"split": ["train"] * 14 + ["test"] * 2}, PLAIN, "runs[0].groups.a.test"),
        ({"p": [1.5] * 16}, SCORED, "y_score"),
        ({"p": [0.5] * 16}, replace(SCORED, y_pred="y_pred"), "y_pred"),
        ({"p": [None, *[0.5] * 15]}, SCORED, "y_score"),
        ({"loss": "high"}, replace(PLAIN, loss="loss"), "loss"),
        ({}, replace(PLAIN, attributes=("age",)), None),
        ({}, replace(PLAIN, record_id="id"), None),
    ],
)
def test_bad_tables_are_explained(changes, columns, field, both_ways):
    with pytest.raises(InputError) as caught:
        releases_from_table(small(**changes), columns, UNNAMED)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)
    column = getattr(columns, field or "", None)
    assert not isinstance(column, str) or f"column {column!r}" in str(caught.value)


def test_gaps_are_counted_in_records_and_groups_are_few(both_ways):
    frame = pd.concat([small(y_true=[None, 1.0, 0.0, 1.0] * 4)] * 5)
    with pytest.raises(InputError, match="y_true is missing in 20 records"):
        releases_from_table(frame, PLAIN, UNNAMED)
    groups = [f"group {k}" for k in range(201)]
    for chosen, match in (
        (groups, "'sex' has more than 200 values"),
        (groups[:200], "group is empty"),
    ):
        frame = pd.DataFrame(
            [[0, 0, "train", name] for name in chosen]
        )  # and nobody is held out
        frame.columns = ["y_true", "y_pred", "split", "sex"]
        frame.loc[0, "split"] = "test"
        with pytest.raises(InputError, match=match):
            releases_from_table(frame, PLAIN, UNNAMED)


def test_bad_columns_and_sources_are_explained(tmp_path):
    for wrong in (
        {"attributes": ()},
        {"attributes": ("sex", "Sex")},
        {"threshold": 1.01},
        {"threshold": -0.01},
        {"membership_score": "p", "loss": "l"},
    ):
        with pytest.raises(InputError) as caught:
            PredictionColumns(**{"attributes": ("sex",), **wrong})
        assert caught.value.field == next(iter(wrong))
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing")
    for call, source, match in (
        (
            lambda source: releases_from_table(source, PLAIN, UNNAMED),
            small()[:0],
            "empty",
        ),
        (connect, "oracle", "oracle"),
        (connect, "no_such", "no_such"),
        (open_predictions, 42, "a table must be a path"),
        (
            open_predictions,
            tmp_path / "broken.parquet",
            r"broken\.parquet cannot be read",
        ),
    ):
        with pytest.raises(InputError, match=match):
            call(source)


RECORDS = PredictionColumns(
    attributes=("sex",), y_pred=None, y_score="score", seed="seed", record_id="id"
)


@pytest.fixture(scope="module")
def swept():
    """Nine models of two budgets on the same records."""
    return sweep(9, budgets=(1.0, math.inf))


@pytest.mark.parametrize("kind", ["scores", "answers"])
def test_records_are_compared_as_arrays_compare_them(kind, swept, few_permutations):
    frame = swept.assign(y_pred=(swept["score"] > 0.5).astype(int))
    facts = UNNAMED
    columns = RECORDS
    given = {"y_score": frame["score"], "y_pred": None}
    if kind == "answers":
        frame["id"] = frame["id"].str[1:].astype(int)
        columns = replace(RECORDS, y_pred="y_pred", y_score=None)
        given = {"public_data": False}
        facts = replace(facts, disclosure=Disclosure())
    steps = []
    ours = releases_from_table(frame.iloc[::-1], columns, facts, on_step=steps.append)[
        "sex"
    ]
    assert steps == ["checking with made-up groups"]
    given = {**given, "record_id": frame["id"], "positive_label": None}
    assert ours.to_json() == from_frame(frame, "sex", **given)["sex"].to_json()
    assert ours.pooled_exposure
    assert ours.placebo
    assert len({run.split for run in ours.runs}) == 18


DRAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "few values": lambda rng, n: rng.integers(0, 5, n).astype(float),
    "constant": lambda rng, n: np.zeros(n),
    "infinite and missing": lambda rng, n: np.select(
        [np.arange(n) < n // 50, np.arange(n) < n // 20],
        [np.inf, np.nan],
        rng.normal(size=n),
    ),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_a_membership_score_or_a_loss_gives_its_auc(kind):
    frame = predictions(6_000)
    rng = np.random.default_rng(1)
    frame["score"] = DRAWS[kind](rng, 6_000) + 0.1 * (frame["split"] == "train")
    made = releases_from_table(
        frame, replace(COLUMNS, membership_score="score"), FACTS
    )["sex"]
    by_loss = releases_from_table(
        frame.assign(loss=-frame["score"]), replace(COLUMNS, loss="loss"), FACTS
    )["sex"]  # which is the attack that we call AUC
    for run, same in zip(made.runs, by_loss.runs, strict=True):
        budget = (
            frame["epsilon"].isna()
            if run.epsilon is None
            else frame["epsilon"] == run.epsilon
        )
        for name, tables in run.groups.items():
            own = frame[budget & (frame["seed"] == run.seed) & (frame["sex"] == name)]
            part = own[own["score"].notna()]
            found = tables.exposure["score_auc_advantage"]
            assert same.groups[name].exposure == {"auc_advantage": found}
            truth = part["split"] == "train"
            ranks = part["score"].clip(-1e300, 1e300)
            assert found.value == pytest.approx(
                roc_auc_score(truth, ranks) - 0.5, abs=1e-12
            )
            assert (found.n_members, found.n_nonmembers) == (
                truth.sum(),
                (~truth).sum(),
            )
            assert found.n_excluded == len(own) - len(part)


@pytest.mark.parametrize("compared", ["record_id", "membership_score", "loss"])
def test_what_needs_every_row_is_refused_of_a_table_that_does_not_fit(
    compared, monkeypatch
):
    columns = replace(PLAIN, **{compared: "loss"})
    frame = predictions(2_000)
    monkeypatch.setattr(counting, "MOST_RECORDS", 1_999)
    with pytest.raises(
        InputError, match=f"up to 1,999 rows.* or leave {compared} out"
    ) as caught:
        releases_from_table(frame, columns, FACTS)
    assert caught.value.field == compared
    monkeypatch.setattr(counting, "MOST_RECORDS", 2_000)
    if compared != "record_id":  # losses name no records
        assert releases_from_table(frame, columns, FACTS)


def test_from_the_command_line(swept, tmp_path, few_permutations):
    frame = swept.assign(epsilon=swept["epsilon"].replace(math.inf, np.nan))
    frame.to_csv(tmp_path / "p.csv", index=False)
    secret = np.random.default_rng(0).bytes(32)
    (tmp_path / "secret").write_bytes(secret)
    out = tmp_path / "p.release.json"
    said = "--attribute sex --outcome benefit --split-kind random --score score"
    said += " --dataset made"
    files = ("--secret-file", tmp_path / "secret", "--out", out, "--record-id")
    assert "'nobody'" in refusal(
        "release", tmp_path / "p.csv", *said.split(), *files, "nobody"
    )
    assert not out.exists()
    passed("release", tmp_path / "p.csv", *said.split(), *files, "id")
    given = {"y_score": frame["score"], "y_pred": None, "record_id": frame["id"]}
    given |= {
        "positive_label": None,
        "public_data": False,
        "secret": secret,
        "dataset": "made",
    }
    assert pcer.read_release(out) == from_frame(frame, "sex", **given)["sex"]
