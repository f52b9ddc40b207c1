"""The one builder: what goes in comes out, whoever calls, and what does not fit is one sentence."""

from __future__ import annotations

import ast
import itertools
import math
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
    SourceState,
    build_release,
    count_entries,
)
from pcer.release.columns import SPLITS
from pcer.release.disclosure import DisclosureRule
from pcer.release.format import Exposure, PooledExposure, read_release, write_release

SOURCE = Path(pcer.__file__).parent
RECORDS = {"Release", "Subject", "Run", "GroupTables", "Confusion", "Provenance"}
FACTS = ReleaseFacts(
    disclosure=DisclosureRule(public=True), dataset="loans", outcome="benefit", split_kind="random"
)
CELL_COUNTS = np.arange(1, 17).reshape(2, 2, 4)


def counted(**changes):
    run = CountedRun(key=RunKey(1.0, 3, "s"), cells=CELL_COUNTS)
    return replace(
        Counted(attribute="sex", groups=("f", "m"), runs=(run,), n_records=136), **changes
    )


def test_nothing_else_makes_a_release():
    """Outside of the format itself and the builder no record of a release is constructed."""
    allowed = {SOURCE / "release" / "format.py", SOURCE / "release" / "build.py"}
    for path in set(SOURCE.rglob("*.py")) - allowed:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = node.func.value if isinstance(node.func, ast.Attribute) else node.func
                assert not (isinstance(called, ast.Name) and called.id in RECORDS), path


def test_cells_become_the_tables_they_are_named_after():
    groups = build_release(FACTS, counted(), file="x").runs[0].groups
    assert CELLS == ("tn", "fp", "fn", "tp")
    assert groups["f"].train.model_dump() == {"tn": 1, "fp": 2, "fn": 3, "tp": 4}
    assert groups["m"].train.model_dump() == {"tn": 5, "fp": 6, "fn": 7, "tp": 8}
    assert groups["f"].test.model_dump() == {"tn": 9, "fp": 10, "fn": 11, "tp": 12}
    assert groups["m"].test.model_dump() == {"tn": 13, "fp": 14, "fn": 15, "tp": 16}


def test_everything_the_format_has_can_be_written(tmp_path):
    facts = replace(
        FACTS,
        positive_label="yes",
        unit_of_privacy="person",
        mechanism="dp-sgd",
        config={"epochs": 3, "momentum": None},
        joint_privacy={"epsilon": 2.0},
        dp_delta=1e-5,
        data_digest="sha256:12",
        source=SourceState("abc", True),
        notes=["First."],
    )
    exposure = Exposure(value=0.1, standard_error=0.05, n_members=10, n_nonmembers=26)
    row = PooledExposure(epsilon=1.0, group="m", proxy="paired_gap", value=0.2)
    private = CountedRun(
        key=RunKey(1.0, 3, "s"),
        cells=CELL_COUNTS,
        exposure={"f": {"auc_advantage": exposure}},
        noise_multiplier=0.7,
        epsilon_by_accountant={"rdp": 0.9},
    )
    other = CountedRun(key=RunKey(None, 3, "s"), cells=CELL_COUNTS)
    made = build_release(
        facts,
        counted(runs=(private, other), n_missing_group=2, pooled=[row], notes=["Second."]),
        file="x",
    )
    write_release(made, tmp_path / "a.release.json")
    found = read_release(tmp_path / "a.release.json")
    assert found == made
    subject = found.subject
    assert (subject.dataset, subject.attribute, subject.groups) == ("loans", "sex", ["f", "m"])
    assert (subject.outcome, subject.positive_label) == ("benefit", "yes")
    assert (subject.unit_of_privacy, subject.n_records, subject.n_missing_group) == (
        "person",
        136,
        2,
    )
    assert subject.notes[:2] == ["First.", "Second."]
    assert subject.notes[2].startswith("Public data")
    assert (found.training.mechanism, found.training.split_kind) == ("dp-sgd", "random")
    assert (found.training.config, found.training.joint_privacy) == (
        {"epochs": 3, "momentum": None},
        {"epsilon": 2.0},
    )
    run, without = found.runs
    assert (run.epsilon, run.seed, run.split, run.dp_delta) == (1.0, 3, "s", 1e-5)
    assert (run.noise_multiplier, run.epsilon_by_accountant) == (0.7, {"rdp": 0.9})
    assert run.groups["f"].exposure == {"auc_advantage": exposure}
    assert run.groups["m"].exposure == {}
    assert (without.epsilon, without.dp_delta, without.noise_multiplier) == (None, None, None)
    assert found.pooled_exposure == [row]
    assert found.provenance.model_dump() == {
        "pcer_version": __version__,
        "source_commit": "abc",
        "source_dirty": True,
        "data_digest": "sha256:12",
    }


def records(n=300):
    """(run, split, group, label, answer) of every record; a group of -1 is none."""
    rng = np.random.default_rng(4)
    tops = ((0, 3), (0, 2), (-1, 2), (0, 2), (0, 2))
    return [tuple(int(rng.integers(*top)) for top in tops) for _ in range(n)]


def entries(rows, n=None):
    run, split, group, label, answer = np.array(rows).T
    return Entries(
        run=run,
        split=split,
        group=group,
        positive=label == 1,
        predicted=answer == 1,
        n=None if n is None else np.array(n),
    )


def test_entries_are_counted_as_a_loop_counts_them():
    rows, keys = records(), [RunKey(1.0, seed) for seed in range(3)]
    found = count_entries(entries(rows), keys, attribute="sex", groups=("f", "m"))
    loop = Counter(rows)
    for run, split, group, label, answer in itertools.product(range(3), *[range(2)] * 4):
        cell = ("tn", "fp", "fn", "tp")[2 * label + answer]
        table = build_release(FACTS, found, file="x").runs[run].groups["fm"[group]]
        assert (
            getattr(getattr(table, SPLITS[split]), cell) == loop[run, split, group, label, answer]
        )
    in_none = Counter(row[0] for row in rows if row[2] < 0)
    assert found.n_missing_group == max(in_none.values()) > min(in_none.values())
    assert found.n_records == max(Counter(row[0] for row in rows).values())
    told = f"{found.n_missing_group} records with a missing or unlisted sex are in no group's table"
    assert told in found.notes[0]


def test_a_cell_of_many_records_counts_as_many():
    rows, keys = records(), [RunKey(None, seed) for seed in range(3)]
    cells = Counter(rows)
    one, many = (
        build_release(
            FACTS, count_entries(part, keys, attribute="sex", groups=("f", "m")), file="x"
        )
        for part in (entries(rows), entries(list(cells), list(cells.values())))
    )
    assert one.to_json() == many.to_json()


def test_large_cells_are_whole_numbers():
    n = [2**49 - 1, 2**49 - 3] * 4
    rows = [(0, split, group, 1, 1) for split in (0, 1) for group in (0, 1) for _ in (0, 1)]
    found = count_entries(entries(rows, n), [RunKey(None, 0)], attribute="sex", groups=("f", "m"))
    assert found.runs[0].cells[:, :, 3].tolist() == [[2**50 - 4] * 2] * 2


@pytest.mark.parametrize(
    ("facts", "changes", "sentence"),
    [
        ({"dataset": "a\x00b"}, {}, "x: field subject.dataset: "),
        ({"mechanism": ""}, {}, "x: field training.mechanism: "),
        ({"dp_delta": 2.0}, {}, "dp_delta must lie strictly between 0 and 1"),
        ({"config": {"rate": math.nan}}, {}, "x: field training.config"),
        ({}, {"groups": ("f",)}, "x: attribute 'sex' has one group only; an audit needs"),
        ({}, {"groups": ()}, "x: attribute 'sex' has no group; an audit needs at least two"),
        ({}, {"groups": ("f", "f")}, "'f' appears twice"),
        ({}, {"n_records": -1}, "x: field subject.n_records: "),
        ({}, {"runs": ()}, "x: field runs: "),
    ],
)
def test_what_does_not_fit_is_one_sentence(facts, changes, sentence):
    with pytest.raises(InputError) as caught:
        build_release(replace(FACTS, **facts), counted(**changes), file="x")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_an_empty_group_is_one_sentence():
    cells = CELL_COUNTS.copy()
    cells[1, 1] = 0
    run = CountedRun(key=RunKey(1.0, 3), cells=cells)
    with pytest.raises(InputError, match=r"x: runs\[0\]\.groups\.m\.test: the group is empty"):
        build_release(FACTS, counted(runs=(run,)), file="x")
