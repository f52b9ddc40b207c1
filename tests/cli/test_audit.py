"""The command line as a user meets it: real files, and real processes where they could matter."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

import pcer
from tests.commands import run

SAMPLES = Path(__file__).parents[1] / "releases"
GOOD = SAMPLES / "counts.release.json"
BAD = sorted(
    path
    for path in SAMPLES.glob("*.release.json")
    if path.name.split(".")[0] not in ("counts", "rates", "by-hand", "version-2")
)


FULL = ("In plain words", "Advice", "Is it signal?", "As published", "Algorithm 1", "Floor sens")


def test_the_finding_comes_first_and_the_rest_when_asked_for():
    done = run("audit", GOOD, COLUMNS="300")
    audit = pcer.audit(pcer.read_release(GOOD))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "toy (letter): no disparity shown"
    assert " ".join(lines[1:]).startswith(audit.headline)
    for part in ("Who receives what, and who is exposed", "Can it be trusted?", "What can be done"):
        assert any(line.startswith(part) for line in lines), part
    assert not any(part in done.stdout for part in FULL)
    assert "--full" in lines[-1]
    everything = run("audit", GOOD, "--full", COLUMNS="300").stdout
    assert [part for part in FULL if part not in everything] == []
    for text in (done.stdout, everything):
        assert max(map(len, text.splitlines())) <= 80
        assert "\x1b" not in text


def test_a_narrow_terminal_and_a_pipe_get_lines_that_fit():
    for columns in (40, 60, 80):
        for options in ((), ("--full",)):
            text = run("audit", GOOD, *options, COLUMNS=str(columns)).stdout
            assert max(map(len, text.splitlines())) <= columns


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.name.split(".")[0])
def test_bad_input_is_one_sentence_and_exit_2(path, tmp_path):
    out = tmp_path / "out.json"
    done = run("audit", path, "--json", out)
    assert done.returncode == 2
    assert done.stderr.startswith("pcer: ")
    assert done.stderr.count("\n") == 1
    assert path.name in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_output_that_cannot_be_written(tmp_path):
    done = run("audit", GOOD, "--json", tmp_path / "a.json", "--latex", tmp_path / "no" / "b.tex")
    assert done.returncode == 2
    assert "b.tex cannot be written" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_json_on_stdout_is_machine_clean():
    done = run("audit", GOOD, "--json", "-", "--cost", "paired_gap")
    audit = pcer.audit(pcer.read_release(GOOD), cost="paired_gap")
    assert (json.loads(done.stdout), done.stderr) == (audit.to_tree(), "")


def test_several_releases_and_a_folder(tmp_path):
    for name in ("counts", "rates"):
        (tmp_path / f"{name}.release.json").write_bytes(
            (SAMPLES / f"{name}.release.json").read_bytes()
        )
    listed = run("audit", *sorted(tmp_path.glob("*.json")), "--json", "-")
    folder = run("audit", tmp_path, "--json", "-")
    assert folder.stdout == listed.stdout
    assert [audit["format"] for audit in json.loads(folder.stdout)] == ["pcer-audit"] * 2
    assert "All releases" in run("audit", tmp_path).stdout
    empty = tmp_path / "empty"
    empty.mkdir()
    done = run("audit", empty)
    assert (done.returncode, "holds no *.release.json" in done.stderr) == (2, True)


def test_fail_on(tmp_path):
    out = tmp_path / "junit.xml"
    met = run("audit", GOOD, "--fail-on", "no_disparity_shown", "--junit", out)
    assert met.returncode == 1
    assert ElementTree.parse(out).getroot()[0].get("failures") == "1"
    assert "--fail-on is met: toy (letter): no_disparity_shown" in met.stderr
    assert "toy (letter): no disparity shown" in met.stdout
    assert run("audit", GOOD, "--fail-on", "disparity_shown").returncode == 0
    assert run("audit", GOOD, "--fail-on", "nonsense").returncode == 2


def test_every_format_carries_account_and_floors(tmp_path):
    paths = {
        name: tmp_path / f"a.{name}" for name in ("json", "markdown", "latex", "junit", "html")
    }
    done = run("audit", GOOD, *(part for n, p in paths.items() for part in (f"--{n}", p)))
    assert done.returncode == 0
    account = pcer.audit(pcer.read_release(GOOD)).account[-1]
    for name, path in paths.items():
        text = path.read_text(encoding="utf-8")
        assert account.split(":")[0] in text, name
        assert "0.0001" in text, name
    assert r"\toprule" in paths["latex"].read_text()
    suite = ElementTree.parse(paths["junit"]).getroot()[0]
    assert suite.get("tests") == "2"


def test_html_and_figures_are_named_and_verify(tmp_path):
    page, folder = tmp_path / "report.html", tmp_path / "figures"
    done = run("audit", GOOD, "--html", page, "--figures", folder)
    assert done.returncode == 0
    assert f"Report: {page}" in done.stdout
    assert {path.suffix for path in folder.iterdir()} == {".svg", ".png", ".pdf"}
    good = run("verify", page)
    assert (good.returncode, "every byte agrees" in good.stdout) == (0, True)
    assert run("verify", page, GOOD).returncode == 0
    page.write_text(page.read_text().replace("no disparity shown", "disparity shown", 1))
    bad = run("verify", page)
    assert (bad.returncode, "differs at line" in bad.stdout) == (1, True)
    page.write_text("<html></html>")
    refused = run("verify", page)
    assert (refused.returncode, "not a report of pcer" in refused.stderr) == (2, True)


def test_figures_leave_nothing_behind_on_failure(tmp_path):
    done = run("audit", GOOD, "--figures", tmp_path / "f", "--html", tmp_path / "no" / "r.html")
    assert (done.returncode, "r.html cannot be written" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []
    assert "needs a folder" in run("audit", GOOD, "--figures", "-").stderr
    deep = run("audit", GOOD, "--figures", tmp_path / "a" / "b")
    assert (deep.returncode, "cannot be written" in deep.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--floor", "0"), "floor"),
        (("--floor", "nan"), "floor"),
        (("--floors", "0.1,x"), "--floors must be numbers"),
        (("--resamples", "0"), "resamples"),
        (("--reference", "zebra"), "its groups are a, b"),
        (("--cost", "lira_advantage"), "it carries"),
        (("--rng", "-1"), "rng"),
    ],
)
def test_bad_options(options, message):
    done = run("audit", GOOD, *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_outputs_never_overwrite_inputs_or_each_other(tmp_path):
    copy = tmp_path / "c.release.json"
    copy.write_bytes(GOOD.read_bytes())
    assert "overwrite a release" in run("audit", copy, "--json", copy).stderr
    twice = run("audit", copy, "--json", tmp_path / "x", "--latex", tmp_path / "x")
    assert (twice.returncode, "given twice" in twice.stderr) == (2, True)
    assert copy.read_bytes() == GOOD.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["c.release.json"]


def test_verify_passes_and_fails(tmp_path):
    out = tmp_path / "a.audit.json"
    run("audit", GOOD, "--json", out)
    unnamed = run("verify", out)
    assert (unnamed.returncode, "needs the release" in unnamed.stderr) == (2, True)
    good = run("verify", out, GOOD)
    assert (good.returncode, "every number agrees" in good.stdout) == (0, True)
    tree = json.loads(out.read_text())
    tree["budgets"][0]["groups"]["a"]["cost"]["value"] += 0.001
    out.write_text(json.dumps(tree))
    bad = run("verify", out, GOOD)
    assert bad.returncode == 1
    assert "budgets[0].groups.a.cost.value" in bad.stdout
    out.write_text("{}")
    assert run("verify", out, GOOD).returncode == 2


def test_verify_several_at_once(tmp_path):
    out = tmp_path / "all.audit.json"
    rates = SAMPLES / "rates.release.json"
    run("audit", GOOD, rates, "--json", out)
    assert run("verify", out, rates, GOOD).returncode == 0
    other = run("verify", out, rates, SAMPLES / "by-hand.release.json")
    assert (other.returncode, "holds no audit of" in other.stdout) == (1, True)
    assert len([line for line in other.stdout.splitlines() if line.startswith("SHA-256 ")]) == 4
    dropped = run("verify", out, rates)
    assert (dropped.returncode, "an audit of release" in dropped.stdout) == (1, True)
    plan = json.loads(out.read_text())[0]["plan_sha256"]
    assert run("verify", out, rates, GOOD, "--plan-sha256", plan).returncode == 0
    assert run("verify", out, rates, GOOD, "--plan-sha256", "0" * 64).returncode == 1
    assert run("verify", out, rates, GOOD, "--plan-sha256", "0").returncode == 2


def test_large_files_are_allowed_by_name(tmp_path):
    path = tmp_path / "large.release.json"
    path.write_text(GOOD.read_text() + " " * 64_000_000)
    refused = run("audit", path)
    assert (refused.returncode, "allow it by name" in refused.stderr) == (2, True)
    assert run("audit", path, "--allow-large", path, "--json", "-").returncode == 0


def test_schema_and_version():
    schema = json.loads(run("schema", "audit").stdout)
    assert schema["title"] == "pcer audit, version 2"
    assert run("version").stdout == f"pcer {pcer.__version__}\n"


def test_hostile_names_are_shown_as_text(tmp_path):
    tree = json.loads(GOOD.read_text())
    hostile = "<script>alert(1)</script> [red]x[/red] | $\\input{a}$ {{7*7}} 🙂"
    tree["subject"]["dataset"] = hostile
    path = tmp_path / "h.release.json"
    path.write_text(json.dumps(tree))
    assert "[red]x[/red]" in run("audit", path).stdout
    markdown = run("audit", path, "--markdown", "-").stdout
    assert "<script>" not in markdown
    latex = run("audit", path, "--latex", "-").stdout
    assert r"\input" not in latex
    junit = ElementTree.fromstring(run("audit", path, "--junit", "-").stdout)
    assert hostile in junit[0].get("name")
