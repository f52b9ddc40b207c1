"""Charts for papers: marks that are the audit's numbers, and files in three formats."""

import re
import sys
from xml.etree import ElementTree

import pytest

import pcer
from pcer.errors import InputError
from pcer.report.pictures import charts, panels
from pcer.report.pictures.charts import (
    CHARTS,
    draw_figures,
    file_name,
    printable_svg,
)
from pcer.report.tables.background import MOST_PAIRS, setting_labels, shown_groups
from tests.pages import QUICK, hostile_audit, many_groups, mixed_audit

SVG = "{http://www.w3.org/2000/svg}"
STARTS = {"svg": b"<svg", "png": b"\x89PNG\r\n\x1a\n", "pdf": b"%PDF"}


def chart_of(audit: pcer.Audit, name: str) -> panels.Chart:
    return CHARTS[name](audit, audit.sources[0])


def elements(svg: str, tag: str, name: str) -> list[ElementTree.Element]:
    found = ElementTree.fromstring(svg).iter(f"{SVG}{tag}")
    return [element for element in found if element.get("class") == name]


def test_marks_of_figure1_are_the_audits_numbers():
    audit = mixed_audit()
    (panel,) = chart_of(audit, "figure1").panels
    n = len(audit.settings)
    parity, disparity, null = panel.marks[:n], panel.marks[n : 2 * n], panel.marks[-n:]
    assert parity[0].y == audit.settings[0].demographic_parity_gap.mean
    found = [
        pair.pcer_disparity for b in audit.published[0].settings for pair in b.pairs
    ]
    assert [mark.ends for mark in disparity] == [one.ci for one in found]
    assert [(mark.y, mark.ends) for mark in null] == [
        (one.null_mean, one.null_interval) for one in found
    ]
    filled = [mark.is_filled for mark in disparity]
    assert filled == [one.is_beyond_null for one in found]
    assert {True, False} == set(filled)
    assert not any(mark.is_filled for mark in null)
    # No curve needs colour: each has its shape.
    assert len({mark.shape for mark in panel.marks}) == len(charts.SERIES)


def test_marks_of_exposures_are_exposures_in_the_unit_of_their_tables():
    audit = mixed_audit()
    chart = chart_of(audit, "attacks")
    titles = [panel.title for panel in chart.panels]
    assert titles == ["overfitting gap", "threshold attack", "LiRA"]
    first = audit.settings[0].groups["women"].exposure
    own = chart.panels[titles.index(audit.attack_kind.label)]
    scale = audit.attack_kind.scale
    chance = 50 if scale.is_advantage else 0
    written = chance + scale.per_unit * first.value
    assert min(abs(mark.y - written) for mark in own.marks) == pytest.approx(0)
    lira = chart.panels[-1]
    assert (lira.up.title, lira.rules[0].y) == ("attacker right, of 100", 50)
    assert len({mark.shape for mark in lira.marks}) == len(audit.subject.groups)


@pytest.mark.parametrize("name", CHARTS)
def test_marks_lie_where_their_numbers_are(name):
    """Everything is placed within the picture, on straight axes."""
    chart = chart_of(mixed_audit(), name)
    svg = panels.chart_svg(chart)
    size = ElementTree.fromstring(svg)
    width, height = float(size.get("width")), float(size.get("height"))
    drawn = elements(svg, "g", "pcer-panel")
    assert len(drawn) == len(chart.panels)
    for panel, group in zip(chart.panels, drawn, strict=True):
        marks = [part for part in group if part.get("class") == "pcer-mark"]
        assert len(marks) == len(panel.marks)
        for axis, is_right in ((panel.up, False), (panel.right, True)):
            places = []
            for mark, shown in zip(panel.marks, marks, strict=True):
                place = shown.findall(f"{SVG}path")[-1].get("transform")
                x, y = map(float, re.findall(r"[\d.]+", place))
                assert 0 < x < width
                assert 0 < y < height
                if mark.is_right is is_right:
                    places.append((axis.share(mark.y), y))
            if not places:
                continue
            (low, below), (high, above) = min(places), max(places)
            for share, y in places:
                part = (share - low) / (high - low)
                assert y == pytest.approx(below + part * (above - below), abs=0.2)


def test_settings_below_the_floor_are_shaded():
    plan = QUICK.model_copy(update={"floor": 0.1})
    audit = mixed_audit()
    floored = pcer.audit(audit.sources[0], plan)
    for one, n_shaded in ((audit, 0), (floored, len(audit.settings))):
        svg = panels.chart_svg(chart_of(one, "figure1"))
        assert len(elements(svg, "rect", "pcer-shade")) == n_shaded


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_shows_itself_and_is_saved_in_three_formats(name, tmp_path):
    picture = mixed_audit().plot(name)
    assert repr(picture).endswith(f"save('{name}.svg') writes it>")
    assert picture._repr_html_() == picture._repr_svg_()
    for kind, start in STARTS.items():
        picture.save(tmp_path / f"a.{kind}")
        assert (tmp_path / f"a.{kind}").read_bytes().startswith(start)
    with pytest.raises(InputError) as refused:
        picture.save(tmp_path / "a.docx")
    assert refused.value.field == "path"


def test_the_finding_is_saved_in_three_formats(tmp_path):
    for kind, start in STARTS.items():
        mixed_audit().plot().save(tmp_path / f"a.{kind}")
        assert (tmp_path / f"a.{kind}").read_bytes().startswith(start)


def test_an_unknown_chart_lists_those_that_are_there():
    with pytest.raises(InputError, match=f"plot draws {next(iter(CHARTS))}, "):
        mixed_audit().plot("pie")


def test_figures_have_stable_bytes_plain_colours_and_a_white_ground():
    """PDF alone has none: vl-convert orders its parts anew each time."""
    audit = mixed_audit()
    first, second = (draw_figures([audit], audit.sources[:1]) for _ in range(2))
    assert first.keys() == second.keys()
    stems = {name.rpartition(".")[0] for name in first}
    assert stems == {f"loans-sex-{name}" for name in CHARTS}
    for name, data in first.items():
        kind = name.rpartition(".")[2]
        assert data.startswith(STARTS[kind])
        if kind != "pdf":
            assert data == second[name]
        if kind == "svg":
            text = data.decode()
            assert "var(" not in text
            assert "currentColor" not in text
            assert '<rect width="100%" height="100%" fill="#fff"/>' in text


def test_several_audits_are_numbered():
    audit = mixed_audit()
    names = draw_figures([audit, audit], [audit.sources[0]] * 2)
    assert {"01-loans-sex-figure1.svg", "02-loans-sex-figure1.svg"} < names.keys()


def test_charts_of_many_groups_show_some():
    audit = pcer.audit(
        many_groups([f"group {g}" for g in range(MOST_PAIRS + 3)]), QUICK
    )
    assert shown_groups(audit) == list(range(MOST_PAIRS + 1))
    assert len(chart_of(audit, "figure1").panels) == MOST_PAIRS


def test_rates_without_sizes_can_be_drawn(rates_release):
    audit = pcer.audit(rates_release, QUICK)
    names = draw_figures([audit], audit.sources[:1])
    assert "compas-race-figure1.svg" in names
    assert "compas-race-attacks.svg" not in names
    assert charts.every_attack(audit, audit.sources[0]) is None
    with pytest.raises(InputError, match="nothing to draw for 'attacks'"):
        audit.plot("attacks")


def test_hostile_names_are_text_in_charts():
    audit = hostile_audit()
    assert re.fullmatch(r"[a-z0-9-]+", file_name(audit))
    for name in CHARTS:
        svg = audit.plot(name)._repr_svg_()
        for text in (svg, printable_svg(svg)):
            tags = {element.tag for element in ElementTree.fromstring(text).iter()}
            names = {tag.removeprefix(SVG) for tag in tags}
            assert names <= {"svg", "title", "style", "text", "path", "g", "rect"}


def test_a_text_that_looks_like_a_colour_stays_as_it_is():
    panel = panels.Panel(
        panels.NameAxis("", ('="var(--ink, #1f2933)"',)), panels.number_axis("", [1])
    )
    svg = panels.chart_svg(panels.Chart('="currentColor"', [panel]))
    texts = [
        [text.text for text in ElementTree.fromstring(one).iter(f"{SVG}text")]
        for one in (svg, printable_svg(svg))
    ]
    assert texts[0] == texts[1]
    assert {'="currentColor"', '="var(--ink, #1f2933)"'} < set(texts[0])


def test_many_settings_are_written_upwards_and_every_second():
    names = tuple(f"model {k}, ε = 0.5" for k in range(60))
    panel = panels.Panel(panels.NameAxis("setting", names), panels.number_axis("", [1]))
    svg = panels.chart_svg(panels.Chart("", [panel]))
    assert 10 < svg.count("rotate(-90)") <= 30


def test_nearly_equal_budgets_keep_their_own_place(plain_release):
    for run in plain_release["runs"]:
        run["epsilon"] = 1.0 if run["epsilon"] else 1.00000001
    release = pcer.release.parse_release(plain_release, file="near")
    assert setting_labels(pcer.audit(release, QUICK)) == ["1.0", "1.00000001"]


def test_without_the_extra_svg_works_and_the_rest_names_the_remedy(
    monkeypatch, tmp_path
):
    audit = mixed_audit()
    outlook = pcer.detectable({"women": 1_200, "men": 3_400})
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    remedy = r'in a clone of pcer run: pip install "\.\[figures\]"'
    with pytest.raises(InputError, match=remedy):
        draw_figures([audit], audit.sources[:1])
    for picture in (audit.plot(), audit.plot("attacks"), outlook.plot()):
        picture.save(tmp_path / "a.svg")
        for kind in ("png", "pdf"):
            with pytest.raises(InputError, match=remedy):
                picture.save(tmp_path / f"a.{kind}")
            assert not (tmp_path / f"a.{kind}").exists()
