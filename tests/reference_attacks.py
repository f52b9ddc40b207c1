"""Slow, obvious twins of the attacks: loops over models, records and pairs, one at a time."""

import itertools
import math
import statistics

import numpy as np


def beats(a, b) -> float:
    return float(a > b) + 0.5 * float(a == b)


def auc(score, member) -> float:
    """Pairs won, ties counting half."""
    inside, outside = (
        [s for s, m in zip(score, member, strict=True) if m == k] for k in (1, 0)
    )
    return statistics.fmean(beats(a, b) for a in inside for b in outside)


def auc_parts(score, member) -> list[float]:
    """Each record's placement, centred, over its side's size; a degree of freedom made good.

    The squares sum to the variance of DeLong, DeLong and Clarke-Pearson.
    """
    known = [r for r in range(len(score)) if not np.isnan(score[r])]
    inside, outside = (
        [r for r in known if member[r] == side] for side in (True, False)
    )
    value = auc(score[known], member[known])
    parts = [0.0] * len(score)
    for r in known:
        own, other, sign = (inside, outside, 1) if member[r] else (outside, inside, -1)
        place = statistics.fmean(beats(sign * score[r], sign * score[q]) for q in other)
        parts[r] = (place - value) / len(own) * freedom(len(own))
    return parts


def threshold_parts(loss, member) -> tuple[float, list[float]]:
    """Advantage at the mean training loss; each record's guess, and how it moves the threshold."""
    n = len(loss)
    inside, outside = (
        [r for r in range(n) if member[r] == side] for side in (True, False)
    )
    mean = statistics.fmean(loss[r] for r in inside)

    def shares(cut):
        return tuple(
            sum(loss[r] <= cut + 1e-12 for r in s) / len(s) for s in (inside, outside)
        )

    width = statistics.pstdev(loss[r] for r in inside) / n**0.2
    (low_in, low_out), (high_in, high_out) = shares(mean - width), shares(mean + width)
    slope = (high_in - high_out - low_in + low_out) / 2 / (2 * width)
    caught, false = shares(mean)
    parts = [0.0] * n
    for r in inside:
        own = ((loss[r] <= mean + 1e-12) - caught) / 2 + slope * (loss[r] - mean)
        parts[r] = own / len(inside) * freedom(len(inside))
    for r in outside:
        own = (false - (loss[r] <= mean + 1e-12)) / 2
        parts[r] = own / len(outside) * freedom(len(outside))
    return (caught - false) / 2, parts


def freedom(n) -> float:
    return math.sqrt(n / (n - 1))


def few_models(n_models) -> float:
    """How much more a variance counts that was estimated from so many models."""
    from scipy import stats

    return (stats.t.ppf(0.975, n_models - 1) / stats.norm.ppf(0.975)) ** 2


def two_way_error(values, parts, n_records) -> float:
    """Records' parts summed over models and squared; plus what models vary beyond their parts."""
    n_models = len(values)
    of_records = (
        sum(sum(column) ** 2 for column in zip(*parts, strict=True)) / n_models**2
    )
    of_records *= n_records / (n_records - 1)
    of_models = statistics.variance(values) / n_models
    of_both = sum(part**2 for row in parts for part in row) / n_models**2
    luck = few_models(n_models) * of_models - of_both
    return math.sqrt(of_records + max(0.0, luck))


def clustered_error(scores, member) -> float:
    """Error of the AUC averaged over models, clustered by record and by model."""
    values = [
        auc(row[~np.isnan(row)], inside[~np.isnan(row)])
        for row, inside in zip(scores, member, strict=True)
    ]
    parts = [auc_parts(row, inside) for row, inside in zip(scores, member, strict=True)]
    return two_way_error(values, parts, int((~np.isnan(scores)).any(axis=0).sum()))


def paired(values, member) -> tuple[float, float, float, int]:
    """Mean difference, its errors, and how many records were always in or always out."""
    n_models, n_records = values.shape
    differences = {}
    for r in range(n_records):
        inside, outside = (
            values[member[:, r] == side, r].tolist() for side in (True, False)
        )
        if inside and outside:
            differences[r] = statistics.fmean(inside) - statistics.fmean(outside)
    value, n = statistics.fmean(differences.values()), len(differences)
    of_records = statistics.variance(differences.values()) / n
    own = luck_of_few if n_models < 5 else luck_of_many
    luck = max(0.0, own(values, member, differences, value))
    return value, math.sqrt(of_records + luck), math.sqrt(of_records), n_records - n


def reliability(values, member, group, chosen) -> float:
    """The share of records' differences that is no luck of models, by loops."""
    differences, noises = [], []
    for r in range(values.shape[1]):
        inside = [
            float(x) for x, m in zip(values[:, r], member[:, r], strict=True) if m
        ]
        outside = [
            float(x) for x, m in zip(values[:, r], member[:, r], strict=True) if not m
        ]
        if group[r] == chosen and min(len(inside), len(outside)) > 1:
            differences.append(statistics.fmean(inside) - statistics.fmean(outside))
            of_inside = statistics.variance(inside) / len(inside)
            noises.append(of_inside + statistics.variance(outside) / len(outside))
    share = 1 - statistics.fmean(noises) / statistics.variance(differences)
    return min(1.0, max(0.0, share))


def separation(values, member, group, first, second) -> float:
    """How far two groups do not share their luck, by loops over pairs of records."""
    n_models, n_records = values.shape
    luck = []
    for r in range(n_records):
        own = []
        for s in range(n_models):
            alike = [
                values[t, r] for t in range(n_models) if member[t, r] == member[s, r]
            ]
            own.append(float(values[s, r]) - statistics.fmean(alike))
        luck.append(own)

    def product(i, j):
        return sum(a * b for a, b in zip(luck[i], luck[j], strict=True))

    def beyond(one, other):
        pairs = [(i, j) for i in one for j in other if i != j]
        squares = sum(product(i, j) ** 2 for i, j in pairs)
        variances = sum(product(i, i) * product(j, j) for i, j in pairs)
        return squares / (variances / (n_models - 1)) - 1

    def worth(one):
        variances = [product(i, i) for i in one]
        return sum(variances) ** 2 / sum(v**2 for v in variances)

    a, b = ([r for r in range(n_records) if group[r] == k] for k in (first, second))
    n, m = worth(a), worth(b)
    within = max(0.0, (n * beyond(a, a) + m * beyond(b, b)) / (n + m))
    noise = (math.sqrt(8) / (n + m)) ** 2 + (math.sqrt(2) / math.sqrt(n * m)) ** 2
    found = (within * (within - beyond(a, b)) + 0.4 * noise) / (within**2 + noise)
    return min(1.0, max(0.0, found))


def luck_of_many(values, member, differences, value) -> float:
    """What each model adds to the mean, beyond what records explain."""
    n_models, n_records = values.shape
    n = len(differences)
    beyond = [[0.0] * n_records for _ in range(n_models)]
    for r in differences:
        n_in = int(member[:, r].sum())
        for s in range(n_models):
            weight = 1 / n_in if member[s, r] else -1 / (n_models - n_in)
            expected = values[:, r].mean() + value * (member[s, r] - n_in / n_models)
            beyond[s][r] = weight * (values[s, r] - expected) / n
    of_models = sum(sum(row) ** 2 for row in beyond)
    of_both = sum(part**2 for row in beyond for part in row)
    share = float(member[:, list(differences)].mean())
    own = (
        1 - (1 + share) / n_models
    ) ** 2  # how far a model stands out of what it is part of
    return (
        (few_models(n_models) * of_models - of_both) * n_models / (n_models - 1) / own
    )


def luck_of_few(values, member, differences, value) -> float:
    """Of every two models: do they differ more about records of both than about those of none?"""
    n_models = len(values)
    of_models, of_both = [], []
    for s, t in itertools.combinations(range(n_models), 2):
        kinds = {kind: [] for kind in itertools.product((False, True), repeat=2)}
        for r in range(values.shape[1]):
            kind = bool(member[s, r]), bool(member[t, r])
            kinds[kind].append(float(values[s, r]) - float(values[t, r]))
        one, other, sign = kinds[True, True], kinds[False, False], -1
        if min(len(one), len(other)) < 2:
            one, other, sign = kinds[True, False], kinds[False, True], 1
        told = min(len(one), len(other)) > 1
        apart = told and statistics.fmean(one) + sign * statistics.fmean(other)
        of_models.append(apart**2)
        of_both.append(
            told and sum(statistics.variance(x) / len(x) for x in (one, other))
        )
    both = [statistics.fmean(part) / (2 * n_models) for part in (of_models, of_both)]
    return few_models(n_models) * both[0] - both[1]


def derivative(statistic, n_records, record, *, step=1e-5) -> float:
    """Of a number by the weight of one record: what the record adds to it."""
    up, down = np.ones(n_records), np.ones(n_records)
    up[record], down[record] = 1 + step, 1 - step
    return (statistic(up) - statistic(down)) / (2 * step)


def others(values, member, target: int, record: int) -> tuple[list[float], list[float]]:
    """What the other models say about a record: those that trained on it, those that did not."""
    own = np.delete(values[:, record], target), np.delete(member[:, record], target)
    return own[0][own[1]].tolist(), own[0][~own[1]].tolist()


def offline_lira(values, member):
    def score(x, _inside, outside):
        if len(set(outside)) > 1:
            return (x - statistics.fmean(outside)) / statistics.stdev(outside)
        return 0.0 if x == outside[0] else math.copysign(math.inf, x - outside[0])

    return _each(values, member, score, least_in=0, least_out=2)


def rmia(values, member):
    def score(x, inside, outside):
        return x / ((statistics.fmean(inside) + statistics.fmean(outside)) / 2)

    return _each(values, member, score, least_in=1, least_out=1)


def cut_log_odds(probability):
    """Log odds of a setting's probabilities, cut where some are exactly 0 or 1."""
    every = [float(p) for p in np.ravel(probability)]
    if any(p in (0.0, 1.0) for p in every):
        inner = [min(p, 1 - p) for p in every if p not in (0.0, 1.0)]
        h = np.quantile(inner, 0.01) if inner else 0.02
        probability = [
            [min(max(float(p), h / 2), 1 - h / 2) for p in row] for row in probability
        ]
    return np.array(
        [[math.log(p) - math.log1p(-p) for p in row] for row in probability]
    )


def shrunk_lira(values, member):
    """The likelihood ratio with a prior on the difference, record by record."""
    scores = np.full(values.shape, np.nan)
    for t in range(len(values)):
        pairs = [others(values, member, t, r) for r in range(values.shape[1])]
        surplus = []
        for inside, outside in pairs:
            if inside and outside and (len(set(inside)) > 1 or len(set(outside)) > 1):
                _, d, noise, freedom = _pooled(inside, outside)
                surplus.append(d * d - noise * freedom / (freedom - 2))
        n_cut = int(0.05 * len(surplus))
        middle = sorted(surplus)[n_cut : len(surplus) - n_cut]
        size = math.sqrt(max(0.0, statistics.fmean(middle))) if middle else 0.0
        for r, (inside, outside) in enumerate(pairs):
            scores[t, r] = _lira_score(float(values[t, r]), inside, outside, size)
    return scores


def _lira_score(x, inside, outside, size) -> float:
    if not (inside and outside):
        return 0.0
    if len(set(inside)) > 1 or len(set(outside)) > 1:
        return round(_shrunk(x, inside, outside, size), 6)  # what is equal ties
    middle = (inside[0] + outside[0]) / 2
    if inside[0] == outside[0] or x == middle:
        return 0.0
    return math.inf if (x > middle) == (inside[0] > outside[0]) else -math.inf


def _shrunk(x, inside, outside, size) -> float:
    """Normal prior (mean and spread ``size``) times normal data gives the posterior difference."""
    deviation, d, noise, _ = _pooled(inside, outside)
    difference, weight = 0.0, 1.0
    if size > 0:
        difference = (d / noise + size / size**2) / (1 / noise + 1 / size**2)
        weight = difference / size
    n_in, n_out = len(inside), len(outside)
    # Least squares for the out mean, given the difference: all others, brought to
    # "out".
    brought = [v - difference * deviation for v in inside] + list(outside)
    mean_out = sum(brought) / (n_in + n_out)
    mean_in = mean_out + difference * deviation
    return weight * (x - (mean_in + mean_out) / 2) / deviation


def _pooled(inside, outside) -> tuple[float, float, float, int]:
    """Common deviation, standardised difference, its noise, degrees of freedom."""
    centre_in, centre_out = statistics.fmean(inside), statistics.fmean(outside)
    squares = sum((v - centre_in) ** 2 for v in inside)
    squares += sum((v - centre_out) ** 2 for v in outside)
    freedom = len(inside) + len(outside) - 2
    deviation = math.sqrt(squares / freedom)
    noise = 1 / len(inside) + 1 / len(outside)
    return deviation, (centre_in - centre_out) / deviation, noise, freedom


def _each(values, member, score, *, least_in, least_out):
    scores = np.full(values.shape, np.nan)
    for t, r in np.ndindex(*values.shape):
        inside, outside = others(values, member, t, r)
        if len(inside) >= least_in and len(outside) >= least_out:
            scores[t, r] = score(float(values[t, r]), inside, outside)
    return scores


def distances(exposure, benefit, first) -> tuple[float, float]:
    """Of two groups: difference of exposures, and R_i c_j - R_j c_i, each over its error."""
    rest, summaries = [r for r in range(len(exposure)) if r not in first], []
    for rows in (first, rest):
        both = [float(exposure[r]) for r in rows], [float(benefit[r]) for r in rows]
        spread = [*map(statistics.variance, both), statistics.covariance(*both)]
        summaries.append(
            (*map(statistics.fmean, both), *(x / len(rows) for x in spread))
        )
    (c_i, r_i, v_i, u_i, w_i), (c_j, r_j, v_j, u_j, w_j) = summaries
    of_i = c_j**2 * u_i + r_j**2 * v_i - 2 * c_j * r_j * w_i
    of_j = c_i**2 * u_j + r_i**2 * v_j - 2 * c_i * r_i * w_j
    return _over(c_i - c_j, v_i + v_j), _over(r_i * c_j - r_j * c_i, of_i + of_j)


def _over(difference, variance) -> float:
    if abs(difference) < 1e-12:
        return 0.0
    return abs(difference) / math.sqrt(variance) if variance > 0 else math.inf


def step_down(real, drawn) -> list[float]:
    """Westfall and Young: each against the largest of those that are not further apart."""
    order = sorted(range(len(real)), key=lambda h: -real[h])
    adjusted, so_far = [0.0] * len(real), 0.0
    for place, h in enumerate(order):
        largest = [max(row[g] for g in order[place:]) for row in drawn]
        so_far = max(
            so_far, sum(d >= real[h] * (1 - 1e-6) for d in largest) / len(drawn)
        )
        adjusted[h] = so_far
    return adjusted
