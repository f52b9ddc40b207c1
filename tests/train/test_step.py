import math

import numpy as np
import pytest
import torch
from torch import nn

from pcer.train import cpu as kernels
from pcer.train import step
from pcer.train.fleet import NOISE_REACH
from tests import reference_train as slow

SHAPES = [(3, 1), (6, 16, 8, 1), (20, 7, 9, 5, 1)]
CLIP, RATE, MOMENTUM, EXPECTED = 0.5, 0.05, 0.9, 12


def compiled_sum(layout, weights, batch, clip):
    """``clipped_sum`` by the kernels of the CPU, without the padding."""
    dtype = weights.numpy().dtype
    rule = kernels.Rule.of(step.StepRule(clip, RATE, MOMENTUM, EXPECTED), dtype)
    sums = torch.empty_like(weights)
    for model, own in enumerate(weights):
        parts = (batch.inputs[model], batch.input_square[model], batch.label[model])
        rows = np.flatnonzero(batch.inputs[model, :, -1]).astype(np.int32)
        room = kernels.Room.of(layout, len(rows), dtype)
        limit = clip.numpy()[model, 0, 0]
        room.limit[:] = limit
        kernels.clipped_sum(torch.cat(parts, 1).numpy(), rows, rule, own.numpy(), room)
        sums[model] = torch.from_numpy(room.total)
    return sums


both_sums = pytest.mark.parametrize("sum_of", [step.clipped_sum, compiled_sum])


def batch_of(inputs, label):
    return step.Batch(inputs, inputs.square().sum(-1, keepdim=True), label)


def make_batch(generator, n_models, n_records, n_features, dtype):
    options = {"generator": generator, "dtype": dtype}
    inputs = torch.randn(n_models, n_records, n_features, **options)
    inputs = inputs * torch.rand(n_models, n_records, 1, **options) * 2
    label = torch.randint(0, 2, (n_models, n_records, 1), generator=generator).to(dtype)
    inputs = torch.cat([inputs, torch.ones_like(label)], dim=-1)
    inputs[:, -3:] = 0  # padding
    return batch_of(inputs, label)


def test_every_layer_starts_at_64_bytes():
    assert step.Layout(SHAPES[2]).starts == (0, 160, 240, 304, 320)


def make_weights(generator, layout, n_models, dtype):
    weights = torch.zeros(n_models, layout.width, dtype=dtype)
    for layer in layout.layers(weights):
        layer.copy_(0.4 * torch.randn(layer.shape, generator=generator, dtype=dtype))
    return weights


@both_sums
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # by Opacus
@pytest.mark.parametrize("clip", [CLIP, math.inf])
@pytest.mark.parametrize("sizes", SHAPES)
def test_ten_steps_agree_with_opacus(sum_of, sizes, clip):
    generator = torch.Generator().manual_seed(1)
    dtype = torch.float64
    layout = step.Layout(sizes)
    weights = make_weights(generator, layout, 3, dtype)
    modules = [slow.mlp(sizes) for _ in weights]
    for index, module in enumerate(modules):
        start = [layer[index].numpy() for layer in layout.layers(weights)]
        slow.load_matrices(module, start)
    batches = [make_batch(generator, 3, 15, sizes[0], dtype) for _ in range(10)]
    state = step.FleetState(weights, torch.zeros_like(weights))
    limit = torch.full((3, 1, 1), clip, dtype=dtype)
    rule = step.StepRule(limit, RATE, MOMENTUM, EXPECTED)
    for batch in batches:
        total = sum_of(layout, state.weights, batch, limit)
        state = step.momentum_step(state, total, rule)
    ours = layout.layers(state.weights)
    for index, module in enumerate(modules):
        records = [(batch.inputs[index], batch.label[index, :, 0]) for batch in batches]
        opacus_train(module, records, clip)
        for mine, theirs in zip(ours, slow.matrices(module), strict=True):
            torch.testing.assert_close(mine[index], theirs, rtol=1e-10, atol=1e-10)


def opacus_train(module, batches, clip):
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    hooked = GradSampleModule(module)
    optimizer = DPOptimizer(
        torch.optim.SGD(module.parameters(), RATE, MOMENTUM),
        noise_multiplier=0.0,
        max_grad_norm=min(clip, 1e30),  # Opacus multiplies it by the noise multiplier 0
        expected_batch_size=EXPECTED,
    )
    for inputs, label in batches:
        is_real = inputs[:, -1] > 0
        optimizer.zero_grad()
        logits = hooked(inputs[is_real, :-1])[:, 0]
        nn.functional.binary_cross_entropy_with_logits(
            logits, label[is_real]
        ).backward()
        optimizer.step()
    hooked.to_standard_module()


@both_sums
@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0])
def test_one_record_more_or_less_moves_the_sum_by_at_most_the_clip(
    sum_of, sizes, scale
):
    generator = torch.Generator().manual_seed(3)
    layout = step.Layout(sizes)
    weights = make_weights(generator, layout, 6, torch.float32) * scale
    clip = torch.rand(6, 1, 1, generator=generator) + 0.01
    batch = make_batch(generator, 6, 36, sizes[0], torch.float32)
    whole = sum_of(layout, weights, batch, clip).double()
    moves = []
    for record in range(33):
        inputs = batch.inputs.clone()
        inputs[:, record] = 0  # it becomes padding
        less = sum_of(layout, weights, batch_of(inputs, batch.label), clip).double()
        moves.append((whole - less).norm(dim=1))
    share = torch.stack(moves) / clip[:, 0, 0]
    assert share.max() <= 1 + 2e-6  # rounding of a sum of 33 float32 terms
    if scale == 300.0:
        assert share.max() > 0.99  # the bound is reached, not only kept


def test_noise_is_box_muller_number_by_number():
    edge = [-(2**31), -(2**31) + 1, -1, 0, 1, 12345, 2**30, 2**31 - 1]
    bits = torch.tensor([edge + edge[::-1]], dtype=torch.int32)
    values = step.gaussian(bits, torch.tensor([[3.0]]))[0]
    pairs = [slow.box_muller(r, a) for r, a in zip(edge, edge[::-1], strict=True)]
    cosines, sines = zip(*pairs, strict=True)
    expected = torch.tensor(cosines + sines) * 3
    torch.testing.assert_close(values, expected, rtol=1e-5, atol=2e-4)
    radius = values[:8].hypot(values[8:])
    # 6.66 standard deviations, and no more.
    assert float(radius.max()) == pytest.approx(3 * NOISE_REACH, rel=1e-6)
