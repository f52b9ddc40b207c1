"""The three pictures: the audit's numbers in words and places, escaped, the same bytes."""

import json
import re
from xml.etree import ElementTree

import pytest

import pcer
from pcer.release.format import parse_release
from pcer.report import pictures
from pcer.report.tables import floors_table
from tests.pages import QUICK, ROOT, hostile_audit, many_groups, mixed_release, with_models

SVG = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> ElementTree.Element:
    """The picture as a reader of XML sees it."""
    return ElementTree.fromstring(text)


def marks(text: str) -> list[str]:
    """What each mark says."""
    return [g.findtext(f"{SVG}title") or "" for g in parsed(text).iter(f"{SVG}g")]


def test_marks_lie_where_their_numbers_are():
    """Bars are shares of the width; exposures are placed on one straight axis."""
    audit = pcer.audit(mixed_release(), QUICK)
    root, told = parsed(pictures.finding_svg(audit)), audit.told.groups
    bars = [float(r.get("width")) for r in root.iter(f"{SVG}rect") if r.get("fill")]
    shares = [pictures.WIDTH * group.benefit.mean for group in told.values()]
    assert bars == pytest.approx(shares, abs=0.06)
    points = [c.get("cx") for c in root.iter(f"{SVG}circle")]
    spans = re.findall(r'd="M([\d.]+) [\d.]+H([\d.]+)"', ElementTree.tostring(root, "unicode"))
    pairs = zip(points, spans, strict=True)
    drawn = [float(x) for point, ends in pairs for x in (point, *ends)]
    values = [v for group in told.values() for v in (group.cost.value, *group.cost.interval)]
    slope = (drawn[0] - drawn[-1]) / (values[0] - values[-1])
    placed = [drawn[0] + slope * (value - values[0]) for value in values]
    assert drawn == pytest.approx(placed, abs=0.2)
    assert slope > 0


def test_of_harms_more_is_worse():
    harm = pcer.audit(mixed_release(outcome="harm"), QUICK)
    assert pictures.benefit_claim(harm, harm.told) == "men: more positive predictions"


@pytest.mark.parametrize(
    "draw", [pictures.finding_svg, pictures.exposures_svg, pictures.floors_svg]
)
def test_hostile_names_are_text(draw):
    text = draw(hostile_audit())
    allowed = {"svg", "title", "desc", "style", "text", "g", "path", "rect", "circle"}
    assert {element.tag.removeprefix(SVG) for element in parsed(text).iter()} <= allowed
    assert not re.search(r"\son\w+=", re.sub(r">[^<]*<", "><", text))
    if draw is not pictures.floors_svg:
        assert "1 further groups" in text


def test_of_many_groups_those_worse_off_are_drawn():
    names = [f"group {k}" for k in range(pictures.MOST_GROUPS + 4)]
    audit = pcer.audit(many_groups(names, n_seeds=4), QUICK)
    said = marks(pictures.finding_svg(audit))
    assert len(said) == 2 * pictures.MOST_GROUPS
    assert audit.worse_off
    for name in audit.worse_off[: pictures.MOST_GROUPS]:
        assert any(line.startswith(f"{name}:") for line in said)
    floors = pictures.floors_svg(audit)
    assert len(marks(floors)) == 5 * 4
    assert f"{len(names) - 6} further pairs are in the tables" in floors


def test_what_is_not_known_is_said(rates_release):
    audit = pcer.audit(rates_release, QUICK)
    said = [line.partition(": ")[2] for line in marks(pictures.finding_svg(audit))]
    assert said == ["30 of 100 who receive a positive prediction"] * 2 + ["not known"] * 2
    assert pictures.exposure_claim(audit.told) == "Nobody is shown to be recognised"


def test_the_bound_from_above_is_drawn_where_the_audit_knows_it():
    tree = json.loads((ROOT / "studies/paper/compas.race.release.json").read_text(encoding="utf-8"))
    row = {"epsilon": None, "kind": "receipt", "mode": "exact", "accountant": "rdp", "mean": 1.0}
    row |= {"group": "Other", "n_records": 100}
    tree["bounds"] = [row | {"allowed_advantage": 0.2}]
    tree["version"] = 2
    audit = pcer.audit(parse_release(tree, file="bounded"), QUICK)
    told = next(k for k, one in enumerate(audit.budgets) if one.epsilon is None)
    text = pictures.finding_svg(audit, setting=told)
    assert marks(text)[2].endswith("; the training allows about 70.0")
    assert "allows" not in marks(text)[3]
    assert "Bracket: what the training" in text
    assert "Bracket" not in pictures.finding_svg(audit, setting=0)
    gap = pcer.audit(parse_release(tree, file="bounded"), QUICK, cost="overfitting_gap")
    assert "Bracket" not in pictures.finding_svg(gap, setting=told)


def test_of_many_settings_the_second_picture_has_those_of_the_told_model():
    names = [f"a model with a name, {k}" for k in range(6)]
    audit = pcer.audit(with_models(mixed_release(n_seeds=2), names), QUICK)
    assert len(audit.budgets) == 36
    drawn = pictures.drawn_settings(audit)
    assert len(drawn) == 6
    assert {one.model for one in drawn} == {audit.told.model}
    assert "30 further" in pictures.exposures_svg(audit)
    assert pictures.exposures_svg(audit.model_copy(update={"budgets": drawn[:1]})) == ""
    settings = [audit.told.model_copy(update={"epsilon": 1.0 + k}) for k in range(30)]
    long = audit.model_copy(update={"budgets": settings, "telling": 29})
    assert pictures.drawn_settings(long) == settings[-pictures.MOST_SETTINGS :]


def test_floors_that_are_not_in_the_grid_and_disparities_that_are_not_known(plain_release):
    audit = pcer.audit(mixed_release(n_seeds=2), QUICK.model_copy(update={"floor": 0.02}))
    assert ">0.02<" in pictures.floors_svg(audit)
    floors = tuple(f"floor {x:g}" for x in (1e-4, 1e-3, 0.01, 0.02, 0.1))
    assert floors_table(audit).columns[2:-1] == floors
    plain_release["runs"][0]["groups"]["Other"]["test"] = {"tp": 0, "fp": 0, "tn": 70, "fn": 20}
    plain_release["runs"][0]["split"] = "its own"
    release = parse_release(plain_release, file="undefined precision")
    audit = pcer.audit(release, QUICK.model_copy(update={"benefit": "precision"}))
    text = pictures.floors_svg(audit)
    assert len(re.findall("<path", text)) == len(marks(text)) - 4
    assert floors_table(audit).rows[-1][2] == "–\n[no interval]\n–; 0 %"
