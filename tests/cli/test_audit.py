"""The command line as a user meets it: real files, and real processes where they could matter."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

import pcer
from tests.commands import SAMPLES, passed, refusal

GOOD, RATES = SAMPLES / "counts.release.json", SAMPLES / "rates.release.json"
FULL = ("In plain words", "Advice", "Is it signal?", "As published", "Algorithm 1", "Floor sens")
SHORT = ("Who receives what, and who is exposed", "Can it be trusted?", "What can be done")


@pytest.fixture(scope="module")
def audited() -> pcer.Audit:
    return pcer.audit(pcer.read_release(GOOD))


def test_the_finding_comes_first_and_the_rest_when_asked_for(audited):
    done = passed("audit", GOOD, COLUMNS="300")
    lines = done.stdout.splitlines()
    assert (lines[0], done.stderr) == ("toy (letter): no disparity shown", "")
    assert " ".join(lines[1:]).startswith(audited.headline)
    assert all(any(line.startswith(part) for line in lines) for part in SHORT)
    assert not any(part in done.stdout for part in FULL)
    assert "--full" in lines[-1]
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(("columns", "width"), [(40, 40), (60, 60), (80, 80), (300, 80)])
def test_every_line_fits_a_terminal_or_a_pipe(columns, width):
    for options in ((), ("--full",)):
        text = passed("audit", GOOD, *options, COLUMNS=str(columns)).stdout
        assert max(map(len, text.splitlines())) <= width
    assert columns < 300 or [part for part in FULL if part not in text] == []


def test_json_on_stdout_is_machine_clean():
    done = passed("audit", GOOD, "--json", "-", "--cost", "paired_gap")
    audit = pcer.audit(pcer.read_release(GOOD), cost="paired_gap")
    assert (json.loads(done.stdout), done.stderr) == (audit.to_tree(), "")


def test_several_releases_and_a_folder(tmp_path):
    for path in (GOOD, RATES):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    listed = passed("audit", *sorted(tmp_path.glob("*.json")), "--json", "-")
    folder = passed("audit", tmp_path, "--json", "-")
    assert folder.stdout == listed.stdout
    assert [audit["format"] for audit in json.loads(folder.stdout)] == ["pcer-audit"] * 2
    assert "All releases" in passed("audit", tmp_path).stdout
    (tmp_path / "empty").mkdir()
    assert "holds no *.release.json" in refusal("audit", tmp_path / "empty")


def test_fail_on(tmp_path):
    out = tmp_path / "junit.xml"
    met = passed("audit", GOOD, "--fail-on", "no_disparity_shown", "--junit", out, code=1)
    assert ElementTree.parse(out).getroot()[0].get("failures") == "1"
    assert "--fail-on is met: toy (letter): no_disparity_shown" in met.stderr
    assert "toy (letter): no disparity shown" in met.stdout
    passed("audit", GOOD, "--fail-on", "disparity_shown")
    passed("audit", GOOD, "--fail-on", "nonsense", code=2)


def test_every_format_carries_account_and_floors(tmp_path, audited):
    formats = ("json", "markdown", "latex", "junit", "html")
    paths = {name: tmp_path / f"a.{name}" for name in formats}
    passed("audit", GOOD, *(part for n, p in paths.items() for part in (f"--{n}", p)))
    for name, path in paths.items():
        text = path.read_text(encoding="utf-8")
        assert audited.account[-1].split(":")[0] in text, name
        assert "0.0001" in text, name
    assert r"\toprule" in paths["latex"].read_text()
    assert ElementTree.parse(paths["junit"]).getroot()[0].get("tests") == "2"


def test_html_and_figures_are_named_and_verify(tmp_path):
    page, folder = tmp_path / "report.html", tmp_path / "figures"
    done = passed("audit", GOOD, "--html", page, "--figures", folder)
    assert f"Report: {page}" in done.stdout
    assert {path.suffix for path in folder.iterdir()} == {".svg", ".png", ".pdf"}
    assert "every byte agrees" in passed("verify", page).stdout
    passed("verify", page, GOOD)
    page.write_text(page.read_text().replace("no disparity shown", "disparity shown", 1))
    assert "differs at line" in passed("verify", page, code=1).stdout
    page.write_text("<html></html>")
    assert "not a report of pcer" in refusal("verify", page)


def test_verify_passes_and_fails(tmp_path):
    out = tmp_path / "a.audit.json"
    passed("audit", GOOD, "--json", out)
    assert "needs the release" in refusal("verify", out)
    assert "every number agrees" in passed("verify", out, GOOD).stdout
    tree = json.loads(out.read_text())
    tree["budgets"][0]["groups"]["a"]["cost"]["value"] += 0.001
    out.write_text(json.dumps(tree))
    assert "budgets[0].groups.a.cost.value" in passed("verify", out, GOOD, code=1).stdout
    out.write_text("{}")
    passed("verify", out, GOOD, code=2)


def test_verify_several_at_once(tmp_path):
    out = tmp_path / "all.audit.json"
    passed("audit", GOOD, RATES, "--json", out)
    verify = ("verify", out, RATES)
    passed(*verify, GOOD)
    other = passed(*verify, SAMPLES / "by-hand.release.json", code=1).stdout
    assert "holds no audit of" in other
    assert len([line for line in other.splitlines() if line.startswith("SHA-256 ")]) == 4
    assert "an audit of release" in passed(*verify, code=1).stdout
    plan = json.loads(out.read_text())[0]["plan_sha256"]
    for digest, code in ((plan, 0), ("0" * 64, 1), ("0", 2)):
        passed(*verify, GOOD, "--plan-sha256", digest, code=code)


def test_large_files_are_allowed_by_name(tmp_path):
    path = tmp_path / "large.release.json"
    path.write_text(GOOD.read_text() + " " * 64_000_000)
    assert "allow it by name" in refusal("audit", path)
    passed("audit", path, "--allow-large", path, "--json", "-")


def test_schema_and_version():
    assert json.loads(passed("schema", "audit").stdout)["title"] == "pcer audit, version 2"
    assert passed("version").stdout == f"pcer {pcer.__version__}\n"
