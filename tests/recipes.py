"""The recipes of CONTRIBUTING.md, and what it takes to follow them to the letter.

``python -m tests.recipes FOLDER [RECIPE]`` follows them in a copy of the package.
"""

import ast
import re
import shutil
import sys
from pathlib import Path
from textwrap import indent
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
# Head and imports of a new file, and the import where its row stands.
OF_NEW_FILES = {
    "data/loans.py": (
        '"""Did a person pay? ``benchmarks`` lists it. To add a feature: a row."""\n'
        "import operator\n"
        "from pcer.data.task import DataFile, DatasetTask, GroupRule, Number\n"
    ),
    "report/formats/headlines.py": (
        '"""What is a line on each audit? To add one: here."""\n'
        "from collections.abc import Sequence\n"
        "from pcer.auditing.record import Audit\n"
        "from pcer.files import as_shown\n"
    ),
    "data/benchmarks.py": "from pcer.data import loans\n",
    "cli/audit.py": "from pcer.report.formats import headlines\n",
}
PLACE = re.compile(
    r"# (?:an? (?P<recipe>[a-z ]+): )?(?P<file>[\w/]+\.py)(?:, in (?P<table>\w+))?"
)


class Step(NamedTuple):
    """Code for a file: new definitions, a row of a table or a field of a class."""

    recipe: str
    file: str
    table: str | None
    code: str


def steps() -> list[Step]:
    """Every step of the page, in its order."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    block = page.partition("```python\n")[2].partition("```")[0]
    found: list[Step] = []
    for line in block.splitlines(keepends=True):
        place = PLACE.fullmatch(line.rstrip("\n"))
        if place is None:
            last = found.pop()
            found.append(last._replace(code=last.code + line))
        else:
            recipe = place["recipe"] or found[-1].recipe
            found.append(Step(recipe, place["file"], place["table"], ""))
    return found


RECIPES = list(dict.fromkeys(step.recipe for step in steps()))


def follow(package: Path, chosen: str | None = None) -> None:
    """Copy the package, and add what all recipes say, or one of them."""
    shutil.copytree(
        ROOT / "src" / "pcer", package, ignore=shutil.ignore_patterns("__pycache__")
    )
    for step in steps():
        if chosen not in (None, step.recipe):
            continue
        path = package / step.file
        if not path.exists():
            path.write_text(OF_NEW_FILES[step.file] + step.code)
        elif step.table is None:
            _insert(path, _first_line_of_tables(path), step.code)
        else:
            _add_row(path, step.table, step.code)
    for step in steps():
        is_followed = chosen in (None, step.recipe)
        if is_followed and step.table in ("SOURCES", "FORMATS"):
            path = package / step.file
            _insert(path, _first_line_of_tables(path), OF_NEW_FILES[step.file])


def _insert(path: Path, line: int, code: str) -> None:
    """Code before a line, counted from 1."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[line - 1 : line - 1] = [code, "\n"]
    path.write_text("".join(lines), encoding="utf-8")


def _first_line_of_tables(path: Path) -> int:
    """Where a table begins to which rows are added, else the end of the file."""
    tables = {step.table for step in steps() if path.match(step.file)}
    tables.add("ATTACK_KINDS")  # made of all rows above it
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and _name(node) in tables:
            return node.lineno
    return int(tree.body[-1].end_lineno or 0) + 1


def _add_row(path: Path, table: str, row: str) -> None:
    """A last row of a table, or a last field of a class."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == table:
            fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
            line = int(fields[-1].end_lineno or 0) + 1
            _insert(path, line, indent(row, "    "))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and _name(node) == table:
            assert node.value is not None
            _insert(path, int(node.value.end_lineno or 0), indent(row, "    "))


def _name(node: ast.Assign | ast.AnnAssign) -> str:
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    return target.id if isinstance(target, ast.Name) else ""


if __name__ == "__main__":
    follow(Path(sys.argv[1], "pcer"), *sys.argv[2:])
