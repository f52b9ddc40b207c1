"""Habits of a command line: help, examples, quiet, colours, completion, 80 columns."""

import re
import shlex
import shutil
import subprocess
import sys

import pytest
import typer

import pcer
from pcer.cli.app import MORE, START, VERBS, app
from pcer.cli.options import MOST_COMMON
from pcer.cli.outputs import Display
from tests.cli.test_options import Terminal
from tests.commands import GOOD, passed, refusal, run, start, write_rows
from tests.pages import ROOT

GROUP = typer.main.get_command(app)
NAMES = GROUP.list_commands(typer.Context(GROUP))
LONG = {"train", "receipt", "recommend", "demo"}  # they train first
EXAMPLES = [
    pytest.param(
        example,
        marks=pytest.mark.slow if verb.__name__ in LONG else (),
        id=verb.__name__,
    )
    for verb, example in VERBS.items()
]


def test_alone_it_says_what_to_do_next_in_four_lines_that_parse():
    assert passed().stdout == f"{START}\n"
    assert len(START.splitlines()) == 4
    for command in re.findall(r"pcer (\w+)", START):
        assert command in NAMES
    assert max(map(len, START.splitlines())) <= 80
    for words in (("--version",), ("version",), ("-q", "--version")):
        assert passed(*words).stdout == f"pcer {pcer.__version__}\n"


def test_verbs_are_listed_in_the_order_of_work_and_the_rest_under_more():
    page = passed("-h").stdout
    listed = re.findall(r"^│ (\w+)  ", page, re.MULTILINE)
    assert sorted(listed) == sorted(NAMES)
    first, rest = page.split("─ More ─")
    assert all(re.search(rf"^│ {name} ", rest, re.MULTILINE) for name in MORE)
    wanted = ["plan", "train", "release", "audit", "compare", "trend", "verify"]
    wanted += ["reproduce", "demo"]
    assert [name for name in listed if name in wanted] == wanted
    assert all(re.search(rf"^│ {name} ", first, re.MULTILINE) for name in wanted)


@pytest.mark.parametrize("name", NAMES)
def test_help_has_few_options_first_and_an_example(name):
    page = passed(name, "-h").stdout
    assert page == passed(name, "--help").stdout
    assert f"Example: pcer {name}" in " ".join(page.split())
    (panel,) = re.findall(r"─ Options ─.*?╰", page, re.DOTALL)
    shown = re.findall(r"^│ [* ]*(--\S+)", panel, re.MULTILINE)
    assert shown[-1] == "--help"
    assert len(shown) - 1 <= MOST_COMMON


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_in_a_clone(example, tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    words = shlex.split(example.partition(" > ")[0])
    if words[0] == "release":
        rows = [
            [k % 2, k // 2 % 2, "train" if k % 3 else "test", "fm"[k // 4 % 2]]
            for k in range(900)
        ]
        write_rows(tmp_path / "loans.csv", "y_true y_pred split sex", rows)
    before = {
        "verify": "audit examples/compas-forest.release.json --html report.html",
        "receipt": (
            "train compas --attribute race --budgets 1 --seeds 2 --receipts held -o out"
        ),
        "recommend": "train compas --attribute race --budgets none,1 --seeds 8 -o out",
    }
    if words[0] in before:
        passed(*shlex.split(before[words[0]]))
    done = run(*words)
    assert done.returncode in (0, int(words[0] in ("compare", "trend", "recommend"))), (
        done.stderr
    )
    assert done.stdout or done.stderr.startswith("loans.sex.release.json")


def test_quiet_leaves_the_result_the_exit_code_and_errors():
    fail = ("--fail-on", "no_difference_shown")
    loud = passed("audit", GOOD, *fail, code=1)
    for words in (("-q", "audit", GOOD, *fail), ("audit", GOOD, *fail, "--quiet")):
        done = passed(*words, code=1)
        assert done.stdout.endswith("[no_difference_shown]\n")
        assert done.stdout.count("\n") == 1
        assert done.stderr == loud.stderr
    assert "--fail-on is met" in loud.stderr
    brief = passed("audit", GOOD, "-q")
    assert (brief.stdout.count("\n"), brief.stderr) == (1, "")
    assert "More: --full" in passed("audit", GOOD).stdout
    assert "More: --full" not in passed("audit", GOOD, "-q").stdout
    assert "nowhere.json" in refusal("-q", "audit", "nowhere.json")


def test_colours_are_for_terminals_and_can_be_refused():
    forest = ROOT / "examples/compas-forest.release.json"
    terminal = {"TERM": "xterm-256color"}
    coloured = passed("audit", forest, FORCE_COLOR="1", **terminal).stdout
    assert "\x1b[1;31mOften.\x1b[0m" in coloured  # an alarm
    assert "\x1b[1mYes: African-American.\x1b[0m" in coloured  # none
    plain = passed("audit", forest, FORCE_COLOR="1", NO_COLOR="1", **terminal).stdout
    assert not re.search(r"\x1b\[[\d;]*3[0-7]m", plain)
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == passed("audit", forest).stdout


@pytest.mark.slow
def test_shells_complete_verbs_and_options():
    asked = {
        "_PCER_COMPLETE": "complete_bash",
        "COMP_CWORD": "1",
        "COMP_WORDS": "pcer tre",
    }
    assert start(**asked).stdout.split() == ["trend"]
    asked |= {"COMP_CWORD": "2", "COMP_WORDS": "pcer audit --opi"}
    assert start(**asked).stdout.split() == ["--opinion"]
    in_bash = [
        "bash",
        "-c",
        f"{shlex.quote(sys.executable)} -m pcer --show-completion; true",
    ]
    script = subprocess.run(in_bash, capture_output=True, text=True, check=False).stdout
    assert (
        "_PCER_COMPLETE" in script
    )  # the shell that calls is asked for, so call from bash


@pytest.mark.parametrize(
    "name", ["acs", "a table with a name that is as long as a line of text is"]
)
def test_progress_fits_80_columns(name):
    terminal = Terminal(width=80)
    with Display("models", console=terminal) as shown:
        shown.tell(
            f"attacking and counting {name}", done=99_350, total=100_000, found=0
        )
    lines = re.split(r"[\r\n]+", terminal.text())
    assert max(map(len, lines)) <= 80
    told = [line for line in lines if "99350/100000 models" in line]
    assert told
    assert [
        line
        for line in lines
        if line.strip() and line not in told and "start" not in line
    ] == []
