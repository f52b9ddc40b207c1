"""The page about estimators says what happens."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "estimators.md").read_text(encoding="utf-8")


def test_the_pages_python_runs_in_order(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/estimators.md", "exec"), names)
    told = capsys.readouterr().out.split("\n")
    assert len(blocks) == 3
    assert told[1] == "['bayes', 'forest']"
    assert {row.proxy for row in names["release"].pooled_exposure} >= {"lira_advantage"}
