"""Every norm's numbers from a release file alone: a second way, without pcer.

Two groups, counts, one attack over all models. ``numbers(tree, attack)`` gives by
setting and norm the mean over splits of the worst pair or group, and its error.
"""

import numpy as np

FLOOR, CELLS = 1e-3, ("tp", "fp", "tn", "fn")
RATES = {"positive_rate": ("tp fp", "tp fp tn fn"), "error_rate": ("fp fn", "tp fp tn fn"),
         "true_positive_rate": ("tp", "tp fn"), "false_positive_rate": ("fp", "fp tn")}  # fmt: skip


def agresti(p, n):
    p = (np.clip(p, 0, 1) * n + 2) / (n + 4)
    return p * (1 - p) / n


def numbers(tree, attack):
    keys = dict.fromkeys((run.get("model"), run["epsilon"]) for run in tree["runs"])
    return {key: of_setting(tree, attack, key) for key in keys}


def of_setting(tree, attack, key):
    names = tree["subject"]["groups"]
    bad = 1 if tree["subject"]["outcome"] == "harm" else -1
    same = [x for x in tree["runs"] if (x.get("model"), x["epsilon"]) == key]
    split = np.unique([run["split"] for run in same], return_inverse=True)[1]
    table = np.array([[[[run["groups"][g][part][c] for c in CELLS] for g in names]
        for part in ("train", "test")] for run in same], float)  # fmt: skip
    S = split.max() + 1
    M = np.eye(S)[split] / np.bincount(split)[split, None]
    mean = lambda x: np.einsum("rs,rg->sg", M, x)  # noqa: E731 (run, g) -> (split, g)
    count = lambda x, cells: sum(x[..., CELLS.index(c)] for c in cells.split())  # noqa: E731
    stated = {
        x["rate"]: x
        for x in tree.get("training_noise", ())
        if (x.get("model"), x["epsilon"]) == key
    }

    def rate(name, w):
        (hit, among), w = RATES[name], np.array(w)
        k, n = count(table, hit), count(table, among)
        d, D = mean(k[:, 1] / n[:, 1]), mean(k.sum(1) / n.sum(1))
        N, n_test, R = n.sum(1).mean(0), n[:, 1].mean(0), d.mean(0)
        lasting = agresti(R, N)
        closed = agresti(R, 1 / (1 / N + (1 / n_test - 1 / N) / S))
        now = w**2 @ closed
        if S < 3:
            return w @ R, now
        now = max(now, w**2 @ lasting + np.var(d @ w, ddof=1) / S)
        return w @ R, now + training(d, D, w, n, len(split) / S, stated.get(name))

    def training(d, D, w, n, runs, noise):
        f = n[:, 0].sum() / n.sum()
        spread, both = np.var(D @ w, ddof=1), np.cov(d @ w, D @ w)[0, 1]
        if noise:
            spread = max(spread - w @ np.array(noise["everybody"]) @ w / runs, 0)
            both -= w @ np.array(noise["crossed"]) @ w / runs
        return f / (1 - f) * spread + 2 * max(spread - both, 0)

    def gap():
        good = table[..., [0, 2]]  # right by label, of (run, part, group)
        n = table[..., [0, 1]] + table[..., [3, 2]]  # by label: tp + fn, fp + tn
        K, N = good.sum(1), n.sum(1)
        per_hit = 1 / n[:, 0].sum(-1) + 1 / n[:, 1].sum(-1)
        share = np.divide(K, N, out=np.zeros_like(K), where=N > 0)
        luck = (n[:, 0] * share).sum(-1) * per_hit - K.sum(-1) / n[:, 1].sum(-1)
        acc, size = good.sum(-1) / n.sum(-1), n.sum(-1)
        raw = acc[:, 0] - acc[:, 1]
        v = per_hit**2 * (
            n[:, 0] * share * (1 - share) * n[:, 1] / np.maximum(N - 1, 1)
        ).sum(-1)
        u = agresti(acc[:, 0], size[:, 0]) + agresti(acc[:, 1], size[:, 1])
        w = np.maximum(mean(v).mean(0), mean(u).mean(0))
        return raw, mean(raw - luck), w, size.sum(1).mean(0)

    raw, c_s, w1, N = gap()
    c = c_s.mean(0)
    in_test = np.maximum(np.maximum(c, c @ N / N.sum()), 0)
    between = np.var(c_s, axis=0, ddof=1) / S if S > 1 else -1

    def of_gap(at):
        P = agresti(np.maximum(at, 0), N)
        return np.maximum(w1 / S + (1 - 1 / S) * P, between + P)

    rows = {
        x["group"]: x
        for x in tree.get("pooled_exposure", ())
        if (x.get("model"), x["epsilon"], x["attack"]) == (*key, attack)
    }
    if rows:
        keys = ("value", "standard_error", "null_error", "separation")
        value, error, null, apart = np.array(
            [[rows[g][k] for k in keys] for g in names]
        ).T
        both = np.maximum(error**2, (1 + apart) * null**2)
        alone, pair = np.maximum(both, 2 * null**2), both.sum()
    else:  # the gap
        value, alone, pair = c, of_gap(c), of_gap(in_test).sum()
    R_s = count(table[:, 1], "tp fp") / table[:, 1].sum(-1)
    cost = np.maximum(raw, FLOOR)
    ratio, A, B = (
        mean(R_s / cost),
        mean(1 / cost).mean(0),
        mean(R_s / cost**2 * (raw > FLOOR)).mean(0),
    )
    R, c0 = mean(R_s).mean(0), np.maximum(c, 0)
    people = A**2 * agresti(R, N) + B**2 * agresti(c0, N) + 2 * A * B * R * c0 / N

    def pcer(w):
        w = np.array(w)
        d = mean(count(table[:, 1], "tp fp") / table[:, 1].sum(-1))
        D = mean(count(table.sum(1), "tp fp") / table.sum(1).sum(-1))
        now = np.var(ratio @ w, ddof=1) / S + w**2 @ people if S > 1 else np.nan
        noise = stated.get("positive_rate")
        return w @ ratio.mean(0), now + training(
            d, D, w * A, table.sum(-1), len(split) / S, noise
        )

    diff, one = (1, -1), ((1, 0), (0, 1))
    return {
        "parity": rate("positive_rate", diff),
        "odds": max((rate(f"{k}_positive_rate", diff) for k in ("true", "false")), key=lambda x: abs(x[0])),
        "gap_apart": (c[0] - c[1], of_gap(in_test).sum()),
        "attack_apart": (value[0] - value[1], pair),
        "compensation": pcer(diff),
        "worst_rate": max((rate("positive_rate", w) for w in one), key=lambda x: bad * x[0]),
        "worst_error": max((rate("error_rate", w) for w in one), key=lambda x: x[0]),
        "worst_exposure": max(zip(value, alone, strict=True), key=lambda x: x[0]),
        "worst_ratio": min((pcer(w) for w in one), key=lambda x: x[0]),
    }  # fmt: skip
