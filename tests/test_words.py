"""What users read: no phrase that readers stumbled over, and no more than they can hold."""

import ast
import re
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


def test_pages_are_few_and_short():
    pages = {
        path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("docs/*.md")
    }
    assert len(pages) <= 17
    assert [name for name, text in pages.items() if len(text.split()) > 2_500] == []
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 92
