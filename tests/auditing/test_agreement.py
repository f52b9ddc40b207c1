"""The agreement table: by hand, against loops, Proposition 1, and in every output."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import pytest
from typer.testing import CliRunner

import pcer
from pcer.auditing.agreement import agreement
from pcer.auditing.file import audit_schema
from pcer.cli.app import app
from pcer.release.format import parse_release
from pcer.report.tables import agreement_table
from tests.worlds.releases import World, simulate

QUICK = pcer.Plan(resamples=50, null_draws=20)
BUDGETS = (0.5, 1.0, 5.0, None)


@pytest.fixture(scope="module")
def plain():
    world = World(
        sizes=(4_000, 3_000),
        label_shares=(0.5, 0.3),
        right=[(0.9, 0.7)] * 2,
        gaps=(0.01, 0.03),
        n_seeds=4,
        budgets=BUDGETS,
    )
    return simulate(world, np.random.default_rng(0))


@pytest.fixture(scope="module")
def exposed(plain):
    """Random exposures: one per run, one pooled that two budgets lack."""
    rng = np.random.default_rng(1)
    tree = json.loads(plain.to_json())
    for run in tree["runs"]:
        for tables in run["groups"].values():
            value, error = float(rng.normal(0.02, 0.02)), 0.004
            tables["exposure"] = {"attack_advantage": {"value": value, "standard_error": error}}
    tree["pooled_exposure"] = [
        {
            "epsilon": e,
            "group": g,
            "proxy": "paired_gap",
            "value": 0.01 * k,
            "standard_error": 0.001,
        }
        for e in (5.0, None)
        for k, g in enumerate(tree["subject"]["groups"], start=1)
    ]
    return parse_release(tree, file="exposed")


def accuracy_gap(tables):
    accuracy = [(t.tp + t.tn) / t.n for t in (tables.train, tables.test)]
    return max(0.0, accuracy[0] - accuracy[1])


def rate(tables):
    return (tables.test.tp + tables.test.fp) / tables.test.n


def of_runs(release, epsilon, group, value):
    return [value(run.groups[group]) for run in release.runs if run.epsilon == epsilon]


def advantage(tables):
    return tables.exposure["attack_advantage"].value


def mean_disparity(release, epsilon, cost):
    ratios = [
        np.mean(of_runs(release, epsilon, group, lambda t: rate(t) / max(cost(t), 1e-3)))
        for group in release.subject.groups
    ]
    return ratios[0] - ratios[1]


def test_against_loops(exposed):
    found = agreement(pcer.audit(exposed, QUICK))
    assert found.baseline == "overfitting_gap"
    assert [row.proxy for row in found.proxies] == ["attack_advantage", "paired_gap"]
    row = found.proxies[0]
    cells = [(e, g) for e in BUDGETS for g in exposed.subject.groups]
    gaps = [np.mean(of_runs(exposed, e, g, accuracy_gap)) for e, g in cells]
    costs = [np.mean(of_runs(exposed, e, g, advantage)) for e, g in cells]
    assert row.n_cells == 8
    assert row.correlation == pytest.approx(np.corrcoef(gaps, costs)[0, 1])
    ours = [mean_disparity(exposed, e, accuracy_gap) for e in BUDGETS]
    theirs = [mean_disparity(exposed, e, advantage) for e in BUDGETS]
    assert row.n_settings == 4
    assert row.n_same_sign == sum(a * b > 0 for a, b in zip(ours, theirs, strict=True))
    assert row.n_larger_disparity == sum(
        abs(b) >= abs(a) for a, b in zip(ours, theirs, strict=True)
    )
    ratios = [abs(b) / abs(a) for a, b in zip(ours, theirs, strict=True)]
    assert row.median_ratio == pytest.approx(np.median(ratios))
    assert row.disparity_correlation == pytest.approx(np.corrcoef(ours, theirs)[0, 1])
    pairs = [
        (accuracy_gap(tables), advantage(tables))
        for run in exposed.runs
        for tables in run.groups.values()
    ]
    assert row.bound.n_runs == 32
    assert row.bound.n_runs_exceeding == sum(b > a for a, b in pairs)
    assert row.bound.n_cells == 8
    assert row.bound.n_cells_exceeding == sum(b > a for a, b in zip(gaps, costs, strict=True))


def test_a_pooled_attack_counts_where_it_is_released_and_has_no_disparity_over_seeds(exposed):
    row = agreement(pcer.audit(exposed, QUICK)).proxies[1]
    assert (row.proxy, row.n_cells, row.n_settings) == ("paired_gap", 4, 0)
    assert (row.n_same_sign, row.n_larger_disparity, row.median_ratio) == (0, 0, None)
    assert row.bound is None
    assert row.disparity_correlation is None
    assert agreement_table(agreement(pcer.audit(exposed, QUICK))).rows[1][2:5] == ("–", "–", "–")


def test_an_attack_on_every_run_is_divided_by_seed_by_seed_where_it_is_pooled_too(exposed):
    tree = json.loads(exposed.to_json())
    tree["pooled_exposure"] += [
        {**row, "epsilon": e, "proxy": "attack_advantage"}
        for e in BUDGETS
        for row in tree["pooled_exposure"][:2]
    ]
    both = parse_release(tree, file="both")
    row, alone = (agreement(pcer.audit(one, QUICK)).proxies[0] for one in (both, exposed))
    assert (row.n_settings, row.n_same_sign) == (alone.n_settings, alone.n_same_sign)
    assert row.disparity_correlation == alone.disparity_correlation
    (pair,) = pcer.audit(both, QUICK, cost="attack_advantage").budgets[0].pairs
    assert pair.pcer_disparity.mean == pytest.approx(mean_disparity(both, 0.5, advantage))
    assert pair.pcer_disparity.ci is not None


@pytest.mark.parametrize("cost", ["attack_advantage", "overfitting_gap"])
def test_every_attack_stands_beside_the_gap_whatever_the_audits_cost(exposed, cost):
    found = agreement(pcer.audit(exposed, QUICK, cost=cost))
    assert found == agreement(pcer.audit(exposed, QUICK))


def test_swapping_groups_changes_no_count(exposed):
    """Every disparity turns its sign, and how proxies compare does not."""
    subject = exposed.subject.model_copy(update={"groups": exposed.subject.groups[::-1]})
    swapped = agreement(pcer.audit(exposed.model_copy(update={"subject": subject}), QUICK))
    plain = agreement(pcer.audit(exposed, QUICK))
    for ours, theirs in zip(plain.proxies, swapped.proxies, strict=True):
        assert ours.n_same_sign == theirs.n_same_sign
        assert ours.n_larger_disparity == theirs.n_larger_disparity
        assert ours.median_ratio == pytest.approx(theirs.median_ratio)
        assert ours.bound == theirs.bound


def test_without_exposures_there_is_nothing_to_agree(plain):
    assert agreement(pcer.audit(plain, QUICK)) is None


def test_proposition_1_is_measured_and_can_be_refuted(plain):
    """Right about everyone, confident on members only: gap 0, advantage 1/2, in every run."""
    tree = json.loads(plain.to_json())
    for run in tree["runs"]:
        for tables in run["groups"].values():
            for split in ("train", "test"):
                table = tables[split]
                tables[split] = {
                    "tp": table["tp"] + table["fn"],
                    "fp": 0,
                    "tn": table["tn"] + table["fp"],
                    "fn": 0,
                }
            tables["exposure"] = {"attack_advantage": {"value": 0.5, "standard_error": 0.001}}
    found = agreement(pcer.audit(parse_release(tree, file="counterexample"), QUICK))
    bound = found.proxies[0].bound
    assert (bound.n_runs_exceeding, bound.n_runs) == (32, 32)
    assert (bound.n_cells_exceeding, bound.n_cells_refuting, bound.n_cells) == (8, 8, 8)


def test_an_advantage_below_the_gap_refutes_nothing(plain):
    tree = json.loads(plain.to_json())
    for run in tree["runs"]:
        for tables in run["groups"].values():
            tables["exposure"] = {"attack_advantage": {"value": -0.1, "standard_error": 0.001}}
    bound = agreement(pcer.audit(parse_release(tree, file="below"), QUICK)).proxies[0].bound
    assert (bound.n_runs_exceeding, bound.n_cells_exceeding, bound.n_cells_refuting) == (0, 0, 0)


def test_every_output_shows_it(exposed, tmp_path):
    path = tmp_path / "exposed.release.json"
    pcer.write_release(exposed, path)
    outputs = {name: tmp_path / name for name in ("json", "markdown", "latex")}
    options = [part for name, out in outputs.items() for part in (f"--{name}", str(out))]
    done = CliRunner().invoke(
        app, ["audit", str(path), "--full", "--cost", "attack_advantage", *options]
    )
    assert done.exit_code == 0, done.output
    assert "Do the attacks agree?" in done.output
    for name in ("markdown", "latex"):
        assert "Each beside the overfitting gap" in outputs[name].read_text()
    tree = json.loads(outputs["json"].read_text())
    jsonschema.validate(tree, audit_schema())
    verified = CliRunner().invoke(app, ["verify", str(outputs["json"]), str(path)])
    assert verified.exit_code == 0, verified.output
