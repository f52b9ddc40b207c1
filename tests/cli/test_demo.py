"""The demo as a newcomer meets it: real training, and an ending that can be read."""

from __future__ import annotations

import json

import pytest

from tests.commands import start


@pytest.mark.slow
def test_the_demo_ends_with_the_finding_a_table_and_the_page(tmp_path):
    out = tmp_path / "demo"
    done = start("demo", "--seeds", 2, "-o", out)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    audit = json.loads((out / "compas.audit.json").read_text(encoding="utf-8"))
    assert len(lines) <= 40
    assert max(map(len, lines[:-2])) <= 80
    assert " ".join(lines[1:]).startswith(audit["headline"])
    assert sum(line.startswith("Who receives what") for line in lines) == 1
    assert lines[-1] == f"Report: {out / 'report.html'}"
    assert (out / "report.html").exists()
