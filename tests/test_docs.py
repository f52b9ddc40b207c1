"""The documents say what the program does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import pcer
from pcer.auditing.verdict import BUDGET_VERDICTS
from pcer.release.format import parse_release
from tests.commands import run

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.release.json"))


def blocks(path: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / path).read_text(), flags=re.DOTALL)


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


PAGES = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("studies/**/*.md")]


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), (page, target)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_canonical_and_random(path):
    release = pcer.read_release(path)
    assert release.to_json() == path.read_text()
    assert release.training.split_kind == "random"
    assert len({run.split for run in release.runs}) == 20
    assert release.subject.n_records == 6_172


PROXIES = ("overfitting_gap", "auc_advantage", "paired_gap", "paired_confidence", "lira_advantage")


def attack_table() -> list[str]:
    """The lines of the table of attacks, from the shipped study."""
    release = pcer.read_release(ROOT / "studies" / "paper" / "compas.race.release.json")
    plans = [pcer.Plan(cost=c, resamples=10, null_draws=10) for c in (*PROXIES, "rmia_advantage")]
    audits = [pcer.audit(release, plan) for plan in plans]
    lines = []
    for budgets in zip(*(audit.budgets for audit in audits), strict=True):
        epsilon = budgets[0].epsilon
        for number, group in enumerate(release.subject.groups):
            name = "" if number else "no-DP " if epsilon is None else f"{epsilon:g} "
            cells = (attack_cell(budget.groups[group]) for budget in budgets)
            lines.append(f"| {name}| {' | '.join(cells)} |")
    return lines


def attack_cell(found) -> str:
    cost = f"{found.cost.value:+.4f} ± {found.cost.standard_error:.4f}".replace("0.", ".")
    return cost + " *" * found.resolved


def test_the_table_of_attacks_is_that_of_the_shipped_study():
    page = (ROOT / "docs" / "attacks.md").read_text().splitlines()
    assert [line for line in attack_table() if line not in page] == []
