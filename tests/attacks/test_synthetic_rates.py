"""How often audits of synthetic tables are wrong and right: the verbs run, the bars hold."""

import json

import numpy as np
import pandas as pd
import pytest
from benchmarks import synthetic as benchmark
from scipy.stats import binom

import pcer
from tests.worlds.fleets import exact_panel
from tests.worlds.synthetic import BLUR

KEPT = json.loads(benchmark.RATES.read_text(encoding="utf-8"))
DECIDING = ("RMIA", "own AUC", "audit")
CELLS = [name for name in KEPT["null"] if name != "command"]


@pytest.mark.slow
@pytest.mark.parametrize("verb", sorted(benchmark.VERBS))
def test_every_verb_counts_and_keeps(verb, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "RATES", tmp_path / "rates" / "synthetic.json")
    for size in ("N_NULL", "N_POWER", "N_WHITE"):
        monkeypatch.setattr(benchmark, size, 200)
    benchmark.VERBS[verb](1, 7)
    kept = json.loads(benchmark.RATES.read_text())[verb]
    assert kept["command"] == f"{verb} 1 7"
    assert len(kept) >= 3  # the command, and counts of two or more kinds


def test_groups_that_are_treated_alike_are_rarely_named():
    """More than 22 of 200 has a chance of .0002 in a cell whose rate is 5 %."""
    cells = [KEPT["null"][name] for name in CELLS]
    assert len(cells) == 15
    for attack in DECIDING:
        shares = [cell[attack] / cell["draws"] for cell in cells]
        assert max(shares) <= 22 / 200, attack
        assert np.mean(shares) <= 0.05, attack
    for kind in ("coin 50/50", "coin 10/90", "apart"):
        blind = KEPT["null"][f"{kind}, blind"]
        assert blind["detected"] <= 18 / 200 * blind["draws"]


@pytest.mark.parametrize(
    ("planted", "share"),
    [
        ("quarter", 57 / 60),
        ("trees, twice", 54 / 60),
        ("half of a wide bandwidth", 57 / 60),
    ],
)
def test_planted_people_are_named(planted, share):
    found = KEPT["power"][planted]["audit"]
    assert found["right"] >= share * KEPT["power"]["draws"]
    assert found["wrong"] == 0


def test_one_table_with_held_out_people_names_the_planted():
    quarter, blind = KEPT["one_table"]["quarter"], KEPT["one_table"]["blind"]
    # At least 55 of 60, by the exact binomial test at .01.
    assert binom.cdf(quarter["right"], quarter["draws"], 55 / 60) > 0.01
    assert quarter["wrong"] == 0
    assert blind["detected"] <= 18 / 200 * blind["draws"]


def test_density_names_nobody_where_other_measures_do():
    """Group 1 is White people in ``dcr`` and ``white``, and lives thinly in ``densities``."""
    assert KEPT["dcr"]["DCR"]["group 1"] >= 0.75 * KEPT["dcr"]["draws"]
    assert KEPT["dcr"]["audit"] == {"group 0": 0, "group 1": 0}
    assert KEPT["white"]["paired confidence"]["group 1"] > 0.5 * KEPT["white"]["draws"]
    assert KEPT["white"]["audit"]["group 1"] <= 0.1 * KEPT["white"]["draws"]
    agreed = KEPT["densities"]["audit names whom nearest records find less exposed"]
    assert agreed == 0


def test_the_worlds_are_judged_as_a_release_is():
    """The benchmark skips tables of texts; a release of the same tables says the same."""
    rng = np.random.default_rng(3)
    people = benchmark.drawn_world(300, rng).people
    group = np.arange(300) % 2
    halves, tables = [], []

    def make(real: pd.DataFrame, seed: int) -> pd.DataFrame:
        rows = real.index.to_numpy()
        half, nobody = people.at(rows), np.zeros(len(rows), dtype=bool)
        halves.append(rows)
        tables.append(BLUR(half, nobody, np.random.default_rng(seed)))
        return tables[-1].frame()

    release = pcer.release_from_synthesizer(
        make,
        people.frame(),
        sensitive_features={"group": group},
        n_splits=8,
        random_state=1,
        n_jobs=1,
        progress=False,
        disclosure=pcer.Disclosure(public_data=True),
    )
    member = np.array([np.isin(np.arange(300), rows) for rows in halves])
    signals = benchmark.signals_of(people, tables).astype(np.float32)
    scores = benchmark.scores_of(signals, member, group, of_tables=True)
    panel = exact_panel(scores, group[None])
    for attack in (benchmark.RMIA, benchmark.OWN_AUC):
        rows = [row for row in release.pooled_exposure if row.attack == attack]
        values = [row.value for row in sorted(rows, key=lambda row: row.group)]
        np.testing.assert_allclose(panel.pooled[attack].value, values, atol=2e-3)
