"""The pages on planning, comparing and single models say what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from pcer.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = ("plan", "compare", "one_model")


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def printed(page: str, monkeypatch, capsys) -> tuple[str, dict[str, object]]:
    """What the page's Python prints, run in order, and the names that it leaves."""
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, f"docs/{page}.md", "exec"), names)
    return capsys.readouterr().out, names


@pytest.mark.parametrize("page", ["plan", "compare"])
def test_what_the_page_prints_is_what_it_shows(page, monkeypatch, capsys):
    told, _ = printed(page, monkeypatch, capsys)
    assert told == "".join(blocks(page, "text"))


def test_one_model_is_found_out_by_references(monkeypatch, capsys):
    told, names = printed("one_model", monkeypatch, capsys)
    (shown,) = blocks("one_model", "text")
    assert told.endswith(shown)
    found = {(row.proxy, row.group): row.value for row in names["release"].pooled_exposure}
    for group in ("Other", "African-American"):
        assert found["reference_advantage", group] > found["auc_advantage", group] > 0
        assert f"{group}, reference_advantage: " in told


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_can_be_parsed(page):
    group = typer.main.get_command(app)
    context = typer.Context(group)
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    assert all(line.startswith("$ pcer ") for line in lines)
    for line in lines:
        _, _, verb, *arguments = shlex.split(line, comments=True)
        command = group.get_command(context, verb)
        assert command.make_context(verb, arguments).params


def test_the_table_of_worlds_keeps_the_bar():
    page = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if " / " in line]
    rows = [row for row in rows if len(row) == 9]
    assert len(rows) == 20
    misses = [abs(int(row[k]) - int(row[k + 1])) for row in rows for k in (4, 7) if row[k] != "–"]
    assert len(misses) == 39
    assert max(misses) <= 5
