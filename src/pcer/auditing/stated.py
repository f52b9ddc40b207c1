"""Numbers that no data can have: totals that change, and copied tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pcer.auditing.claims import Claims, SettingClaims
from pcer.auditing.composition import Composition
from pcer.auditing.finding import Finding
from pcer.auditing.words import setting_name
from pcer.metrics import FloatArray
from pcer.release.proxies import proxy_named

MOST_OFF = 0.5
"""Standard errors by which the quick attack on made-up groups may differ from the exact one."""
LEAST_EXACT = 5
"""Made-up groups to be attacked exactly before that can be told."""
RICH = 5
"""People in the third largest cell of a table, below which equal tables say little."""


def check_totals(claims: Claims) -> Iterator[Finding]:
    """One data set has one number of records, in all and of every group and label."""
    table = claims.runs if claims.runs is not None else claims.sizes
    if table is None or claims.sizes is None:
        return
    in_all = claims.sizes.total.sum(axis=(1, 2))
    yield from _against_the_whole(claims, in_all)
    changed = _changed(table, in_all)
    if changed is None:
        return
    group, label, one, other = changed
    what = ("", " with a negative label", " with a positive label")[label + 1]
    yield Finding(
        check="totals",
        declared="all runs are of the same records",
        found=(
            f"group {claims.group_names[group]!r} has {one:,.0f} records{what} in one run and "
            f"{other:,.0f} in another"
        ),
        remedy=(
            "release runs of other records as a release of their own, or say in subject.n_records "
            "of how many records every run uses a part"
        ),
        caps_verdict=_must_be_whole(claims, in_all),
    )


def check_copies(claims: Claims) -> Iterator[Finding]:
    """Different seeds, and different settings, that have the same tables throughout."""
    for one in claims.settings:
        if _seeds_are_copies(one):
            yield Finding(
                check="same_tables",
                declared=f"at {one.name} {len(one.seeds)} models were trained with their own seeds",
                found="those of one split have the same confusion tables to the last record",
                remedy="release a model once, and give every further one a split of its own",
                caps_verdict=False,
            )
    for first, second in _copied_settings(claims.settings):
        yield Finding(
            check="same_tables",
            declared=f"the settings {first.name} and {second.name} are said to be two",
            found=(
                f"all {len(first.seeds)} of their runs have the same confusion tables to the last "
                "record"
            ),
            remedy="release every model under its own setting, once",
            caps_verdict=False,
        )


def check_placebos(claims: Claims) -> Iterator[Finding]:
    """Made-up groups whose quick attack is far from the exact one: they cannot vouch for alarms."""
    checked = [row for row in claims.placebo if (row.n_exact or 0) >= LEAST_EXACT]
    far = [row for row in checked if (row.exact_difference or 0.0) > MOST_OFF]
    if not far:
        return
    row = max(far, key=lambda one: one.exact_difference or 0.0)
    phrase = proxy_named(row.proxy).phrase
    yield Finding(
        check="placebo_exact",
        declared=(
            f"at {setting_name(row.model, row.epsilon)} made-up groups were put through a quick "
            f"form of {phrase}"
        ),
        found=(
            f"where {row.n_exact} of them met the attack itself, their differences were "
            f"{row.exact_difference:.2g} standard errors away on average, and {MOST_OFF:g} is "
            f"allowed (so for {len(far)} of {len(checked)} such checks)"
        ),
        remedy="hold alarms about exposure by this attack against paired confidence",
        caps_verdict=False,
    )


def _against_the_whole(claims: Claims, in_all: FloatArray) -> Iterator[Finding]:
    """As many as there are said to be: the run with most has all but those without a group."""
    if claims.n_records is None:
        return
    most = float(in_all.max())
    missing = claims.n_missing_group
    too_few = missing is not None and most < claims.n_records - missing
    if most > claims.n_records or too_few:
        without = f", {missing:,} of them in no group" if missing else ""
        yield Finding(
            check="totals",
            declared=f"the release is said to be of {claims.n_records:,} records{without}",
            found=f"its tables add up to {most:,.0f}",
            remedy="correct subject.n_records and subject.n_missing_group, or the tables",
            caps_verdict=True,
        )


def _changed(table: Composition, in_all: FloatArray) -> tuple[int, int, float, float] | None:
    """Group, label (-1 for all), and two numbers of it in runs of equally many records."""
    total = table.total
    for n in np.unique(in_all):
        same = total[in_all == n]
        lowest, highest = np.nanmin(_known(same), axis=0), np.nanmax(_known(same), axis=0)
        if (lowest < highest).any():
            group, label = np.argwhere(lowest < highest)[0]
            is_label = total.shape[2] > 1
            return (
                int(group),
                int(label) if is_label else -1,
                float(lowest[group, label]),
                float(highest[group, label]),
            )
    return None


def _known(total: FloatArray) -> FloatArray:
    """The same with a run's unknown cells taken from the first that knows them."""
    known_first = np.isfinite(total).argmax(axis=0)
    first = np.take_along_axis(total, known_first[None], axis=0)
    filled = np.where(np.isfinite(total), total, first)
    return np.where(np.isfinite(filled), filled, 0.0)


def _must_be_whole(claims: Claims, in_all: FloatArray) -> bool:
    """Whether every run is said to use every record that has a group."""
    if claims.n_records is None:
        return False
    return bool((in_all == claims.n_records - (claims.n_missing_group or 0)).all())


def _seeds_are_copies(one: SettingClaims) -> bool:
    """Whether every split with several seeds has equal tables, and tables that could differ."""
    by_split: dict[object, list[int]] = {}
    for run, split in enumerate(one.splits):
        by_split.setdefault((type(split), split), []).append(run)
    several = [runs for runs in by_split.values() if len(runs) > 1]
    equal = all((one.cells[runs] == one.cells[runs[0]]).all() for runs in several)
    return bool(several) and equal and _is_rich(one.cells)


def _copied_settings(
    settings: tuple[SettingClaims, ...],
) -> Iterator[tuple[SettingClaims, SettingClaims]]:
    first: dict[bytes, SettingClaims] = {}
    for one in settings:
        if not np.isfinite(one.cells).all() or not _is_rich(one.cells) or len(one.cells) < 2:
            continue
        earlier = first.setdefault(one.cells.tobytes(), one)
        if earlier is not one and earlier.seeds == one.seeds:
            yield earlier, one


def _is_rich(cells: FloatArray) -> bool:
    """Whether tables could have been others: in every run some group has people of three cells.

    Models that say the same of everybody have at most two, and those are the labels.
    """
    tables = cells.reshape(len(cells), 2, 4, -1)
    third = np.sort(tables, axis=2)[:, :, 1]
    return bool((third.max(axis=(1, 2)) >= RICH).all())
