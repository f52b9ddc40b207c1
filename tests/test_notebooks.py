"""The notebooks run, are small and quiet, and show what they would show today."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "notebooks"
BOOKS = sorted(FOLDER.glob("*.ipynb"))
TRAINED = "a-private-sweep"  # its last digits are those of one type of processor
LONG = {TRAINED, "scikit-learn-in-five-minutes"}
FOREIGN = re.compile(
    r"(?:^|[\s\"'(])/(?:home|root|tmp|usr|var|work|Users|opt)/|[A-Z]:\\\\|https?://(?!www\.w3\.org)"
)
"""A path of some machine, or an address: a notebook needs neither."""


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(book: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in book["cells"] if cell["cell_type"] == "code"]


def said(book: dict[str, Any]) -> list[str]:
    """What every output of the code says in plain text, printed or shown."""
    outputs = [output for cell in code_cells(book) for output in cell["outputs"]]
    return ["".join(o["text"] if "text" in o else o["data"].get("text/plain", "")) for o in outputs]


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_what_is_kept_is_small_and_says_nothing_of_when_and_where(path):
    text, book = path.read_text(encoding="utf-8"), read(path)
    assert len(text.encode()) < 300_000
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    assert book["metadata"] == {"kernelspec": kernel, "language_info": {"name": "python"}}
    for cell in code_cells(book):
        assert cell["execution_count"] is None
        for output in cell["outputs"]:
            assert output.get("execution_count") is None
            assert output.get("name", "stdout") == "stdout"
            shown = json.dumps(output, ensure_ascii=False)
            assert not FOREIGN.search(shown.replace("\\n", "\n")), FOREIGN.search(shown)
    assert all(cell["metadata"] == {} for cell in book["cells"])
    assert "<svg" in text
    words = "\n".join("".join(c["source"]) for c in book["cells"] if c["cell_type"] == "markdown")
    for target in re.findall(r"\]\(([^)#]+)\)", words):
        assert (FOLDER / target).exists(), target


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=pytest.mark.slow if p.stem in LONG else (), id=p.stem) for p in BOOKS],
)
def test_a_notebook_still_says_what_it_shows(path, tmp_path, monkeypatch):
    """Word for word, where it trains nothing; else but for digits. scripts/notebooks renews it."""
    for package in ("nbclient", "ipykernel"):
        if importlib.util.find_spec(package) is None:
            assert "PCER_CI" not in os.environ, f"CI must run this test, but there is no {package}"
            pytest.skip(f"there is no {package}")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    run = runpy.run_path(str(ROOT / "scripts" / "notebooks"))["run_notebook"]
    now, kept = said(json.loads(json.dumps(run(path, tmp_path)))), said(read(path))
    for texts in (now, kept) if path.stem == TRAINED else ():
        texts[:] = [re.sub(r"[\d.,−-]+", "#", re.sub(r"[ ─]+", " ", text)) for text in texts]
    assert now == kept
