"""The picture of the floors: the audit's numbers in words and places, escaped."""

import re
from xml.etree import ElementTree

import pcer
from pcer.release.file import parse_release
from pcer.report.pictures import floors, looks
from pcer.report.tables.paper import floors_table
from tests.pages import QUICK, hostile_audit, many_groups, mixed_release, with_models

SVG = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> ElementTree.Element:
    """The picture as a reader of XML sees it."""
    return ElementTree.fromstring(text)


def marks(text: str) -> list[str]:
    """What each mark says."""
    return [g.findtext(f"{SVG}title") or "" for g in parsed(text).iter(f"{SVG}g")]


def test_hostile_names_are_text():
    text = floors.floors_svg(hostile_audit())
    allowed = {"svg", "title", "style", "text", "g", "path", "rect"}
    assert {element.tag.removeprefix(SVG) for element in parsed(text).iter()} <= allowed
    assert not re.search(r"\son\w+=", re.sub(r">[^<]*<", "><", text))


def test_of_many_pairs_the_first_are_drawn():
    names = [f"group {k}" for k in range(looks.MOST_GROUPS + 4)]
    audit = pcer.audit(many_groups(names, n_seeds=4), QUICK)
    text = floors.floors_svg(audit)
    assert len(marks(text)) == 5 * 4
    assert f"{len(names) - 6} further pairs are in the tables" in text


def test_of_many_settings_those_of_the_told_model_are_drawn():
    names = [f"a model with a name, {k}" for k in range(6)]
    audit = pcer.audit(with_models(mixed_release(n_seeds=2), names), QUICK)
    assert len(audit.settings) == 36
    drawn = floors.setting_rows(audit)
    assert [row.setting.model for row in drawn] == [audit.told.model] * 6
    assert drawn[0].setting.epsilon is None
    assert "30 further" in floors.floors_svg(audit)
    settings = [audit.told.model_copy(update={"epsilon": 1.0 + k}) for k in range(30)]
    long = audit.model_copy(update={"settings": settings, "main_setting": 0})
    drawn = [row.setting for row in floors.setting_rows(long)]
    assert drawn == settings[11::-1]


def test_floors_that_are_not_in_the_grid_and_disparities_that_are_not_known(
    plain_release,
):
    audit = pcer.audit(
        mixed_release(n_seeds=2), QUICK.model_copy(update={"floor": 0.02})
    )
    assert ">0.02<" in floors.floors_svg(audit)
    heads = tuple(f"floor {x:g}" for x in (1e-4, 1e-3, 0.01, 0.02, 0.1))
    assert floors_table(audit).columns[2:-1] == heads
    plain_release["runs"][0]["groups"]["Other"]["test"] = {
        "tp": 0,
        "fp": 0,
        "tn": 70,
        "fn": 20,
    }
    plain_release["runs"][0]["split"] = "its own"
    release = parse_release(plain_release, file="undefined precision")
    audit = pcer.audit(release, QUICK.model_copy(update={"benefit": "precision"}))
    text = floors.floors_svg(audit)
    assert len(re.findall("<path", text)) == len(marks(text)) - 4
    assert floors_table(audit).rows[-1][2] == "–\n[no interval]\n–; 0%"
