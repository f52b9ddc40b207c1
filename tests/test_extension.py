"""Adding one of each, as CONTRIBUTING.md shows: a toy that must work everywhere at once."""

import dataclasses
import operator
from typing import Annotated

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

import pcer
from pcer.attacks import SettingScores, attack_models, scorers
from pcer.attacks.scorers import Scorer
from pcer.attacks.single import Advantage
from pcer.cli import app as command_line
from pcer.data import benchmarks, load
from pcer.data.task import DataFile, DatasetTask, GroupRule, Number
from pcer.release import attack_kinds
from pcer.release.attack_kinds import ATTACK_KINDS, AttackKind
from pcer.release.file import Release
from pcer.report.pictures.charts import CHARTS, draw_figures, settings_axis
from pcer.report.pictures.looks import ink
from pcer.report.pictures.panels import Chart, Mark, Panel, joined, number_axis
from pcer.train import engine as fleets
from pcer.train import train_seeds
from pcer.train.devices import choose_device
from pcer.train.rules import RULES, DpSgd
from tests import train_cases as cases
from tests.train_cases import CONFIG, PlainDevice, make_data, make_models, train_block

LOANS = DatasetTask(
    name="made-up",
    title="Made-up loans",
    files=(DataFile(name="made-up.csv"),),
    features=(Number("age"),),
    label=("approved", operator.eq, "yes"),
    attributes={"sex": GroupRule("sex", (("women", ("f",)), ("men", ("m",))))},
    outcome="benefit",
    positive_label="approved",
    source="nobody",
    licence="none",
    caution="Nobody is in it.",
)


def test_a_dataset_is_a_literal_and_a_line(tmp_path, monkeypatch):
    rows = [f"{20 + k},{'fm'[k % 2]},{('yes', 'no')[k // 2 % 2]}" for k in range(12)]
    (tmp_path / "made-up.csv").write_text("\n".join(["age,sex,approved", *rows]) + "\n")
    monkeypatch.setattr(benchmarks, "SOURCES", (*benchmarks.SOURCES, LOANS))
    dataset = load("made-up", folder=tmp_path)
    assert (dataset.n_records, dataset.public) == (12, True)
    assert dataset.attribute("sex").group_names == ("women", "men")


def test_an_attack_is_two_rows(monkeypatch, plain_release):
    mine = AttackKind(
        "my_advantage", "mine", attack_kinds.AUC, attack_kinds.Basis.MODEL
    )
    monkeypatch.setitem(ATTACK_KINDS, mine.name, mine)
    found = Advantage(value=0.25, standard_error=0.01, n_members=20, n_nonmembers=10)
    row = Scorer(
        kind=mine,
        scores=scorers.true_label_logits,
        statistic=lambda ranked, score: found,
    )
    monkeypatch.setattr(scorers, "ATTACKS", (*scorers.ATTACKS, row))
    rng = np.random.default_rng(0)
    scores = SettingScores(
        logits=rng.normal(size=(1, 60)).astype(np.float32),
        labels=np.arange(60) % 2,
        member=rng.random((1, 60)) < 0.7,
        group=np.arange(60) // 2 % 2,
        group_names=("Other", "African-American"),
    )
    exposures = attack_models([scores])[0].runs[0]
    plain_release["runs"] = [run for run in plain_release["runs"] if run["seed"] == 0]
    plain_release["training"]["mechanism"] = "dp-sgd"  # one of them has an epsilon
    for run in plain_release["runs"]:
        for name, tables in run["groups"].items():
            tables["exposure"] = {mine.name: exposures[name][mine.name].model_dump()}
    release = pcer.release.parse_release(plain_release, file="toy")
    audit = pcer.audit(release, pcer.Plan(attack=mine.name))
    assert audit.settings[0].groups["Other"].exposure.value == pytest.approx(0.25)
    assert "which of two people was in the training data" in " ".join(audit.account)


def test_a_chart_is_a_function_and_a_line(monkeypatch, plain_release):
    def my_chart(audit: pcer.Audit, release: Release) -> Chart:
        marks = [
            Mark(place, setting.accuracy.mean or 0.0, ink("series-0"))
            for place, setting in enumerate(audit.settings)
        ]
        up = number_axis("accuracy", [mark.y for mark in marks])
        panel = Panel(settings_axis(audit), up, curves=[joined(marks)], marks=marks)
        return Chart("Accuracy over the settings", [panel])

    monkeypatch.setitem(CHARTS, "mine", my_chart)
    release = pcer.release.parse_release(plain_release, file="toy")
    audit = pcer.audit(release, pcer.Plan(resamples=100, null_draws=50))
    assert "compas-race-mine.svg" in draw_figures([audit], [release])
    svg = audit.plot("mine")._repr_svg_()
    assert svg.count('class="pcer-mark"') == len(audit.settings)


def test_a_verb_is_a_function_and_a_line():
    def hello(name: Annotated[str, typer.Argument(help="Whom to greet.")]) -> None:
        """Greet somebody."""
        typer.echo(f"hello {name}")

    app = command_line.made_of(command_line.VERBS | {hello: "hello world"})
    assert CliRunner().invoke(app, ["hello", "world"]).output == "hello world\n"
    assert "hello" in CliRunner().invoke(app, ["--help"]).output


@dataclasses.dataclass(frozen=True)
class Gentle(DpSgd):
    """Odd records are drawn half as often, and clipped at an eighth."""

    name: str = "gentle"
    adapts: bool = True

    def sample_shares(self, records):
        """A share for each training record."""
        return 1 - 0.5 * (records % 2)

    def refresh(self, seen):
        """A bound for each training record of each private model."""
        return torch.where(seen.records % 2 == 1, 0.125, seen.largest_clip)


def test_a_rule_of_training_is_a_class_and_a_line(monkeypatch):
    monkeypatch.setitem(RULES, Gentle.name, Gentle())
    data, models = make_data(), make_models()
    config = dataclasses.replace(CONFIG, rule="gentle", receipts="exact")
    company = sorted(models, key=lambda model: not model.is_private)
    device = choose_device("cpu")
    with torch.no_grad():
        fleet = fleets.assemble(data, company, config, device=device, secret=b"")
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
    devices = (device, PlainDevice(company))
    found, plain = (
        train_block(data, models, config, device=where) for where in devices
    )
    np.testing.assert_allclose(found, plain, atol=2e-4, rtol=2e-4)
    with pytest.raises(
        pcer.errors.InputError, match=r"through Opacus, .* rule 'gentle'"
    ):
        train_seeds(
            data, budgets=(1.0,), config=config, module=lambda n: torch.nn.Linear(n, 1)
        )
