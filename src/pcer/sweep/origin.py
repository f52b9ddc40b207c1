"""Which versions trained the models of a sweep, told where it was not this one alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

Versions = Mapping[str, str]
"""By package."""

UNKNOWN = "versions that were not noted"


def version_note(trained: Iterable[Versions | None], now: Versions) -> str | None:
    """One sentence for the reader of a release; None if this version trained every model.

    Args:
        trained: for each model the versions that trained it, or are about to; None where a folder
            does not say.
        now: the versions that go on, and that write the release.

    >>> old, new = {"pcer": "0.1.0", "torch": "2.12.0"}, {"pcer": "0.1.0", "torch": "2.13.0"}
    >>> version_note([old, new, new], new)
    'Not all models are trained by the versions that write this release: 1 by torch 2.12.0, 2 by \
torch 2.13.0; trained by one version, some numbers could differ slightly.'
    >>> version_note([new, new], new)
    """
    counts = Counter(None if one is None else tuple(sorted(one.items())) for one in trained)
    if set(counts) <= {tuple(sorted(now.items()))}:
        return None
    shown = _differing([now, *(dict(one) for one in counts if one is not None)])
    rows = sorted(counts.items(), key=lambda row: (row[0] is not None, row[0] or ()))
    parts = [f"{n} by {UNKNOWN if one is None else _words(dict(one), shown)}" for one, n in rows]
    return (
        "Not all models are trained by the versions that write this release: "
        f"{', '.join(parts)}; trained by one version, some numbers could differ slightly."
    )


def _differing(versions: list[Versions]) -> list[str]:
    """The packages that are not the same everywhere; all of them if none can be told apart."""
    names = sorted({name for one in versions for name in one})
    return [name for name in names if len({one.get(name) for one in versions}) > 1] or names


def _words(versions: Versions, shown: list[str]) -> str:
    return " and ".join(f"{name} {versions.get(name, '(not noted)')}" for name in shown)
