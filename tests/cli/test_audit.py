"""``pcer audit`` and ``verify`` as a user meets them: real files, real processes."""

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

import pcer
from pcer.auditing import read_plan
from pcer.measuring.plan import GUARDED
from tests.commands import GOOD, SAMPLES, passed, refusal
from tests.pages import many_groups
from tests.release.test_file import CELLS, release_of
from tests.worlds.people import draw_null, memorising, world_of

ROOT = SAMPLES.parents[1]
RATES = SAMPLES / "rates.release.json"
FOREST = ROOT / "examples" / "compas-forest.release.json"
FULL = (
    "In plain words",
    "Is anything detected?",
    "As published",
    "Algorithm 1",
    "Floor sens",
)
SHORT = ("Can an attacker", "What each setting gives", "Next: ", "More: --full")


@pytest.fixture(scope="module")
def audited() -> pcer.Audit:
    return pcer.audit(pcer.read_release(GOOD))


def test_the_finding_comes_first_and_the_rest_when_asked_for(audited):
    done = passed("audit", GOOD, COLUMNS="300")
    lines = done.stdout.splitlines()
    assert (lines[0][:12], done.stderr) == ("toy · letter", "")
    assert audited.headline in " ".join(lines)
    assert [part for line in lines for part in SHORT if line.startswith(part)] == list(
        SHORT
    )
    assert not any(part in done.stdout for part in FULL)
    assert "\x1b" not in done.stdout


def test_a_line_for_chats_and_the_papers_view(audited):
    line = passed("audit", GOOD, "--quiet", COLUMNS="40").stdout
    assert audited.headline in line
    assert line.endswith(f"[{audited.verdict.value}]\n")
    assert line.count("\n") == 1
    view = passed("audit", GOOD, "--paper").stdout
    assert view == f"{audited.paper()}\n\n"
    assert not any(part in view for part in ("How sure", "Is anything detected?"))
    assert (
        passed("audit", GOOD, "--paper", "--latex", "-").stdout
        == audited.paper().to_latex()
    )
    assert "Algorithm 1" in passed("audit", GOOD, "--paper", "--markdown", "-").stdout
    assert "choose one" in refusal("audit", GOOD, "--paper", "--full")


def test_a_named_setting_is_told_after_the_headline_and_never_instead_of_it(tmp_path):
    several = tmp_path / "several.release.json"
    pcer.write_release(many_groups(["a", "b"]), several)
    audit = pcer.audit(several)
    other = next(each for each in audit.settings if each is not audit.told)
    for view in ("--quiet", "--full", "--paper"):
        plain, told = (
            " ".join(
                passed("audit", several, view, *more, COLUMNS="300").stdout.split()
            )
            for more in ((), ("--setting", other.epsilon or "none"))
        )
        assert told.startswith(plain[:100])
        assert f": {other.headline} " in told
        assert told.count(f"[{other.verdict.value}]") > plain.count(
            f"[{other.verdict.value}]"
        )
    names = [
        word
        for each in audit.settings
        for word in ("--setting", each.epsilon or "none")
    ]
    page = passed("audit", several, *names, "--markdown", "-").stdout
    for each in audit.settings:
        assert f": {each.headline} ".replace("[", "\\[") in page
    out = tmp_path / "audit.json"
    wrong = refusal("audit", several, "--setting", "7", "--json", out)
    assert "has no single setting called '7'; it has '1' and 'no-DP'" in wrong
    assert not out.exists()


@pytest.mark.parametrize("columns", [40, 60, 80, 300])
def test_every_line_fits_a_terminal_or_a_pipe(columns):
    for options in ((), ("--full",)):
        text = passed("audit", GOOD, *options, COLUMNS=str(columns)).stdout
        assert max(map(len, text.splitlines())) <= min(columns, 80)
    assert columns < 300 or [part for part in FULL if part not in text] == []


def test_json_on_stdout_is_machine_clean():
    done = passed("audit", GOOD, "--json", "-", "--attack", "paired_gap")
    audit = pcer.audit(pcer.read_release(GOOD), attack="paired_gap")
    assert (json.loads(done.stdout), done.stderr) == (audit.to_tree(), "")


def test_a_plan_file_and_options_make_one_plan(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        "floor = 0.02\nfloors = [0.3, 0.02]\nresamples = 50\nrng = 7\n"
        "[policy]\nlargest_exposure = 52\n"
    )
    command = ("audit", GOOD, "--plan", plan, "--attack", "paired_gap", "--json", "-")
    policy = pcer.Policy(largest_exposure=52)
    fields = {"floor": 0.02, "floors": [0.02, 0.3], "resamples": 50, "rng": 7}
    by_hand = pcer.Plan(**fields, attack="paired_gap", policy=policy)
    expected = pcer.audit(pcer.read_release(GOOD), by_hand)
    assert json.loads(passed(*command, code=1).stdout) == expected.to_tree()
    strict = by_hand.model_copy(
        update={"policy": policy.model_copy(update={"strict": True})}
    )
    found = json.loads(passed(*command, "--strict", code=1).stdout)
    assert found["plan_sha256"] == strict.sha256
    assert read_plan(plan).model_fields_set == {*fields, "policy"}


def test_several_releases_and_a_folder(tmp_path):
    for path in (GOOD, RATES):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    listed = passed("audit", *sorted(tmp_path.glob("*.json")), "--json", "-")
    folder = passed("audit", tmp_path, "--json", "-")
    assert folder.stdout == listed.stdout
    assert [audit["format"] for audit in json.loads(folder.stdout)] == [
        "pcer-audit"
    ] * 2
    assert "All releases" in passed("audit", tmp_path).stdout
    (tmp_path / "empty").mkdir()
    assert "holds no *.release.json" in refusal("audit", tmp_path / "empty")


def test_a_statement_that_holds_ends_with_a_finding(tmp_path):
    out = tmp_path / "junit.xml"
    met = passed(
        "audit", GOOD, "--fail-on", "no_difference_shown", "--junit", out, code=1
    )
    assert ElementTree.parse(out).getroot()[0].get("failures") == "1"
    assert "--fail-on is met: toy (letter): no_difference_shown" in met.stderr
    assert "Is one group easier to spot? Not shown." in met.stdout
    passed("audit", GOOD, "--fail-on", "ratio_differs")
    assert "'ratio_differs'" in refusal("audit", GOOD, "--fail-on", "disparity_shown")
    passed("audit", GOOD, "--fail-on", "nonsense", code=2)
    for statement in (
        "double_disadvantage",
        "exposure_differs",
        "ratio_differs",
    ):  # all hold
        options = ("--fail-on", statement, "--junit", out, "--quiet")
        assert (
            "[double_disadvantage]" in passed("audit", FOREST, *options, code=1).stdout
        )
        (failure,) = ElementTree.parse(out).iter("failure")
        words = statement.replace("_", " ")
        assert failure.get("message").startswith(f"{words} found (no DP")
        assert ElementTree.parse(out).find(".//testsuite/system-out") is None


def test_every_format_carries_account_and_floors_and_a_page_verifies(tmp_path, audited):
    formats = ("json", "markdown", "latex", "junit", "html")
    paths = {name: tmp_path / f"a.{name}" for name in formats}
    page = paths["html"]
    figures = tmp_path / "figures"
    options = [part for name, path in paths.items() for part in (f"--{name}", path)]
    done = passed("audit", GOOD, *options, "--figures", figures, "--full")
    assert f"Report: {page}" in done.stdout
    for name, path in paths.items():
        if name == "junit":  # a sentence for each rule, and no account
            continue
        text = path.read_text(encoding="utf-8")
        assert audited.account[-1].split(":")[0] in text, name
        assert "0.0001" in text, name
    assert r"\toprule" in paths["latex"].read_text()
    assert ElementTree.parse(paths["junit"]).getroot()[0].get("tests") == "1"
    assert {path.suffix for path in figures.iterdir()} == {".svg", ".png", ".pdf"}
    assert "every byte agrees" in passed("verify", page).stdout
    passed("verify", page, GOOD)
    page.write_text(page.read_text().replace("letter", "number", 1))
    assert "differs at line" in passed("verify", page, code=1).stdout
    page.write_text("<html></html>")
    assert "not a report of pcer" in refusal("verify", page)


def test_verify_several_at_once(tmp_path):
    out = tmp_path / "all.audit.json"
    passed("audit", GOOD, RATES, "--json", out)
    verify = ("verify", out, RATES)
    other = passed(*verify, SAMPLES / "by-hand.release.json", code=1).stdout
    assert "holds no audit of" in other
    assert (
        len([line for line in other.splitlines() if line.startswith("SHA-256 ")]) == 4
    )
    assert "an audit of release" in passed(*verify, code=1).stdout
    plan = json.loads(out.read_text())[0]["plan_sha256"]
    for digest, code in ((plan, 0), ("0" * 64, 1), ("0", 2)):
        passed(*verify, GOOD, "--plan-sha256", digest, code=code)


def test_large_files_are_allowed_by_name(tmp_path):
    path = tmp_path / "large.release.json"
    path.write_text(GOOD.read_text() + " " * 64_000_000)
    assert "allow it by name" in refusal("audit", path)
    passed("audit", path, "--allow-large", path, "--json", "-")


def test_the_schema_is_that_of_the_audit_file():
    assert (
        json.loads(passed("schema", "audit").stdout)["title"] == "pcer audit, version 4"
    )


# The documented guard is red on data that can show nothing, and green on data that
# showed it.


@pytest.fixture(scope="module")
def guard() -> list[str]:
    """The options of the guard that docs/reports.md prints."""
    text = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    command = next(
        re.finditer(r"(?:^    .*\\\n)*^    .*--fail-on.*$", text, re.MULTILINE)
    )
    options = re.findall(r"--fail-on \w+", command.group().replace("\\\n", " "))
    asked = {option.split()[1] for option in options}
    assert (
        {"none_detected", "insufficient_data", "exposure_differs"}
        <= asked
        <= {*GUARDED}
    )
    return " ".join(options).split()


FOUR_ROWS = [[(1, 0, 0, 0), (0, 1, 0, 0)], [(0, 0, 1, 0), (0, 0, 0, 1)]]
ALL_RIGHT = [[(350, 0, 350, 0), (150, 0, 150, 0)]] * 2
"""By group, tp, fp, tn and fn in training and in test."""


@pytest.mark.parametrize(
    "tables", [FOUR_ROWS, ALL_RIGHT], ids=["four rows", "all right"]
)
def test_it_is_red_where_nothing_can_be_shown(tables, tmp_path, guard):
    path = tmp_path / "x.release.json"
    report = tmp_path / "x.xml"
    tree = release_of()
    for name, group in zip(tree["subject"]["groups"], tables, strict=True):
        parts = zip(("train", "test"), group, strict=True)
        tree["runs"][0]["groups"][name] = {
            p: dict(zip(CELLS, t, strict=True)) for p, t in parts
        }
    path.write_text(json.dumps(tree))
    done = passed("audit", path, "--junit", report, *guard, code=1)
    assert re.search("insufficient_data|none_detected", done.stderr)
    assert 'failures="1"' in report.read_text()


def test_it_is_red_on_an_example_and_green_where_nobody_pays_more(tmp_path, guard):
    example = ROOT / "examples" / "compas-logistic.release.json"
    assert "none_detected" in passed("audit", example, *guard, code=1).stderr
    people = memorising(0.1, 0.8)
    world = world_of([4_000, 4_000], [0.4, 0.4], people, n_splits=5, are_twins=True)
    path = tmp_path / "x.release.json"
    path.write_text(draw_null(world, np.random.default_rng(3)).release().to_json())
    passed("audit", path, *guard)
