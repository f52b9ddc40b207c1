"""Small data and models to train, and the training loop on a CPU without a compiler."""

import copy
import dataclasses

import numpy as np
import torch

from pcer.train import TrainConfig, TrainingData
from pcer.train import engine as fleets
from pcer.train.config import NO_DP
from pcer.train.cpu import CpuDevice
from pcer.train.fleet import Model
from pcer.train.step import FleetState, activations
from pcer.train.streams import Drawer, Purpose, first_words, stream

CONFIG = TrainConfig(hidden=(16, 8), epochs=3, expected_batch=40)
CPU = CpuDevice()


def make_data(n=300, n_features=9, seeds=range(4), share=0.7, **changes):
    generator = np.random.Generator(np.random.PCG64(0))
    features = generator.normal(3, 2, (n, n_features)).astype(np.float32)
    labels = (features[:, 0] + generator.normal(0, 1, n) > 3).astype(int)
    n_train = round(n * share)
    train_rows = {}
    for seed in seeds:
        order = np.random.Generator(np.random.PCG64(seed)).permutation(n)
        train_rows[seed] = order[:n_train]
    sexes = np.array(["f", "m", ""])  # the last is not known
    data = {
        "features": features,
        "labels": labels,
        "train_rows": train_rows,
        "groups": {"sex": sexes[np.arange(n) % 5 % 3]},
    }
    return TrainingData.of(**{**data, **changes})


def make_models(seeds=range(4), budgets=((0.5, 2.5), (4.0, 0.8), (NO_DP, 0.0))):
    models = []
    for seed in seeds:
        models += [Model(seed, epsilon, noise) for epsilon, noise in budgets]
    return models


def make_company():
    """The same models, private ones first."""
    return sorted(make_models(), key=lambda model: not model.is_private)


def assemble(data, models, config=CONFIG, device=CPU):
    with torch.no_grad():
        return fleets.assemble(data, models, config, device=device, secret=b"")


COSTS = np.arange(201) ** 2 / 1024.0  # sums of them are exact


def allow(monkeypatch, budget):
    """Let every person spend a budget, at costs whose sums are exact."""
    monkeypatch.setattr("pcer.train.receipts.allowance", lambda *_: (COSTS, budget))


def sampled_positions(seed, epsilon, sampling):
    """A model's drawn pairs, each as step * n_train + record, ascending."""
    bits = stream(seed=seed, epsilon=epsilon, purpose=Purpose.SAMPLING)
    return Drawer(sampling, torch.device("cpu")).positions(first_words(bits)).numpy()


class PlainDevice(fleets.Device):
    """A device without a compiler: torch's own functions on a CPU, a step at a time."""

    def __init__(self, company):
        super().__init__()
        self.company = company

    def fit(self, fleet):
        """Every step, plainly."""
        *_, last = plain_states(fleet, self.company)
        return last


def train_block(data, models, config=CONFIG, *, device=CPU):
    """Logits (model, record) of a block, on the CPU unless a device is given."""
    return fleets.train_block(data, models, config, device=device).logits


def moved(fleet, **to):
    """The same block on another device or in another type of number."""
    return dataclasses.replace(
        fleet,
        start=FleetState(fleet.start.weights.to(**to), fleet.start.velocity.to(**to)),
        rule=dataclasses.replace(fleet.rule, clip=fleet.rule.clip.to(**to)),
        watch=moved_watch(fleet.watch, **to),
        std=fleet.std.to(**to),
        table=fleet.table.to(**to),
    )


def moved_watch(watch, **to):
    """The same rule, before the first step."""
    place = {name: value for name, value in to.items() if name == "device"}
    again = copy.copy(watch)
    again.clip = watch.clip.to(**to)
    again.records = watch.records.to(**place)
    again.firsts = watch.firsts.to(**place)
    if watch.bounds is not None:
        again.bounds = watch.bounds.to(**to)
    if watch.until is not None:
        again.until = watch.until.to(**place)
    return again


def steps_per_bin(watch, model):
    """Steps of a private model, (training record, bin); every row has all so far."""
    (due,) = [due for due in watch.rounds if model in due.models.tolist()]
    row = torch.tensor([due.models.tolist().index(model)], device=due.models.device)
    return due.book.counts(row, due.book.kind)[0].cpu().numpy()


def plain_states(fleet, company):
    """The state after every step, by the plain functions of ``step``."""
    streams = []
    for model in company[: len(fleet.noise)]:
        streams.append(model.stream(Purpose.NOISE, b""))
    shape = (len(streams), fleet.layout.width // 2)
    state = fleet.start
    for number, rows in enumerate(fleet.schedule.rows.cpu()):
        for due in fleet.watch.due(number):
            bins = fleets.norm_bins_plainly(fleet, state.weights, due.models)
            fleet.watch.refresh(due, number, bins)
        words = np.empty(shape, dtype=np.uint64)
        for model, bits in enumerate(streams):
            words[model] = bits.random_raw(shape[1])
        total = fleets.batch_sum(fleet, state.weights, rows, number)
        state = fleets.step(fleet, state, total, torch.from_numpy(words.view(np.int32)))
        yield state


def plain_logits(fleet, state):
    """What every model says about every record."""
    rows = fleet.watch.firsts.cpu()[:, None] + torch.arange(fleet.watch.n_records)
    inputs = fleets.gather(fleet, rows).inputs
    return activations(fleet.layout.layers(state.weights), inputs)[-1][..., 0]
