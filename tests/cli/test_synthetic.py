"""``pcer release`` of what makes synthetic tables, and of a finished one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pcer
from tests.commands import passed, refusal

pandas = pytest.importorskip("pandas")
pytest.importorskip("duckdb")

MAKER = """
import numpy as np

def make(part, seed):
    rng = np.random.default_rng(seed)
    table = part.iloc[rng.integers(len(part), size=len(part))].reset_index(drop=True)
    table["age"] += rng.normal(size=len(table))
    return table

def nothing(part, seed):
    return part.iloc[:0]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    real = pandas.DataFrame({"age": rng.normal(size=400) * 10})
    real["pay"] = rng.normal(size=400)
    real["sex"] = rng.choice(["f", "m"], size=400)
    real["split"] = rng.permutation(np.repeat(["train", "test"], 200))
    real.drop(columns="split").to_csv(tmp_path / "people.csv", index=False)
    real.to_csv(tmp_path / "divided.csv", index=False)
    table = real[real.split == "train"].drop(columns="split").copy()
    table["age"] += 0.01
    table.to_parquet(tmp_path / "table.parquet")
    (tmp_path / "my_maker_of_tables.py").write_text(MAKER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


PUBLIC = ("--public-data", "--attribute", "sex")


def test_a_maker_becomes_a_release(folder: Path) -> None:
    done = passed(
        "release", "people.csv", "--synthesizer", "my_maker_of_tables:make", *PUBLIC
    )
    release = pcer.read_release(folder / "people.sex.release.json")
    assert len(release.runs) == 16
    assert release.subject.published == "synthetic_table"
    assert "people.sex.release.json" in done.stderr


def test_a_finished_table_becomes_a_release(folder: Path) -> None:
    passed(
        *("release", "divided.csv", "--synthetic", "table.parquet"),
        *("--split-kind", "random", *PUBLIC),
    )
    release = pcer.read_release(folder / "divided.sex.release.json")
    assert {row.attack for row in release.pooled_exposure} == {"auc_advantage"}
    assert min(row.value for row in release.pooled_exposure) > 0.3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("people.csv", "--synthesizer", "my_maker_of_tables:make"), "--attribute"),
        (
            ("people.csv", "--synthesizer", "my_maker_of_tables:nothing", *PUBLIC),
            "is empty",
        ),
        (("people.csv", "--synthesizer", "no_such:make", *PUBLIC), "--synthesizer: "),
        (
            ("people.csv", "--synthesizer", "a:b", "--synthetic", "x.csv", *PUBLIC),
            "exclude each other",
        ),
        (("divided.csv", "--synthetic", "table.parquet", *PUBLIC), "--split-kind"),
        (
            (
                *("people.csv", "--synthetic", "table.parquet"),
                *("--split-kind", "random", *PUBLIC),
            ),
            "--split names 'split'",
        ),
        (
            (
                *("people.csv", "--synthesizer", "my_maker_of_tables:make"),
                *("--attribute", "age", "--attribute", "sex"),
            ),
            "one attribute at a time",
        ),
    ],
)
def test_what_is_missing_is_one_sentence(
    folder: Path, arguments: Any, sentence: str
) -> None:
    assert sentence in refusal("release", *arguments)
    assert not [*folder.glob("*.release.json")]
