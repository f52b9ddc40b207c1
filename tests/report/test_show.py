"""Audits and releases where people look: a notebook, a data frame, a chart, a page."""

import html
import importlib.util
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import narwhals as nw
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import pcer
from pcer.auditing.record import Audit
from pcer.report.formats.numbers import FRAMES
from pcer.report.verify import verify_report
from tests import pages
from tests.pages import QUICK, ROOT, SAMPLES, Html, audited

MOST_BYTES = 60_000


@pytest.fixture
def audit() -> Audit:
    return pages.mixed_audit()


@pytest.mark.parametrize(
    "path", SAMPLES, ids=lambda path: path.name.removesuffix(".release.json")
)
def test_every_release_and_its_audit_are_small_html(path):
    audit = audited(path)
    for shown in (audit.sources[0], audit):
        text = shown._repr_html_()
        assert len(text.encode()) <= MOST_BYTES
        assert shown._repr_mimebundle_() == {
            "text/html": text,
            "text/plain": str(shown),
        }
        assert len(repr(shown)) < 200
        assert max(map(len, str(shown).splitlines())) <= 80
    text = html.unescape(audit._repr_html_())
    assert audit.headline in text
    assert "<svg" in text
    paper = html.unescape(audit.paper()._repr_html_())
    assert "Algorithm 1" in paper
    assert "Algorithm 1" not in text
    assert repr(audit).startswith(f"<Audit: {audit.subject.dataset}")


def test_nothing_around_it_is_styled_and_names_of_other_people_are_text(audit):
    """Styles are attributes, but for a rule that holds where the picture is a file."""
    hostile = pages.hostile_audit()
    plain_tags = {tag for tag, _ in Html(audit._repr_html_()).elements}
    for shown in (audit, audit.sources[0], hostile, hostile.sources[0]):
        text = shown._repr_html_()
        rules = "".join(re.findall(r"<style>(.*?)</style>", text))
        without_media = re.sub(r"@media[^{]*\{", "", rules)
        for selector in re.findall(r"([^{}]+)\{[^{}]*\}", without_media):
            assert re.match(r"svg\.pcer-(hero|drawing):root", selector.strip("} "))
        for tag, attributes in Html(text).elements:
            assert tag in (plain_tags | {"br"}) - {"script", "link", "iframe"}
            assert not any(name.startswith("on") for name in attributes)


def test_many_groups_with_long_names_stay_small():
    release = pages.many_groups([f"{k} {'m' * 195}" for k in range(40)])
    assert len(release._repr_html_().encode()) <= MOST_BYTES
    assert len(pcer.audit(release, QUICK)._repr_html_().encode()) <= MOST_BYTES


def test_looking_at_nothing_loads_nothing():
    code = (
        "import sys, pcer\n"
        f"audit = pcer.audit(pcer.read_release({str(SAMPLES[0])!r}))\n"
        "repr(audit)\n"
        "assert 'pcer.report' not in sys.modules\n"
        "audit._repr_html_()\n"
        "heavy = {'pcer.report', 'pcer.attacks', 'torch', 'pandas', 'vl_convert'}\n"
        "loaded = heavy & set(sys.modules)\n"
        "assert loaded == {'pcer.report'}, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_an_audit_remembers_is_no_part_of_it(audit):
    forgot = Audit.model_validate(audit.model_dump())
    assert forgot == audit
    assert forgot.to_json() == audit.to_json()
    with pytest.raises(pcer.InputError, match="does not hold its release"):
        forgot.plot("figure1")
    with pytest.raises(pcer.InputError, match="of another release"):
        forgot.with_sources(pages.mixed_release()).plot("figure1")
    assert forgot._repr_html_() != ""


@pytest.mark.parametrize(
    ("what", "backend"),
    [
        *zip(FRAMES, ["pandas"] * 9, strict=False),
        ("pairs", "polars"),
        ("attacks", "pyarrow"),
    ],
)
def test_frames_hold_every_number_by_the_joined_name_of_its_fields(
    audit, what, backend
):
    frame = nw.from_native(audit.to_frame(what, backend=backend, full=True))
    few = nw.from_native(audit.to_frame(what, backend=backend))
    assert len(few.columns) == 10
    assert few.rows() == frame.select(few.columns).rows()
    assert frame.implementation.value == backend
    n_rows, fields = last_row_of(audit, what)
    assert len(frame) == n_rows
    last = frame.rows(named=True)[-1]
    flat = dict(leaves("", fields))
    assert flat
    assert {name: last[name] for name in flat} == pytest.approx(flat, rel=1e-12, abs=0)
    if what != "attacks":
        epsilons = frame["epsilon"].to_list()
        in_order = list(dict.fromkeys(epsilons))
        assert in_order == [setting.budget for setting in audit.settings]
        assert epsilons[-1] == math.inf


def last_row_of(audit: Audit, what: str) -> tuple[int, dict[str, Any]]:
    """How many rows a frame has, and the fields that its last row is made of."""
    n = len(audit.settings)
    setting = audit.settings[-1].model_dump()
    pair = setting["pairs"][0]
    if what == "groups":
        return 2 * n, setting["groups"]["women"]
    if what == "pairs":
        return n, {k: v for k, v in pair.items() if k not in ("floors", "groups")}
    if what == "settings":
        return n, {k: v for k, v in setting.items() if k not in ("groups", "pairs")}
    return len(audit.attacks), audit.attacks[-1].model_dump()


def leaves(prefix: str, tree: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(f"{prefix}{key}_", value)
        elif isinstance(value, tuple):
            yield from zip(
                (f"{prefix}{key}_low", f"{prefix}{key}_high"), value, strict=True
            )
        elif isinstance(value, float) and key != "epsilon":
            yield f"{prefix}{key}", value


def test_what_some_settings_lack_is_none_in_their_rows():
    audit = audited(ROOT / "studies/paper/compas.race.release.json")
    frame = nw.from_native(audit.to_frame("groups", backend="polars", full=True))
    spent = []
    for setting in audit.settings:
        for group in setting.groups.values():
            spent.append(None if group.allowed is None else group.allowed.spent)
    assert None in spent
    assert frame["allowed_spent"].to_list() == spent


def test_frames_that_cannot_be_had(audit, monkeypatch):
    with pytest.raises(pcer.InputError, match="groups, pairs, settings, attacks"):
        audit.to_frame("people")
    with pytest.raises(pcer.InputError, match="pandas, polars, pyarrow"):
        audit.to_frame(backend="spark")
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n: None if n == "pandas" else find(n)
    )
    assert nw.from_native(audit.to_frame()).implementation.value == "polars"
    with pytest.raises(pcer.InputError, match="needs pandas as backend"):
        audit.to_frame(backend="pandas")


def test_a_saved_page_verifies(tmp_path):
    """Also one that was judged together with another: the page carries both."""
    first, second = (pages.mixed_release(attribute=name) for name in ("sex", "colour"))
    for family in ([], [second]):
        page = tmp_path / f"{len(family)}.html"
        one = pcer.audit(first, QUICK, family=family)
        one.save_html(page)
        assert len(one.family) == 1 + len(family)
        assert verify_report(page, []) is None
    page.write_text(
        page.read_text(encoding="utf-8").replace("women", "woman", 1), encoding="utf-8"
    )
    assert verify_report(page, []) is not None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"a": [1]}, "release_from_predictions"),
        (pd.DataFrame({"y": [1]}), "release_from_predictions"),
        ("x.release.json", "cannot be read"),
        (Path("x"), "cannot be read"),
        (LogisticRegression(), "release_from_estimator"),
        ([], "not an empty list"),
        ([None], "not this NoneType"),
    ],
)
def test_what_is_no_release_is_refused_with_what_makes_one(wrong, message):
    with pytest.raises(pcer.InputError, match=message):
        pcer.audit(wrong)
