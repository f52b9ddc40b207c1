"""What breaks programs: odd names, odd numbers, odd machines. One sentence, the right exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import pcer
from pcer.cli import main
from pcer.cli.process import what_lacks
from pcer.cli.train import account_table
from pcer.data import TablePlan, read_table
from pcer.errors import InputError, shown
from pcer.release.format import parse_release
from pcer.report import to_junit, to_latex_tables, to_markdown_page, to_report, verify_report
from pcer.report.figures import draw_figures
from pcer.report.table import to_text
from tests.commands import passed, refusal, write_rows
from tests.release.test_format import release_of

NAMES = ("\u202eneb\u2066", "x\uffff\u2028y\u00ad")
"""Every field that a person may have written gets one of these."""
LAYOUT = "\n\u00ad\u200b\u2068\u2069"


def release_called(*names: str) -> dict[str, Any]:
    """A release whose groups are called so."""
    text = json.dumps(release_of(n_seeds=3))
    for place, name in zip(("g0", "g1"), names, strict=True):
        text = text.replace(f'"{place}"', json.dumps(name))
    return json.loads(text)


@pytest.fixture(scope="module")
def hostile() -> tuple[pcer.Audit, pcer.Release]:
    tree = release_called(*NAMES)
    tree["subject"] |= {"dataset": "d\u202e [b]", "attribute": "a\u2029", "notes": ["n\u202e"]}
    tree["training"] |= {"mechanism": "m\u202e", "config": {"\u202e": "\ud800"}}
    tree["provenance"] = {"data_digest": "x\u202e", "source_commit": "c\u2066"}
    release = parse_release(tree, file="x")
    return pcer.audit(release), release


def unseen(text: str, *, besides: str = "\n") -> set[str]:
    return {one for one in text if shown(one) != one and one not in besides}


def test_no_output_holds_what_cannot_be_seen(hostile, tmp_path):
    audit, release = hostile
    pcer.write_release(release, tmp_path / "h.release.json")
    outputs = {
        "markdown": to_markdown_page([audit]),
        "latex": to_latex_tables([audit]),
        "junit": to_junit([audit], ["not_resolved"]),
        "json": audit.to_json(),
        "release": release.to_json(),
        "terminal": passed("audit", tmp_path / "h.release.json", "--full").stdout,
    }
    assert "d\\u202e [b] (a\\u2029)" in outputs["terminal"]
    for name, text in outputs.items():
        assert not unseen(text), name
    for name in NAMES:
        assert shown(name).replace("\\", r"\\") in outputs["markdown"].replace("\\_", "_")
        assert shown(name).replace("\\", r"\textbackslash{}") in outputs["latex"]
        assert shown(name) in outputs["junit"]
    assert ElementTree.fromstring(outputs["junit"]) is not None
    assert json.loads(outputs["json"])["subject"]["groups"] == list(NAMES)


def test_no_page_holds_what_cannot_be_seen(hostile, tmp_path):
    audit, release = hostile
    page = to_report([audit], [release])
    own = re.sub(r"<script[^>]*>.*?</script>", "", page, flags=re.S)
    assert not unseen(own, besides=LAYOUT)
    (data,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, flags=re.S)
    assert not unseen(data)
    for name in NAMES:
        assert shown(name) in own
    path = tmp_path / "report.html"
    path.write_text(page, encoding="utf-8")
    assert verify_report(path, [release]) is None


@pytest.mark.parametrize("names", [("var(--evil)", "b"), ("var(--ink)", "var(--series-1)")])
def test_a_group_may_be_named_like_a_colour(names):
    """One that is not there was a KeyError, and one that is there became its own colour."""
    release = parse_release(release_called(*names), file="x")
    files = draw_figures([pcer.audit(release)], [release])
    svg = " ".join(data.decode() for name, data in files.items() if name.endswith(".svg"))
    assert all(name in svg for name in names)


def test_unknown_fields_and_file_names_are_spelt(tmp_path):
    path = tmp_path / "a\x1b]0;pwned\x07\u202e.release.json"
    tree = {**release_of(), "\x1b[31m\u202ered": 1}
    path.write_text(json.dumps(tree))
    assert r"a\u001b]0;pwned\u0007\u202e.release.json" in refusal("audit", path)
    assert r"field \u001b[31m\u202ered: is not a field" in refusal("audit", path)
    assert r"\u001b" in refusal("audit", tmp_path / "\x1bnot there")
    audits = tmp_path / "a.audit.json"
    found = json.loads(pcer.audit(parse_release(release_of(), file="x")).to_json())
    audits.write_text(json.dumps({**found, "\x1b[2J": 1}))
    path.write_text(json.dumps(release_of()))
    differs = passed("verify", audits, path, code=1).stdout
    assert r".\u001b[2J: the file says 1, recomputed 'nothing'" in differs
    assert not unseen(differs)


def own_table(folder: Path, header: str = "x y sex") -> Path:
    rows = [[k % 7, ("no", "yes")[k % 2], "mf"[k % 5 > 2]] for k in range(60)]
    return write_rows(folder / "own.csv", header, rows)


PLAN = TablePlan(label="y", positive="yes", attributes=("sex",), outcome="benefit")


def test_columns_of_a_table_are_spelt_and_told_apart(tmp_path):
    path = own_table(tmp_path, "x\x1b[31m\u202e y sex")
    with pytest.raises(InputError) as caught:
        read_table(path, TablePlan(label="z", positive="1", attributes=("q",), outcome="harm"))
    assert r"it has: x\u001b[31m\u202e, y, sex" in str(caught.value)
    table = to_text(account_table(read_table(path, PLAN)), 80)
    assert r"x\u001b[31m\u202e" in table
    assert not unseen(table)
    rest = {"y": ["yes", "no"], "sex": ["f", "m"]}
    with pytest.raises(InputError, match=r"columns 'ﬁ' and 'fi', which read alike"):
        read_table(pa.table({"ﬁ": [1, 2], **rest, "fi": [1, 2]}), PLAN)
    with pytest.raises(InputError, match="a column whose name shows nothing"):
        read_table(pa.table({" ": [1, 2], **rest}), PLAN)


def test_a_file_may_have_a_bracket_in_its_name(tmp_path):
    path = own_table(tmp_path).rename(tmp_path / "own[1].csv")
    assert read_table(path, PLAN).dataset.n_records == 60
    with pytest.raises(InputError, match="no file matches"):
        read_table(tmp_path / "own[2].csv", PLAN)
    predictions = tmp_path / "p[1].csv"
    rows = [[k % 2, k // 2 % 2, "train" if k % 3 else "test", "mf"[k % 2]] for k in range(99)]
    write_rows(predictions, "y_true y_pred split sex", rows)
    said = ("--attribute", "sex", "--outcome", "benefit", "--split-kind", "random", "--public-data")
    for backend in ((), ("--backend", "polars")):
        passed("release", predictions, *said, *backend, "--out", tmp_path)
        made = pcer.read_release(tmp_path / "p-1-.sex.release.json")
        assert made.subject.dataset == "p[1]"
        assert sum(table.train.n + table.test.n for table in made.runs[0].groups.values()) == 99


def test_tables_that_are_no_files_or_too_large(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InputError, match=r"pipe\.csv is a pipe or a device"):
        read_table(tmp_path / "pipe.csv", PLAN)
    with pytest.raises(InputError, match=r"\\udcff\.csv has a name that is not UTF-8"):
        read_table(tmp_path / "\udcff.csv", PLAN)
    monkeypatch.setattr("pcer.data.readers.MOST_RECORDS", 50)
    with pytest.raises(InputError, match="more than the 50 records that a sweep holds in memory"):
        read_table(own_table(tmp_path), PLAN)


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (MemoryError(), "memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "memory"),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), "memory"),
        (OSError(24, "Too many open files"), "open files"),
        (RuntimeError("can't start new thread"), "processes or threads"),
        (KeyError("x"), None),
    ],
)
def test_what_a_machine_lacks_is_said(error, what, monkeypatch, capsys):
    assert what_lacks(error) == what

    def fail(**named: str) -> Any:
        raise error

    monkeypatch.setattr("pcer.cli.app.app", fail)
    with pytest.raises(SystemExit if what else KeyError) as caught:
        main()
    if what:
        assert caught.value.code == 2
        assert capsys.readouterr().err.startswith(f"pcer: this machine gives no more {what}; ")


def test_a_file_name_that_is_not_utf_8_and_a_narrow_encoding(tmp_path):
    path = os.fsencode(tmp_path) + b"/latin\xff\xe9.release.json"
    with open(path, "w") as stream:
        stream.write(json.dumps(release_of()))
    out = tmp_path / "a.json"
    for arguments, code in (([path, b"--json", out], 0), ([path, b"--floor", b"7"], 2)):
        done = subprocess.run(
            [sys.executable, "-m", "pcer", "audit", *arguments],
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        )
        assert done.returncode == code, done.stderr
        assert b"Traceback" not in done.stderr
