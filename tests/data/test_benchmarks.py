"""The benchmark tasks against published counts and rates, and the list of them."""

import csv
import gzip
import operator
import os
import re
import zipfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from pcer.data import acs, benchmarks, bios, bundled, describe_datasets, load, split
from pcer.data.benchmarks import FOLDER_VARIABLE
from pcer.data.task import Bands, Category, DataFile, GroupRule, Number, build, divide
from pcer.errors import InputError

KNOWN_ADULT_DIGEST = "b85544000af877e3fca6ad53a3c63a7a1ae371a299cbd4ac47540ae31de4aac5"
KNOWN_COMPAS_DIGEST = "3c95f107f2aa8ebe375a112f26fff8128acf291df138f7663fed7335f9e86771"
FILES = Path(bundled.__file__).parent / "files"


@pytest.fixture(scope="module")
def data_folder():
    named = os.environ.get(FOLDER_VARIABLE)
    folder = Path(named) if named else Path(__file__).parents[3] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"{FOLDER_VARIABLE} names no folder with the ACS and Bios copies")
    return folder


def columns_of(task, path):
    return task.read(path, task.columns)


def rates(dataset, attribute):
    """Name -> (records, share of positive labels to four digits)."""
    groups = dataset.attribute(attribute)
    members = [
        dataset.labels[groups.codes == code] for code in range(len(groups.group_names))
    ]
    figures = [(part.size, round(float(part.mean()), 4)) for part in members]
    return dict(zip(groups.group_names, figures, strict=True))


PUBLISHED = {
    ("adult", "sex"): "Male 31114 .3127, Female 14919 .1135",
    ("adult", "race"): "White 39444 .2628, Non-White 6589 .1601",
    (
        "adult",
        "race_original",
    ): "White 39444 .2628, Black 4356 .1267, Asian-Pac-Islander 1423 "
    ".2832, Amer-Indian-Eskimo 435 .1218, Other 375 .1253",
    ("compas", "race"): "Other 2997 .3830, African-American 3175 .5231",
    (
        "compas",
        "race_original",
    ): "African-American 3175 .5231, Caucasian 2103 .3909, Hispanic 509 "
    ".3713, Other 343 .3615, Asian 31 .2581, Native American 11 .4545",
}
"""Groups in their order: records, and share of positive labels."""


def test_bundled_tasks_have_the_published_counts_and_rates_and_pinned_splits():
    for (name, attribute), published in PUBLISHED.items():
        found = rates(load(name), attribute).items()
        told = ", ".join(f"{group} {n} {share:.4f}" for group, (n, share) in found)
        assert told.replace(" 0.", " .") == published
    columns = columns_of(bundled.ADULT, FILES / "adult.csv.gz")  # before the filter
    rich = columns["income"] == ">50K"
    assert (rich.size, round(rich.mean(), 4)) == (48_842, 0.2393)
    assert round(rich[columns["sex"] == "Male"].mean(), 4) == 0.3038
    assert round(rich[columns["sex"] == "Female"].mean(), 4) == 0.1093
    assert (columns["occupation"] == "?").sum() == 2_809
    short = {name: values[:-1] for name, values in columns.items()}
    with pytest.raises(
        InputError, match="must have 46,033 records, but the files give 46,032"
    ):
        build(bundled.ADULT, short)
    assert split(load("compas"), seed=0).id == "487aef93954557ab"
    assert split(load("adult"), seed=49).id == "a405f88fc452f9dd"
    assert load("compas").digest == KNOWN_COMPAS_DIGEST
    assert load("adult").digest == KNOWN_ADULT_DIGEST


def test_acs_is_a_seeded_sample_of_the_published_counts_and_rates(data_folder):
    task = replace(acs.ACS_INCOME_COPY, subsample=None, n_records=199_877)
    whole = build(task, columns_of(task, data_folder / task.files[0].name))
    assert round(float(whole.labels.mean()), 4) == 0.3976
    assert (
        whole.labels[whole.attribute("sex").codes == 0].sum() == 48_302
    )  # of 104,993: 0.46005
    assert rates(whole, "sex") == {
        "Male": (104_993, 0.4600),
        "Female": (94_884, 0.3286),
    }
    races = [
        (138_126, 0.4257),
        (15_005, 0.3072),
        (954, 0.3040),
        (9, 0.2222),
        (400, 0.2000),
    ]
    races += [(22_524, 0.4603), (366, 0.2951), (16_173, 0.1882), (6_320, 0.3446)]
    assert list(rates(whole, "race_original").values()) == races
    assert rates(whole, "race")["White"] == races[0]
    dataset = load("acs", folder=data_folder)
    assert dataset.n_records == 50_000
    assert dataset.digest == load("acs", folder=data_folder).digest
    assert abs(dataset.labels.mean() - 0.3976) < 4 * np.sqrt(0.24 / 50_000)
    assert not np.isnan(dataset.features).any()
    assert any("199,877 of the 434,610" in note for note in dataset.notes)


def test_bios_is_balanced_and_says_how_its_text_differs(data_folder):
    dataset = load("bios", folder=data_folder)
    groups = dataset.attribute("gender")
    nurses = dataset.labels == 0
    assert (dataset.n_records, dataset.labels.sum()) == (1_608, 804)
    assert np.bincount(groups.codes[nurses]).tolist() == [86, 718]
    assert dataset.features.shape == (1_608, 200)
    assert dataset.feature_names[199] == "text[199]"
    assert "pronouns replaced" in dataset.notes[-1]
    assert "14,000" in dataset.notes[-2]


def test_bios_encoding_is_the_papers():
    """With as many components as texts, inner products are a TF-IDF's made by hand."""
    texts = [
        "A red fox and a fox",
        "red fox",
        "the red hen",
        "hen and fox and hen",
        "lone owl",
    ]
    terms = []
    for text in texts:
        words = re.findall(r"\b\w\w+\b", text.lower())
        terms.append([*words, *map(" ".join, pairwise(words))])
    every = sorted(set().union(*terms))
    counts = np.array([[*map(row.count, every)] for row in terms])
    idf = 1 + np.log((1 + len(texts)) / (1 + (counts > 0).sum(axis=0)))
    weights = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * idf
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    rule = bios.TextComponents("t", n_components=len(texts))
    names, ours = rule.encode({"t": np.array(texts, dtype=object)})
    assert names == tuple(f"text[{k}]" for k in range(5))
    np.testing.assert_allclose(ours @ ours.T, weights @ weights.T, atol=1e-5)
    assert bios.BIOS.features[0] == bios.TextComponents("hard_text", 15_000, 200)


def write_pums(path, people):
    """A PUMS person file of people that pass the filter, but for what is changed."""
    line = dict.fromkeys(acs.ACS_INCOME.columns, "1") | {
        "AGEP": "40",
        "OCCP": "0010",
        "WKHP": "40",
    }
    line |= {"PINCP": "60000", "RELP": "0", "ST": "06"}
    lines = [
        ",".join({**line, **changes}.values())
        for changes in ({n: n for n in line}, *people)
    ]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("psam_p06.csv", "\n".join(lines))
        archive.writestr("ACS2018_PUMS_README.pdf", "not a table")


def test_census_files_are_filtered_as_in_folktables(tmp_path):
    path = tmp_path / "csv_pca.zip"
    refused = [
        {"AGEP": "16"},
        {"PINCP": "100"},
        {"PINCP": ""},
        {"WKHP": ""},
        {"PWGTP": "0"},
    ]
    kept = [
        {},
        {"PINCP": "50000", "SEX": "2"},
        {"COW": "", "OCCP": "", "SCHL": "", "RAC1P": "6"},
    ]
    write_pums(path, (*refused, *kept))
    acs.check_state(path, n_kept=3)
    dataset = build(
        replace(acs.ACS_INCOME, n_records=3), columns_of(acs.ACS_INCOME, path)
    )
    assert dataset.record_ids.tolist() == [5, 6, 7]
    assert dataset.labels.tolist() == [1, 0, 1]
    assert dataset.attribute("race").codes.tolist() == [0, 0, 1]
    assert dataset.attribute("sex").codes.tolist() == [0, 1, 0]
    columns = dict(zip(dataset.feature_names, dataset.features.T.tolist(), strict=True))
    for name in (
        "COW",
        "OCCP",
        "SCHL",
    ):  # codes that are missing have an indicator of their own
        assert columns[f"{name}=(missing)"] == [0, 0, 1]
    assert np.isnan(columns["SCHL"][2])
    assert columns["SCHL"][:2] == [1, 1]
    assert columns["COW=1"] == columns["OCCP=management"] == [1, 1, 0]
    with pytest.raises(
        InputError, match=r"holds 3 people .* instead of the 195,665 published"
    ):
        acs.ACS_INCOME.files[0].check(path)
    path.write_bytes(b"no archive")
    with pytest.raises(InputError, match="not a zipped PUMS person file"):
        acs.ACS_INCOME.files[0].check(path)


def test_census_codes_fall_into_the_bands_of_the_dictionary():
    """First and last code of some bands, of folktables' data dictionary."""
    codes = {
        "OCCP": [10, 499, 500, 1000, 9800, 9899],
        "POBP": [1, 59, 300, 302, 303, 599],
    }
    names = {
        "OCCP": ["management"] * 2
        + ["business", "computing and mathematics"]
        + ["military"] * 2,
        "POBP": ["United States"] * 2
        + ["Northern America"] * 2
        + ["Latin America", "Oceania"],
    }
    for column, n_bands, outside in (("OCCP", 25, 9900), ("POBP", 8, 600)):
        (rule,) = (rule for rule in acs.ACS_INCOME.features if rule.column == column)
        found, hits = rule.encode({column: np.array(codes[column], dtype=float)})
        assert len(found) == n_bands
        assert [found[k] for k in hits.argmax(axis=1)] == [
            f"{column}={n}" for n in names[column]
        ]
        for code in (0, outside):
            with pytest.raises(
                InputError, match="holds 1 values that the task does not know"
            ):
                rule.encode({column: np.array([1.0 * code])})


def test_publishers_files_are_preferred_to_a_copy(tmp_path):
    columns = {
        "hard_text": [f"word{i} word{i % 7} and word{i % 11}" for i in range(270)],
        "profession": [21, 13] * 130 + [4] * 10,
        "gender": [1, 0, 0, 1] * 65 + [0] * 10,
    }
    for file in bios.BIOS.files:
        parquet.write_table(pa.table(columns), tmp_path / file.name)
    for file in bios.BIOS_COPY.files:
        (tmp_path / file.name).write_bytes(b"a copy that must not be opened")
    dataset = load("bios", folder=tmp_path, cache=tmp_path / "cache")
    assert dataset.n_records == 780
    assert dataset.notes == bios.BIOS.notes
    assert dataset.labels[:4].tolist() == [1, 0, 1, 0]
    assert dataset.attribute("gender").codes[:4].tolist() == [1, 0, 0, 1]
    with pytest.raises(InputError, match="270 biographies instead of the 257,478"):
        bios.BIOS.files[0].check(tmp_path / bios.BIOS.files[0].name)


def test_bundled_files_hold_no_identity_and_every_task_says_what_it_is():
    needed = {}
    for task in benchmarks.SOURCES:
        needed |= {file.name: task.columns for file in task.files}
    for path in FILES.iterdir():
        with gzip.open(path, "rt") as stream:
            columns = next(csv.reader(stream))
            width = max(len(max(line, key=len)) for line in csv.reader(stream))
        assert set(columns) == set(needed[path.name])
        assert width <= len("Asian-Pac-Islander")
        assert not {"id", "name", "first", "last", "dob", "fnlwgt"} & set(columns)
        assert not [c for c in columns if "case" in c or "birth" in c or "date" in c]
        assert path.stat().st_size < 500_000
    for task in benchmarks.SOURCES:
        assert all([task.source, task.licence, task.caution])
        assert task.outcome in ("benefit", "harm")
        assert task.people.endswith("s")
        assert task.positive_means.startswith("are predicted to ")
        assert task.trained.startswith("on ")
        assert task.membership_means.startswith(("you ", "your "))
        protected = {rule.column for rule in task.attributes.values()}
        assert protected.isdisjoint(rule.column for rule in task.features)


def test_what_is_at_hand_is_known_without_loading(tmp_path, monkeypatch):
    monkeypatch.delenv("PCER_DATA", raising=False)
    places = {"folder": tmp_path, "cache": tmp_path}
    assert benchmarks.at_hand("adult", **places) == (
        bundled.ADULT,
        [FILES / "adult.csv.gz"],
    )
    assert benchmarks.at_hand("acs", **places) == (acs.ACS_INCOME, [])
    at_hand = {row["name"]: row["at_hand"] for row in describe_datasets(**places)}
    assert at_hand["adult"] == "bundled, 242 kB"
    assert at_hand["compas"] == "bundled, 33 kB"
    assert at_hand["acs"] == at_hand["bios"] == "to fetch, 3 files"
    with pytest.raises(
        InputError, match="no dataset 'adults'; choose one of: adult, compas"
    ):
        load("adults")
    (tmp_path / "some.csv").write_bytes(bytes(2_345_678))
    empty = tmp_path / "empty"
    here = DataFile(name="some.csv")

    def place(file, **places):
        monkeypatch.setattr(
            benchmarks, "SOURCES", (replace(bundled.COMPAS, files=(file,)),)
        )
        return describe_datasets(**places)[0]["at_hand"]

    assert place(here, folder=empty, cache=tmp_path) == "cached, 2.3 MB"
    assert place(here, folder=tmp_path, cache=empty) == "in the folder, 2.3 MB"
    monkeypatch.setenv("PCER_DATA", str(tmp_path))
    assert place(here, cache=empty) == "in PCER_DATA, 2.3 MB"
    assert "unusable" in place(replace(here, sha256="0" * 64), cache=empty)


def test_rules_encode_and_conditions_drop_by_hand():
    columns = {
        "n": np.array([1.0, np.nan, 5.0]),
        "c": np.array(["x", None, "y"], dtype=object),
        "b": np.array([3.0, 12.0, 3.0]),
    }
    assert Number("n").encode(columns)[0] == ("n", "n=(missing)")
    names, values = Category("c", ("x", "y")).encode(columns)
    assert names == ("c=x", "c=y", "c=(missing)")
    assert values.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    names, values = Bands("b", "0 low, 10 high, 20").encode(columns)
    assert (names, values.tolist()) == (("b=low",), [[1], [0], [1]])
    rule = GroupRule("c", (("X", ("x",)), ("rest", None)))
    assert divide("c", rule, columns).codes.tolist() == [0, -1, 1]
    task = replace(
        bundled.ADULT,
        features=(Number("b"),),
        label=("b", operator.eq, 3),
        attributes={"c": GroupRule.of_each("c", ("x", "y"))},
        keep=(("n", operator.lt, 4),),
        n_records=None,
    )
    whole = {name: np.concatenate([values, values]) for name, values in columns.items()}
    whole["b"][3] = 12
    assert build(task, whole).record_ids.tolist() == [0, 3]
