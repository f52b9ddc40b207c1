"""Are receipts true? Canaries, what attacks find, two claims of the literature.

    python -m benchmarks.receipts canaries [models] [draws]
    python -m benchmarks.receipts found_allowed
    python -m benchmarks.receipts found_allowed --datasets compas --seeds 20 \
        --folder out
    python -m benchmarks.receipts claims
    python -m benchmarks.receipts claims compas --budgets 0.5 1 5 10 --seeds 20

``README.md`` says which claim each of them backs.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import betaincinv, ndtr, ndtri
from scipy.stats import mannwhitneyu, pearsonr, spearmanr
from tests.train_cases import steps_per_bin

import pcer
from benchmarks import mean_and_error, parser_of, run_verb, with_numbers, write_results
from pcer.attacks.single import loss_of, true_label_logit
from pcer.auditing.record import Audit, SettingResult
from pcer.data import GroupedDataset, load, split
from pcer.metrics import BoolArray, FloatArray, IntArray
from pcer.sweep import Sweep, run_sweep
from pcer.sweep.receipts import placed, terms_of
from pcer.train import EngineFlags, TrainConfig, TrainingData, train_seeds
from pcer.train.cpu import CpuDevice
from pcer.train.engine import assemble, one_thread
from pcer.train.fleet import Model
from pcer.train.receipts import Terms, fold, mu_of, unfolded
from pcer.train.rules import N_BINS

SHARES = {"whole": 1.0, "half": 0.5, "tenth": 0.1}
"""Norms in units of the clip norm."""
CANARIES = {"whole": 40, "half": 80, "tenth": 600}
"""In one model; half of each are trained on. Weak ones need more."""
NOISE, RATE, N_STEPS, DELTA = 2.0, 0.1, 1_000, 1e-5
CLIP, N_TRAIN = 100.0, 1_000
SLACK = 0.999
"""How far below the edge of its bin a norm lies, so that rounding up costs nothing."""
TOLERANCE = 0.1
BLOCK = 20
"""Models that are trained together."""


class Scores(NamedTuple):
    """Likelihood ratios of canaries that were trained on, and of the others."""

    inside: FloatArray
    outside: FloatArray


def log_ratio(seen: FloatArray, share: float) -> FloatArray:
    """Of "joins with this norm" to "does not", over all steps, in units of the clip."""
    exponent = (2 * seen * share - share**2) / (2 * NOISE**2)
    return np.log1p(RATE * np.expm1(exponent)).sum(axis=-1)


def simulated(share: float, n: int, rng: np.random.Generator) -> Scores:
    """The mechanism alone."""

    def draw(size: int, here: float) -> FloatArray:
        joins = rng.random((size, N_STEPS)) < RATE
        return log_ratio(
            here * joins + NOISE * rng.standard_normal((size, N_STEPS)), share
        )

    lots = [min(2_000, n - done) for done in range(0, n, 2_000)]
    trained_on = np.concatenate([draw(size, share) for size in lots])
    return Scores(trained_on, np.concatenate([draw(size, 0.0) for size in lots]))


def canary_data(seeds: range) -> TrainingData:
    """Canaries with a feature each; fillers have none, only the bias's gradient."""
    shares = np.concatenate([np.full(n, SHARES[name]) for name, n in CANARIES.items()])
    norms = np.where(
        shares == 1, 10 * CLIP, shares * SLACK * CLIP
    )  # the whole is clipped to it
    n_fillers = N_TRAIN - len(shares) // 2
    features = np.zeros((len(shares) + n_fillers, len(shares)), dtype=np.float32)
    np.fill_diagonal(
        features, np.sqrt((2 * norms) ** 2 - 1)
    )  # the gradient is (x, 1)/2 at p = 1/2
    labels = np.concatenate([np.ones(len(shares)), np.arange(n_fillers) % 2])
    fillers = np.arange(len(shares), len(features))
    return TrainingData.of(
        features, labels, {s: np.concatenate([chosen(s), fillers]) for s in seeds}
    )


def chosen(seed: int) -> FloatArray:
    """Half of the canaries of each norm."""
    rng = np.random.default_rng([seed, 1])
    starts = np.cumsum([0, *CANARIES.values()])
    picks = [
        rng.permutation(n)[: n // 2] + a
        for n, a in zip(CANARIES.values(), starts, strict=False)
    ]
    return np.sort(np.concatenate(picks))


def trained(seeds: range) -> Iterator[tuple[dict[str, Scores], FloatArray, Terms]]:
    """For every model its scores, and what its canaries' steps were folded into."""
    data = canary_data(seeds)
    config = TrainConfig(
        hidden=(),
        epochs=round(N_STEPS * RATE),
        expected_batch=round(N_TRAIN * RATE),
        # weights hardly move, so p stays 1/2 and norms stay as they are
        learning_rate=1e-8,
        momentum=0.0,
        clip_norm=CLIP,
        standardise=False,
        split="given",
        receipts="held",
    )
    models = [Model(seed, 1.0, NOISE) for seed in seeds]
    with torch.no_grad(), one_thread():
        fleet = assemble(data, models, config, device=CpuDevice(), secret=b"")
        fleet.start.weights.zero_()
        seen = noisy_sums(fleet, sum(CANARIES.values()), config.learning_rate)
        sampling = config.sampling(data.n_train)
    assert (sampling.sample_rate, sampling.n_steps) == (RATE, N_STEPS)
    terms = Terms(NOISE, RATE, N_STEPS, DELTA)
    for index, seed in enumerate(seeds):
        steps = steps_per_bin(fleet.watch, index)
        kept = fold(torch.from_numpy(steps), terms).numpy()
        mine = chosen(seed)  # canaries come first among the rows of a split
        yield scores_of(seen[index], mine), kept[: len(mine)], terms


def noisy_sums(fleet: Any, n: int, learning_rate: float) -> FloatArray:
    """(model, canary, step): noisy sums in the canaries' directions, in clips."""
    sums = []
    scale = fleet.rule.expected_batch / learning_rate / CLIP
    before = fleet.start.weights[:, :n].clone()
    for state in CpuDevice().states(fleet):
        now = state.weights[:, :n].clone()
        sums.append(
            ((now - before) * scale).numpy()
        )  # gradients of label 1 point down, steps up
        before = now
    return np.stack(sums, axis=-1).astype(np.float64)


def scores_of(seen: FloatArray, inside: FloatArray) -> dict[str, Scores]:
    found = {}
    start = 0
    for name, n in CANARIES.items():
        place = np.arange(start, start + n)
        scores = log_ratio(seen[place], SHARES[name])
        here = np.isin(place, inside)
        found[name] = Scores(scores[here], scores[~here])
        start = start + n
    return found


def through_engine(
    n_models: int,
) -> tuple[dict[str, Scores], dict[str, tuple[float, float]]]:
    """Scores of all models; for each norm the largest receipt and realised epsilon."""
    parts: dict[str, list[Scores]] = {name: [] for name in SHARES}
    booked: dict[str, list[FloatArray]] = {name: [] for name in SHARES}
    for first in range(0, n_models, BLOCK):
        for scores, kept, terms in trained(range(first, min(first + BLOCK, n_models))):
            ends = np.cumsum([n // 2 for n in CANARIES.values()])
            for name, own in zip(SHARES, np.split(kept, ends[:-1]), strict=True):
                parts[name].append(scores[name])
                booked[name].append(np.array(unfolded(own, terms.ladder)[::-1]))
        print(
            f"  {min(first + BLOCK, n_models)} of {n_models} models",
            file=sys.stderr,
            flush=True,
        )
    whole = {
        name: Scores(*map(np.concatenate, zip(*p, strict=True)))
        for name, p in parts.items()
    }
    most = {name: np.concatenate(b, axis=1).max(axis=1) for name, b in booked.items()}
    return whole, {name: (float(a), float(b)) for name, (a, b) in most.items()}


def accounted(share: float) -> tuple[float, float]:
    """Receipt and realised epsilon of a norm that never changes."""
    steps = torch.zeros(1, N_BINS + 1)
    steps[0, round(N_BINS * share)] = N_STEPS
    terms = Terms(NOISE, RATE, N_STEPS, DELTA)
    kept = fold(steps, terms).numpy()
    realised, receipt = unfolded(kept, terms.ladder)
    return float(receipt[0]), float(realised[0])


def found_mu(scores: Scores) -> tuple[float, float]:
    """Gaussian parameter from the AUC, and its standard error (Hanley and McNeil)."""
    n = len(scores.inside)
    m = len(scores.outside)
    auc = mannwhitneyu(scores.inside, scores.outside).statistic / (n * m)
    one = auc / (2 - auc)
    two = 2 * auc**2 / (1 + auc)
    error = math.sqrt(
        (auc * (1 - auc) + (n - 1) * (one - auc**2) + (m - 1) * (two - auc**2))
        / (n * m)
    )
    z = ndtri(auc)
    return math.sqrt(2) * z, math.sqrt(2) * error * math.sqrt(2 * math.pi) * math.exp(
        z * z / 2
    )


def gaussian_epsilon(mu: float) -> float:
    """Exact epsilon of a Gaussian mechanism at delta (Balle and Wang 2018), halving."""
    low, high = 0.0, 200.0
    for _ in range(80):
        middle = (low + high) / 2
        delta = ndtr(-middle / mu + mu / 2) - math.exp(middle) * ndtr(
            -middle / mu - mu / 2
        )
        low, high = (middle, high) if delta > DELTA else (low, middle)
    return high


def counted_bound(scores: Scores, level: float = 0.05) -> float:
    """Lower bound of epsilon from guesses at a threshold that other models chose."""
    learn = Scores(scores.inside[::2], scores.outside[::2])
    test = Scores(scores.inside[1::2], scores.outside[1::2])
    tries = np.quantile(np.concatenate(learn), np.linspace(0.01, 0.99, 99))
    best = max(tries, key=lambda t: _bound_at(learn, float(t), level))
    return max(0.0, _bound_at(test, float(best), level))


def _bound_at(scores: Scores, threshold: float, level: float) -> float:
    """The better of guessing "in" above and "out" below; four rates share the error."""
    hits = int((scores.inside > threshold).sum())
    n = len(scores.inside)
    alarms = int((scores.outside > threshold).sum())
    m = len(scores.outside)
    sides = ((hits, n, alarms, m), (m - alarms, m, n - hits, n))
    return max(_log_quotient(*side, level / 4) for side in sides)


def _log_quotient(hits: int, n: int, alarms: int, m: int, tail: float) -> float:
    low = float(betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(alarms + 1, m - alarms, 1 - tail)) if alarms < m else 1.0
    return math.log((low - DELTA) / high) if low > DELTA else 0.0


def row(name: str, scores: Scores, receipt: float, realised: float) -> dict[str, float]:
    mu, error = map(float, found_mu(scores))
    own = float(mu_of(np.array([realised]), dp_delta=DELTA)[0])
    found = {
        "guesses": len(scores.inside) + len(scores.outside),
        "receipt": receipt,
        "realised": realised,
        "counted_lower_bound": counted_bound(scores),
        "gaussian_lower_bound": gaussian_epsilon(max(mu - 1.645 * error, 1e-6)),
        "gaussian_epsilon": gaussian_epsilon(max(mu, 1e-6)),
        "mu": mu,
        "mu_error": error,
        "mu_accounted": own,
    }
    lower = max(found["counted_lower_bound"], found["gaussian_lower_bound"])
    found["holds"] = lower <= receipt
    found["near"] = bool(abs(mu / own - 1) <= TOLERANCE)
    print(
        f"  {name:<6} {found['guesses']:>8,} {receipt:>8.3f} {realised:>8.3f} "
        f"{found['counted_lower_bound']:>8.3f} {found['gaussian_lower_bound']:>8.3f} "
        f"{found['gaussian_epsilon']:>8.3f} {mu:>7.4f} ±{error:.4f} {own:>7.4f} "
        f"{mu / own - 1:>+7.1%}  {'holds' if found['holds'] else 'BROKEN'}, "
        f"{'near' if found['near'] else 'FAR'}",
        flush=True,
    )
    return found


def canaries(n_models: int = 400, n_draws: int = 100_000) -> None:
    """White-box canaries: what an attacker of every step finds, and what is counted.

    A canary is a record whose gradient has a direction of its own, at the whole, half
    and a tenth of the clip norm. The attacker knows all else and sees, at every step,
    the noisy sum of gradients in that direction; the likelihood ratio over all steps is
    the best there is to guess by. Two runs:

    * the mechanism alone: a coin for joining the step, noise, and nothing else;
    * the engine: canaries among training records of a linear model, trained by the
      compiled step under the rule "held", with its own norms, batches and noise;
      accounted is what it counted.

    Printed for each norm: the receipt (a bound), the realised epsilon, the 95 % lower
    bound of epsilon from counted guesses (Clopper-Pearson; the threshold comes from
    half of the guesses) and by Gaussian privacy from the AUC, and the Gaussian
    parameter mu as found and as accounted. Bars: no lower bound above the receipt, and
    mu within 10 % of what was accounted.
    """
    terms = Terms(NOISE, RATE, N_STEPS, DELTA)
    print(
        f"noise {NOISE:g}, rate {RATE:g}, {N_STEPS:,} steps, delta {DELTA:g}: promised "
        f"{terms.nominal:.3f} by rdp"
    )
    head = (
        "  norm    guesses  receipt realised  counted gaussian estimate      mu"
        "            booked"
    )
    results: dict[str, Any] = {"nominal": terms.nominal}
    print(f"the mechanism alone\n{head}")
    rng = np.random.default_rng(0)
    results["mechanism"] = {
        name: row(
            name,
            simulated(share, n_draws if share < 0.5 else -(-n_draws // 4), rng),
            *accounted(share),
        )
        for name, share in SHARES.items()
    }
    scores, booked = through_engine(n_models)
    print(f"through the engine, {n_models:,} models\n{head}")
    results["engine"] = {
        name: row(name, scores[name], *booked[name]) for name in SHARES
    }
    write_results("canaries", results)


ATTRIBUTES = {"compas": ("race",), "adult": ("sex", "race")}
BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0)
ATTACKS = {
    "receipts": "spent_epsilon",
    "LiRA": "lira_advantage",
    "gap": "overfitting_gap",
}
LEVEL, ONE_SIDED = 0.05, 1.645
Row = dict[str, Any]


def releases(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Path]:
    """One release for each attribute of a dataset, trained if it is not there."""
    sweep = Sweep(
        dataset=load(name),
        attributes=ATTRIBUTES[name],
        budgets=BUDGETS,
        seeds=tuple(range(options.seeds)),
        config=TrainConfig(receipts=options.receipts),
    )
    flags = EngineFlags(device=options.device, jobs=options.jobs)
    return run_sweep(sweep, folder / name, flags=flags)


def audits(path: Path) -> dict[str, Audit]:
    release = pcer.read_release(path)
    return {
        name: pcer.audit(release, pcer.Plan(attack=attack))
        for name, attack in ATTACKS.items()
    }


def groups_of(setting: SettingResult, where: str) -> list[Row]:
    """Found and allowed of every group, from the audit by LiRA."""
    rows = []
    for name, group in setting.groups.items():
        exposure = group.exposure
        allowed = group.allowed
        if exposure.value is None or exposure.standard_error is None or allowed is None:
            continue  # too few people
        assert allowed.advantage is not None
        limit = exposure.value - ONE_SIDED * exposure.standard_error
        rows.append(
            {
                "setting": where,
                "epsilon": setting.epsilon,
                "group": name,
                "found": exposure.value,
                "standard_error": exposure.standard_error,
                "lower_limit": limit,
                "allowed": allowed.advantage,
                "spent": allowed.spent,
                "spent_error": allowed.standard_error,
                "holds": limit <= allowed.advantage,
            }
        )
    return rows


def differences(found: dict[str, Audit], where: str) -> list[Row]:
    """Of the first pair of groups, at every setting and by every attack."""
    rows: list[Row] = []
    for settings in zip(*(audit.settings for audit in found.values()), strict=True):
        row: Row = {"setting": where, "epsilon": settings[0].epsilon}
        for name, setting in zip(found, settings, strict=True):
            exposure = setting.pairs[0].exposure
            difference = exposure.difference
            assert difference.value is not None
            assert difference.standard_error is not None
            row[name] = {
                "z": difference.value / difference.standard_error,
                "p": exposure.p_value,
                "differ": bool(
                    exposure.p_value is not None and exposure.p_value <= LEVEL
                ),
            }
        rows.append(row)
    return rows


def show(groups: list[Row], pairs: list[Row]) -> None:
    print(
        "found by LiRA, its lower 95 % limit, and allowed (AUC - 1/2); spent: the mean "
        "receipt"
    )
    for row in groups:
        print(
            f"  {row['setting']:12} {row['epsilon']:>5g} {row['group']:18} "
            f"{row['found']:7.4f} ± {row['standard_error']:.4f}  "
            f"{row['lower_limit']:8.4f}  {row['allowed']:7.4f}  {row['spent']:8.4f} ± "
            f"{row['spent_error']:.4f}  {'below' if row['holds'] else 'ABOVE'}"
        )
    print(
        "difference of the groups in errors; *: shown, Holm over the settings of a "
        "release"
    )
    for row in pairs:
        parts = [
            f"{name} {row[name]['z']:+6.1f}{'* '[not row[name]['differ']]}"
            for name in ATTACKS
        ]
        print(f"  {row['setting']:12} {row['epsilon']:>5g}  {'  '.join(parts)}")
    for name in ATTACKS:
        n = sum(row[name]["differ"] for row in pairs)
        print(f"  {name}: the groups differ in {n} of {len(pairs)} settings")
    print(f"  found below allowed: {sum(r['holds'] for r in groups)} of {len(groups)}")


def allowed_arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = parser_of(found_allowed)
    parser.add_argument(
        "--datasets", nargs="+", default=list(ATTRIBUTES), choices=list(ATTRIBUTES)
    )
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument(
        "--receipts", default="held", choices=("held", "exact", "refreshed")
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--folder", type=Path, default=None, help="keeps the releases")
    parser.add_argument(
        "--json", type=Path, default=Path("benchmarks/results/found_allowed.json")
    )
    return parser.parse_args(words)


def found_allowed(words: Sequence[str]) -> None:
    """What an attacker finds in each group beside what the training allows.

    Trains COMPAS and Adult at the paper's budgets with receipts, attacks the models by
    LiRA, and audits the releases three times: by what people spent (receipts), by LiRA
    and by the gap. Two tables:

    * for every setting and group, what LiRA finds, its lower 95 % limit, and what is
      allowed. The limit must stay below what is allowed;
    * for every setting, by which attack the groups differ beyond error: the z of the
      difference, and a star where it is shown at the 5 % level, Holm over the settings
      of the release.

    A folder keeps the releases: what is there is not trained again.
    """
    options = allowed_arguments(words)
    groups = []
    pairs = []
    with tempfile.TemporaryDirectory() as spare:
        for name in options.datasets:
            for attribute, path in releases(
                name, options, options.folder or Path(spare)
            ).items():
                found = audits(path)
                where = f"{name} {attribute}"
                for setting in found["LiRA"].settings:
                    groups += groups_of(setting, where)
                pairs += differences(found, where)
    show(groups, pairs)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(
        json.dumps({"groups": groups, "pairs": pairs}, indent=1) + "\n"
    )


DATASETS = ("compas", "adult")
Pair = tuple[float, float]


def correlations(
    spent: FloatArray, loss: FloatArray, member: BoolArray
) -> dict[str, Pair]:
    """Of every person's epsilon with the loss, within each model; (seed, record)."""
    kinds = {"loss": pearsonr, "log loss": pearsonr, "rank": spearmanr}
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for own, end, inside in zip(spent, loss, member, strict=True):
        for kind, measure in kinds.items():
            seen = np.log(end[inside]) if kind == "log loss" else end[inside]
            found[kind].append(float(measure(own[inside], seen).statistic))
    return {kind: mean_and_error(np.array(values)) for kind, values in found.items()}


def group_means(values: FloatArray, chosen: BoolArray, codes: IntArray) -> FloatArray:
    """(seed, group) means over the chosen of (seed, record)."""
    return np.array(
        [
            [row[inside & (codes == k)].mean() for k in range(codes.max() + 1)]
            for row, inside in zip(values, chosen, strict=True)
        ]
    )


def payers(
    spent: FloatArray,
    right: BoolArray,
    member: BoolArray,
    codes: IntArray,
    names: tuple[str, ...],
) -> Row:
    """Who is predicted worst, who spends most, and by how much more than the best."""
    accuracy = group_means(right, ~member & (codes >= 0), codes)
    paid = group_means(spent, member & (codes >= 0), codes)
    worst, best = (int(pick(accuracy.mean(axis=0))) for pick in (np.argmin, np.argmax))
    return {
        "worst": names[worst],
        "best": names[best],
        "pays most": names[int(np.argmax(paid.mean(axis=0)))],
        "accuracy less": mean_and_error(accuracy[:, best] - accuracy[:, worst]),
        "paid by the worst": mean_and_error(paid[:, worst]),
        "paid by the best": mean_and_error(paid[:, best]),
        "worst over best": mean_and_error(paid[:, worst] / paid[:, best]),
        "seeds in which the worst pays more": int(
            (paid[:, worst] > paid[:, best]).sum()
        ),
    }


def groupings(
    dataset: GroupedDataset,
) -> Iterator[tuple[str, IntArray, tuple[str, ...]]]:
    """The label, every attribute of two groups, and both together."""
    yield "label", dataset.labels, ("label 0", "label 1")
    for attribute in dataset.attributes:
        if len(attribute.group_names) == 2:
            yield attribute.name, attribute.codes, attribute.group_names
            both = [
                f"{name}, label {label}"
                for name, label in product(attribute.group_names, (0, 1))
            ]
            known = attribute.codes >= 0
            codes = np.where(known, 2 * attribute.codes + dataset.labels, -1)
            yield f"{attribute.name} and label", codes, tuple(both)


def measure(name: str, budgets: list[float], n_seeds: int, mode: str) -> list[Row]:
    """A row for each budget."""
    dataset = load(name)
    rows = {seed: split(dataset, seed=seed).train for seed in range(n_seeds)}
    data = TrainingData.of(dataset.features, dataset.labels, rows, allow_missing=True)
    config = replace(TrainConfig(), receipts=mode)
    found = train_seeds(
        data,
        budgets=tuple(budgets),
        config=config,
        flags=EngineFlags(jobs=1),
    )
    table = []
    for budget, kept, logits in zip(
        found.budgets, found.receipts, found.logits, strict=True
    ):
        terms = terms_of(budget, data.n_train, config)
        realised, _ = unfolded(placed(kept, found.member), terms.ladder)
        row = budget_row(dataset, realised, terms.nominal, logits, found.member)
        table.append(
            row | {"dataset": name, "epsilon": budget.epsilon, "n_seeds": n_seeds}
        )
    return table


def budget_row(
    dataset: GroupedDataset,
    spent: FloatArray,
    nominal: float,
    logits: FloatArray,
    member: BoolArray,
) -> Row:
    loss = loss_of(true_label_logit(logits, dataset.labels))
    right = (logits >= 0) == (dataset.labels == 1)
    return {
        "nominal": nominal,
        "mean": mean_and_error(np.nanmean(spent, axis=1)),
        "share at the promise": mean_and_error(
            (spent >= nominal).sum(axis=1) / member.sum(axis=1)
        ),
        "r": correlations(spent, loss, member),
        "groups": {
            name: payers(spent, right, member, codes, names)
            for name, codes, names in groupings(dataset)
        },
    }


def shown(pair: Pair, digits: int = 3) -> str:
    return f"{pair[0]:.{digits}f} ± {pair[1]:.{digits}f}"


def print_row(row: Row) -> None:
    r = "  ".join(f"{kind} {shown(pair)}" for kind, pair in row["r"].items())
    print(
        f"{row['dataset']} at {row['epsilon']:g} ({row['nominal']:.3f} by rdp): r with "
        f"{r}"
    )
    print(
        f"  mean {shown(row['mean'])}, at the promise "
        f"{shown(row['share at the promise'])}"
    )
    for name, one in row["groups"].items():
        print(
            f"  {name:15} worst predicted: {one['worst']} (by "
            f"{shown(one['accuracy less'])}), spends {shown(one['paid by the worst'])} "
            f"against {shown(one['paid by the best'])} of {one['best']}: "
            f"x{shown(one['worst over best'])}, more in "
            f"{one['seeds in which the worst pays more']} of {row['n_seeds']} seeds; "
            f"most: {one['pays most']}",
            flush=True,
        )


def claims(words: Sequence[str]) -> None:
    """Two claims of Yu et al.

    (2023, arXiv 2206.02617) about a person's own epsilon, on our data.

    1. A person's realised epsilon goes with the person's loss at the end of training.
    2. The group
    with the worst accuracy pays the most.

    Norms are computed once an epoch, more often at first, and change no model
    (``refreshed``). Loss is the cross-entropy of the trained model on its training
    records; r is Pearson's, of epsilon with the loss and with its logarithm, and
    Spearman's, within each model. Groups are compared by accuracy on test records: how
    much more the group with the lower one (by the mean over seeds) spent on average.
    Labels are groups as well, as in the paper, where groups were classes. Errors are
    over seeds, which share their people: they are about splits and training.
    """
    parser = parser_of(claims)
    parser.add_argument(
        "datasets", nargs="*", help=f"of {', '.join(DATASETS)}; default: both"
    )
    parser.add_argument(
        "--budgets", type=float, nargs="+", default=[0.5, 1.0, 5.0, 10.0]
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--mode", default="refreshed", choices=("refreshed", "held", "exact")
    )
    parser.add_argument(
        "--json", type=Path, default=Path("benchmarks/results/receipt_claims.json")
    )
    options = parser.parse_args(words)
    found = []
    for name in options.datasets or DATASETS:
        for row in measure(name, options.budgets, options.seeds, options.mode):
            found.append(row)
            print_row(row)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    run_verb(
        {
            "canaries": with_numbers(canaries),
            "found_allowed": found_allowed,
            "claims": claims,
        }
    )
