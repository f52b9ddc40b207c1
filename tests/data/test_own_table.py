"""Own tables: types, missing values, leaks, and a sentence for each bad table."""

import datetime
import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from pcer.data import load
from pcer.data.benchmarks import BUNDLED
from pcer.data.own_table import TablePlan, read_table
from pcer.errors import InputError
from pcer.sweep.sweep import column_widths

PLAN = {
    "label": "approved",
    "positive": "yes",
    "attributes": ("race",),
    "outcome": "benefit",
}


def plan(**changes):
    return TablePlan(**{**PLAN, **changes})


def people(n=12, **changes):
    """A table in which every treatment occurs."""

    def repeated(*values):
        return [values[i % len(values)] for i in range(n)]

    return {
        "age": [20 + i if i % 5 else None for i in range(n)],
        "job": repeated("cook", "smith", None),
        "country": repeated("here"),
        "decision": repeated("B", "A"),
        "race_code": repeated(7, 7, 8, 8),
        "race": repeated("blue", "blue", "green", "green"),
        "approved": repeated("no", "yes"),
        **changes,
    }


@pytest.fixture
def write(tmp_path):
    """Write a table as its name says: CSV with a separator and a start, or Parquet."""

    def written(columns, name="my.csv", *, separator=",", start=""):
        path = tmp_path / name
        if name.endswith("parquet"):
            parquet.write_table(pa.table(columns), path)
            return path
        lines = [separator.join(columns)]
        for row in zip(*columns.values(), strict=True):
            lines.append(separator.join("" if v is None else str(v) for v in row))
        text = start + "\n".join(lines) + "\n"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def test_every_column_is_accounted_for(write):
    more = {"number": list(range(12)), "third": [0, 1, 2] * 4, "half": ["so", None] * 6}
    own = read_table(write(people(**more)), plan())
    assert {line.column: (line.role, line.remark) for line in own.account} == {
        "age": (
            "number",
            "missing values become the training mean, with an indicator column",
        ),
        "job": ("category", "missing values are one more category"),
        "country": ("left out", "constant"),
        "decision": ("left out", "reveals the label 'approved' one to one"),
        "race_code": ("left out", "reveals the protected attribute 'race' one to one"),
        "race": ("protected attribute", "not used as a feature"),
        "approved": ("label", "positive is yes"),
        "number": (
            "number",
            "every value is different: drop it if it is an identifier",
        ),
        "third": ("number", ""),
        "half": ("left out", "reveals the label 'approved' one to one"),
    }
    assert [(line.n_values, line.n_missing) for line in own.account[:3]] == [
        (9, 3),
        (2, 4),
        (1, 0),
    ]
    own = read_table(write(people(number=list(range(12)))), plan(drop=("number",)))
    assert "number" not in [line.column for line in own.account]
    dataset = own.dataset
    names = ("age", "age=(missing)", "job=cook", "job=smith", "job=(missing)")
    assert dataset.feature_names == names
    assert dataset.labels.tolist() == [0, 1] * 6
    assert dataset.attribute("race").group_names == ("blue", "green")
    assert dataset.attribute("race").codes.tolist() == [0, 0, 1, 1] * 3
    assert np.isnan(dataset.features[0, 0])
    assert dataset.features[0].tolist()[1:] == [1, 1, 0, 0]
    assert (dataset.name, dataset.public) == ("my", False)
    assert "Column 'country' is left out: constant." in dataset.notes
    assert any(
        note.startswith("Column 'age': 3 missing values become")
        for note in dataset.notes
    )
    assert read_table(write(people()), plan(public=True)).dataset.public


def test_files_and_frames_give_the_same_dataset(write):
    columns = people()
    sources = [
        write(columns, "a[1].csv"),
        write(columns, "b.csv", separator=";", start="\ufeff"),
        write(columns, "c.tsv", separator="\t"),
        write(columns, "a.parquet"),
        pa.table(columns),
        pd.DataFrame(columns),
        pl.DataFrame(columns),
        pl.DataFrame(columns).with_columns(pl.col("job").cast(pl.Categorical)),
    ]
    datasets = [read_table(source, plan(), name="people").dataset for source in sources]
    assert len({dataset.digest for dataset in datasets}) == 1


def test_adult_as_an_own_table_equals_the_task():
    given = plan(
        label="income", positive=">50K", attributes=("sex", "race"), missing=("?",)
    )
    own = read_table(BUNDLED / "adult.csv.gz", given).dataset
    task = load("adult")
    names = [name for name in own.feature_names if name != "occupation=(missing)"]
    assert sorted(names) == sorted(task.feature_names)
    rows = np.isin(own.record_ids, task.record_ids)
    for name in names:
        ours = own.features[rows, own.feature_names.index(name)]
        np.testing.assert_array_equal(
            ours, task.features[:, task.feature_names.index(name)]
        )
    np.testing.assert_array_equal(own.labels[rows], task.labels)


def test_records_without_label_or_group(write):
    columns = people()
    columns["approved"][3] = None
    columns["race"][0] = None
    dataset = read_table(write(columns), plan()).dataset
    assert dataset.record_ids.tolist() == [0, 1, 2, *range(4, 12)]
    assert dataset.attribute("race").n_missing == 1
    assert "1 records without a label are left out." in dataset.notes
    few = read_table(write(columns), plan(missing_group="group")).dataset
    assert few.attribute("race").n_missing == 1
    columns = {name: values * 9 for name, values in people().items()}
    columns["race"][:80] = [None] * 80
    race = read_table(write(columns), plan(missing_group="group"))
    race = race.dataset.attribute("race")
    assert (race.n_missing, race.group_names[-1]) == (0, "not recorded")
    assert race.codes[0] == len(race.group_names) - 1
    assert race.declared == {"not recorded"}


def test_numbers_can_be_labels_groups_and_categories(write):
    columns = {
        "zone": [1, 2, 3, 4] * 3,
        "x": [0.5 * i for i in range(12)],
        "race": [1.0, 2.0] * 6,
        "approved": [0, 0, 1, 1] * 3,
    }
    own = read_table(
        write(columns, "n.parquet"), plan(positive="1", categories=("zone",))
    )
    assert own.dataset.feature_names == ("zone=1", "zone=2", "zone=3", "zone=4", "x")
    assert own.dataset.attribute("race").group_names == ("1", "2")
    columns["approved"] = [False, False, True, True] * 3
    again = read_table(
        write(columns, "b.parquet"), plan(positive="true", categories=("zone",))
    )
    assert again.dataset.labels.tolist() == [0, 0, 1, 1] * 3


NAMES = [f"Person {chr(65 + i // 26)}{chr(65 + i % 26)}" for i in range(60)]
MANY = people(10_000, job=[f"job {i // 4}" for i in range(10_000)])

FEW = {name: people()[name] for name in ("country", "race", "approved")}


@pytest.mark.parametrize(
    ("columns", "changes", "sentence"),
    [
        (people(race=["blue"] * 12), {}, "attribute 'race' has one group only;"),
        (people(race=[None] * 12), {}, "attribute 'race' has one group only;"),
        (
            people(approved=["y", "n"] * 6),
            {},
            "never has the value 'yes'; name as positive one of its 2.",
        ),
        (
            people(approved=["yes"] * 12),
            {},
            "label 'approved' must have two values, or up to 50, not 1;",
        ),
        (
            people(age=["12", "old", "x"] * 4),
            {},
            "column 'age' mixes 4 numbers and 8 other values",
        ),
        (
            people(age=["1", "x"] * 6, race=["blue"] * 12),
            {},
            "(drop); and attribute 'race' has",
        ),
        (
            people(age=["1,5", "2,5"] * 6),
            {},
            "column 'age' holds numbers with decimal commas",
        ),
        (people(age=["1e999", "2"] * 6), {}, "column 'age' holds infinite numbers"),
        (MANY, {}, "column 'job' has 2,500 categories, more than 50"),
        (MANY, {"attributes": ("job",)}, "attribute 'job' has 2,500 different values"),
        (
            people(48, name=NAMES[:48]),
            {},
            "column 'name' has 48 different texts in 48 records",
        ),
        (
            people(60, race=NAMES),
            {},
            "attribute 'race' has 60 different values, more than 50",
        ),
        (
            people(60, approved=NAMES),
            {},
            "label 'approved' must have two values, or up to 50, not 60",
        ),
        (people(), {"label": "passed"}, "has no column 'passed'; it has: age, job"),
        (dict.fromkeys(people(), ()), {}, "has no records"),
        (
            people(**dict.fromkeys(("ﬁ", "fi"), range(12))),
            {},
            "has columns 'ﬁ' and 'fi', which",
        ),
        (
            people(**{"\x1b\u202e": range(12)}),
            {"label": "z"},
            r"race, approved, \u001b\u202e",
        ),
        (FEW, {}, "no column left to learn from; 'country' is constant"),
    ],
)
def test_bad_columns_are_explained(write, columns, changes, sentence):
    path = write(columns, separator=";")
    with pytest.raises(InputError) as caught:
        read_table(path, plan(**changes))
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "Person" not in str(caught.value)


def test_what_names_people_is_learnt_from_only_where_it_is_insisted_on(write):
    path = write(people(48, name=NAMES[:48]))
    assert len(read_table(path, plan(drop=("name",))).dataset.feature_names) == 5
    insisted = read_table(path, plan(identifiers=("name",))).dataset
    assert column_widths(insisted.feature_names) == {"age": 2, "job": 3, "name": 48}
    kept = {"max_categories": 48, "identifiers": ("name",)}
    assert read_table(path, plan(**kept)).dataset.n_records == 48
    halves = write(
        people(48, name=NAMES[:24] * 2), "halves.csv"
    )  # no more than half differ
    assert read_table(halves, plan()).dataset.n_records == 48
    with pytest.raises(InputError, match="has 48 categories, more than 47"):
        read_table(path, plan(**{**kept, "max_categories": 47}))


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("empty.csv", b"", "is empty; a table needs a header"),
        ("none.csv", None, "does not exist; check the name"),
        ("", None, "is a folder; name its files"),
        ("none/*.csv", None, "no file matches"),
        ("own[2].csv", None, "no file matches"),
        ("\udcff.csv", None, r"\udcff.csv has a name that is not UTF-8"),
        ("pipe.csv", "pipe", "pipe.csv is a pipe or a device"),
        ("my.xlsx", b"x", "neither .csv"),
        (
            "r.csv",
            b"approved,race\nyes,blue\nno,green,x\nyes,green\n",
            "as many fields as the",
        ),
        (
            "latin.csv",
            "a,approved\nS\xe9cr\xe8t,yes\n".encode("latin-1"),
            "it is not UTF-8 text",
        ),
        ("broken.parquet", b"PAR1 but not really", "broken.parquet cannot be read"),
    ],
)
def test_bad_files_are_explained_and_never_quoted(tmp_path, name, content, sentence):
    if content == "pipe":
        os.mkfifo(tmp_path / name)
    elif content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_table(tmp_path / name, plan())
    assert sentence in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert not any(word in str(caught.value) for word in ("cr\xe8t", "yes", "really"))


def test_what_is_no_table_or_too_large_and_what_is_no_number_or_text(
    write, monkeypatch
):
    with pytest.raises(InputError, match="a table must be a path, or a pandas"):
        read_table(42, plan())
    dates = [datetime.date(2020, 1, 1 + i) for i in range(12)]
    with pytest.raises(InputError, match=r"column .when. holds date32.*leave it out"):
        read_table(write(people(when=dates), "my.parquet"), plan())
    with pytest.raises(InputError, match="a column without a visible name"):
        read_table(pa.table(people(**{" ": list(range(12))})), plan())
    monkeypatch.setattr("pcer.data.readers.MOST_RECORDS", 11)
    with pytest.raises(
        InputError, match="more than the 11 records that a sweep holds in memory"
    ):
        read_table(write(people()), plan())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"attributes": ()}, "at least one column in attributes"),
        ({"attributes": ("approved",)}, "cannot be both label and attribute"),
        ({"drop": ("approved",)}, "column 'approved' cannot be left out and used"),
        ({"drop": ("race",)}, "column 'race' cannot be left out and used"),
        (
            {"drop": ("job",), "categories": ("job",)},
            "column 'job' cannot be left out and used",
        ),
        ({"max_categories": 1}, "max_categories"),
    ],
)
def test_plans_are_checked_when_made(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        plan(**changes)
