"""Whoever is told to use an option can use it: every flag in any sentence exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import typer

from pcer.cli.app import app

ROOT = Path(__file__).parents[2]
LIBRARY, STUDY = ROOT / "src" / "pcer", ROOT / "studies" / "src" / "pcer_studies"
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]")
COMMAND = re.compile(r"\bpcer ([a-z]+)\b([^`\n]*)")
CSS = re.compile(r"var\(--[^)]*\)")
ALONE = re.compile(r"--[\w=-]*")


def sentences(path: Path) -> Iterator[str]:
    """Every string of a file but docstrings; what is filled in later is a gap."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            parts = [p.value if isinstance(p, ast.Constant) else "…" for p in node.values]
            yield "".join(parts)
        elif isinstance(node, ast.Constant) and id(node) not in skipped:
            yield str(node.value)


def flags(text: str) -> set[str]:
    """Flags of a command line in a text; colours of a style sheet are none."""
    return set(FLAG.findall(CSS.sub("", text)))


def options() -> dict[str, set[str]]:
    """The options of every verb, the study's among them."""
    group = typer.main.get_command(app)
    context = typer.Context(group)
    verbs = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {
        name: {"--help", *(flag for one in verb.params for flag in one.opts + one.secondary_opts)}
        for name, verb in verbs.items()
    }


def test_library_errors_do_not_speak_command_line():
    """A string that is nothing but a flag is an argument for another program."""
    for path in LIBRARY.rglob("*.py"):
        if path.parent.name != "cli":
            told = [text for text in sentences(path) if flags(text) and not ALONE.fullmatch(text)]
            assert not told, path


def test_every_flag_in_a_sentence_or_a_shown_command_exists():
    known = options()
    every = set().union(*known.values())
    pages = [ROOT / "CHANGELOG.md", ROOT / "README.md", *ROOT.glob("docs/*.md")]
    pages += [*ROOT.glob("studies/docs/*.md"), *LIBRARY.rglob("*.py"), *STUDY.rglob("*.py")]
    for page in pages:
        texts = sentences(page) if page.suffix == ".py" else [page.read_text(encoding="utf-8")]
        speaks = {LIBRARY / "cli", STUDY} & {*page.parents}  # command line
        for text in texts:
            assert not speaks or flags(text) <= every, page
            for verb, rest in COMMAND.findall(text):
                assert flags(rest) <= known.get(verb, set()), (page, verb, rest)
