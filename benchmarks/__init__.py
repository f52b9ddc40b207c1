"""Measurements too long or too noisy for tests; ``README.md`` says what each backs."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
Verb = Callable[[Sequence[str]], object]


def write_results(name: str, results: Any) -> None:
    """Keep what a benchmark found as ``results/NAME.json``."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")


def mean_and_error(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Over draws or seeds."""
    return float(np.mean(values)), float(
        np.std(values, ddof=1) / math.sqrt(len(values))
    )


def run_verb(verbs: Mapping[str, Verb]) -> None:
    """Call the verb that the command line names with the words after it."""
    name, *words = sys.argv[1:] or [""]
    if name not in verbs:
        raise SystemExit(
            f"name one of {', '.join(verbs)}; benchmarks/README.md says what each is."
        )
    verbs[name](words)


def parser_of(verb: Callable[..., object]) -> argparse.ArgumentParser:
    """A parser whose help is the verb's docstring."""
    raw = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=verb.__doc__, formatter_class=raw)


def with_numbers(measure: Callable[..., object]) -> Verb:
    """A verb whose words are whole numbers."""
    return lambda words: measure(*map(int, words))
