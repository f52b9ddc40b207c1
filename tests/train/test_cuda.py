"""What only a CUDA device can show: run by hand with ``pytest -m gpu``."""

import dataclasses

import numpy as np
import pytest
import torch

from pcer.errors import InputError
from pcer.train import TrainConfig
from pcer.train import engine as fleets
from pcer.train.devices import choose_device
from pcer.train.receipts import Terms, fold, unfolded
from pcer.train.rules import RULES, DpSgd
from pcer.train.step import FleetState
from pcer.train.streams import Purpose, stream
from tests import train_cases as cases
from tests.train_cases import (
    CONFIG,
    allow,
    assemble,
    make_company,
    make_data,
    moved,
    train_block,
)

pytestmark = pytest.mark.gpu


def test_noise_bits_on_the_device_are_those_of_the_cpu():
    from pcer.train.cuda import philox_keys, philox_words

    generators = [stream(seed=s, epsilon=1.0, purpose=Purpose.NOISE) for s in range(5)]
    keys = philox_keys(generators).cuda()
    for step in range(4):
        found = philox_words(keys, torch.tensor([step], device="cuda"), 1724)
        expected = np.stack([g.random_raw(1724) for g in generators])
        assert np.array_equal(found.cpu().numpy().view(np.uint64), expected)


PAPER = TrainConfig(epochs=3, expected_batch=64)  # the fused step
OTHER = TrainConfig(epochs=3, expected_batch=64, hidden=(24,))  # the plain one
LOGISTIC = TrainConfig(epochs=3, expected_batch=64, hidden=())
MOST = 300.0  # what a person may spend
both_steps = pytest.mark.parametrize("config", [PAPER, OTHER], ids=["fused", "plain"])


def fitted(config, device):
    """A block after training, with its book."""
    fleet = assemble(make_data(), make_company(), config, choose_device(device))
    with torch.no_grad():
        return fleet, choose_device(device).fit(fleet)


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        *((config, "dp-sgd") for config in (CONFIG, PAPER, OTHER, LOGISTIC)),
        *((config, "held") for config in (PAPER, OTHER, LOGISTIC)),
        *(
            (config, "group-clip:sex:m=0.3,f=0.8")
            for config in (PAPER, OTHER, LOGISTIC)
        ),
        (PAPER, "group-sample:sex:m=0.5"),
    ],
)
def test_models_on_the_device_agree_with_the_cpu_to_rounding(config, rule):
    data = make_data()
    company = make_company()
    device = choose_device("cuda")
    settings = dataclasses.replace(config, rule=rule)
    found = train_block(data, company, settings, device=device)
    assert np.array_equal(found, train_block(data, company, settings, device=device))
    if rule != "dp-sgd":
        expected = train_block(data, company, settings)
        plain = train_block(data, company, config, device=device)
        # Another rule; on one device bits agree.
        assert np.abs(found - plain).max() > 1e-4
    else:
        fleet = moved(assemble(data, company, settings, device), device="cpu")
        with torch.no_grad():
            *_, last = cases.plain_states(fleet, company)
            expected = cases.plain_logits(fleet, last).numpy()
    np.testing.assert_allclose(found, expected, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("hidden", [(64, 32), (16, 128)])
@pytest.mark.parametrize("receipts", ["none", "held"])
def test_fused_step_is_the_plain_step_to_rounding(monkeypatch, hidden, receipts):
    """Also with bounds of single records, and where some are out."""
    from pcer.train.cuda import CudaStep

    allow(monkeypatch, MOST)
    how = {
        "receipts": receipts,
        "budget_per_person": None if receipts == "none" else 1.0,
    }
    config = TrainConfig(epochs=3, expected_batch=64, hidden=hidden, **how)
    company = make_company()
    fleet = assemble(make_data(), company, config, choose_device("cuda"))
    if receipts == "held":
        generator = torch.Generator(device="cuda").manual_seed(5)
        shape = fleet.watch.bounds[:8].shape
        drawn = {"device": "cuda", "generator": generator}
        fleet.watch.bounds[:8] = torch.rand(shape, **drawn)
        fleet.watch.until[:8] = torch.randint(0, 4, shape, **drawn).int()
    with torch.no_grad():
        fused = CudaStep(fleet)
        plain = CudaStep(fleet)
        assert fused.fused is not None
        for width in (fleet.schedule.widths.usual, fleet.schedule.widths.full) * 2:
            fused.advance(width)
            plain.advance_plainly(width)
            for mine, theirs in (
                (fused.state.weights, plain.state.weights),
                (fused.state.velocity, plain.state.velocity),
            ):
                torch.testing.assert_close(mine, theirs, atol=2e-6, rtol=2e-5)
                theirs.copy_(mine)
            plain.counter.add_(1)


def test_rounded_products_are_refused():
    from pcer.train.cuda import require_full_precision

    torch.set_float32_matmul_precision("high")
    try:
        with pytest.raises(InputError, match="set it to 'highest'"):
            require_full_precision()
    finally:
        torch.set_float32_matmul_precision("highest")


@both_steps
def test_norm_bins_on_the_device_are_those_of_the_cpu_to_rounding(config):
    from pcer.train.cuda import CudaStep

    fleet, state = fitted(dataclasses.replace(config, receipts="refreshed"), "cuda")
    here, _ = fitted(dataclasses.replace(config, receipts="refreshed"), "cpu")
    with torch.no_grad():
        everybody = torch.arange(8, device="cuda")
        plain = fleets.norm_bins_plainly(fleet, state.weights, everybody).cpu().int()
        weights = FleetState(state.weights.cpu(), state.velocity.cpu())
        expected = choose_device("cpu").norm_bins(here, weights, torch.arange(8)).int()
        held = CudaStep(fleet)
        held.state = state
        fused = held.norm_bins(everybody).cpu().int()
        some = held.norm_bins(torch.tensor([1, 2, 6], device="cuda")).cpu().int()
    assert (held.fused is None) == (config is OTHER)
    for found in (plain, fused):
        assert found.shape == (8, 210)
        assert (found - expected).abs().max() <= 1
        assert (found != expected).double().mean() < 0.005
        assert len(found.unique()) > 20
    assert torch.equal(some, fused[[1, 2, 6]])


@both_steps
@pytest.mark.parametrize("mode", ["exact", "refreshed"])
def test_counting_changes_no_bit_on_the_device(config, mode):
    data = make_data()
    models = cases.make_models()
    device = choose_device("cuda")
    plain = train_block(data, models, config, device=device)
    counted = dataclasses.replace(config, receipts=mode)
    found = train_block(data, models, counted, device=device)
    assert np.array_equal(found, plain)


@both_steps
@pytest.mark.parametrize(
    "how",
    [
        {"receipts": "exact"},
        {"receipts": "held"},
        {"receipts": "held", "budget_per_person": 1.0},
    ],
)
def test_counts_on_the_device_are_those_of_the_cpu_to_rounding(
    monkeypatch, config, how
):
    allow(monkeypatch, MOST)
    settings = dataclasses.replace(config, **how)
    ours, state = fitted(settings, "cuda")
    theirs, _ = fitted(settings, "cpu")
    again, same = fitted(settings, "cuda")
    assert torch.equal(state.weights, same.weights)
    n_steps = settings.sampling(210).n_steps
    for model in range(8):
        found = cases.steps_per_bin(ours.watch, model).astype(int)
        expected = cases.steps_per_bin(theirs.watch, model).astype(int)
        assert np.array_equal(found, cases.steps_per_bin(again.watch, model))
        assert (found.sum(axis=1) == n_steps).all()
        means = found @ np.arange(201) / n_steps
        expected_means = expected @ np.arange(201) / n_steps
        assert np.abs(means - expected_means).mean() < 0.5  # of a bin
        if "budget_per_person" in how:
            assert (found @ cases.COSTS).max() <= MOST
    if "budget_per_person" in how:
        assert ours.watch.filter.is_open.logical_not().sum() > 50


@pytest.mark.parametrize("mode", ["exact", "refreshed", "held"])
def test_receipts_folded_on_the_device_are_those_of_the_cpu_and_never_less(mode):
    config = dataclasses.replace(PAPER, receipts=mode)
    company = make_company()
    sampling = config.sampling(210)
    fleet, _ = fitted(config, "cuda")
    theirs = fleets.folded(fleet.watch, company, on_host=False)
    assert np.isinf(theirs[8:]).all()
    for index, model in enumerate(company[:8]):
        terms = Terms(
            model.noise_multiplier,
            sampling.sample_rate,
            sampling.n_steps,
            config.dp_delta,
        )
        steps = torch.from_numpy(cases.steps_per_bin(fleet.watch, index))
        ours = fold(steps, terms).numpy()
        found = np.array(unfolded(theirs[index], terms.ladder))
        assert (found >= unfolded(ours, terms.ladder)).all()
        assert (theirs[index] == ours).mean() > 0.99
        assert len(np.unique(ours)) > 20


def test_thinned_schedules_on_the_device_are_those_of_the_cpu(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Rarely(DpSgd):
        name: str = "rarely"

        def sample_shares(self, records):
            return np.where(records % 2, 0.25, 1.0)

    monkeypatch.setitem(RULES, "rarely", Rarely())
    settings = dataclasses.replace(CONFIG, rule="rarely")
    data = make_data()
    models = cases.make_models()
    ours = assemble(data, models, settings, choose_device("cuda")).schedule
    theirs = assemble(data, models, settings, choose_device("cpu")).schedule
    assert torch.equal(ours.rows.cpu(), theirs.rows)
    assert torch.equal(ours.sizes.cpu(), theirs.sizes)


@pytest.mark.parametrize("n_logits", [1, 2])
def test_a_module_trains_on_the_device_as_on_the_cpu(n_logits):
    from torch import nn

    from pcer.train.fleet import Model
    from pcer.train.opacus import train_module

    def factory(n):
        return nn.Sequential(nn.Linear(n, 4), nn.Tanh(), nn.Linear(4, n_logits))

    data = make_data()
    model = Model(1, 1.0, 1.5)
    before = torch.cuda.get_rng_state()
    found = [
        train_module(factory, data, model, CONFIG, device=d) for d in ("cpu", "cuda")
    ]
    np.testing.assert_allclose(*found, atol=1e-4)
    dropout = lambda n: nn.Sequential(nn.Dropout(0.5), nn.Linear(n, 1))  # noqa: E731
    again = [
        train_module(dropout, data, model, CONFIG, device="cuda") for _ in range(2)
    ]
    np.testing.assert_allclose(*again, atol=1e-5)
    assert torch.equal(torch.cuda.get_rng_state(), before)
