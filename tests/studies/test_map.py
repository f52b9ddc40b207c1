"""The map of the paper: no file and no name that it points to is gone."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = ROOT / "studies" / "docs" / "map.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in MAP.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| paper", "|---"))
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_a_row_of_the_paper_names_is_there(row):
    _, state, code, test, page = row
    assert state.startswith(("done", "out of scope", "not yet"))
    for cell in (code, test):
        path, name = re.findall(r"`([^`]+)`", cell)
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8")), (
            cell
        )
    (link,) = re.findall(r"\]\(([^)#]+)", page)
    assert (MAP.parent / link).exists(), link


def test_the_map_has_every_numbered_thing_of_the_paper():
    text = MAP.read_text(encoding="utf-8")
    numbered = [f"Definition {n}" for n in range(1, 5)]
    numbered += [f"Proposition {n}" for n in (1, 2, 3, "S1", "S2")]
    numbered += [f"Table {n}" for n in (1, 2, 3, "S1", "S2")]
    numbered += ["Tables S3 and S4", "Tables S5 and S6", "Figure 1", "Algorithm 1"]
    numbered += [f"Limitation {n}" for n in range(1, 5)]
    assert [name for name in numbered if name not in text] == []
    assert sum(row[1].startswith("out of scope") for row in ROWS) == 1
    assert sum(row[1].startswith("not yet") for row in ROWS) == 1
