"""What users read: no phrase that readers stumbled over, and no more than they can hold."""

import ast
import json
import re
import tokenize
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GONE = re.compile(
    r"\b(?:worse[ -]off|this alone|told apart|by lot|taken back|takes back|coin[ -]flips?"
    r"|of its own|surer|whoever|anew|witness\w*|picture of chance|no memory|privacy costs?)\b",
    re.IGNORECASE,
)
TITLE = re.compile(
    r"Privacy Cost as Equity Input|paper[^.|]*? privacy costs?", re.IGNORECASE
)
"""The paper's title, and words that are said to be the paper's."""
PATTERNS = (
    *("*.md", "docs/*.md", "docs/notebooks/*.ipynb", "studies/*.md", "studies/*/*.md"),
    "studies/src/**/*.py",
    *("src/pcer/**/*.py", "src/pcer/**/*.toml", "src/pcer/report/templates/*"),
    *("tests/**/golden/*", "examples/*.py"),
)
FILES = sorted(
    {path for pattern in PATTERNS for path in ROOT.glob(pattern) if path.is_file()}
)
PAPERS_OWN = ("glossary", "paper")
"""In the names of files that may say what the paper says."""


def texts(path: Path) -> Iterator[str]:
    """What a file says to somebody: of a program its strings, docstrings among them."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield re.sub(r"<[^>]*>|\\n", " ", unescape(text))
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize(
    "path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_old_phrases_stay_out(path):
    found = {
        phrase.lower()
        for text in texts(path)
        for phrase in GONE.findall(TITLE.sub("", " ".join(text.split())))
    }
    if any(name in path.stem for name in PAPERS_OWN):
        found -= {"privacy cost", "privacy costs"}
    assert found == set()


EARLIER = re.compile(
    r"(?:easier|easy) to recognise|recognised better than|recognises? (?:whose|nobody)"
    r"|outsider|twice as often|too weak to clear|alarms? in 200 trials",
    re.IGNORECASE,
)
"""What the six answers have other words for."""


@pytest.mark.parametrize(
    "path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_the_words_of_earlier_screens_are_gone(path):
    found = {
        phrase.lower()
        for text in texts(path)
        for phrase in EARLIER.findall(" ".join(text.split()))
    }
    assert found == set()


OLD_NAMES = re.compile(
    r"(?:^|_)(?:costs?|prox(?:y|ies)|resolved)(?:_|$)", re.IGNORECASE
)
"""An attack is an ``attack``, what it finds ``exposure``, and that is ``detected``."""
PAPERS_NAMES = {"privacy_cost"}
WHERE_COSTS_ARE_SPENT = "train"
"""The room in which a step of training costs privacy."""


def test_names_in_python_are_the_words_that_people_read():
    found = set()
    for path in (ROOT / "src" / "pcer").rglob("*.py"):
        if WHERE_COSTS_ARE_SPENT in path.parts:
            continue
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                if token.type == tokenize.NAME and OLD_NAMES.search(token.string):
                    found.add(token.string)
    assert found - PAPERS_NAMES == set()


def test_names_in_files_are_the_words_that_people_read():
    for path in (ROOT / "docs" / "schemas").glob("*.json"):
        schema = json.loads(path.read_text(encoding="utf-8"))
        records = [schema, *schema.get("$defs", {}).values()]
        names = {name for record in records for name in record.get("properties", ())}
        assert not [name for name in names if OLD_NAMES.search(name)], path.name
        # Only a floor of Algorithm 1 names privacy budgets.
        has_budgets = [
            name
            for name, record in schema.get("$defs", {}).items()
            if "budgets" in record.get("properties", ())
        ]
        assert set(has_budgets) <= {"EquitableBudget"}


def test_pages_are_few_and_short():
    pages = {
        path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("docs/*.md")
    }
    assert len(pages) <= 22
    assert [name for name, text in pages.items() if len(text.split()) > 2_500] == []
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 92
