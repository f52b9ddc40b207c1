"""Answers of the accountants, kept between runs: a calibration takes seconds, reading one does not.

One small file per question in the cache folder. A file counts only if it is whole, of our format,
for exactly this question, and unaltered; any other is passed over and written anew. A folder that
cannot be written to only costs time.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcer.errors import InputError, OutputError
from pcer.files import cache_folder, canonical_json, read_json, write_files

FORMAT, VERSION = "pcer-calibration", 1
MAX_BYTES = 10_000
FOLDER = "calibrations"

CalibrationKey = Mapping[str, Any]
"""All that an answer depends on, as plain JSON values."""


@dataclass(frozen=True)
class Calibration:
    """A noise multiplier and the epsilon that it spends, by accountant."""

    noise_multiplier: float
    epsilon_by_accountant: Mapping[str, float]


def kept_answer(question: CalibrationKey) -> Calibration | None:
    """The answer on disk; None unless it is whole and of exactly this question."""
    try:
        found = read_json(_path(question), max_bytes=MAX_BYTES)
        answer = Calibration(found["answer"]["noise_multiplier"], found["answer"]["epsilon"])
    except (InputError, KeyError, TypeError):
        return None
    if not _is_sound(answer) or found != _record(question, answer):
        return None
    return answer


def keep_answer(question: CalibrationKey, answer: Calibration) -> None:
    """Write the answer whole, or not at all where that is not possible."""
    path = _path(question)
    with suppress(OSError, OutputError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_files({path: canonical_json(_record(question, answer))})


def _record(question: CalibrationKey, answer: Calibration) -> dict[str, Any]:
    content = {
        "question": dict(question),
        "answer": {
            "noise_multiplier": answer.noise_multiplier,
            "epsilon": dict(answer.epsilon_by_accountant),
        },
    }
    return {"format": FORMAT, "version": VERSION, **content, "digest": _digest(content)}


def _is_sound(answer: Calibration) -> bool:
    spent = answer.epsilon_by_accountant
    if not isinstance(spent, dict) or not spent:
        return False
    numbers = [answer.noise_multiplier, *spent.values()]
    return all(isinstance(x, float) and math.isfinite(x) and x > 0 for x in numbers)


def _path(question: CalibrationKey) -> Path:
    return cache_folder() / FOLDER / f"{_digest(question)[:32]}.json"


def _digest(tree: Any) -> str:
    return hashlib.sha256(canonical_json(tree).encode()).hexdigest()
