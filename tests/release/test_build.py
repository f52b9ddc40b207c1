"""The one builder: what goes in comes out; what does not fit is one sentence."""

import itertools
import math
import re
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pcer
from pcer._version import __version__
from pcer.errors import InputError
from pcer.release.build import (
    CELLS,
    Counted,
    CountedRun,
    Entries,
    ReleaseFacts,
    RunKey,
    build_release,
    count_entries,
    source_state,
)
from pcer.release.columns import SPLITS
from pcer.release.disclosure import Disclosure
from pcer.release.file import read_release, write_release
from pcer.release.population import recorded
from pcer.release.records import Exposure, PooledExposure

FACTS = ReleaseFacts(
    disclosure=Disclosure(public_data=True),
    dataset="loans",
    outcome="benefit",
    split_kind="random",
)
CELL_COUNTS = np.arange(1, 17).reshape(2, 2, 4)


def counted(**changes):
    run = CountedRun(key=RunKey(1.0, 3, "s"), cells=CELL_COUNTS)
    known = {"attribute": "sex", "groups": ("f", "m"), "runs": (run,), "n_records": 136}
    return Counted(**{**known, **changes})


def test_nothing_else_makes_a_release():
    """Outside of the format and the builder no record of a release is constructed."""
    made = r"(?<![\w.])(Release|Subject|Run|GroupTables|Confusion|Provenance)(\.\w+)?\("
    for path in Path(pcer.__file__).parent.rglob("*.py"):
        if path.name not in ("file.py", "records.py", "build.py"):
            assert not re.search(made, path.read_text(encoding="utf-8")), path


def test_everything_the_format_has_can_be_written(tmp_path):
    said = {"mechanism": "dp-sgd", "config": {"epochs": 3, "momentum": None}}
    said |= {"joint_privacy": {"epsilon": 2.0}, "split_kind": "random"}
    about = {"dataset": "loans", "outcome": "benefit", "positive_label": "yes"}
    about |= {"unit_of_privacy": "person"}
    more = {"dp_delta": 1e-5, "data_digest": "sha256:12", "source": ("abc", True)}
    facts = replace(FACTS, **said, **about, **more, notes=["First."])
    exposure = Exposure(value=0.1, standard_error=0.05, n_members=10, n_nonmembers=26)
    row = PooledExposure(epsilon=1.0, group="m", attack="paired_gap", value=0.2)
    other = CountedRun(key=RunKey(None, 3, "s"), cells=CELL_COUNTS)
    private = replace(
        other,
        key=RunKey(1.0, 3, "s"),
        exposure={"f": {"auc_advantage": exposure}},
        noise_multiplier=0.7,
        epsilon_by_accountant={"rdp": 0.9},
    )
    both = counted(
        runs=(private, other), n_missing_group=2, pooled=[row], notes=["Second."]
    )
    made = build_release(facts, both, file="x")
    write_release(made, tmp_path / "a.release.json")
    found = read_release(tmp_path / "a.release.json")
    assert found == made
    tree = found.to_tree()
    notes = ["First.", "Second.", tree["subject"]["notes"][2]]
    who = {
        "attribute": "sex",
        "groups": ["f", "m"],
        "n_records": 136,
        "n_missing_group": 2,
    }
    assert tree["subject"] == {**about, **who, "notes": notes}
    assert tree["training"] == said
    run, without = tree["runs"]
    f, m = (run["groups"][name] for name in "fm")
    assert f.pop("exposure") == {
        "auc_advantage": exposure.model_dump(exclude_none=True)
    }
    cells = [
        [table[part][cell] for cell in CELLS] for part in SPLITS for table in (f, m)
    ]
    assert cells == np.arange(1, 17).reshape(4, 4).tolist()
    plain = {"epsilon": None, "seed": 3, "split": "s", "groups": {"f": f, "m": m}}
    private = {"epsilon": 1.0, "dp_delta": 1e-5, "noise_multiplier": 0.7}
    assert run == {**plain, **private, "epsilon_by_accountant": {"rdp": 0.9}}
    assert without == plain
    assert found.pooled_exposure == [row]
    assert [*tree["provenance"].values()] == [__version__, "abc", True, "sha256:12"]


def test_coarser_tables_say_in_how_many_and_how_often_in_test():
    cells = np.array([[[9, 9, 0, 9], [9, 0, 0, 9]], [[6, 4, 4, 6], [6, 4, 4, 6]]])
    runs = (CountedRun(key=RunKey(1.0, 3), cells=cells),)
    rule = Disclosure(public_data=True, certain_cells=False)
    made = build_release(
        replace(FACTS, disclosure=rule), counted(runs=runs), file="x"
    ).to_tree()
    f, m = (made["runs"][0]["groups"][name] for name in "fm")
    assert f["train"] == {"n": 27, "accuracy": 18 / 27}
    assert f["test"] == {"n": 20, "accuracy": 0.6, "positive_rate": 0.5}
    assert (m["train"], m["test"]) == ({"n": 18}, {"n": 20, "positive_rate": 0.5})


def records(n=300):
    """(run, split, group, label, answer) of every record; a group of -1 is none."""
    rng = np.random.default_rng(4)
    return list(
        map(tuple, rng.integers((0, 0, -1, 0, 0), (3, 2, 2, 2, 2), (n, 5)).tolist())
    )


def count(rows, n=None, *, n_runs=3):
    run, split, group, label, answer = np.array(rows).T
    n = None if n is None else np.array(n)
    place = {"run": run, "split": split, "n": n}
    entries = Entries(**place, positive=label == 1, predicted=answer == 1)
    keys = [RunKey(1.0, seed) for seed in range(n_runs)]
    return count_entries(entries, keys, recorded("sex", ("f", "m"), group))


def test_entries_are_counted_as_a_loop_counts_them():
    rows = records()
    found = count(rows)
    loop = Counter(rows)
    runs = build_release(FACTS, found, file="x").runs
    for run, split, group, label, answer in itertools.product(
        range(3), *[range(2)] * 4
    ):
        table = getattr(runs[run].groups["fm"[group]], SPLITS[split])
        cell = getattr(table, CELLS[2 * label + answer])
        assert cell == loop[run, split, group, label, answer]
    in_none = Counter(row[0] for row in rows if row[2] < 0)
    assert found.n_missing_group == max(in_none.values()) > min(in_none.values())
    (left_out,) = found.left_out
    assert (left_out.why, left_out.attribute) == ("missing", "sex")
    assert left_out.n_people == found.n_missing_group
    assert found.n_records == max(Counter(row[0] for row in rows).values())


def test_a_cell_of_many_records_counts_as_many():
    rows = records()
    cells = Counter(rows)
    both = (count(rows), count(list(cells), list(cells.values())))
    assert len({build_release(FACTS, found, file="x").to_json() for found in both}) == 1
    large = [
        (0, split, group, 1, 1) for split in (0, 1) for group in (0, 1) for _ in (0, 1)
    ]
    found = count(large, [2**49 - 1, 2**49 - 3] * 4, n_runs=1)
    assert found.runs[0].cells[:, :, 3].tolist() == [[2**50 - 4] * 2] * 2


EMPTY = CELL_COUNTS * [[[1], [1]], [[1], [0]]]


@pytest.mark.parametrize(
    ("facts", "changes", "field"),
    [
        ({"dataset": "a\x00b"}, {}, "subject.dataset"),
        ({"mechanism": ""}, {}, "training.mechanism"),
        ({"dp_delta": 2.0}, {}, "dp_delta"),
        ({"outcome": "good"}, {}, "outcome"),
        ({"config": {"rate": math.nan}}, {}, "training.config.rate"),
        ({}, {"groups": ("f",)}, "groups"),
        ({}, {"groups": ()}, "groups"),
        ({}, {"groups": ("f", "f")}, "subject.groups"),
        ({}, {"n_records": -1}, "subject.n_records"),
        ({}, {"runs": ()}, "runs"),
        (
            {},
            {"runs": (CountedRun(key=RunKey(1.0, 3), cells=EMPTY),)},
            "runs[0].groups.m.test",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(facts, changes, field):
    with pytest.raises(InputError) as caught:
        build_release(replace(FACTS, **facts), counted(**changes), file="x")
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


def git(folder: Path, *arguments: str) -> str:
    who = (
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@example.org",
        "-c",
        "commit.gpgsign=false",
    )
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.strip()


def repository(folder: Path, name: str, package: str = "src/pcer") -> Path:
    """A repository of one commit with a package in it; the package's folder."""
    inside = folder / package
    inside.mkdir(parents=True)
    (inside / "__init__.py").write_text('"""A package."""\n')
    if name != "-":
        (folder / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n')
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "First")):
        git(folder, *arguments)
    return inside


def test_pcers_own_checkout_has_a_commit(tmp_path, monkeypatch):
    package = repository(tmp_path / "first", "pcer")
    head = git(package, "rev-parse", "HEAD")
    git(package, "worktree", "add", "-q", str(tmp_path / "second"))
    (tmp_path / "first" / "README.md").write_text("Not of the package.")
    for checkout in ("first", "second"):
        assert source_state(tmp_path / checkout / "src" / "pcer") == (head, False)
    (package / "__init__.py").write_text('"""Changed."""\n')
    assert source_state(package) == (head, True)
    monkeypatch.setenv("PATH", "")
    assert source_state(package) == (None, None)


ELSEWHERE = (
    "host vendor/pcer, host src/pcer, - src/pcer, pcer pcer, pcer vendor/pcer/src/pcer"
)


@pytest.mark.parametrize("place", [*ELSEWHERE.split(", "), "pcer src/other"])
def test_a_copy_in_another_repository_or_one_that_git_does_not_keep_has_none(
    tmp_path, place
):
    assert source_state(tmp_path) == (None, None)
    name, package = place.split()
    copy = repository(tmp_path, name, package).parent / "pcer"
    copy.mkdir(exist_ok=True)
    (copy / "__init__.py").touch()
    assert source_state(copy) == (None, None)
