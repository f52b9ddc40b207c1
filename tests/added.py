"""What must hold of the eight things that CONTRIBUTING.md adds, where they were added.

``tests/test_extension.py`` runs this file on a copy of the package that has them.
"""

import dataclasses
import json

import numpy as np
import pytest
import torch

import pcer
from pcer.attacks import SettingScores, attack_models, draw_coins
from pcer.auditing import sentences
from pcer.auditing.policy import read_policy
from pcer.data import load
from pcer.release import attack_kinds
from pcer.release.file import parse_release
from pcer.report.pictures.charts import draw_figures
from pcer.report.verify import verify_audits
from pcer.train import engine, train_seeds
from pcer.train.devices import choose_device
from pcer.train.rules import RULES
from tests import train_cases as cases
from tests.commands import GOOD, passed, refusal, run
from tests.train_cases import CONFIG, PlainDevice, make_data, make_models, train_block

QUICK = {"resamples": 50, "null_draws": 50}
GROUPS = ("Other", "African-American")  # those of the plain release


def test_a_dataset_is_loaded_and_listed(tmp_path):
    rows = [f"{20 + k},{'fm'[k % 2]},{('yes', 'no')[k // 2 % 2]}" for k in range(12)]
    (tmp_path / "loans.csv").write_text("\n".join(["age,sex,paid", *rows]) + "\n")

    dataset = load("loans", folder=tmp_path)

    assert (dataset.n_records, dataset.public) == (12, True)
    assert dataset.attribute("sex").group_names == ("f", "m")
    assert "loans" in passed("datasets").stdout


def scores_of(rng: np.random.Generator) -> SettingScores:
    """Eight models that know their records, whose scores are of single precision."""
    labels = np.arange(120) % 2
    member = rng.random((8, 120)) < 0.6
    logits = rng.normal(size=(8, 120)) + member * (4.0 * labels - 2.0)
    return SettingScores(
        logits=logits.astype(np.float32),
        labels=labels,
        member=member,
        group=np.arange(120) // 2 % 2,
        group_names=GROUPS,
    )


def test_an_attack_measures_placebos_and_is_audited(plain_release):
    scores = scores_of(np.random.default_rng(0))
    coins, _ = draw_coins([scores])

    (attacked,) = attack_models([scores], [coins])

    mine = attack_kinds.MINE.name
    exposures = attacked.runs[0]
    assert exposures["Other"][mine].value > 0.1
    of_placebos = attacked.coins.pooled[mine]
    assert np.isfinite(of_placebos.value).all()
    assert np.isfinite(of_placebos.standard_error).all()

    plain_release["runs"] = [run for run in plain_release["runs"] if run["seed"] == 0]
    plain_release["training"]["mechanism"] = "dp-sgd"  # one of them has an epsilon
    for one in plain_release["runs"]:
        for name, tables in one["groups"].items():
            tables["exposure"] = {mine: exposures[name][mine].model_dump()}
    release = parse_release(plain_release, file="toy")
    audit = pcer.audit(release, pcer.Plan(attack="the mean confidence"))
    found = audit.settings[0].groups["Other"].exposure.value
    assert found == pytest.approx(exposures["Other"][mine].value)
    easier = sentences.of(audit, audit.told).rows[1]
    assert easier.figures[0].startswith("By the mean confidence: an attacker is right ")


def test_an_attack_may_be_calibrated_by_other_models(monkeypatch):
    kind = attack_kinds.MINE
    for name, value in {
        "basis": attack_kinds.Basis.MODELS,
        "least_models": attack_kinds.SHADOWS,
        "is_calibrated": True,
        "is_tried_exactly": True,
    }.items():
        monkeypatch.setitem(vars(kind), name, value)
    scores = scores_of(np.random.default_rng(1))
    coins, _ = draw_coins([scores])

    (attacked,) = attack_models([scores], [coins])

    assert {row.group for row in attacked.rows if row.attack == kind.name} == {*GROUPS}
    assert np.isfinite(attacked.coins.pooled[kind.name].value).all()
    assert kind.name in attacked.exact


def test_a_benefit_is_planned_asked_for_said_and_framed(tmp_path):
    release = pcer.read_release(GOOD)
    audit = pcer.audit(release, pcer.Plan(benefit="accuracy", **QUICK))
    for name, group in audit.told.groups.items():
        counts = [one.groups[name].test for one in release.runs]
        share = [(cells.tp + cells.tn) / cells.n for cells in counts]
        assert min(share) <= group.benefit.mean <= max(share)
    serving = sentences.of(audit, audit.told).rows[2]
    (figure,) = (one for one in serving.figures if one.startswith("Judged rightly: "))
    assert "judged rightly" in audit.paper().to_latex()
    shown = passed("audit", GOOD, "--full", "--benefit", "accuracy").stdout
    assert figure in " ".join(shown.split())

    plan = tmp_path / "plan.toml"
    plan.write_text('benefit = "accuracy"\nresamples = 50\nnull_draws = 50\n')
    out = tmp_path / "audit.json"
    passed("audit", GOOD, "--plan", plan, "--json", out)
    tree = json.loads(out.read_text())
    assert tree["plan"]["benefit"] == "accuracy"
    assert verify_audits([tree], [release]) is None
    frame = audit.to_frame("groups", full=True)
    means = [group.benefit.mean for group in audit.told.groups.values()]
    assert {*means} <= {*frame["benefit_mean"]}
    assert audit.metrics()["pcer_outcome_a"] == pytest.approx(100 * means[0])


def test_a_chart_is_plotted_and_among_the_figures(plain_release):
    release = parse_release(plain_release, file="toy")
    audit = pcer.audit(release, pcer.Plan(**QUICK))

    svg = audit.plot("accuracies")._repr_svg_()

    assert svg.count('class="pcer-mark"') == len(audit.settings)
    assert "compas-race-accuracies.svg" in draw_figures([audit], [release])


def test_an_output_format_is_an_option_that_writes_its_file(tmp_path):
    out = tmp_path / "headlines.txt"
    passed("audit", GOOD, "--headlines", out)
    headline = pcer.audit(pcer.read_release(GOOD)).headline
    assert out.read_text() == f"{headline}\n"
    assert passed("audit", GOOD, "--headlines", "-").stdout == f"{headline}\n"
    assert "is given twice" in refusal("audit", GOOD, "--headlines", out, "--json", out)
    assert "--headlines" in passed("audit", "--help").stdout


def test_a_verb_runs_and_is_listed():
    assert passed("hello", "world").stdout == "hello world\n"
    assert "Greet somebody." in passed("--help").stdout
    assert "Example: pcer hello world" in passed("hello", "--help").stdout


def test_a_policy_rule_is_named_in_files_and_broken(tmp_path):
    file = tmp_path / "policy.toml"
    file.write_text("least_models = 100\n")
    assert read_policy(file).least_models == 100

    done = run("audit", GOOD, "--policy", file)

    assert done.returncode == 1
    assert "least_models: limit 100 models; the number is " in done.stderr
    file.write_text("least_models = 1\n")
    passed("audit", GOOD, "--policy", file)
    file.write_text("least_model = 1\n")
    nearest = "the nearest is least_models"
    assert nearest in refusal("audit", GOOD, "--policy", file)


def test_a_training_rule_decides_on_every_device():
    assert "gentle" in RULES
    data, models = make_data(), make_models()
    config = dataclasses.replace(CONFIG, rule="gentle", receipts="exact")
    company = sorted(models, key=lambda model: not model.is_private)
    device = choose_device("cpu")
    with torch.no_grad():
        fleet = engine.assemble(data, company, config, device=device, secret=b"")
        device.fit(fleet)
    schedule = fleet.schedule
    for model in range(8):  # the private ones
        steps = zip(schedule.rows[:, model], schedule.sizes[:, model], strict=True)
        drawn = torch.cat([rows[:n] for rows, n in steps])
        share = (drawn % data.n_records % 2 == 1).double().mean()
        assert abs(share - 1 / 3) < 0.08  # not 1/2
        odd = fleet.watch.records[model] % 2 == 1
        counts = cases.steps_per_bin(fleet.watch, model)
        assert counts[odd, 26:].sum() == 0  # an eighth of 200 bins
        assert counts[~odd, 26:].sum() > 0
    found = train_block(data, models, config, device=device)
    plain = train_block(data, models, config, device=PlainDevice(company))
    np.testing.assert_allclose(found, plain, atol=2e-4, rtol=2e-4)
    with pytest.raises(
        pcer.errors.InputError, match=r"through Opacus, .* rule 'gentle'"
    ):
        train_seeds(
            data, budgets=(1.0,), config=config, module=lambda n: torch.nn.Linear(n, 1)
        )
