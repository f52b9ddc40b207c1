"""Several configurations in one sweep: names, settings, each trained as if alone."""

import dataclasses
import json
import math

import numpy as np
import pytest

from pcer.errors import InputError
from pcer.sweep import person_receipts
from pcer.sweep.sweep import configurations, parse_grid
from pcer.train import TrainConfig
from tests.sweep.test_run import CONFIG, FLAGS, contents, kill, released, tiny, train

GRID = {"clip_norm": (1.0, 4.0), "hidden": ((4,), ())}
NAMES = [
    "clip 1, hidden 4",
    "clip 1, hidden none",
    "clip 4, hidden 4",
    "clip 4, hidden none",
]


def test_a_grid_is_every_combination_by_name_and_the_rate_follows_the_clip():
    found = configurations(TrainConfig(), (math.inf, 1.0, 5.0), GRID)
    assert list(found) == [*NAMES, "hidden 4", "hidden none"]
    for name, (config, budgets) in found.items():
        clip = 4.0 if "clip 4" in name else 1.0
        assert (config.clip_norm, config.learning_rate) == (clip, 0.05 / clip)
        assert config.hidden == (() if "none" in name else (4,))
        assert budgets == ((1.0, 5.0) if "clip" in name else (math.inf,))
    plain = TrainConfig(rule="held")
    for base, grid, rates in (
        (plain, {"clip_norm": (1, 4), "learning_rate": (0.05,)}, {0.05}),
        (dataclasses.replace(plain, learning_rate=0.1), {"clip_norm": (1, 4)}, {0.1}),
        (plain, {"clip_norm": (2,)}, {0.025}),
        (dataclasses.replace(plain, clip_norm=2.0), {"epochs": (1, 2)}, {0.05}),
    ):
        own = configurations(base, (1.0,), grid).values()
        assert {each.config.learning_rate for each in own} == rates
    both = configurations(
        plain, (1.0, math.inf), {"clip_norm": (2.0,), "epochs": (1, 2)}
    )
    assert [(n, c.clip_norm, b) for n, (c, b) in both.items()] == [
        ("epochs 1", 2.0, (1.0,)),
        ("epochs 2", 2.0, (1.0,)),
        ("epochs 1, sgd", 1.0, (math.inf,)),
        ("epochs 2, sgd", 1.0, (math.inf,)),
    ]
    assert [*configurations(plain, (math.inf,), {"rule": ("held", "dp-sgd")})] == [
        "sgd"
    ]
    alone = configurations(plain, (1.0, math.inf), {"epochs": (1, 2)})
    assert alone["epochs 2"].budgets == (1.0, math.inf)
    assert configurations(plain, (1.0,), {}) == {None: (plain, (1.0,))}


def test_a_grid_reads_what_options_spell_and_names_what_it_cannot():
    texts = [
        "batch=8, 16",
        "rule=held",
        "momentum=0",
        "learning-rate=.1",
        "hidden=8-4,none",
    ]
    expected = {"expected_batch": (8, 16), "rule": ("held",), "momentum": (0.0,)}
    assert parse_grid(texts) == expected | {
        "learning_rate": (0.1,),
        "hidden": ((8, 4), ()),
    }
    bad = (
        {"depth": (1,)},
        {"epochs": ()},
        {"epochs": (2, 2)},
        {"hidden": ((9,) * 99, (8,) * 150)},
    )
    for grid in bad:
        with pytest.raises(InputError) as error:
            tiny(grid=grid)
        assert error.value.field == "grid"


def grid_sweep(**changes):
    config = dataclasses.replace(CONFIG, receipts="held")
    return tiny(**{"config": config, "grid": GRID, "seeds": (0, 1), **changes})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grid")
    done, _ = train(folder, grid_sweep(), keep_scores=True)
    assert done[-1] == grid_sweep().n_models == 12
    return folder


@pytest.mark.parametrize("secret", [b"", b"0123456789abcdef"])
def test_each_configuration_is_what_it_would_be_alone(tmp_path, whole, secret):
    """Counts, single attacks, pooled rows and bounds; splits are the same for all."""
    if secret:
        whole = tmp_path / "whole"
        train(whole, grid_sweep(secret=secret))
    release = released(whole)
    assert len({run.split for run in release.runs}) == 2
    stated = release.training.config
    assert stated["grid"] == {"clip_norm": [1.0, 4.0], "hidden": [[4], []]}
    assert not {"clip_norm", "hidden", "learning_rate"} & stated.keys()
    config = TrainConfig(
        **{
            **dataclasses.asdict(grid_sweep().config),
            **stated["models"]["clip 4, hidden none"],
        }
    )
    assert (config.clip_norm, config.hidden, config.learning_rate) == (4.0, (), 0.0125)
    train(
        tmp_path / "alone",
        tiny(config=config, seeds=(0, 1), budgets=(1.0,), secret=secret),
    )
    alone = released(tmp_path / "alone")
    for rows in ("runs", "pooled_exposure", "bounds"):
        own = [
            row for row in getattr(release, rows) if row.model == "clip 4, hidden none"
        ]
        plain = [row.model_copy(update={"model": None}) for row in own]
        assert plain == getattr(alone, rows) != []
    settings = {(run.model, run.epsilon) for run in release.runs}
    assert settings == {(n, 1.0) for n in NAMES} | {
        ("hidden 4", None),
        ("hidden none", None),
    }
    assert {(row.model, row.epsilon) for row in release.placebo} == settings
    assert release.training.joint_privacy["private_models"] == 8
    assert release.training.joint_privacy["models_without_privacy"] == 4


def test_kept_scores_and_receipts_name_the_model(whole):
    index = json.loads((whole / "tiny.scores" / "index.json").read_text())
    models = []
    for block in index["blocks"]:
        models += [(m["model"], m["epsilon"], m["seed"]) for m in block["models"]]
    assert len(set(models)) == len(models) == 12
    assert ("hidden none", None, 1) in models
    found, rows = person_receipts(whole, "10")
    assert [(row.setting.model, row.setting.epsilon) for row in rows] == [
        (n, 1.0) for n in NAMES
    ]
    assert (found.clip_norm, found.has_models_without_privacy) == (None, True)
    spent = [np.mean(row.realised) for row in rows if len(row.realised)]
    assert len(spent) in (0, 4)


@pytest.mark.slow
@pytest.mark.parametrize("n_writes", [6, 2])
def test_a_killed_grid_resumes_and_is_extended_to_the_same_bytes(
    tmp_path, whole, n_writes
):
    kill("grid_sweep()", n_writes, tmp_path)
    done, _ = train(tmp_path, grid_sweep(seeds=(0,)))
    assert done[0] < done[-1] == 6
    train(
        tmp_path, grid_sweep(), flags=dataclasses.replace(FLAGS, jobs=2, block_size=5)
    )
    assert contents(tmp_path) == contents(whole)
    for grid in ({}, {**GRID, "clip_norm": (1.0, 2.0)}):
        with pytest.raises(InputError, match="was made with"):
            train(tmp_path, grid_sweep(grid=grid))
