"""Releases for the report's tests: real differences, hostile names, attack results."""

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

import pcer
from pcer.release.file import Release, parse_release
from tests.worlds.releases import World, simulate

QUICK = pcer.Plan(resamples=60, null_draws=20)
ROOT = Path(__file__).parents[1]
SAMPLES = [
    *sorted(ROOT.glob("examples/*.release.json")),
    *sorted(ROOT.glob("studies/paper/*.release.json")),
    *(
        ROOT / "tests" / "releases" / f"{n}.release.json"
        for n in ("counts", "rates", "by-hand")
    ),
]
"""Every release in the repository that can be read."""

HOSTILE = [
    "<script>alert(1)</script>",
    '"onload=alert(1) x="',
    "{{7*7}}",
    "</script><img src=x onerror=alert(1)>",
    "مجموعة‮ abc",
    "🙂 \u2028 & 'quoted'",
]


class Html(HTMLParser):
    """Every element with its attributes, and the text that a reader sees; what opens closes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.open = "", list[str]()
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it."""
        self.elements.append((tag, dict(attrs)))
        self.open += [tag] if tag not in ("br", "meta") else []

    def handle_endtag(self, tag: str) -> None:
        """Close what opened last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep what is no script or style."""
        self.text += data if not {"script", "style"} & set(self.open) else ""


@cache
def audited(path: Path) -> pcer.Audit:
    """The quick audit of a release file, made once; it holds its release."""
    return pcer.audit(pcer.read_release(path), QUICK)


@cache
def mixed_audit() -> pcer.Audit:
    """The audit of six budgets and two groups, with attack results."""
    return pcer.audit(with_attacks(mixed_release()), QUICK)


@cache
def hostile_audit() -> pcer.Audit:
    """The audit of a release whose every name is somebody's attempt."""
    return pcer.audit(
        many_groups(HOSTILE, dataset=HOSTILE[3], attribute=HOSTILE[1]), QUICK
    )


def mixed_release(n_seeds: int = 6, **subject: Any) -> Release:
    """Two groups; at the small budgets nothing is memorised, at the large ones a lot."""
    rng = np.random.default_rng(1)
    shape = {"sizes": (6_000, 3_000), "right": [(0.85, 0.7)] * 2, "n_seeds": n_seeds}
    quiet = World(
        **shape, label_shares=[0.35, 0.35], gaps=(0, 0), budgets=(0.1, 0.5, 1.0)
    )
    loud = World(
        **shape, label_shares=[0.45, 0.2], gaps=(0.005, 0.06), budgets=(5.0, 10.0, None)
    )
    first, second = (simulate(world, rng).to_tree() for world in (quiet, loud))
    for run in second["runs"]:
        run["split"] += " of the second half"
    first["runs"] += second["runs"]
    first["subject"] |= {"dataset": "Loans", "attribute": "sex"} | subject
    return renamed(first, ["men", "women"])


def many_groups(names: list[str], n_seeds: int = 2, **subject: Any) -> Release:
    """As many groups as names, one budget without privacy."""
    k = len(names)
    rates = {"label_shares": [0.3] * k, "right": [(0.8, 0.7)] * k}
    gaps = [0.02 * g for g in range(k)]
    world = World(
        sizes=[2_000] * k, **rates, gaps=gaps, n_seeds=n_seeds, budgets=(1.0, None)
    )
    tree = simulate(world, np.random.default_rng(2)).to_tree()
    tree["subject"] |= subject
    return renamed(tree, names)


def renamed(tree: dict[str, Any], names: list[str]) -> Release:
    """Give the groups of a simulated release their names."""
    tree["subject"]["groups"] = names
    for run in tree["runs"]:
        run["groups"] = {name: run["groups"][f"g{g}"] for g, name in enumerate(names)}
    return parse_release(tree, file="simulated")


def with_attacks(release: Release) -> Release:
    """Add an attack per run and a pooled one, both finding the second group more exposed."""
    tree = release.to_tree()
    for run in tree["runs"]:
        for g, cell in enumerate(run["groups"].values()):
            found = {"value": 0.01 + 0.1 * g, "standard_error": 0.01}
            cell["exposure"] = {"attack_advantage": found}
    row = {"epsilon": None, "attack": "lira_advantage", "standard_error": 0.1}
    values = zip(tree["subject"]["groups"], (0.1, 0.12), strict=True)
    tree["pooled_exposure"] = [
        row | {"group": name, "value": value} for name, value in values
    ]
    return parse_release(tree, file="simulated")


def with_models(release: Release, names: list[str]) -> Release:
    """The same runs and attack results under the name of each model."""
    tree = release.to_tree()
    for rows in ("runs", "pooled_exposure"):
        tree[rows] = [
            {**row, "model": name} for name in names for row in tree.get(rows, [])
        ]
    return parse_release(tree, file="simulated")
