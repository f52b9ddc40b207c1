"""``pcer plan`` as a user meets it."""

from __future__ import annotations

import json

import pytest

import pcer
from tests.cli.test_audit import GOOD
from tests.commands import run
from tests.pages import Html

SIZES = ("plan", "--groups", "Women=1200,Men=3400", "--accuracy", ".8", "--splits", "20")


def test_sizes_give_tables_that_fit_sentences_and_json(tmp_path):
    done = run(*SIZES, "--test-size", ".3", "--cost", "gap", "--target", "0.005", COLUMNS="300")
    assert (done.returncode, done.stderr) == (0, "")
    found = pcer.detectable({"Women": 1200, "Men": 3400}, target=0.005)
    flat = " ".join(done.stdout.split())
    assert flat.startswith("What 20 splits could show: Women 1,200, Men 3,400")
    parts = ("Smallest that would be shown", "other numbers of splits", *found.sentences)
    assert all(" ".join(part.split()) in flat for part in parts)
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert max(map(len, run(*SIZES, COLUMNS="40").stdout.splitlines())) <= 40
    done, found = run(*SIZES, "--json", "-"), pcer.detectable({"Women": 1200, "Men": 3400})
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == found.to_tree()
    path = tmp_path / "outlook.json"
    assert run(*SIZES, "--json", path).stdout.startswith("What 20 splits")
    assert path.read_text(encoding="utf-8") == found.to_json()


def test_an_earlier_release_is_named_in_errors():
    done = run("plan", GOOD, "--target", "0.05")
    assert done.returncode == 0
    assert "toy (letter)" in done.stdout
    refused = run("plan", GOOD, "--cost", "lira_advantage")
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"pcer: {GOOD}: cost 'lira_advantage' is not in this release")


def test_the_picture_is_drawn_in_three_formats(tmp_path):
    assert run(*SIZES, "--figures", tmp_path / "figures").returncode == 0
    drawn = {path.name: path for path in (tmp_path / "figures").iterdir()}
    assert drawn.keys() == {"outlook.pdf", "outlook.png", "outlook.svg"}
    svg = drawn["outlook.svg"].read_text(encoding="utf-8")
    assert "exposure, Women" in svg
    assert "smallest that would be shown" in svg


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("plan",), "needs either a release or --groups"),
        (("plan", GOOD, "--groups", "a=1,b=2"), "needs either a release or --groups"),
        (("plan", "--groups", "a=100,b=x"), "--groups must be names with a whole number each"),
        (("plan", "--groups", "a=100,a=200"), "every name once"),
        (("plan", "--groups", "100,200"), "--groups must be names"),
        (("plan", "--groups", "a=100,b=200", "--accuracy", "x"), "--accuracy must be names"),
        (("plan", "--groups", "a=100,b=200", "--splits", "0"), "n_splits must be a whole number"),
        (("plan", "nowhere.release.json"), "nowhere.release.json"),
        (("plan", GOOD, "--json", GOOD), "would overwrite a release"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(arguments, sentence):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_notebook_shows_it_and_draws_it():
    found = pcer.detectable({"<b>women</b>": 1_200, "men": 3_400})
    assert {tag for tag, _ in Html(found._repr_html_()).elements} & {"b", "table"} == {"table"}
    assert max(map(len, str(found).splitlines())) <= 80
    assert repr(found).startswith("<Outlook: What 20 splits could show")
    spec = found.plot().to_dict()  # Altair checks it against Vega-Lite's schema
    rows = spec["datasets"]["outlook"]
    points = [row for row in rows if row["line"] == "exposure, men"]
    assert [row["splits"] for row in points] == [one.n_splits for one in found.over_splits]
    amounts = [one.exposure["men"] for one in found.over_splits]
    assert [row["amount"] for row in points] == pytest.approx(amounts)
    many = pcer.detectable({f"group {k}": 900 + k for k in range(9)})
    lines = {row["line"] for row in many.plot().to_dict()["datasets"]["outlook"]}
    assert lines == {"exposure, in every group", "difference, between any two"}
