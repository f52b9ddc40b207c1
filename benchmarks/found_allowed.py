"""What an attacker finds in each group beside what the training allows, for every private setting.

Trains COMPAS and Adult at the paper's budgets with receipts, attacks the models by LiRA, and audits
the releases three times: by what people spent (receipts), by LiRA and by the gap. Two tables:

* for every setting and group, what LiRA finds, its lower 95 % limit, and what is allowed. The limit
  must stay below what is allowed;
* for every setting, by which cost the groups differ beyond error: the z of their difference, and a
  star where it is shown at the 5 % level, Holm over the settings of the release.

    .venv/bin/python -m benchmarks.found_allowed
    .venv/bin/python -m benchmarks.found_allowed --datasets compas --seeds 20 --folder out

A folder keeps the releases: what is there is not trained again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import pcer
from pcer.auditing import Audit, BudgetResult
from pcer.data import load
from pcer.sweep import Sweep, run_sweep
from pcer.train import EngineFlags, TrainConfig

ATTRIBUTES = {"compas": ("race",), "adult": ("sex", "race")}
BUDGETS = (0.1, 0.5, 1.0, 5.0, 10.0)
COSTS = {"receipts": "spent_epsilon", "LiRA": "lira_advantage", "gap": "overfitting_gap"}
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
    return {name: pcer.audit(release, pcer.Plan(cost=cost)) for name, cost in COSTS.items()}


def groups_of(setting: BudgetResult, where: str) -> list[Row]:
    """Found and allowed of every group, from the audit by LiRA."""
    rows = []
    for name, group in setting.groups.items():
        cost, allowed = group.cost, group.allowed
        if cost.value is None or cost.standard_error is None or allowed is None:
            continue  # too few people
        assert allowed.advantage is not None
        limit = cost.value - ONE_SIDED * cost.standard_error
        rows.append(
            {
                "setting": where,
                "epsilon": setting.epsilon,
                "group": name,
                "found": cost.value,
                "standard_error": cost.standard_error,
                "lower_limit": limit,
                "allowed": allowed.advantage,
                "spent": allowed.spent,
                "spent_error": allowed.standard_error,
                "holds": limit <= allowed.advantage,
            }
        )
    return rows


def differences(found: dict[str, Audit], where: str) -> list[Row]:
    """Of the first pair of groups, at every setting and by every cost."""
    rows: list[Row] = []
    for settings in zip(*(audit.budgets for audit in found.values()), strict=True):
        row: Row = {"setting": where, "epsilon": settings[0].epsilon}
        for name, setting in zip(found, settings, strict=True):
            exposure = setting.pairs[0].exposure
            assert exposure.value is not None
            assert exposure.standard_error is not None
            row[name] = {
                "z": exposure.value / exposure.standard_error,
                "p": exposure.p_value,
                "differ": bool(exposure.p_value is not None and exposure.p_value <= LEVEL),
            }
        rows.append(row)
    return rows


def show(groups: list[Row], pairs: list[Row]) -> None:
    print("found by LiRA, its lower 95 % limit, and allowed (AUC - 1/2); spent: the mean receipt")
    for row in groups:
        print(
            f"  {row['setting']:12} {row['epsilon']:>5g} {row['group']:18} {row['found']:7.4f} "
            f"± {row['standard_error']:.4f}  {row['lower_limit']:8.4f}  {row['allowed']:7.4f}  "
            f"{row['spent']:8.4f} ± {row['spent_error']:.4f}  "
            f"{'below' if row['holds'] else 'ABOVE'}"
        )
    print("difference of the groups in errors; *: shown, Holm over the settings of a release")
    for row in pairs:
        parts = [f"{name} {row[name]['z']:+6.1f}{'* '[not row[name]['differ']]}" for name in COSTS]
        print(f"  {row['setting']:12} {row['epsilon']:>5g}  {'  '.join(parts)}")
    for name in COSTS:
        n = sum(row[name]["differ"] for row in pairs)
        print(f"  {name}: the groups differ in {n} of {len(pairs)} settings")
    print(f"  found below allowed: {sum(r['holds'] for r in groups)} of {len(groups)}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=list(ATTRIBUTES), choices=list(ATTRIBUTES))
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--receipts", default="held", choices=("held", "exact", "refreshed"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--folder", type=Path, default=None, help="keeps the releases")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/found_allowed.json"))
    return parser.parse_args()


def main() -> None:
    options = arguments()
    groups, pairs = [], []
    with tempfile.TemporaryDirectory() as spare:
        for name in options.datasets:
            for attribute, path in releases(name, options, options.folder or Path(spare)).items():
                found, where = audits(path), f"{name} {attribute}"
                for setting in found["LiRA"].budgets:
                    groups += groups_of(setting, where)
                pairs += differences(found, where)
    show(groups, pairs)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"groups": groups, "pairs": pairs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
