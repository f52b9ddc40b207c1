"""How densely the code is written: counted, and held to the bars of the house.

Counts are per 1,000 lines of code (no docstrings, comments or blanks), shares in per
cent. Our own count, so that it can be read in a minute.
"""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles

import pytest

ROOT = Path(__file__).parents[1]
COUNTED = ("src/pcer", "studies/src")
BARS = {"packed": 1, "text x truth": 0.3, "nested": 0.2, "chained": 0.5, "next": 0.5}
MOST_WIDE, MOST_MANY_DECISIONS, MOST_LOCALS = 0.003, 0.02, 9

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
DECISIONS = (
    *(ast.If, ast.For, ast.While, ast.IfExp, ast.ExceptHandler),
    *(ast.comprehension, ast.Assert),
)
BLOCKS = (
    *(ast.FunctionDef, ast.ClassDef, ast.If, ast.For, ast.While, ast.With, ast.Try),
    ast.Match,
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def faults_of(node: ast.AST) -> Iterator[str]:
    """By which rules a node is packed."""
    match node:
        case ast.Assign(targets=[ast.Tuple(), *_], value=ast.Tuple(elts=values)):
            if len(values) > 1 and not all(isinstance(v, ast.Constant) for v in values):
                yield "packed"
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            is_text = isinstance(left, ast.JoinedStr) or (
                isinstance(left, ast.Constant) and isinstance(left.value, str)
            )
            if is_text and not isinstance(right, ast.Constant | ast.BinOp):
                yield "text x truth"
        case ast.FormattedValue(value=ast.IfExp()):
            yield "text x truth"
        case ast.Call(func=ast.Name(id="next"), args=[_, _]):
            yield "next"
    if isinstance(node, ast.stmt) and not isinstance(node, BLOCKS):
        parts = list(ast.walk(node))
        choices = [part for part in parts if isinstance(part, ast.IfExp)]
        inner = [part for choice in choices for part in list(ast.walk(choice))[1:]]
        if len(choices) > 2 or any(isinstance(part, ast.IfExp) for part in inner):
            yield "nested"
        loops = [part for part in parts if isinstance(part, COMPREHENSIONS)]
        if len(loops) > 1 or any(len(loop.generators) > 1 for loop in loops):
            yield "chained"


def n_decisions(function: ast.AST) -> int:
    """Branches, loops and their conditions, those of inner functions too."""
    parts = list(ast.walk(function))
    joined = [len(part.values) - 1 for part in parts if isinstance(part, ast.BoolOp)]
    return sum(isinstance(part, DECISIONS) for part in parts) + sum(joined)


def n_locals(function: ast.AST) -> int:
    """Names that a function gives a value."""
    names = [part for part in ast.walk(function) if isinstance(part, ast.Name)]
    return len({name.id for name in names if isinstance(name.ctx, ast.Store)})


def n_doc_lines(tree: ast.Module) -> int:
    """Lines of docstrings."""
    n_lines = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | FUNCTIONS[0]) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                n_lines += first.end_lineno - first.lineno + 1
    return n_lines


@pytest.mark.parametrize("folder", COUNTED)
def test_statements_say_one_thing(folder):
    faults, n_code, n_lines, n_wide, functions = Counter(), 0, 0, 0, []
    for path in (ROOT / folder).rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        lines = text.splitlines()
        n_lines += len(lines)
        n_wide += sum(len(line) >= 90 for line in lines)
        stripped = [line.strip() for line in lines]
        n_code += sum(bool(line) and line[0] != "#" for line in stripped)
        n_code -= n_doc_lines(tree)
        for node in ast.walk(tree):
            faults.update(faults_of(node))
            if isinstance(node, FUNCTIONS):
                functions.append(node)
    per_thousand = {name: 1_000 * faults[name] / n_code for name in BARS}
    assert {n: x for n, x in per_thousand.items() if x > BARS[n]} == {}
    assert n_wide <= MOST_WIDE * n_lines
    n_many = sum(n_decisions(function) > 12 for function in functions)
    assert n_many <= MOST_MANY_DECISIONS * len(functions)
    assert quantiles(map(n_locals, functions), n=10)[-1] <= MOST_LOCALS


def test_sixteen_locals_are_refused(tmp_path):
    lines = [f"    name_{k} = {k}" for k in range(16)]
    text = '"""Sixteen locals."""\n\n\ndef many() -> None:\n    """Do."""\n'
    ruff = [sys.executable, "-m", "ruff", "check", "--select", "PLR0914"]
    config = ["--config", str(ROOT / "pyproject.toml")]
    for kept, code in ((lines[:15], 0), (lines, 1)):
        path = tmp_path / "many.py"
        path.write_text(text + "\n".join(kept) + "\n")
        done = subprocess.run([*ruff, *config, path], capture_output=True, check=False)
        assert done.returncode == code
