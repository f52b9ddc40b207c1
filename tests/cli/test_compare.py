"""``pcer compare`` as a user meets it: what is printed, written, and said by the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import pcer
from tests.cli.test_audit import GOOD
from tests.commands import run
from tests.pages import HOSTILE, Html, many_groups
from tests.worlds.two_models import TwoModels, draw_both

WORLD = TwoModels(people=(400, 700), old=(0.05, 0.05), new=(0.05, 0.2), n_splits=10)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("both")
    paths = folder / "old.release.json", folder / "new.release.json"
    for path, release in zip(paths, draw_both(WORLD, np.random.default_rng(3)), strict=True):
        pcer.write_release(release, path)
    return paths


@pytest.fixture(scope="module")
def changes(files) -> pcer.Changes:
    return pcer.compare(*map(pcer.read_release, files))


def test_worse_is_exit_1_and_everything_is_named(files, changes):
    done = run("compare", *files, COLUMNS="300")
    said = f"pcer: {files[1]} is worse than {files[0]}.\n"
    assert (done.returncode, done.stderr) == (1, said)
    flat, both = " ".join(done.stdout.split()), (changes.old, changes.new)
    named = [part for one in both for part in (one.title, one.release_sha256[:12])]
    assert all(" ".join(part.split()) in flat for part in [changes.headline, *named])
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert max(map(len, run("compare", *files, COLUMNS="40").stdout.splitlines())) <= 40
    for old, new, words in (
        (files[1], files[0], ["Improved: in g1"]),
        (files[0], files[0], ["cannot be told", "has risen by more than"]),
    ):
        done = run("compare", old, new)
        assert (done.returncode, done.stderr) == (0, "")
        assert all(part in " ".join(done.stdout.split()) for part in words)


def test_json_and_junit(files, changes, tmp_path):
    xml = tmp_path / "compare.xml"
    done = run("compare", *files, "--json", "-", "--junit", xml)
    assert done.returncode == 1
    assert json.loads(done.stdout) == changes.to_tree()
    suite = ElementTree.parse(xml).getroot().find("testsuite")
    said = {one.get("name"): one.get("value") for one in suite.iter("property")}
    assert (said["verdict"], said["old sha256"]) == ("worse", changes.old.release_sha256)
    cases = suite.iter("testcase")
    failed = [case.get("name") for case in cases if case.find("failure") is not None]
    assert failed == ["exposure in g1", "difference of g0 and g1"]
    assert suite.get("failures") == "2"
    assert changes.headline in suite.findtext("system-out")


@pytest.mark.parametrize(
    ("new", "options", "sentence"),
    [
        (None, ("--cost", "lira_advantage"), "the old release does not carry lira_advantage"),
        (None, ("--setting", "tree"), "the setting 'tree' is not in both releases"),
        (None, ("--json", "-", "--junit", "-"), "--junit - is given twice"),
        (GOOD, (), f" and {GOOD}: two releases are compared group"),
        ("nowhere.release.json", (), "nowhere.release.json"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(files, new, options, sentence):
    done = run("compare", files[0], new or files[1], *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pcer: ")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_notebook_shows_it_and_other_peoples_names_are_text(changes):
    text = changes._repr_html_()
    Html(text)
    assert repr(changes).startswith("<Changes: simulated (group), 10 models →")
    release = many_groups(HOSTILE, dataset=HOSTILE[0], attribute=HOSTILE[3])
    found = pcer.compare(release, release)
    assert {tag for tag, _ in Html(found._repr_html_()).elements} <= {
        tag for tag, _ in Html(text).elements
    }
    assert max(map(len, str(found).splitlines())) <= 80
