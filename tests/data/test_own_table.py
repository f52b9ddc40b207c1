"""Own tables: types, missing values, leaks, and one clear sentence for each bad table."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from pcer.data import load
from pcer.data.dataset import column_widths
from pcer.data.own_table import TablePlan, read_table
from pcer.errors import InputError

PLAN = {"label": "approved", "positive": "yes", "attributes": ("race",), "outcome": "benefit"}


def plan(**changes):
    return TablePlan(**{**PLAN, **changes})


def people(n=12):
    """A table in which every treatment occurs."""
    return {
        "age": [20 + i if i % 5 else None for i in range(n)],
        "job": [("cook", "smith", None)[i % 3] for i in range(n)],
        "country": ["here"] * n,
        "decision": ["A" if i % 2 else "B" for i in range(n)],
        "race_code": [i // 2 % 2 + 7 for i in range(n)],
        "race": ["green" if i // 2 % 2 else "blue" for i in range(n)],
        "approved": ["yes" if i % 2 else "no" for i in range(n)],
    }


def write(path, columns, *, separator=",", start=""):
    names = list(columns)
    rows = zip(*columns.values(), strict=True)
    lines = [separator.join("" if v is None else str(v) for v in row) for row in rows]
    text = start + "\n".join([separator.join(names), *lines]) + "\n"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_column_is_accounted_for(tmp_path):
    own = read_table(write(tmp_path / "my.csv", people()), plan())
    assert {line.column: (line.role, line.remark) for line in own.account} == {
        "age": ("number", "missing values become the training mean, with an indicator column"),
        "job": ("category", "missing values are a category of their own"),
        "country": ("left out", "constant"),
        "decision": ("left out", "tells the label 'approved' one to one"),
        "race_code": ("left out", "tells the protected attribute 'race' one to one"),
        "race": ("protected attribute", "not used as a feature"),
        "approved": ("label", "positive is yes"),
    }
    dataset = own.dataset
    assert dataset.feature_names == (
        "age",
        "age=(missing)",
        "job=cook",
        "job=smith",
        "job=(missing)",
    )
    assert dataset.labels.tolist() == [0, 1] * 6
    assert dataset.attribute("race").group_names == ("blue", "green")
    assert dataset.attribute("race").codes.tolist() == [0, 0, 1, 1] * 3
    assert np.isnan(dataset.features[0, 0])
    assert dataset.features[0].tolist()[1:] == [1, 1, 0, 0]
    assert dataset.name == "my"
    assert "Column 'country' is left out: constant." in dataset.notes
    assert any(note.startswith("Column 'age': 3 missing values become") for note in dataset.notes)


def test_files_and_frames_give_the_same_dataset(tmp_path):
    columns = people()
    table = pa.table(columns)
    parquet.write_table(table, tmp_path / "a.parquet")
    sources = [
        write(tmp_path / "a.csv", columns),
        write(tmp_path / "b.csv", columns, separator=";", start="\ufeff"),
        write(tmp_path / "c.tsv", columns, separator="\t"),
        tmp_path / "a.parquet",
        table,
        pd.DataFrame(columns),
        pl.DataFrame(columns),
        pl.DataFrame(columns).with_columns(pl.col("job").cast(pl.Categorical)),
    ]
    datasets = [read_table(source, plan(), name="people").dataset for source in sources]
    assert len({dataset.digest for dataset in datasets}) == 1


def test_adult_as_an_own_table_equals_the_task(tmp_path):
    from pathlib import Path

    from pcer.data import adult

    path = Path(adult.__file__).parent / "files" / "adult.csv.gz"
    own = read_table(
        path,
        plan(label="income", positive=">50K", attributes=("sex", "race"), missing=("?",)),
    ).dataset
    task = load("adult")
    names = [name for name in own.feature_names if name != "occupation=(missing)"]
    assert sorted(names) == sorted(task.feature_names)
    rows = np.isin(own.record_ids, task.record_ids)
    for name in names:
        ours = own.features[rows, own.feature_names.index(name)]
        np.testing.assert_array_equal(ours, task.features[:, task.feature_names.index(name)])
    np.testing.assert_array_equal(own.labels[rows], task.labels)


def test_records_without_label_or_group(tmp_path):
    columns = people()
    columns["approved"][3] = None
    columns["race"][0] = None
    dataset = read_table(write(tmp_path / "my.csv", columns), plan()).dataset
    assert dataset.record_ids.tolist() == [0, 1, 2, *range(4, 12)]
    assert dataset.attribute("race").n_missing == 1
    assert "1 records without a label are left out." in dataset.notes
    assert any("1 records have no race" in note for note in dataset.notes)


def test_numbers_can_be_labels_groups_and_categories(tmp_path):
    columns = {
        "zone": [1, 2, 3, 4] * 3,
        "x": [0.5 * i for i in range(12)],
        "race": [1.0, 2.0] * 6,
        "approved": [0, 0, 1, 1] * 3,
    }
    parquet.write_table(pa.table(columns), tmp_path / "n.parquet")
    own = read_table(tmp_path / "n.parquet", plan(positive="1", categories=("zone",)))
    assert own.dataset.feature_names == ("zone=1", "zone=2", "zone=3", "zone=4", "x")
    assert own.dataset.attribute("race").group_names == ("1", "2")
    booleans = {**columns, "approved": [False, False, True, True] * 3}
    parquet.write_table(pa.table(booleans), tmp_path / "b.parquet")
    again = read_table(tmp_path / "b.parquet", plan(positive="true", categories=("zone",)))
    assert again.dataset.labels.tolist() == [0, 0, 1, 1] * 3


def test_an_identifier_is_pointed_out(tmp_path):
    columns = {"number": list(range(12)), **people()}
    account = read_table(write(tmp_path / "my.csv", columns), plan()).account
    assert account[0].remark == "every value is different: drop it if it is an identifier"
    dropped = read_table(write(tmp_path / "my.csv", columns), plan(drop=("number",)))
    assert "number" not in [line.column for line in dropped.account]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"race": ["blue"] * 12}, "attribute 'race' has one group only;"),
        ({"race": [None] * 12}, "attribute 'race' has one group only;"),
        ({"approved": ["yes", "no", "maybe"] * 4}, "has 3; keep the records"),
        ({"approved": ["y", "n"] * 6}, "never has the value 'yes'; positive must be 'n' or 'y'"),
        ({"approved": ["yes"] * 12}, "label 'approved' must have two values, but has 1;"),
        ({"age": ["12", "old", "x"] * 4}, "column 'age' mixes 4 numbers and 8 other values"),
        ({"age": ["1,5", "2,5"] * 6}, "column 'age' holds numbers with decimal commas"),
        ({"age": ["1e999", "2"] * 6}, "column 'age' holds infinite numbers"),
    ],
)
def test_bad_columns_are_explained(tmp_path, changes, sentence):
    path = write(tmp_path / "my.csv", {**people(), **changes}, separator=";")
    with pytest.raises(InputError) as caught:
        read_table(path, plan())
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ten_thousand_categories_are_refused(tmp_path):
    columns = {**people(10_000), "job": [f"job {i // 4}" for i in range(10_000)]}
    path = write(tmp_path / "my.csv", columns)
    with pytest.raises(InputError, match="column 'job' has 2,500 categories, more than 50"):
        read_table(path, plan())
    with pytest.raises(InputError, match="attribute 'job' has 2,500 different values"):
        read_table(path, plan(attributes=("job",)))
    assert read_table(path, plan(drop=("job",))).dataset.n_records == 10_000


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("empty.csv", "is empty; a table needs a header"),
        ("header.csv", "has no records"),
        ("none.csv", "does not exist; check the name"),
        ("", "is a folder; name its files"),
        ("none/*.csv", "no file matches"),
        ("my.xlsx", "neither .csv"),
        ("ragged.csv", "as many fields as the header"),
        ("features.csv", "no column left to learn from; 'country' is constant"),
    ],
)
def test_bad_files_are_explained(tmp_path, name, sentence):
    (tmp_path / "empty.csv").touch()
    write(tmp_path / "header.csv", dict.fromkeys(people(), ()))
    (tmp_path / "ragged.csv").write_text("approved,race\nyes,blue\nno,green,extra\nyes,green\n")
    few = {column: people()[column] for column in ("country", "race", "approved")}
    write(tmp_path / "features.csv", few)
    with pytest.raises(InputError) as caught:
        read_table(tmp_path / name, plan())
    assert sentence in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_what_is_no_table_and_what_is_no_column(tmp_path):
    with pytest.raises(InputError, match="has no column 'passed'; it has: age, job"):
        read_table(write(tmp_path / "my.csv", people()), plan(label="passed"))
    with pytest.raises(InputError, match="a table must be a path, or a pandas"):
        read_table(42, plan())


def test_an_unreadable_file_is_never_quoted(tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes("name,approved,race\nSécrèt Pérson,yes,blue\n".encode("latin-1"))
    with pytest.raises(InputError) as caught:
        read_table(path, plan())
    assert "it is not UTF-8 text" in str(caught.value)
    assert "crèt" not in str(caught.value)
    assert "yes" not in str(caught.value)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 but not really")
    with pytest.raises(InputError, match=r"broken\.parquet cannot be read"):
        read_table(broken, plan())


def test_dates_are_refused_by_name(tmp_path):
    columns = {**people(), "when": [datetime.date(2020, 1, 1 + i) for i in range(12)]}
    parquet.write_table(pa.table(columns), tmp_path / "my.parquet")
    with pytest.raises(InputError, match=r"column .when. holds date32.*leave it out"):
        read_table(tmp_path / "my.parquet", plan())


def test_plans_are_checked_when_made():
    with pytest.raises(InputError, match="at least one column in attributes"):
        plan(attributes=())
    with pytest.raises(InputError, match="cannot be both label and attribute"):
        plan(attributes=("approved",))
    for used in ({"label": "approved"}, {"attributes": ("approved",)}, {"categories": ("job",)}):
        column = next(iter(used.values()))
        left_out = (column,) if isinstance(column, str) else column
        with pytest.raises(InputError, match=f"column '{left_out[0]}' cannot be left out and used"):
            plan(**{"label": "passed", **used}, drop=left_out)
    with pytest.raises(ValueError, match="max_categories"):
        plan(max_categories=1)


def test_a_column_that_names_people_is_refused_unless_it_is_insisted_on(tmp_path):
    names = [f"Person {chr(65 + i // 26)}{chr(65 + i % 26)}" for i in range(60)]
    for column in ("name", "race", "approved"):
        path = write(tmp_path / "my.csv", {**people(60), column: names})
        with pytest.raises(InputError) as error:
            read_table(path, plan())
        assert "Person" not in str(error.value)
    path = write(tmp_path / "my.csv", {**people(48), "name": names[:48]})
    with pytest.raises(InputError, match="column 'name' has 48 different texts in 48 records"):
        read_table(path, plan())
    assert len(read_table(path, plan(drop=("name",))).dataset.feature_names) == 5
    insisted = read_table(path, plan(identifiers=("name",))).dataset
    assert column_widths(insisted.feature_names) == {"age": 2, "job": 3, "name": 48}


def test_records_are_private_unless_said_to_be_public(tmp_path):
    path = write(tmp_path / "my.csv", people())
    assert not read_table(path, plan()).dataset.public
    assert read_table(path, plan(public=True)).dataset.public
    assert load("compas").public
