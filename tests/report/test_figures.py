"""Charts for papers: rows that are the audit's numbers, specifications that compile, files."""

from __future__ import annotations

import json
import re
import sys
from xml.etree import ElementTree

import pytest

import pcer
from pcer.errors import InputError
from pcer.report.figures import CHARTS, chart_spec, draw_figures, file_name
from pcer.report.tables import MOST_PAIRS, setting_labels, shown_pairs
from tests.pages import HOSTILE, QUICK, many_groups, mixed_release, with_attacks


@pytest.fixture(scope="module")
def case():
    """A release of six budgets and its audit."""
    release = with_attacks(mixed_release())
    return pcer.audit(release, QUICK), release


def rows_of(case, name):
    return chart_spec(*case, name)["datasets"]["rows"]


def test_rows_are_the_audits_numbers(case):
    audit, _ = case
    first, women = audit.budgets[0], audit.budgets[0].groups["women"]
    gap, disparity = rows_of(case, "figure1")[:2]
    assert gap["mean"] == pytest.approx(first.demographic_parity_gap.mean)
    published = audit.published[0].budgets[0].pairs[0].pcer_disparity
    assert (disparity["low"], disparity["high"]) == pytest.approx(published.ci)
    assert disparity["unsure"] == "not resolved"
    assert rows_of(case, "gaps")[1]["mean"] == pytest.approx(women.overfitting_gap.mean)
    floor = next(row for row in rows_of(case, "floors") if row["floor"] == 0.01)
    assert floor["mean"] == pytest.approx(abs(first.pairs[0].floors[2].mean))
    assert floor["line"] == "ε = 0.1 (not resolved)"
    own = [row for row in rows_of(case, "costs") if row["attack"] == audit.proxy.label]
    assert own[1]["mean"] == pytest.approx(women.cost.value)


def test_every_attack_gets_a_panel(case):
    spec = chart_spec(*case, "costs")
    assert spec["facet"]["sort"] == ["overfitting gap", "threshold attack", "LiRA"]


@pytest.mark.parametrize("name", CHARTS)
def test_every_specification_is_valid_compiles_and_has_words(case, name):
    import altair
    import vl_convert

    spec = chart_spec(*case, name)
    assert "3 floor dominated, not resolved or insufficient" in spec["description"]
    assert "var(--" not in json.dumps(spec)
    json.dumps(spec, allow_nan=False)
    spec["config"]["legend"].pop("layout")  # Vega's, passed on; Vega-Lite's schema lacks it
    altair.Chart.from_dict(spec, validate=True)
    assert vl_convert.vegalite_to_vega(spec, vl_version="6.4")["marks"]


def test_svg_and_png_have_stable_bytes(case):
    audit, release = case
    first, second = (draw_figures([audit], [release]) for _ in range(2))
    assert {name.rpartition(".")[0] for name in first} == {f"loans-sex-{name}" for name in CHARTS}
    for name, data in first.items():
        assert data.startswith(b"%PDF") if name.endswith(".pdf") else data == second[name]


def test_charts_of_many_groups_show_some():
    release = many_groups([f"group {g}" for g in range(MOST_PAIRS + 3)])
    audit = pcer.audit(release, QUICK)
    assert len(shown_pairs(audit)) == MOST_PAIRS
    assert len(chart_spec(audit, release, "figure1")["concat"]) == MOST_PAIRS


def test_rates_without_sizes_can_be_drawn(plain_release):
    for run in plain_release["runs"]:
        for tables in run["groups"].values():
            tables["train"] = {"accuracy": 0.8}
            tables["test"] = {"accuracy": 0.75, "positive_rate": 0.3}
    release = pcer.release.parse_release(plain_release, file="rates")
    audit = pcer.audit(release, QUICK)
    assert audit.verdict is pcer.Verdict.INSUFFICIENT_DATA
    names = draw_figures([audit], [release])
    assert "compas-race-gaps.svg" in names
    assert "compas-race-costs.svg" not in names
    with pytest.raises(InputError, match="nothing to draw for 'costs'"):
        audit.plot("costs")


def test_no_chart_needs_colour(case):
    """Groups have shapes, settings have panels, untrusted settings hollow points and labels."""
    for name in ("gaps", "costs"):
        text = json.dumps(chart_spec(*case, name))
        assert '"shape": {"field": "group"' in text, name
        assert '["circle", "square"]' in text
    text = json.dumps(chart_spec(*case, "figure1"))
    assert '[\\"0.1\\", \\"not\\", \\"resolved\\"]' in text
    assert "fillOpacity" in text


def test_hostile_names_are_text_in_figures():
    release = many_groups(HOSTILE, dataset=HOSTILE[0], attribute=HOSTILE[3])
    audit = pcer.audit(release, QUICK)
    assert re.fullmatch(r"[a-z0-9-]+", file_name(audit))
    for name, data in draw_figures([audit], [release]).items():
        if name.endswith(".svg"):
            tags = {element.tag for element in ElementTree.fromstring(data).iter()}
            assert not any("script" in tag or "img" in tag or "image" in tag for tag in tags), name


def test_nearly_equal_budgets_keep_their_own_place(plain_release):
    for run in plain_release["runs"]:
        run["epsilon"] = 1.0 if run["epsilon"] else 1.00000001
    release = pcer.release.parse_release(plain_release, file="near")
    assert setting_labels(pcer.audit(release, QUICK)) == ["1.0", "1.00000001"]


@pytest.mark.parametrize("package", ["altair", "vl_convert"])
def test_without_the_extra_one_sentence_has_the_remedy(case, package, monkeypatch):
    audit, release = case
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=r'in a clone of pcer run: pip install "\.\[figures\]"'):
        draw_figures([audit], [release])
    if package == "altair":
        with pytest.raises(InputError, match=r'pip install "\.\[figures\]"'):
            audit.plot("costs")
        with pytest.raises(InputError, match=r'pip install "\.\[figures\]"'):
            pcer.detectable({"women": 1_200, "men": 3_400}).plot()
