"""What the pages presume: names in their Python, files of their commands."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pandas as pd

import pcer
from tests.pages import mixed_release

ROOT = Path(__file__).parents[1]
FOREST = ROOT / "examples" / "compas-forest.release.json"
Names = dict[str, Any]


def readme(folder: Path) -> Names:
    """A pipeline and its people; and a table of two models that scored the same people."""
    from sklearn.linear_model import LogisticRegression

    people = scored_twice(400, 2, np.random.default_rng(0))
    truth = people["y_true"].to_numpy()
    features = np.random.default_rng(1).normal(size=(len(people), 3)) + truth[:, None]
    labels = np.array(["no", "yes"])
    return {
        "pcer": pcer,
        "pipeline": LogisticRegression(),
        "X": features,
        "y": truth,
        "people": people,
        "y_true": labels[truth],
        "y_pred": labels[(features[:, 0] > 0.5).astype(int)],
    }


def scored_twice(n: int, n_models: int, rng: np.random.Generator) -> pd.DataFrame:
    """People, each in the training or the test part of every model."""
    person = {"sex": rng.choice(["f", "m"], n), "race": rng.choice(["x", "z"], n)}
    person |= {"y_true": rng.integers(0, 2, n), "id": np.arange(n)}
    frame = pd.DataFrame({name: np.tile(values, n_models) for name, values in person.items()})
    split = rng.choice(["train", "test"], len(frame), p=[0.7, 0.3])
    return frame.assign(split=split, seed=np.repeat(np.arange(n_models), n))


def attacks(folder: Path) -> Names:
    """Eight models of 300 people, and a stand-in for the toolbox, which is not installed."""
    from pcer.attacks import BudgetScores, attack_models
    from tests.train_cases import make_data

    rng = np.random.default_rng(0)
    data, n_models = make_data(), 8
    labels, codes = data.labels.astype(int), rng.integers(0, 2, 300)
    member = np.array([rng.permutation(300) < 210 for _ in range(n_models)])
    logits = (rng.normal(size=member.shape) + member * (2 * labels - 1)).astype(np.float32)
    names = {"logits": logits, "labels": labels, "member": member}
    scores = BudgetScores(**names, group=codes, group_names=("Other", "African-American"))
    (found,) = attack_models([scores])
    _pretend_toolbox()
    train = np.flatnonzero(member[0])
    return {
        **names,
        "np": np,
        "scores": scores,
        "codes": codes,
        "exposure": np.array([list(found.exposure.values())]),
        "benefit": found.benefit[None],
        "model": None,
        "x": data.features,
        "y": labels,
        "train": train,
        "test": np.setdiff1d(np.arange(300), train),
        "race": np.array(scores.group_names)[codes],
    }


PRETENDED = "art"


def _pretend_toolbox() -> None:
    """As much of the toolbox as the page imports; pcer's part of the page runs for real."""
    toolbox = MagicMock()
    attack = toolbox.MembershipInferenceBlackBox.return_value
    attack.infer = lambda x, y, *, probabilities: np.asarray(x)[:, :1]  # one for every record
    for name in ("attacks.inference.membership_inference", "estimators.classification"):
        parts = [PRETENDED, *name.split(".")]
        for k in range(len(parts)):
            sys.modules[".".join(parts[: k + 1])] = toolbox


def copied(name: str, folder: Path) -> None:
    """A folder of the repository, where a page presumes it."""
    shutil.copytree(ROOT / name, folder)


STAGES: dict[str, Callable[[Path], Names]] = {
    "README.md": readme,
    "docs/attacks.md": attacks,
    "docs/reports.md": lambda folder: {"_": copied("examples", folder / "examples")},
    "docs/datasets.md": lambda folder: {"_": loans(folder)},
    "docs/opacus.md": lambda folder: {"_": importlib.import_module("torch").manual_seed(0)},
    "studies/docs/study.md": lambda folder: {"_": copied("studies/paper", folder / "pcer-study")},
}
"""Pages whose Python presumes something; the Python of all others stands alone."""


def loans(folder: Path) -> None:
    """``loans.csv``: some people, and whether they got a loan."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, 300),
            "sex": rng.choice(["f", "m"], 300),
            "race": rng.choice(["x", "z"], 300),
            "approved": rng.choice(["yes", "no"], 300),
        }
    )
    frame.to_csv(folder / "loans.csv", index=False)


def files(folder: Path) -> None:
    """The files that commands are shown with."""
    loans(folder)
    for name in ("compas", "m", "old", "new", "pilot"):
        shutil.copy(FOREST, folder / f"{name}.release.json")
    pcer.write_release(mixed_release(), folder / "sweep.release.json")
    shutil.copytree(ROOT / "examples", folder / "releases", ignore=shutil.ignore_patterns("*.py"))
    (folder / "parts").mkdir()
    predictions(folder / "predictions.parquet")
    predictions(folder / "parts" / "one.parquet")
    sweep(folder / "out")


def predictions(path: Path) -> None:
    """A table of four models' predictions."""
    rng = np.random.default_rng(0)
    frame = scored_twice(400, 4, rng).rename(columns={"id": "person"})
    chance = rng.uniform(size=len(frame))
    loss = -np.log(np.where(frame["y_true"] == 1, chance, 1 - chance))
    predicted = {"y_pred": (chance >= 0.5).astype(int), "probability": chance, "loss": loss}
    frame.assign(**predicted).to_parquet(path)


def sweep(folder: Path) -> None:
    """A small sweep of COMPAS with receipts."""
    from pcer.data import load
    from pcer.sweep import Sweep, run_sweep
    from pcer.train import EngineFlags, TrainConfig

    settings = {"epochs": 1, "expected_batch": 512, "hidden": (4,), "accountant": "rdp"}
    config = TrainConfig(**settings, receipts="held")
    shape = {"attributes": ("race",), "budgets": (1.0,), "seeds": (0, 1, 2)}
    run_sweep(
        Sweep(dataset=load("compas"), **shape, config=config), folder, flags=EngineFlags(jobs=1)
    )
