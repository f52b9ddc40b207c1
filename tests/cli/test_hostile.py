"""What breaks programs: odd names, odd numbers, odd machines.

One sentence, the right exit code.
"""

import itertools
import json
import re
from xml.etree import ElementTree

import pytest

import pcer
from pcer.errors import printable
from pcer.release.file import parse_release
from pcer.report import (
    to_junit,
    to_latex_tables,
    to_markdown_page,
    to_report,
    verify_report,
)
from pcer.report.pictures.charts import draw_figures
from tests.commands import passed, refusal, write_rows
from tests.pages import renamed
from tests.release.test_file import release_of

NAMES = ("\u202eneb\u2066", "x\uffff\u2028y\u00ad")
"""Every field that a person may have written gets one of these."""
LAYOUT = "\n\u00ad\u200b\u2068\u2069"


@pytest.fixture(scope="module")
def hostile() -> tuple[pcer.Audit, pcer.Release]:
    tree = release_of(n_seeds=3)
    tree["subject"] |= {
        "dataset": "d\u202e [b]",
        "attribute": "a\u2029",
        "notes": ["n\u202e"],
    }
    tree["training"] |= {"mechanism": "m\u202e", "config": {"\u202e": "\ud800"}}
    tree["provenance"] = {"data_digest": "x\u202e", "source_commit": "c\u2066"}
    release = renamed(tree, list(NAMES))
    return pcer.audit(release), release


def unseen(text: str, *, besides: str = "\n") -> set[str]:
    return {one for one in text if printable(one) != one and one not in besides}


def test_no_output_holds_what_cannot_be_seen(hostile, tmp_path):
    audit, release = hostile
    pcer.write_release(release, tmp_path / "h.release.json")
    page = to_report([audit], [release])
    path = tmp_path / "report.html"
    outputs = {
        "page": re.sub(r"<script[^>]*>.*?</script>", "", page, flags=re.S),
        "data": re.search(
            r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S
        )[1],
        "markdown": to_markdown_page([audit]).replace("\\_", "_"),
        "latex": to_latex_tables([audit]),
        "junit": to_junit([audit], ["none_detected"]),
        "json": audit.to_json(),
        "release": release.to_json(),
        "terminal": passed("audit", tmp_path / "h.release.json", "--full").stdout,
    }
    assert "d\\u202e [b] · a\\u2029 · " in outputs["terminal"]
    for name, text in outputs.items():
        assert not unseen(text, besides=LAYOUT if name == "page" else "\n"), name
    backslash = {
        "page": "\\",
        "markdown": r"\\",
        "latex": r"\textbackslash{}",
    }
    for name, (output, sign) in itertools.product(NAMES, backslash.items()):
        assert printable(name).replace("\\", sign) in outputs[output]
    assert ElementTree.fromstring(outputs["junit"]) is not None
    assert json.loads(outputs["json"])["subject"]["groups"] == list(NAMES)
    path.write_text(page, encoding="utf-8")
    assert verify_report(path, [release]) is None


COLOURS = ["var(--evil)", "var(--ink)"]
OF_OBJECTS = ["toString", "__proto__"]


@pytest.mark.parametrize("names", [COLOURS, OF_OBJECTS, ["constructor", "valueOf"]])
def test_a_group_or_model_may_be_named_like_a_colour_or_a_part_of_every_object(names):
    """One was a KeyError, one became its own colour, the others undid the picture."""
    tree = release_of(n_seeds=3)
    tree["runs"] = [run | {"model": names[0]} for run in tree["runs"]]
    release = renamed(tree, names)
    files = draw_figures([pcer.audit(release)], [release])
    svg = " ".join(
        data.decode() for name, data in files.items() if name.endswith(".svg")
    )
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


def test_an_audit_is_never_a_page_whatever_it_is_called(tmp_path):
    tree = release_of(n_seeds=3)
    tree["subject"]["notes"] = [
        note := "<script>alert(1)</script><h1>All is well.</h1>"
    ]
    release = tmp_path / "x.release.json"
    audit = tmp_path / "x.audit.JSON"
    release.write_text(json.dumps(tree))
    passed("audit", release, "--json", audit)
    text = audit.read_text()
    assert ("<" in text, json.loads(text)["subject"]["notes"]) == (False, [note])
    for as_written in (
        text,
        text.replace("\\u003c", "<"),
    ):  # now, and by earlier versions
        audit.write_text(as_written)
        assert "every number agrees" in passed("verify", audit, release).stdout
    for name in ("report.HTML", "report.Htm", "report.xhtml", "x.svg", "x", "x.json."):
        (tmp_path / name).write_text(audit.read_text())
        assert name in refusal("verify", tmp_path / name, release)


def test_a_file_may_have_a_bracket_in_its_name(tmp_path):
    predictions = tmp_path / "p[1].csv"
    rows = [
        [k % 2, k // 2 % 2, "train" if k % 3 else "test", "mf"[k % 2]]
        for k in range(99)
    ]
    write_rows(predictions, "y_true y_pred split sex", rows)
    said = (
        "--attribute",
        "sex",
        "--outcome",
        "benefit",
        "--split-kind",
        "random",
        "--public-data",
    )
    for backend in ((), ("--backend", "polars")):
        passed("release", predictions, *said, *backend, "--out", tmp_path)
        made = pcer.read_release(tmp_path / "p-1-.sex.release.json")
        assert made.subject.dataset == "p[1]"
        assert (
            sum(table.train.n + table.test.n for table in made.runs[0].groups.values())
            == 99
        )
