"""No file keeps an auditor waiting: what is too large, never ends, or is made to be slow."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pcer
from pcer.errors import InputError
from pcer.files import canonical_json, count_values, parse_json, read_text
from pcer.release.format import LIMITS, Limits, parse_release, read_release

CELLS = {"tp": 50, "fp": 11, "tn": 70, "fn": 9}
SMALL = Limits(n_runs=3, n_settings=2, n_groups=2, n_tables=5, n_rows=3, n_costs=1, n_notes=1)


def release_of(
    *, n_groups: int = 2, n_seeds: int = 1, budgets: tuple[float | None, ...] = (None,), cells=CELLS
) -> dict[str, Any]:
    names = [f"g{k}" for k in range(n_groups)]
    return {
        "format": "pcer-release",
        "version": 2,
        "subject": {"dataset": "d", "attribute": "a", "groups": names, "outcome": "harm"},
        "training": {"split_kind": "random"},
        "runs": [
            {
                "epsilon": epsilon,
                "seed": seed,
                "split": seed,
                "groups": {name: {"train": cells, "test": cells} for name in names},
            }
            for epsilon in budgets
            for seed in range(n_seeds)
        ],
    }


def audited(path: Path, *options: str, seconds: int = 120) -> subprocess.CompletedProcess[str]:
    """The command with 2 GB of memory, and processor time that only a stalled one uses up."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (2 * 10**9, 2 * 10**9))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    return subprocess.run(
        [sys.executable, "-m", "pcer", "audit", str(path), *options],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_counts_of_any_size_take_no_room(tmp_path):
    """679 bytes once took 50 seconds and 7.5 GB."""
    path = tmp_path / "large-counts.release.json"
    path.write_text(json.dumps(release_of(cells=dict.fromkeys(CELLS, 10**15))))
    done = audited(path, "--json", "-")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["format"] == "pcer-audit"


def test_repeated_keys_are_found_in_one_pass(tmp_path):
    """Half as many once took two minutes."""
    path = tmp_path / "keys.release.json"
    keys = ",".join(f'"k{k}":1' for k in range(200_000))
    path.write_text(f'{{"format":"pcer-release",{keys},"k199999":2}}')
    done = audited(path)
    assert done.returncode == 2
    assert done.stderr.endswith("the field 'k199999' appears twice in one object; keep one.\n")


def test_very_many_unknown_fields_are_one_sentence(tmp_path):
    path = tmp_path / "unknown.release.json"
    tree = {**release_of(), **{f"k{k}": 1 for k in range(200_000)}}
    path.write_text(json.dumps(tree))
    done = audited(path)
    assert done.returncode == 2
    assert "200,000 values that do not fit this format" in done.stderr


@pytest.mark.parametrize("text", ["[" + "[]," * 2_000_000 + "[]]", "[" + "1," * 2_000_000 + "1]"])
def test_many_values_are_counted_before_they_are_made(tmp_path, text):
    path = tmp_path / "many.release.json"
    path.write_text(text)
    done = audited(path)
    assert done.returncode == 2
    assert "values, more than the 2,000,000 that are read by default" in done.stderr
    assert "allow it by name" in done.stderr


def test_pipes_and_devices_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/null")):
        for read in (read_release, read_text):
            with pytest.raises(InputError, match="only regular files are read"):
                read(path)
    with pytest.raises(InputError, match="Is a directory"):
        read_release(tmp_path)


def test_a_file_that_grows_is_not_read_without_end(tmp_path, monkeypatch):
    """What a file says of its size may be less than it gives: those of /proc say 0."""
    path = tmp_path / "text"
    path.write_text("x" * 100)
    real = os.fstat

    def fstat(number: int) -> Any:
        found = list(real(number))
        found[6] = 0
        return os.stat_result(found)

    monkeypatch.setattr("pcer.files.os.fstat", fstat)
    assert read_text(path, max_bytes=100) == "x" * 100
    with pytest.raises(InputError, match="has 100 bytes, more than the 99"):
        read_text(path, max_bytes=99)


def with_costs(tree: dict[str, Any]) -> dict[str, Any]:
    for name in ("one", "two"):
        tree["runs"][0]["groups"]["g0"] = {"train": CELLS, "test": CELLS, "exposure": {}}
        row = {"epsilon": None, "group": "g0", "proxy": name, "value": 0.1}
        tree.setdefault("pooled_exposure", []).append(row)
    return tree


def with_notes(tree: dict[str, Any]) -> dict[str, Any]:
    tree["subject"]["notes"] = ["one", "two"]
    return tree


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: release_of(n_seeds=4), "4 runs, more than the 3"),
        (lambda: release_of(budgets=(1.0, 2.0, None)), "3 settings, more than the 2"),
        (lambda: release_of(n_groups=3), "3 groups, more than the 2"),
        (lambda: release_of(n_seeds=3), "6 tables (runs times groups), more than the 5"),
        (lambda: release_of(budgets=(1.0, 2.0)), "4 rows (settings times groups), more than the 3"),
        (lambda: with_costs(release_of()), "2 costs, more than the 1"),
        (lambda: with_notes(release_of()), "2 notes, more than the 1"),
    ],
)
def test_every_limit_is_named_and_can_be_lifted(make: Callable[[], dict[str, Any]], what, tmp_path):
    with pytest.raises(InputError) as caught:
        parse_release(make(), file="x", limits=SMALL)
    assert str(caught.value).startswith(
        f"x holds {what} that are read by default; allow it by name"
    )
    path = tmp_path / "x.release.json"
    path.write_text(json.dumps(make()))
    assert read_release(path, limits=None) == read_release(path)


def test_the_limits_are_those_of_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
    for limit in astuple(replace(LIMITS, n_bytes=64)):
        assert f"{limit:,}" in text
    assert (LIMITS.n_runs, LIMITS.n_settings, LIMITS.n_groups) == (20_000, 500, 200)


def test_a_large_release_is_read_if_it_is_allowed_by_name(tmp_path):
    path = tmp_path / "many.release.json"
    path.write_text(json.dumps(release_of(n_groups=201)))
    refused = audited(path)
    assert refused.returncode == 2
    assert "201 groups, more than the 200" in refused.stderr
    allowed = audited(path, "--allow-large", str(path), "--json", "-")
    assert allowed.returncode == 0
    assert len(json.loads(allowed.stdout)["subject"]["groups"]) == 201


@pytest.mark.parametrize("nonsense", [None, 1, "runs", [1, [2], {"epsilon": {}}], {"a": 1}])
@pytest.mark.parametrize("field", ["runs", "subject", "pooled_exposure", "placebo"])
def test_counting_believes_nothing(field, nonsense):
    with pytest.raises(InputError):
        parse_release({**release_of(), field: nonsense}, file="x")


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.sampled_from('ab,[]{}":\\\n\té😀')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('a,"\\{é')), inner),
)


def n_values(tree: Any) -> int:
    inside = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return 1 + sum(n_values(part) for part in inside)


@given(PLAIN)
def test_values_are_counted_without_parsing(tree):
    """Never too few; an empty list or object is counted as if it held something."""
    text = json.dumps(tree, ensure_ascii=False)
    empty = sum(text.replace(" ", "").count(pair) for pair in ("[]", "{}"))
    assert n_values(tree) <= count_values(text) <= n_values(tree) + empty


@given(PLAIN)
def test_our_text_form_is_the_standard_librarys(tree):
    assert canonical_json(tree) == json.dumps(tree, ensure_ascii=False, indent=1) + "\n"


def test_our_text_form_hides_nothing_and_is_the_same_to_a_parser():
    tree = {"a\u202e": ["\ud800", "\U000e0041", "\u2028", "\x9b", "\uffff", "é 女 😀"]}
    text = canonical_json(tree)
    assert text.replace("\n", "").isprintable()
    assert text.encode()
    assert parse_json(text, file="x") == tree
    assert "é 女 😀" in text


def test_a_whole_number_of_many_digits(tmp_path):
    for digits in (400, 5_000):
        text = json.dumps(release_of()).replace('"seed": 0', f'"seed": {"9" * digits}')
        with pytest.raises(InputError) as caught:
            parse_release(parse_json(text, file="x"), file="x")
        assert len(str(caught.value)) < 250


@pytest.mark.parametrize("name", ["", "  ", "\u3000", "\u200b\u202e", "\u00ad"])
def test_blank_names_are_refused(name):
    tree = release_of()
    tree["subject"]["dataset"] = name
    with pytest.raises(InputError, match=r"subject\.dataset: should .* seen"):
        parse_release(tree, file="x")


@pytest.mark.parametrize(
    ("one", "other"), [("Men", "men"), ("ﬁ", "fi"), ("a", "a\u200b"), ("a", "a ")]
)
def test_two_groups_that_read_alike_are_refused(one, other):
    tree = json.loads(json.dumps(release_of()).replace("g0", one).replace("g1", other))
    with pytest.raises(InputError, match=r"groups: .* and .* read alike; name them apart"):
        parse_release(tree, file="x")


def test_two_models_or_two_costs_that_read_alike_are_refused():
    tree = release_of(n_seeds=2)
    for run, name in zip(tree["runs"], ("Forest", "forest"), strict=True):
        run["model"] = name
    with pytest.raises(InputError, match="'Forest' and 'forest' read alike"):
        parse_release(tree, file="x")
    tree = release_of()
    tree["pooled_exposure"] = [
        {"epsilon": None, "group": "g0", "proxy": name, "value": 0.1} for name in ("mine", "Mine")
    ]
    with pytest.raises(InputError, match="'Mine' and 'mine' read alike"):
        parse_release(tree, file="x")


def test_names_that_only_look_foreign_stay():
    tree = json.loads(json.dumps(release_of()).replace("g0", "זכר").replace("g1", "\u202eb"))
    assert pcer.audit(parse_release(tree, file="x")).subject.groups == ["זכר", "\u202eb"]
