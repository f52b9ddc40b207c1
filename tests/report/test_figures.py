"""Charts for papers: rows that are the audit's numbers, specifications that compile, files."""

import json
import re
import sys
from xml.etree import ElementTree

import pytest
import vl_convert

import pcer
from pcer.errors import InputError
from pcer.report.figures import CHARTS, chart_spec, draw_figures, file_name
from pcer.report.tables.background import MOST_PAIRS, setting_labels, shown_groups
from tests.pages import QUICK, hostile_audit, many_groups, mixed_audit


def spec_of(audit: pcer.Audit, name: str):
    return chart_spec(audit, audit.sources[0], name)


def test_rows_are_the_audits_numbers():
    audit = mixed_audit()
    rows = {name: spec_of(audit, name)["datasets"]["rows"] for name in CHARTS}
    first, women = audit.budgets[0], audit.budgets[0].groups["women"]
    gap, disparity, null = rows["figure1"][:3]
    assert gap["mean"] == pytest.approx(first.demographic_parity_gap.mean)
    published = audit.published[0].budgets[0].pairs[0].pcer_disparity
    assert (disparity["low"], disparity["high"]) == pytest.approx(published.ci)
    assert (null["mean"], null["low"]) == pytest.approx(
        (published.null_mean, published.null_interval[0])
    )
    filled = [
        row["filled"] for row in rows["figure1"] if row["series"] == disparity["series"]
    ]
    found = [
        pair.pcer_disparity for b in audit.published[0].budgets for pair in b.pairs
    ]
    assert filled == [each.is_beyond_null for each in found]
    assert {True, False} == set(filled)
    own = [row for row in rows["costs"] if row["attack"] == audit.proxy.label]
    assert own[1]["mean"] == pytest.approx(women.cost.value)
    costs = spec_of(audit, "costs")
    assert costs["facet"]["sort"] == ["overfitting gap", "threshold attack", "LiRA"]
    # No chart needs colour: groups and curves have shapes, what is no evidence is
    # hollow.
    assert '"shape": {"field": "group"' in json.dumps(costs)
    assert '["circle", "square"]' in json.dumps(costs)
    assert "fillOpacity" in json.dumps(spec_of(audit, "figure1"))


def test_settings_below_the_floor_are_shaded():
    plan = QUICK.model_copy(update={"floor": 0.1})
    for audit, shaded in (
        (mixed_audit(), {False}),
        (pcer.audit(mixed_audit().sources[0], plan), {True}),
    ):
        rows = spec_of(audit, "figure1")["datasets"]["rows"]
        assert {row["floored"] for row in rows} == shaded


@pytest.mark.parametrize("name", CHARTS)
def test_every_specification_is_valid_compiles_and_has_words(name):
    spec = spec_of(mixed_audit(), name)
    assert "6 settings. The numbers are in the tables." in spec["description"]
    assert "var(--" not in json.dumps(spec, allow_nan=False)
    assert (
        mixed_audit().plot(name).to_dict()["datasets"]["rows"]
    )  # Altair checks the schema
    with pytest.raises(InputError, match=f"plot draws {next(iter(CHARTS))}, "):
        mixed_audit().plot("pie")
    assert vl_convert.vegalite_to_vega(spec, vl_version="6.4")["marks"]


def test_svg_and_png_have_stable_bytes():
    audit = mixed_audit()
    first, second = (draw_figures([audit], audit.sources[:1]) for _ in range(2))
    assert {name.rpartition(".")[0] for name in first} == {
        f"loans-sex-{name}" for name in CHARTS
    }
    for name, data in first.items():
        assert (
            data.startswith(b"%PDF") if name.endswith(".pdf") else data == second[name]
        )


def test_charts_of_many_groups_show_some():
    audit = pcer.audit(
        many_groups([f"group {g}" for g in range(MOST_PAIRS + 3)]), QUICK
    )
    assert shown_groups(audit) == list(range(MOST_PAIRS + 1))
    assert len(spec_of(audit, "figure1")["concat"]) == MOST_PAIRS


def test_rates_without_sizes_can_be_drawn(rates_release):
    audit = pcer.audit(rates_release, QUICK)
    names = draw_figures([audit], audit.sources[:1])
    assert "compas-race-figure1.svg" in names
    assert "compas-race-costs.svg" not in names
    with pytest.raises(InputError, match="nothing to draw for 'costs'"):
        audit.plot("costs")


def test_hostile_names_are_text_in_figures():
    audit = hostile_audit()
    assert re.fullmatch(r"[a-z0-9-]+", file_name(audit))
    for name in CHARTS:
        svg = vl_convert.vegalite_to_svg(spec_of(audit, name), vl_version="6.4")
        tags = {element.tag for element in ElementTree.fromstring(svg).iter()}
        assert not any(
            "script" in tag or "img" in tag or "image" in tag for tag in tags
        ), name


def test_nearly_equal_budgets_keep_their_own_place(plain_release):
    for run in plain_release["runs"]:
        run["epsilon"] = 1.0 if run["epsilon"] else 1.00000001
    release = pcer.release.parse_release(plain_release, file="near")
    assert setting_labels(pcer.audit(release, QUICK)) == ["1.0", "1.00000001"]


def test_without_the_extra_one_sentence_has_the_remedy(monkeypatch):
    audit = mixed_audit()
    remedy = r'in a clone of pcer run: pip install "\.\[figures\]"'
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "vl_convert", None)
        with pytest.raises(InputError, match=remedy):
            draw_figures([audit], audit.sources[:1])
    monkeypatch.setitem(sys.modules, "altair", None)
    monkeypatch.delitem(sys.modules, "pcer.report.figures")
    monkeypatch.delattr(pcer.report, "figures")
    for shown in (audit, pcer.detectable({"women": 1_200, "men": 3_400})):
        with pytest.raises(InputError, match=remedy):
            shown.plot(*(["costs"] if shown is audit else []))
