"""How much one release may hold, counted before it is checked: no file keeps an auditor waiting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pcer.errors import InputError
from pcer.files import ALLOW, MAX_BYTES, MAX_VALUES


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much one release may hold before an auditor is asked whether it is meant to be so large.

    Attributes:
        n_bytes: of the file.
        n_values: numbers, texts, lists and objects in it.
        n_runs: trained models.
        n_settings: distinct pairs of model and epsilon.
        n_groups: groups.
        n_tables: runs times groups.
        n_rows: settings times groups.
        n_exposures: what attacks found: values of a cost of one group in one run.
        n_costs: names of costs besides the gap.
        n_notes: notes.
    """

    n_bytes: int = MAX_BYTES
    n_values: int = MAX_VALUES
    n_runs: int = 20_000
    n_settings: int = 500
    n_groups: int = 200
    n_tables: int = 12_000
    n_rows: int = 400
    n_exposures: int = 100_000
    n_costs: int = 50
    n_notes: int = 200


LIMITS: Final = Limits()


def require_within(limits: Limits, data: Mapping[str, Any], file: str) -> None:
    """Raise InputError where a file, not checked yet, holds more than anybody would audit."""
    runs, subject = _listed(data, "runs"), data.get("subject")
    n_groups, n_settings = len(_listed(subject, "groups")), len({_setting(run) for run in runs})
    sizes = {
        "runs": (len(runs), limits.n_runs),
        "settings": (n_settings, limits.n_settings),
        "groups": (n_groups, limits.n_groups),
        "tables (runs times groups)": (len(runs) * n_groups, limits.n_tables),
        "rows (settings times groups)": (n_settings * n_groups, limits.n_rows),
        "exposures (of runs and groups)": (_n_exposures(runs), limits.n_exposures),
        "costs": (_n_costs(data, runs, limits), limits.n_costs),
        "notes": (len(_listed(subject, "notes")), limits.n_notes),
    }
    for what, (found, limit) in sizes.items():
        if found > limit:
            raise InputError(
                f"{file} holds {found:,} {what}, more than the {limit:,} that are read by default; "
                f"{ALLOW}, or divide it."
            )


def _listed(record: Any, field: str) -> list[Any]:
    """A list in what may be a record."""
    found = record.get(field) if isinstance(record, dict) else None
    return found if isinstance(found, list) else []


def _n_costs(data: Mapping[str, Any], runs: list[Any], limits: Limits) -> int:
    """Names of costs in what may be a release; counted until there are too many."""
    rows = (*_listed(data, "pooled_exposure"), *_listed(data, "placebo"))
    found = {row["proxy"] for row in rows if isinstance(row, dict) and _is_text(row.get("proxy"))}
    for run in runs:
        groups = run.get("groups") if isinstance(run, dict) else None
        for group in groups.values() if isinstance(groups, dict) else ():
            exposure = group.get("exposure") if isinstance(group, dict) else None
            if isinstance(exposure, dict):
                found |= exposure.keys()
        if len(found) > limits.n_costs:
            break
    return len(found)


def _n_exposures(runs: list[Any]) -> int:
    """Entries under ``exposure`` in what may be runs."""
    return sum(
        len(exposure)
        for run in runs
        if isinstance(run, dict) and isinstance(run.get("groups"), dict)
        for group in run["groups"].values()
        if isinstance(group, dict) and isinstance(exposure := group.get("exposure"), dict)
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _setting(run: Any) -> tuple[str | None, float | None]:
    """Model and epsilon of what may be a run; all nonsense counts as one."""
    model, epsilon = (run.get("model"), run.get("epsilon")) if isinstance(run, dict) else (0, "")
    return (
        model if isinstance(model, str) else None,
        epsilon if isinstance(epsilon, int | float) else None,
    )
