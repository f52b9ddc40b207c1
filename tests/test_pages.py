"""Pages say what the program does: Python runs, commands parse and run, numbers are today's."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import typer

import pcer
from pcer.auditing.policy import read_policy
from pcer.auditing.verdict import BUDGET_VERDICTS
from pcer.cli import app as cli
from pcer.cli.parts import RunFile, read_config
from pcer.release.format import parse_release
from tests import page_stages
from tests.commands import run

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    *sorted(
        path.relative_to(ROOT).as_posix()
        for folder in ("docs", "studies/docs")
        for path in (ROOT / folder).glob("*.md")
    ),
]
OTHERS = ["CONTRIBUTING.md", "SECURITY.md", "studies/paper/README.md"]
# Pages whose Python audits a whole study, or trains.
LONG = {"studies/docs/study.md", "docs/opacus.md", "docs/training.md", "docs/models.md"}


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def pages_with(language: str, pages: list[str]) -> list[str]:
    return [page for page in pages if blocks(page, language)]


def test_no_page_shows_code_in_a_way_that_nobody_runs():
    for page in (*PAGES, *OTHERS):
        marks = re.findall(r"^ *```(\w+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert set(marks) <= {"python", "console", "text", "json", "toml"}, page
        assert len(marks) == sum(len(blocks(page, one)) for one in set(marks)), page


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page in LONG else ())
        for page in pages_with("python", PAGES)
    ],
)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch, capsys):
    """A page whose code needs a name or a file gets it in ``page_stages``."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page", **page_stages.STAGES.get(page, lambda folder: {})(tmp_path)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus remarks on itself
        for number, code in enumerate(blocks(page, "python"), 1):
            exec(compile(code, f"{page}, block {number}", "exec"), names)
    for name in [one for one in sys.modules if one.partition(".")[0] == page_stages.PRETENDED]:
        del sys.modules[name]
    assert SHOWN.get(page, lambda names, told: True)(names, capsys.readouterr().out)


@pytest.mark.parametrize("page", pages_with("toml", PAGES))
def test_the_policies_and_run_files_of_a_page_can_be_read(page, tmp_path):
    path = tmp_path / "pcer.toml"
    for text in blocks(page, "toml"):
        path.write_text(text, encoding="utf-8")
        if tomllib.loads(text).keys() <= RunFile.model_fields.keys():
            assert any(value is not None for value in read_config(path).values())
        else:
            assert read_policy(path).fail_on


SHOWN: dict[str, Callable[[dict[str, Any], str], bool]] = {
    "docs/reports.md": lambda names, told: told == "".join(blocks("docs/reports.md", "text")),
    "docs/training.md": lambda names, told: names["found"].logits.shape == (2, 3, 400),
    "docs/models.md": lambda names, told: (
        told.split("\n")[1] == "['bayes', 'forest']"
        and told.endswith(blocks("docs/models.md", "text")[0])
    ),
    "docs/opacus.md": lambda names, told: (
        told.strip() == pcer.audit(names["release"]).headline
        and 1.5 < names["release"].runs[0].epsilon <= 2.0
        and names["make_net"](5)[-1].out_features == 1
    ),
}
"""Of pages that say what comes out, whether it does; from their names and what was printed."""


def commands(page: str) -> Iterator[list[str]]:
    """The words of every command of a page, without its comment."""
    for line in "".join(blocks(page, "console")).replace("\\\n", " ").splitlines():
        if line.strip():
            assert line.startswith("$ "), line
            for part in line[2:].split(" && "):
                yield shlex.split(part, comments=True)


ELLIPSIS = shlex.split("--label approved --positive yes --outcome benefit --attribute sex -o out")
"""What stands for three dots in a command."""


@pytest.mark.parametrize("page", pages_with("console", [*PAGES, *OTHERS]))
def test_commands_parse(page):
    """Every verb, option and value is one that the program takes; none is run."""
    group = typer.main.get_command(cli.app)
    context = typer.Context(group, info_name="pcer")
    for words in commands(page):
        if words[0].endswith("pcer"):
            verb = group.get_command(context, words[1])
            assert verb is not None, words
            spelt = chain.from_iterable(ELLIPSIS if w == "..." else [w] for w in words[2:])
            verb.make_context(words[1], [*spelt], parent=context)
        else:
            check_other(*words)


def check_other(program: str, *words: str) -> None:
    """What can be looked at where a command is not pcer's own; others are not known."""
    if program == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert all(f"\n{target}:" in makefile for target in words), words
    elif program.endswith("pip") or (program, words[0]) == ("uv", "pip"):
        check_pip(*words[program == "uv" :])
    elif program.startswith("python"):
        assert words[0] == "-m"
        assert importlib.util.find_spec(words[1]) is not None, words
    else:
        assert f"{program} {' '.join(words)}" in ("uv venv --python 3.11", ". .venv/bin/activate")


def check_pip(verb: str, *rest: str) -> None:
    """Only what lies in a clone, with extras that exist; torch by its pin."""
    assert verb == "install", rest
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    for word in rest:
        if found := re.fullmatch(r"\.(?:\[([\w,]+)\])?", word):
            assert set((found[1] or "").split(",")) <= {"", *known}, word
        elif word == "$(grep '^torch==' constraints.txt)":
            assert sum(pin.startswith("torch==") for pin in pins) == 1
        else:
            assert word in ("-c", "-e", "-r", "--require-hashes") or (ROOT / word).exists(), word


QUICK = {"audit", "compare", "datasets", "plan", "receipt", "release", "schema", "verify"}
"""Verbs that end within seconds; the others train, and are parsed only."""
ELSEWHERE = ("--backend", "FOLDER")
"""Words of commands for another machine, or for a folder of the reader's."""


def is_quick(words: list[str]) -> bool:
    ours = words[0].endswith("pcer") and words[1] in QUICK
    return ours and not any(word in ELSEWHERE for word in words)


QUICK_PAGES = [page for page in (*PAGES, *OTHERS) if any(map(is_quick, commands(page)))]


@pytest.fixture(scope="module")
def stage(tmp_path_factory) -> Path:
    """The files that commands are shown with."""
    page_stages.files(folder := tmp_path_factory.mktemp("stage"))
    return folder


@pytest.mark.parametrize("page", QUICK_PAGES)
def test_quick_commands_run(page, stage, tmp_path, monkeypatch, capsys):
    """In the order of the page, where one may read what another wrote."""
    shutil.copytree(stage, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for words in filter(is_quick, commands(page)):
        monkeypatch.setattr(sys, "argv", ["pcer", *words[1:]])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        told = capsys.readouterr()
        may_alarm = "--fail-on" in words or words[1] == "compare"
        expected = {0, None, 1} if may_alarm else {0, None}
        assert ended.value.code in expected, (words, told.err)


def test_nothing_says_to_install_pcer_from_an_index():
    """The name is not ours there."""
    index = re.compile(r"pip install (?:-\S+ |[\w.]+ )*['\"]?pcer\b")
    texts = [
        *(ROOT / page for page in (*PAGES, *OTHERS, "CHANGELOG.md", "pyproject.toml")),
        *chain.from_iterable((ROOT / room).rglob("*.py") for room in ("src", "studies/src")),
        *ROOT.glob("docs/notebooks/*.ipynb"),
        *ROOT.glob("examples/*.py"),
    ]
    assert [path for path in texts if index.search(path.read_text(encoding="utf-8"))] == []


def test_readme_shows_real_output():
    (shown,) = blocks("README.md", "text")
    done = run("audit", ROOT / "examples")
    assert done.returncode == 0, done.stderr
    real = {line.strip() for line in done.stdout.splitlines()}
    assert [line for line in shown.splitlines() if line.strip() not in real] == []


def test_the_ten_lines_of_the_format_page_are_a_release():
    (text,) = blocks("docs/format.md", "json")
    assert len(text.strip().splitlines()) <= 10
    release = parse_release(json.loads(text), file="docs/format.md")
    assert pcer.audit(release).verdict is pcer.Verdict.NO_DISPARITY_SHOWN


def test_every_verdict_is_explained():
    page = (ROOT / "docs" / "reports.md").read_text()
    for verdict in BUDGET_VERDICTS:
        assert f"| `{verdict.value}` |" in page


def test_sharp_edges_name_tests_that_exist():
    page = (ROOT / "docs" / "security.md").read_text()
    for file, name in re.findall(r"`(\w+/test_\w+\.py)::(\w+)`", page):
        assert f"def {name}(" in (ROOT / "tests" / file).read_text(), name


def test_links_lead_somewhere():
    for page in (ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("studies/**/*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), (page, target)


def test_examples_are_canonical_and_random():
    for path in (ROOT / "examples").glob("*.release.json"):
        release = pcer.read_release(path)
        assert release.to_json() == path.read_text()
        assert release.training.split_kind == "random"
        assert len({run.split for run in release.runs}) == 20
        assert release.subject.n_records == 6_172


def test_the_table_of_attacks_is_that_of_the_shipped_study():
    page = (ROOT / "docs" / "attacks.md").read_text().splitlines()
    release = pcer.read_release(ROOT / "studies" / "paper" / "compas.race.release.json")
    costs = "overfitting_gap auc_advantage paired_gap paired_confidence lira_advantage"
    plans = [
        pcer.Plan(cost=cost, resamples=10, null_draws=10)
        for cost in (*costs.split(), "rmia_advantage")
    ]
    audits = [pcer.audit(release, plan) for plan in plans]
    for budgets in zip(*(audit.budgets for audit in audits), strict=True):
        epsilon = budgets[0].epsilon
        for number, group in enumerate(release.subject.groups):
            cells = ["" if number else "no-DP" if epsilon is None else f"{epsilon:g}"]
            for found in (budget.groups[group] for budget in budgets):
                cost = f"{found.cost.value:+.4f} ± {found.cost.standard_error:.4f}"
                cells.append(cost.replace("0.", ".") + " *" * found.resolved)
            assert f"| {' | '.join(cells)} |".replace("|  |", "| |") in page
