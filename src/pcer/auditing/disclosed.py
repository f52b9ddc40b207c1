"""What a release gives away about single people, told by whoever reads it, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pcer.metrics import Counts, FloatArray, IntArray
from pcer.release.disclosure import LEAST_PEOPLE, given_away
from pcer.release.format import Release
from pcer.release.panel import panels

MOST_NAMED = 3
"""Small groups that are named in a sentence."""


def disclosed(release: Release) -> list[str]:
    """Sentences about small cells and certain memberships; none for public or coarse records."""
    if release.disclosure is not None and release.disclosure.public_data:
        return []
    return [*_small_groups(release), *_certain(release)]


def _small_groups(release: Release) -> Iterator[str]:
    """Groups with few people of one label in one part."""
    fewest: dict[str, int] = {}
    for panel in panels(release):
        if panel.train is None or panel.test is None:
            continue
        labels = [n for part in (panel.train, panel.test) for n in _by_label(part)]
        people = np.stack(labels).min(axis=(0, 1))
        for name, n in zip(panel.group_names, people.tolist(), strict=True):
            if n < LEAST_PEOPLE:
                fewest[name] = min(int(n), fewest.get(name, LEAST_PEOPLE))
    if fewest:
        named = ", ".join(list(fewest)[:MOST_NAMED])
        more = f" and {len(fewest) - MOST_NAMED} more" if len(fewest) > MOST_NAMED else ""
        yield (
            f"This file rests on few people: fewer than {LEAST_PEOPLE} of one label in training or "
            f"in test in {named}{more}; who knows a person's label and prediction can often tell "
            "whether they were in training."
        )


def _certain(release: Release) -> Iterator[str]:
    """Memberships that the tables tell, counted anew; what the file itself says is not believed."""
    told = [given_away(_five_way(*both)) for both in _tables(release)]
    memberships = sum(one.memberships for one in told)
    stated = None if release.disclosure is None else release.disclosure.memberships
    if memberships:
        most = max(one.most_in_one_model for one in told)
        yield (
            f"To someone who knows their label and prediction it tells with certainty whether "
            f"people were in training: up to {most:,} people in one model, {memberships:,} times "
            "over all models."
        )
    if stated is not None and stated < memberships:
        yield f"The file says that it tells {stated:,} such memberships, which is too few."


def _tables(release: Release) -> Iterator[tuple[Counts, Counts]]:
    for panel in panels(release):
        if panel.train is not None and panel.test is not None:
            yield panel.train, panel.test


def _by_label(counts: Counts) -> list[FloatArray]:
    """People of each label; those of tables without counts do not count as few."""
    labels = (counts.tp + counts.fn, counts.tn + counts.fp)
    return [np.where(np.isnan(n), np.inf, n) for n in labels]


def _five_way(train: Counts, test: Counts) -> IntArray:
    """(model, part, group, label, predicted) counts; 0 where a table has none."""
    cells = np.array([[part.tn, part.fp, part.fn, part.tp] for part in (train, test)])
    known = ~np.isnan(cells).any(axis=(0, 1))
    cells = np.where(known, cells, 0).astype(np.int64)  # (part, cell, model, group)
    part, cell, model, group = cells.shape
    return cells.transpose(2, 0, 3, 1).reshape(model, part, group, 2, cell // 2)
