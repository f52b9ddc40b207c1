"""Rules of training, norms of all records, and the steps of each record by bin."""

import dataclasses

import numpy as np
import pytest
import torch

from pcer.errors import InputError
from pcer.train import TrainConfig, train_seeds
from pcer.train import engine as fleets
from pcer.train.fleet import Model
from pcer.train.receipts import KEPT_REFRESHES, StepBook
from pcer.train.rules import N_BINS, RULES, DpSgd, Refresh, rule_named
from pcer.train.streams import Purpose, initial_weights, stream, thin_rows
from tests import reference_train as slow
from tests import train_cases as cases
from tests.train_cases import (
    CONFIG,
    COSTS,
    CPU,
    allow,
    assemble,
    make_data,
    make_models,
    moved,
)

SMALL = TrainConfig(
    hidden=(5, 3), epochs=4, expected_batch=14, clip_norm=0.75, learning_rate=0.5
)
QUIET = Model(0, 0.5, 0.0)


def in_double(config):
    """One model in float64, so that rounding puts no norm into the wrong bin."""
    data = make_data(n=60, n_features=4, seeds=[0])
    fleet = moved(assemble(data, [QUIET], config), dtype=torch.float64)
    fleet.table[:-1, 5] = fleet.table[:-1, :4].square().sum(dim=1) + 1
    return fleet


def twin_of(fleet, config):
    """A module that a plain loop has trained, and its steps (record, bin)."""
    sampling = config.sampling(42)
    sizes = fleet.layout.sizes
    module = slow.mlp(sizes)
    bits = stream(seed=0, epsilon=0.5, purpose=Purpose.INITIAL)
    slow.load_matrices(module, initial_weights(bits, sizes=sizes))
    steps, drawn = np.divmod(cases.sampled_positions(0, 0.5, sampling), 42)
    table = fleet.table[fleet.watch.records[0]]
    every = config.refresh_every or sampling.steps_per_epoch
    counts = slow.train_by_rule(
        module,
        (table[:, :4], table[:, 6]),
        [drawn[steps == t].tolist() for t in range(sampling.n_steps)],
        config,
        expected_batch=sampling.expected_batch,
        every=1 if config.receipts == "exact" else every,
        is_held=config.receipts == "held",
        costs=COSTS.tolist() if config.budget_per_person else None,
        budget=400.0,
    )
    return module, counts


@pytest.mark.parametrize(
    "how",
    [
        {"receipts": "exact"},
        {"receipts": "refreshed"},
        {"receipts": "held"},
        {"receipts": "held", "refresh_every": 4, "budget_per_person": 1.0},
    ],
    ids=str,
)
def test_counts_and_weights_are_those_of_a_twin_that_stores_every_gradient(
    monkeypatch, how
):
    """One record at a time; with a budget, the same people leave at the same step."""
    allow(monkeypatch, 400.0)
    config = dataclasses.replace(SMALL, **how)
    fleet = in_double(config)
    with torch.no_grad():
        state = CPU.fit(fleet)
    module, counts = twin_of(fleet, config)
    found = cases.steps_per_bin(fleet.watch, 0)
    assert np.array_equal(found, counts)
    assert (found.sum(axis=1) == config.sampling(42).n_steps).all()
    assert len(np.flatnonzero(found.sum(axis=0))) > 20  # norms of every size
    assert found[:, N_BINS].sum() > 0
    for mine, theirs in zip(
        fleet.layout.layers(state.weights), slow.matrices(module), strict=True
    ):
        torch.testing.assert_close(mine[0], theirs, atol=1e-10, rtol=1e-10)
    if "budget_per_person" in how:
        spent = found @ COSTS
        is_out = ~fleet.watch.filter.is_open[0].numpy()
        assert spent.max() <= 400
        assert 5 < is_out.sum() < 40  # some are out, and some are not
        np.testing.assert_allclose(spent, fleet.watch.filter.spent[0], rtol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        # Some batches are empty.
        {"hidden": (12, 7, 3), "expected_batch": 2, "epochs": 1},
        {"hidden": ()},
        {"receipts": "refreshed"},
        {"receipts": "held", "budget_per_person": 1.0},
        {"rule": "held"},
        {
            "rule": "group-clip:sex:m=0.5,f=0.9",
            "receipts": "exact",
            "refresh_every": None,
        },
        {"rule": "group-sample:sex:m=0.5", "receipts": "refreshed", "hidden": ()},
    ],
    ids=str,
)
def test_compiled_bins_bounds_filters_and_steps_are_the_plain_ones(
    monkeypatch, settings
):
    allow(monkeypatch, 400.0)
    config = dataclasses.replace(
        CONFIG, **{"clip_norm": 0.4, "refresh_every": 3, **settings}
    )
    company = cases.make_company()
    ours = moved(assemble(make_data(), company, config), dtype=torch.float64)
    theirs = moved(assemble(make_data(), company, config), dtype=torch.float64)
    assert config.expected_batch > 2 or (ours.schedule.sizes == 0).any()
    spread = [0.4 * model.noise_multiplier for model in company if model.is_private]
    assert ours.std[:, 0].tolist() == pytest.approx(spread, rel=1e-6)
    with torch.no_grad():
        state = CPU.fit(ours)
        *_, plain = cases.plain_states(theirs, company)
    for model in range(8 if ours.watch.has_book else 0):
        counts = cases.steps_per_bin(ours.watch, model)
        assert np.array_equal(counts, cases.steps_per_bin(theirs.watch, model))
    assert (
        ours.watch.until is None
        or (ours.watch.until < len(ours.schedule.rows)).sum() > 100
    )
    for values in ((state.weights, plain.weights), (state.velocity, plain.velocity)):
        for mine, other in zip(*map(ours.layout.layers, values), strict=True):
            torch.testing.assert_close(mine, other, atol=1e-10, rtol=1e-10)


def test_a_held_record_never_contributes_more_than_is_booked():
    """The change that one record makes to the clipped sum, at every step it joins."""
    fleet = in_double(dataclasses.replace(SMALL, receipts="held"))
    before = fleet.start.weights
    nobody = torch.tensor([[len(fleet.table) - 1]])
    n_seen = 0
    with torch.no_grad():
        for step, state in enumerate(CPU.states(fleet)):
            size = fleet.schedule.sizes[step][0]
            for record in fleet.schedule.rows[step][0, :size].tolist():
                somebody = torch.tensor([[record]])
                change = fleets.batch_sum(fleet, before, somebody, step).norm()
                assert change <= fleet.watch.bounds[0, record] * (1 + 1e-12)
                n_seen += 1
            assert fleets.batch_sum(fleet, before, nobody, step).norm() == 0
            before = state.weights.clone()
    assert n_seen > 2 * 42
    assert cases.steps_per_bin(fleet.watch, 0).sum() == 42 * len(fleet.schedule.rows)


SHARES = {"m": 0.4, "f": 0.85, "": 1.0}


def test_a_group_has_its_own_bound_and_everybody_else_the_usual_one():
    """What single records add to the clipped sum, and what is booked of them."""
    data = make_data()
    bound = np.vectorize(SHARES.get)(data.groups["sex"])
    rule = "group-clip:sex:m=0.4,f=0.85"
    config = dataclasses.replace(CONFIG, clip_norm=0.3, rule=rule, receipts="exact")
    company = cases.make_company()
    fleet = assemble(data, company, config)
    with torch.no_grad():
        for record in range(20):
            rows = fleet.watch.firsts[:, None] + record
            sums = fleets.batch_sum(fleet, fleet.start.weights, rows)
            sizes = sums.norm(dim=1).numpy()
            member = [record in data.train_rows[model.seed] for model in company[:8]]
            most = np.where(member, 0.3 * bound[record], 0.3)
            assert (sizes[:8] <= most * (1 + 1e-6)).all()
            assert (sizes[8:] > 0.3).any()  # without privacy nothing is clipped
        padding = torch.full((12, 1), len(fleet.table) - 1)
        assert fleets.batch_sum(fleet, fleet.start.weights, padding).norm() == 0
        CPU.fit(fleet)
    for model in range(8):
        largest_bin = np.ceil(200 * bound[fleet.watch.records[model].numpy()])
        counts = cases.steps_per_bin(fleet.watch, model)
        over = [np.flatnonzero(steps)[-1] for steps in counts] - largest_bin
        assert over.max() <= 1  # rounded up once more
        assert (over >= 0).mean() > 0.2


def test_a_group_joins_at_its_own_rate_and_everybody_else_at_the_usual_one():
    """How often records are drawn; models without privacy know no groups."""
    data = make_data()
    is_m = data.groups["sex"] == "m"
    usual = dataclasses.replace(CONFIG, epochs=30)
    rarely = dataclasses.replace(usual, rule="group-sample:sex:m=0.25")
    usual_fleet = assemble(data, cases.make_company(), usual)
    rare_fleet = assemble(data, cases.make_company(), rarely)
    for model in range(12):
        n_usual = n_drawn(usual_fleet, model)
        n_rare = n_drawn(rare_fleet, model)
        if model < 8:
            ratio = n_rare[is_m].sum() / n_usual[is_m].sum()
            assert ratio == pytest.approx(0.25, abs=0.04)
            assert np.array_equal(n_rare[~is_m], n_usual[~is_m])
        else:
            assert np.array_equal(n_rare, n_usual)


def n_drawn(fleet, model):
    """How often a model draws each record."""
    rows = data_rows(fleet.schedule, model) - int(fleet.watch.firsts[model])
    return np.bincount(rows, minlength=300)


def data_rows(schedule, model):
    steps = zip(schedule.rows[:, model], schedule.sizes[:, model], strict=True)
    return torch.cat([rows[:n] for rows, n in steps]).numpy()


@pytest.mark.parametrize("kind", ["group-clip", "group-sample"])
def test_neutral_shares_give_the_bytes_of_dp_sgd_and_others_do_not(kind):
    data = make_data()
    models = make_models()
    plain = cases.train_block(data, models).tobytes()
    for shares, is_same in (("m=1,f=1.0", True), ("m=1,f=.5", False)):
        config = dataclasses.replace(CONFIG, rule=f"{kind}:sex:{shares}")
        assert (cases.train_block(data, models, config).tobytes() == plain) is is_same


@pytest.mark.parametrize(
    "name",
    [
        *("", "group-clip", "group-x:sex:m=1", "group-sample:sex:m=nan"),
        *(
            f"group-clip:{rest}"
            for rest in ("sex", "sex:m", ":m=1", "sex:m=0", "sex:m=1.01")
        ),
        *(f"group-clip:sex:{rest}" for rest in ("m=-1", "m=1,m=1", "m=1,", "m=0.5,f")),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused(name):
    with pytest.raises(InputError) as error:
        TrainConfig(rule=name)
    assert error.value.field == "rule"


def test_a_group_that_is_not_there_is_refused_and_names_may_hold_commas():
    assert rule_named("group-clip:a b:x, y=0.5,z=1").by_group == {"x, y": 0.5, "z": 1.0}
    for rule in ("group-clip:sex:x=0.5", "group-sample:race:m=0.5"):
        with pytest.raises(InputError) as error:
            train_seeds(
                make_data(),
                budgets=(1.0,),
                config=dataclasses.replace(CONFIG, rule=rule),
            )
        assert error.value.field == "rule"
    with pytest.raises(InputError, match="groups must hold one name"):
        make_data(groups={"sex": ["m"]})


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_norms_that_are_no_numbers_count_as_clipped(value):
    fleet = assemble(
        make_data(), make_models([0]), dataclasses.replace(CONFIG, receipts="held")
    )
    fleet.start.weights[0] = value
    (due,) = fleet.watch.due(0)
    with torch.no_grad():
        for bins in (
            CPU.norm_bins(fleet, fleet.start, due.models),
            fleets.norm_bins_plainly(fleet, fleet.start.weights, due.models),
        ):
            assert (bins[0] == N_BINS).all() or np.isinf(value)
            assert bins.max() <= N_BINS


@pytest.mark.parametrize("n_refreshes", [3, KEPT_REFRESHES + 5])
def test_a_book_counts_every_step_of_every_record_once(n_refreshes):
    rng = np.random.default_rng(0)
    every = np.ogrid[:2, :7]
    book = StepBook(2, 7, 4000, torch.device("cpu"))
    expected = np.zeros((2, 7, 201), dtype=int)
    for refresh in range(n_refreshes):
        is_by_record = refresh % 2
        bins = rng.integers(0, 201, (2, 7))
        joined = rng.integers(0, 6, (2, 7)) if is_by_record else 5
        steps = torch.from_numpy(joined).int() if is_by_record else joined
        book.add(torch.from_numpy(bins.astype(np.uint8)), steps, 5)
        expected[*every, bins] += joined
        expected[*every, 0] += 5 - joined
    both = book.counts(torch.tensor([1, 0]))
    assert both.dtype == torch.float64
    assert np.array_equal(both.numpy(), expected[::-1])
    assert (both.sum(dim=-1) == 5 * n_refreshes).all()


def test_bounds_never_exceed_the_largest(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Greedy(DpSgd):
        name: str = "greedy"
        adapts: bool = True

        def refresh(self, seen):
            return torch.full(seen.bins.shape, 9.0)

    monkeypatch.setitem(RULES, "greedy", Greedy())
    settings = {"rule": "greedy", "receipts": "refreshed", "refresh_every": 2}
    config = dataclasses.replace(CONFIG, **settings)
    watch = assemble(make_data(), [QUIET], config).watch
    watch.refresh(watch.due(0)[0], 0, torch.full((1, 210), 7, dtype=torch.uint8))
    assert watch.bounds.max() == 1
    # The norm counts, where it is below the bound.
    assert cases.steps_per_bin(watch, 0)[0, 7] == 2


def test_norms_are_computed_once_an_epoch_unless_said_otherwise_or_noise_is_large():
    steps = TrainConfig().sampling(32_223).steps_per_epoch
    for noise in (0.0, 1.0, 37.0):
        assert TrainConfig().refresh_steps(32_223, noise) is None
        assert TrainConfig(rule="held").refresh_steps(32_223, noise) == steps
        assert (
            TrainConfig(receipts="refreshed", refresh_every=9).refresh_steps(
                32_223, noise
            )
            == 9
        )
        assert TrainConfig(receipts="exact").refresh_steps(32_223, noise) == 1
    assert TrainConfig(receipts="refreshed").refresh_steps(32_223, 1.0) == steps
    # 0.05 / (1 - 0.9) x 37 / 255 = 0.0725 a step, and 0.17 is passed after (0.17 /
    # 0.0725)^2 steps
    assert TrainConfig(receipts="refreshed").refresh_steps(32_223, 37.0) == 5
    assert TrainConfig(receipts="refreshed").refresh_steps(32_223, 1e9) == 1


@pytest.mark.parametrize("mode", ["refreshed", "held"])
@pytest.mark.parametrize("most", [1, 500])
def test_folding_where_the_norms_lie_gives_what_folding_here_gives(
    monkeypatch, mode, most
):
    """Four models whose noise moves weights far, and four others.

    Norms are computed every 3 and 5 steps.
    """
    config = dataclasses.replace(
        CONFIG,
        receipts="refreshed",
        expected_batch=42,
        learning_rate=0.01,
        clip_norm=0.4,
    )
    assert [config.refresh_steps(210, noise) for noise in (90.0, 0.8)] == [3, 5]
    models = make_models(budgets=((0.1, 90.0), (4.0, 0.8)))
    fleet = assemble(make_data(), models, dataclasses.replace(config, receipts=mode))
    monkeypatch.setattr(fleets, "MOST_FOLDED", most)
    with torch.no_grad():
        CPU.fit(fleet)
        here = fleets.folded(fleet.watch, models, on_host=True)
        there = fleets.folded(fleet.watch, models, on_host=False)
    assert np.isfinite(here).all()
    assert (there >= here).all()
    assert (there == here).mean() > 0.98


def test_a_thinned_sample_keeps_each_record_with_its_own_chance():
    n_steps = 4000
    share = np.linspace(0, 1, 50)
    records = torch.arange(100, 150, dtype=torch.int32)
    rows = torch.full((n_steps, 64), 999, dtype=torch.int32)
    rows[:, :50] = records
    sizes = torch.full((n_steps,), 50)
    bits = stream(seed=1, epsilon=1.0, purpose=Purpose.THINNING)
    left = thin_rows(rows, sizes, records, share, bits, padding=999)
    assert torch.equal((rows != 999).sum(dim=1), left)
    for row, size in zip(rows, left.tolist(), strict=True):
        assert (row[:size].diff() > 0).all()  # from the left, in order
        assert (row[size:] == 999).all()
    kept = np.array([(rows == record).sum() for record in records.tolist()]) / n_steps
    assert kept[0] == 0
    assert kept[-1] == 1
    assert np.abs(kept - share).max() < 4.5 * 0.5 / np.sqrt(n_steps)


@pytest.mark.parametrize("name", list(RULES))
def test_what_a_rule_decides_for_a_record_depends_on_no_other_record(name):
    """One person must not move everybody's bounds: no noise would hide that."""
    rule = RULES[name]
    bins = torch.randint(0, 201, (2, 30)).to(torch.uint8)
    rows = torch.arange(30).repeat(2, 1)
    before = rule.refresh(Refresh(0, bins, rows, 1.0))
    for record in range(30):
        other = bins.clone()
        other[0, record] = 200 - other[0, record]
        changed = before != rule.refresh(Refresh(0, other, rows, 1.0))
        changed[0, record] = False
        assert not changed.any()
    whole = rule.sample_shares(np.arange(30))
    part = rule.sample_shares(np.arange(10))
    assert (whole is None and part is None) or np.array_equal(whole[:10], part)
