"""The release file that a trainer hands to an auditor: building, reading, arrays.

``records`` and ``file`` say what is in it, ``file`` reads one, ``build`` makes one,
``panel`` gives its numbers as arrays. ``attack_kinds`` lists the attacks;
``disclosure`` and ``small_groups`` decide what a release may reveal.
"""

from __future__ import annotations

from pcer.release.build import (
    Counted,
    Entries,
    ReleaseFacts,
    RunKey,
    build_release,
    count_entries,
)
from pcer.release.disclosure import Disclosure
from pcer.release.file import (
    LIMITS,
    Release,
    parse_release,
    read_release,
    release_schema,
    write_release,
)
from pcer.release.panel import panels
from pcer.release.records import Training

__all__ = [
    "LIMITS",
    "Counted",
    "Disclosure",
    "Entries",
    "Release",
    "ReleaseFacts",
    "RunKey",
    "Training",
    "build_release",
    "count_entries",
    "panels",
    "parse_release",
    "read_release",
    "release_schema",
    "write_release",
]
