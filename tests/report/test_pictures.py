"""The two pictures: the audit's numbers in words and places, escaped, same bytes."""

import re
from xml.etree import ElementTree

import pytest

import pcer
from pcer.release.file import parse_release
from pcer.report.pictures import finding, looks
from pcer.report.tables.background import least_private_first
from pcer.report.tables.paper import floors_table
from tests.pages import (
    QUICK,
    ROOT,
    hostile_audit,
    many_groups,
    mixed_release,
    with_attacks,
    with_models,
)

SVG = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> ElementTree.Element:
    """The picture as a reader of XML sees it."""
    return ElementTree.fromstring(text)


def marks(text: str) -> list[str]:
    """What each mark says."""
    return [g.findtext(f"{SVG}title") or "" for g in parsed(text).iter(f"{SVG}g")]


@pytest.mark.parametrize("width", [looks.NARROW, looks.WIDE])
def test_marks_lie_where_their_numbers_are(width):
    """Exposures of all settings are placed on one straight axis, within the picture."""
    audit = pcer.audit(mixed_release(), QUICK)
    values: list[float] = []
    for setting in least_private_first(audit):
        for group in setting.groups.values():
            values += (*group.exposure.interval, group.exposure.value)
    drawn = drawn_places(finding.finding_svg(audit, width=width))
    lowest = values.index(min(values))
    highest = values.index(max(values))
    slope = (drawn[highest] - drawn[lowest]) / (values[highest] - values[lowest])
    placed = [drawn[lowest] + slope * (value - values[lowest]) for value in values]
    assert drawn == pytest.approx(placed, abs=0.2)
    assert 0 <= min(drawn) < max(drawn) <= width


def drawn_places(text: str) -> list[float]:
    """Of every mark, in reading order: both ends of its line, and its own place."""
    spans = re.findall(
        r'd="M([\d.]+) [\d.]+H([\d.]+)".*?translate\(([\d.]+) ',
        ElementTree.tostring(parsed(text), "unicode"),
        flags=re.DOTALL,
    )
    places: list[float] = []
    for span in spans:
        places += map(float, span)
    return places


def test_a_solid_mark_never_crosses_the_coin():
    for audit in (
        pcer.audit(mixed_release(), QUICK),
        pcer.audit(many_groups(["a", "b"]), QUICK),
    ):
        n_clear = 0
        n_marks = 0
        for setting in audit.settings:
            for group in setting.groups.values():
                assert not group.is_clear or group.exposure.interval[0] > 0
                assert group.detected or not group.is_clear
                n_clear += group.is_clear
                n_marks += 1
        text = finding.finding_svg(audit)
        assert text.count("stroke-dasharray") == n_marks - n_clear > 0


def test_the_scale_says_what_part_of_it_is_drawn():
    audit = pcer.audit(mixed_release(), QUICK)
    assert re.search(
        r"Zoomed in: 0 to \d+ of a possible 100\.",
        finding.finding_svg(audit, width=1160),
    )
    whole = pcer.audit(with_attacks(mixed_release()), QUICK, attack="attack_advantage")
    assert ", of 50 (coin) to 100" in finding.finding_svg(whole, width=1160)
    forest = pcer.audit(ROOT / "examples" / "compas-forest.release.json", QUICK)
    assert "Zoomed in: 50 to 75, of 50 (coin)" in finding.finding_svg(
        forest, width=1160
    )


@pytest.mark.parametrize("high", [0.03, 0.049, 0.12, 0.23, 0.24, 0.47])
def test_the_scale_ends_beyond_every_mark(high):
    audit = pcer.audit(mixed_release(), QUICK)
    drawn = {"value": 0.02, "interval": (-0.005, high)}
    for group in audit.told.groups.values():
        group.__dict__["exposure"] = group.exposure.model_copy(update=drawn)
    text = finding.finding_svg(audit, width=1160)
    ends = re.search(r"Zoomed in: (\S+) to (\S+) of a possible 100", text)
    assert ends[1] == "0"
    assert 100 * high <= float(ends[2])


@pytest.mark.parametrize("draw", [finding.finding_svg, finding.floors_svg])
def test_hostile_names_are_text(draw):
    text = draw(hostile_audit())
    allowed = {"svg", "title", "style", "text", "g", "path", "rect"}
    assert {element.tag.removeprefix(SVG) for element in parsed(text).iter()} <= allowed
    assert not re.search(r"\son\w+=", re.sub(r">[^<]*<", "><", text))
    if draw is finding.finding_svg:
        assert "1 further groups" in text


def test_of_many_groups_those_that_the_finding_names_are_drawn():
    names = [f"group {k}" for k in range(looks.MOST_GROUPS + 4)]
    audit = pcer.audit(many_groups(names, n_seeds=4), QUICK)
    said = marks(finding.finding_svg(audit))
    assert len(said) == len(audit.settings) * looks.MOST_GROUPS
    assert audit.told.named
    for name in audit.told.named[: looks.MOST_GROUPS]:
        assert any(f", {name}:" in line for line in said)
    floors = finding.floors_svg(audit)
    assert len(marks(floors)) == 5 * 4
    assert f"{len(names) - 6} further pairs are in the tables" in floors


def test_what_is_not_known_is_said(rates_release):
    audit = pcer.audit(rates_release, QUICK)
    said = [line.partition(": ")[2] for line in marks(finding.finding_svg(audit))]
    assert {*said} == {"not known"}


def test_of_many_settings_those_of_the_told_model_are_drawn():
    names = [f"a model with a name, {k}" for k in range(6)]
    audit = pcer.audit(with_models(mixed_release(n_seeds=2), names), QUICK)
    assert len(audit.settings) == 36
    drawn = finding.setting_rows(audit)
    assert [row.setting.model for row in drawn] == [audit.told.model] * 6
    assert drawn[0].setting.epsilon is None
    assert "30 further" in finding.finding_svg(audit)
    settings = [audit.told.model_copy(update={"epsilon": 1.0 + k}) for k in range(30)]
    long = audit.model_copy(update={"settings": settings, "main_setting": 0})
    drawn = [row.setting for row in finding.setting_rows(long)]
    assert drawn == settings[11::-1]


def test_floors_that_are_not_in_the_grid_and_disparities_that_are_not_known(
    plain_release,
):
    audit = pcer.audit(
        mixed_release(n_seeds=2), QUICK.model_copy(update={"floor": 0.02})
    )
    assert ">0.02<" in finding.floors_svg(audit)
    floors = tuple(f"floor {x:g}" for x in (1e-4, 1e-3, 0.01, 0.02, 0.1))
    assert floors_table(audit).columns[2:-1] == floors
    plain_release["runs"][0]["groups"]["Other"]["test"] = {
        "tp": 0,
        "fp": 0,
        "tn": 70,
        "fn": 20,
    }
    plain_release["runs"][0]["split"] = "its own"
    release = parse_release(plain_release, file="undefined precision")
    audit = pcer.audit(release, QUICK.model_copy(update={"benefit": "precision"}))
    text = finding.floors_svg(audit)
    assert len(re.findall("<path", text)) == len(marks(text)) - 4
    assert floors_table(audit).rows[-1][2] == "–\n[no interval]\n–; 0%"
