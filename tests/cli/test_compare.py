"""The verbs that help to choose: what is printed and written, and the exit code."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import pcer
from pcer.report.pictures.decisions import outlook_chart
from pcer.report.show import trend_page
from tests.commands import GOOD, run
from tests.pages import HOSTILE, Html, many_groups
from tests.worlds.two_models import TwoModels, draw_both

SIZES = (
    "plan",
    "--groups",
    "Women=1200,Men=3400",
    "--accuracy",
    ".8",
    "--splits",
    "20",
)
WORLD = TwoModels(people=(400, 700), old=(0.05, 0.05), new=(0.05, 0.2), n_splits=10)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("both")
    paths = folder / "old.release.json", folder / "new.release.json"
    for path, release in zip(
        paths, draw_both(WORLD, np.random.default_rng(3)), strict=True
    ):
        pcer.write_release(release, path)
    return paths


@pytest.fixture(scope="module")
def changes(files) -> pcer.Changes:
    return pcer.compare(*map(pcer.read_release, files))


def test_worse_is_exit_1_and_everything_is_named(files, changes):
    done = run("compare", *files, COLUMNS="300")
    said = f"pcer: {files[1]} is worse than {files[0]}.\n"
    assert (done.returncode, done.stderr) == (1, said)
    flat = " ".join(done.stdout.split())
    both = (changes.old, changes.new)
    named = [part for one in both for part in (one.title, one.release_sha256[:12])]
    assert all(" ".join(part.split()) in flat for part in [changes.headline, *named])
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert max(map(len, run("compare", *files, COLUMNS="40").stdout.splitlines())) <= 40
    for old, new, words in (
        (files[1], files[0], ["Improved: exposure of g1 fell"]),
        (files[0], files[0], ["same release", "nothing changed"]),
    ):
        done = run("compare", old, new)
        assert (done.returncode, done.stderr) == (0, "")
        assert all(part in " ".join(done.stdout.split()) for part in words)


def test_files_of_a_comparison_say_what_it_says(files, changes, tmp_path):
    xml = tmp_path / "compare.xml"
    done = run("compare", *files, "--json", "-", "--junit", xml)
    assert done.returncode == 1
    assert json.loads(done.stdout) == changes.to_tree()
    suite = ElementTree.parse(xml).getroot().find("testsuite")
    said = {one.get("name"): one.get("value") for one in suite.iter("property")}
    assert (said["verdict"], said["old sha256"]) == (
        "worse",
        changes.old.release_sha256,
    )
    said = [each.text for each in suite.iter("failure")]
    assert [text.split(" rose ")[0].split(" grew ")[0] for text in said] == [
        "Exposure of g1",
        "The exposure difference between g0 and g1",
    ]
    cases = suite.iter("testcase")
    failed = [case.get("name") for case in cases if case.find("failure") is not None]
    assert failed == ["exposure in g1", "difference of g0 and g1"]
    assert (suite.get("tests"), suite.get("failures")) == ("4", "2")
    assert suite.find("system-out") is None  # one sentence a failure, no account


def test_a_trend_is_printed_written_and_exits_1_where_the_last_is_worse(
    files, tmp_path
):
    old, new = files
    page = tmp_path / "trend.html"
    out = tmp_path / "trend.json"
    done = run("trend", old, old, new, "--html", page, "--json", out, COLUMNS="60")
    assert (done.returncode, done.stderr) == (1, f"pcer: {new} is worse than {old}.\n")
    found = pcer.trend([pcer.read_release(path) for path in (old, old, new)])
    assert json.loads(out.read_text()) == found.to_tree()
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 60  # the last names a file
    elements = Html(page.read_text(encoding="utf-8")).elements
    tags = [tag for tag, _ in elements]
    assert {"svg", "table"} <= {*tags}
    assert "script" not in tags
    assert (
        sum(tag == "g" for tag in tags) == 1 + 3 * 2
    )  # a mark for every version and group
    assert run("trend", new, old, "-q").returncode == 0
    hostile = many_groups(HOSTILE, dataset=HOSTILE[0], attribute=HOSTILE[3])
    assert {*tags} >= {
        tag for tag, _ in Html(trend_page(pcer.trend([hostile] * 2))).elements
    }


def test_a_notebook_shows_changes_and_an_outlook_and_other_peoples_names_are_text(
    changes,
):
    release = many_groups(HOSTILE, dataset=HOSTILE[0], attribute=HOSTILE[3])
    outlooks = [
        pcer.detectable({women: 1_200, "men": 3_400}) for women in ("w", "<b>women</b>")
    ]
    others = pcer.compare(release, release, settings="1=none")
    for plain, hostile in ((changes, others), outlooks):
        tags = [
            {tag for tag, _ in Html(one._repr_html_()).elements}
            for one in (plain, hostile)
        ]
        assert {"table"} <= tags[1] <= tags[0]
        assert max(map(len, str(hostile).splitlines())) <= 80
    assert repr(changes).startswith("<Changes: simulated (group), 10 models →")
    assert repr(outlooks[0]).startswith("<Outlook: What 20 splits could show")


# Before anything is trained


def test_sizes_or_a_release_give_tables_that_fit_sentences_and_json(tmp_path):
    done = run(
        *SIZES,
        "--test-size",
        ".3",
        "--attack",
        "gap",
        "--target",
        "0.005",
        COLUMNS="300",
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = pcer.detectable({"Women": 1200, "Men": 3400}, target=0.005)
    flat = " ".join(done.stdout.split())
    assert flat.startswith("What 20 splits could show: Women 1,200, Men 3,400")
    parts = ("Smallest that would be seen", "other numbers of splits", *found.sentences)
    assert all(" ".join(part.split()) in flat for part in parts)
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert max(map(len, run(*SIZES, COLUMNS="40").stdout.splitlines())) <= 40
    done = run(*SIZES, "--json", "-")
    found = pcer.detectable({"Women": 1200, "Men": 3400})
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == found.to_tree()
    path = tmp_path / "outlook.json"
    assert run(*SIZES, "--json", path).stdout.startswith("What 20 splits")
    assert path.read_text(encoding="utf-8") == found.to_json()
    earlier = run("plan", GOOD, "--target", "0.05")
    assert (earlier.returncode, "toy (letter)" in earlier.stdout) == (0, True)


def test_the_picture_is_drawn_in_three_formats_and_in_a_notebook(tmp_path):
    found = pcer.detectable({"women": 1_200, "men": 3_400})
    drawn = [tmp_path / f"outlook{kind}" for kind in (".pdf", ".png", ".svg")]
    for path in drawn:
        found.plot().save(path)
        assert path.stat().st_size > 0
    svg = drawn[-1].read_text(encoding="utf-8")
    assert all(
        words in svg for words in ("exposure, women", "smallest that would be shown")
    )
    assert found.plot()._repr_svg_().startswith("<svg")
    chart = outlook_chart(found)
    (panel,) = chart.panels
    names = [key.text for key in chart.keys]
    assert names == ["exposure, women", "exposure, men", "difference, women and men"]
    splits, amounts = zip(*panel.curves[1].points, strict=True)
    assert list(splits) == [point.n_splits for point in found.over_splits]
    men = [100 * (point.exposure["men"] or 0.0) for point in found.over_splits]
    assert amounts == pytest.approx(men)
    assert [rule.x for rule in panel.rules] == [found.n_splits]
    # No line needs colour: differences are broken, and marks have shapes.
    assert [bool(curve.dash) for curve in panel.curves] == [False, False, True]
    assert len({key.shape for key in chart.keys}) == len(chart.keys)
    many = outlook_chart(pcer.detectable({f"group {k}": 900 + k for k in range(9)}))
    names = [key.text for key in many.keys]
    assert names == ["exposure, in every group", "difference, between any two"]
