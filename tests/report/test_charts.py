"""Charts: rows that are the audit's numbers, specifications that compile, stable files."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

import pcer
from pcer.report.charts import charts
from pcer.report.figures import draw_figures, figure_specs, file_name
from pcer.report.rows import (
    MOST_PAIRS,
    audit_floors,
    budget_labels,
    chart_data,
    isolated,
    shown_pairs,
    slider_floors,
    with_status,
)
from pcer.report.tables import floors_table
from tests.pages import HOSTILE, QUICK, many_groups, mixed_release, with_attacks


@pytest.fixture(scope="module")
def case():
    """A release of six budgets and its audit."""
    release = mixed_release()
    return pcer.audit(release, QUICK), release


def test_runs_give_the_audits_means_at_every_floor(case):
    audit, release = case
    runs = chart_data(audit, release)["runs"]
    assert len(runs) == len(release.runs)
    for label, budget in zip(budget_labels(audit), audit.budgets, strict=True):
        rows = [row for row in runs if row["budget"] == label]
        for found in budget.pairs[0].floors:
            ratios = [
                row["b0"] / max(row["c0"], found.floor) - row["b1"] / max(row["c1"], found.floor)
                for row in rows
            ]
            assert sum(ratios) / len(ratios) == pytest.approx(found.mean, rel=1e-9, abs=1e-9)


def test_intervals_are_the_audits(case):
    audit, release = case
    rows = chart_data(audit, release)
    first = audit.budgets[0]
    found = next(row for row in rows["pairs"] if row["floor"] == 0.01)
    assert (found["low"], found["high"]) == pytest.approx(first.pairs[0].floors[2].ci)
    group = rows["groups"][1]
    assert group["noise"] == pytest.approx(first.groups["women"].null_gap.mean)
    assert group["gap_low"] <= group["gap_mean"] <= group["gap_high"]


def test_untrusted_budgets_are_labelled(case):
    audit, release = case
    labels = {row["budget"]: row["status"] for row in chart_data(audit, release)["budgets"]}
    assert labels["0.1"] == "not resolved"
    assert labels["no-DP"] == ""
    lines = {row["line"] for row in chart_data(audit, release)["pairs"]}
    assert "ε = 0.1 (not resolved)" in lines


def test_every_specification_is_valid_and_compiles(case):
    import altair
    import vl_convert

    audit, release = case
    for name, spec in figure_specs(audit, release).items():
        spec["config"]["legend"].pop("layout")  # Vega's, passed on; Vega-Lite's schema lacks it
        altair.Chart.from_dict(spec, validate=True)
        compiled = vl_convert.vegalite_to_vega(spec, vl_version="6.4")
        assert compiled["marks"], name


def test_every_chart_has_words(case):
    audit, release = case
    drawn = charts(audit, chart_data(audit, release))
    assert [chart.name for chart in drawn] == [
        "disparity",
        "outcomes",
        "gaps",
        "costs",
        "floors",
        "balance",
    ]
    for chart in drawn:
        assert len(chart.caption) > 60
        assert "3 floor dominated, not resolved or insufficient" in chart.spec["description"]
        assert chart.spec["params"] == [{"name": "floor", "value": 0.001}]


def test_svg_and_png_have_stable_bytes(case):
    audit, release = case
    first, second = (draw_figures([audit], [release]) for _ in range(2))
    names = [name for name in first if not name.endswith(".pdf")]
    assert len(names) == 10
    assert all(first[name] == second[name] for name in names)
    assert all(first[name].startswith(b"%PDF") for name in first if name.endswith(".pdf"))
    assert "var(--" not in first["loans-sex-figure1.svg"].decode()


def test_every_proxy_gets_a_panel():
    release = with_attacks(mixed_release(n_seeds=2))
    audit = pcer.audit(release, QUICK)
    rows = chart_data(audit, release)["proxies"]
    assert {row["proxy"] for row in rows} == {
        "overfitting gap",
        "threshold attack",
        "LiRA",
    }
    costs = next(c for c in charts(audit, chart_data(audit, release)) if c.name == "costs")
    assert costs.spec["facet"]["sort"] == ["overfitting gap", "threshold attack", "LiRA"]


def test_charts_of_many_groups_show_some_and_say_so():
    release = many_groups([f"group {g}" for g in range(MOST_PAIRS + 3)])
    audit = pcer.audit(release, QUICK)
    assert len(shown_pairs(audit)) == MOST_PAIRS
    drawn = charts(audit, chart_data(audit, release))
    assert "2 further pairs are in the tables" in drawn[0].caption


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


def test_benefit_against_exposure_is_drawn_only_where_both_are_known(plain_release):
    known = pcer.release.parse_release(plain_release, file="counts")
    assert "balance" in figure_specs(pcer.audit(known, QUICK), known)
    for run in plain_release["runs"]:
        for tables in run["groups"].values():
            tables["train"] = {"accuracy": 0.8}
            tables["test"] = {"accuracy": 0.75, "positive_rate": 0.3}
    release = pcer.release.parse_release(plain_release, file="rates")
    assert "balance" not in figure_specs(pcer.audit(release, QUICK), release)


def test_benefit_against_exposure_is_zoomed_to_the_means(case):
    """No axis is forced to 0, and no single seed stretches it."""
    audit, release = case
    spec = figure_specs(audit, release)["balance"]
    assert spec["data"] == {"name": "groups"}
    for layer in spec["layer"]:
        assert "data" not in layer
        for axis in ("x", "y"):
            scale = layer["encoding"][axis].get("scale", {"zero": False})
            assert scale["zero"] is False


def test_every_title_is_a_claim_with_its_numbers(case):
    audit, release = case
    titles = {chart.name: chart.title for chart in charts(audit, chart_data(audit, release))}
    groups = [group for budget in audit.budgets for group in budget.groups.values()]
    resolved = sum(group.resolved for group in groups)
    assert titles["gaps"] == f"Exposure is shown for {resolved} of 12 groups and settings"
    readable = sum(not budget.verdict.voids for budget in audit.budgets)
    assert titles["disparity"] == f"A disparity can be read in {readable} of 6 settings"
    shown = sum(cost.n_resolved > 0 for cost in audit.costs)
    assert titles["costs"] == f"{shown} of {len(audit.costs)} costs show memory of someone's record"
    turned = 0
    for budget in audit.budgets:
        signs = {np.sign(row.mean) for row in budget.pairs[0].floors if row.mean}
        turned += len(signs) == 2
    assert titles["floors"] == f"The floor decides who is ahead in {turned} of 6 settings"


def test_no_chart_needs_colour(case):
    """Groups have shapes, settings have panels, untrusted settings hollow points and labels."""
    audit, release = case
    specs = figure_specs(audit, release)
    for name in ("gaps", "costs", "balance"):
        text = json.dumps(specs[name])
        assert '"shape": {"field": "group"' in text, name
        assert '["circle", "square"]' in text
    assert specs["floors"]["facet"]["sort"] == [with_status(one) for one in audit.budgets]
    text = json.dumps(specs["figure1"])
    assert '[\\"0.1\\", \\"not\\", \\"resolved\\"]' in text
    assert "fillOpacity" in text


def test_a_disparity_that_is_not_known_has_no_sign_and_no_seeds_above_0(plain_release):
    plain_release["runs"][0]["groups"]["Other"]["test"] = {"tp": 0, "fp": 0, "tn": 70, "fn": 20}
    plain_release["runs"][0]["split"] = "its own"
    release = pcer.release.parse_release(plain_release, file="undefined precision")
    audit = pcer.audit(release, QUICK.model_copy(update={"benefit": "precision"}))
    unknown = [row for row in chart_data(audit, release)["pairs"] if row["budget"] == "no-DP"]
    assert [(row["mean"], row["sign"]) for row in unknown] == [(None, None)] * len(unknown)
    assert floors_table(audit).rows[-1][1] == "–\n[no interval]\n–; 0 %"


def test_hostile_names_are_text_in_figures():
    release = many_groups(HOSTILE, dataset=HOSTILE[0], attribute=HOSTILE[3])
    audit = pcer.audit(release, QUICK)
    assert re.fullmatch(r"[a-z0-9-]+", file_name(audit))
    for name, data in draw_figures([audit], [release]).items():
        if name.endswith(".svg"):
            tags = {element.tag for element in ElementTree.fromstring(data).iter()}
            assert not any("script" in tag or "img" in tag or "image" in tag for tag in tags), name


def test_names_that_turn_the_text_are_isolated():
    assert isolated("abc") == "abc"
    assert isolated("مجموعة") == "\u2068مجموعة\u2069"
    assert isolated("a\u202eb") == "\u2068a\u202eb\u2069"


@pytest.mark.parametrize(
    "plan",
    [pcer.Plan(), pcer.Plan(floor=0.0037), pcer.Plan(floors=[0.02]), pcer.Plan(floors=[1e-6, 1])],
)
def test_the_slider_stops_at_every_audited_floor(plan):
    places = slider_floors(plan)
    assert places == sorted(set(places))
    assert set(audit_floors(plan)) <= set(places)
    assert plan.floor in places


def test_nearly_equal_budgets_keep_their_own_place(plain_release):
    for run in plain_release["runs"]:
        run["epsilon"] = 1.0 if run["epsilon"] else 1.00000001
    release = pcer.release.parse_release(plain_release, file="near")
    labels = budget_labels(pcer.audit(release, QUICK))
    assert labels == ["1.0", "1.00000001"]


def test_rows_hold_no_nan(case):
    audit, release = case
    json.dumps(chart_data(audit, release), allow_nan=False)
