"""What does a bug report need to say of this machine? ``pcer doctor``.

Called by ``cli.app``. It reads what is installed, and names no folder but those where
pcer itself keeps data and secrets. To add a line: a function, and its row in ``LINES``.
"""

from __future__ import annotations

import os
import platform
import re
import textwrap
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pcer._version import __version__
from pcer.cli import outputs
from pcer.files import cache_folder
from pcer.store.secret import state_folder
from pcer.wording import plural

WIDTH = 80
LABEL = 14  # columns of a line's name
# Extras for work on pcer itself: no bug of a user's follows from them.
FOR_WORK_ON_PCER = ("dev", "docs")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"extra == ['\"](\w+)['\"]")


def doctor() -> None:
    """Print versions, devices, and where data and secrets lie, for a bug report."""
    for line in report_lines():
        outputs.say(line)


def report_lines() -> Iterator[str]:
    """One screen of at most 80 columns."""
    lines = [*_packages()]
    for label, text_of in LINES.items():
        lines.append((label, text_of()))
    for label, text in lines:
        yield from textwrap.wrap(
            text,
            WIDTH,
            initial_indent=label.ljust(LABEL),
            subsequent_indent=" " * LABEL,
            break_on_hyphens=False,
            break_long_words=False,
        )


def _packages() -> Iterator[tuple[str, str]]:
    """This version, and what each extra brings here or lacks, beyond smaller ones."""
    system = f"{platform.system()} {platform.machine()}"
    yield "pcer", f"{__version__}, Python {platform.python_version()}, {system}"
    by_extra: dict[str, list[str]] = {"auditor": []}
    for requirement in requires("pcer") or []:
        found = _EXTRA.search(requirement)
        extra = "auditor" if found is None else found.group(1)
        name = _NAME.match(requirement)
        if name is not None and name.group() != "pcer":
            by_extra.setdefault(extra, []).append(name.group())
    shown: set[str] = set()
    for extra in sorted(by_extra, key=lambda extra: len(by_extra[extra])):
        if extra not in FOR_WORK_ON_PCER:
            names = [name for name in by_extra[extra] if name not in shown]
            yield extra, _versions(names)
            shown |= {*names}


def _versions(names: list[str]) -> str:
    """Which versions are there, and what is missing."""
    there = []
    missing = []
    for name in names:
        try:
            there.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if not missing:
        return ", ".join(there)
    lacks = f"lacks {', '.join(missing)}"
    return f"{', '.join(there)}; {lacks}" if there else lacks


def _processor() -> str:
    return plural(os.cpu_count() or 1, "core")


def _accelerator() -> str:
    if find_spec("torch") is None:
        return "torch is not installed"
    try:
        import torch

        names = [
            torch.cuda.get_device_name(place)
            for place in range(torch.cuda.device_count())
        ]
    except Exception as error:  # drivers fail in many ways, in words of their own
        return f"torch does not load ({type(error).__name__})"
    return ", ".join(names) or "none that torch can use"


def _data() -> str:
    if find_spec("pooch") is None and "PCER_CACHE" not in os.environ:
        return "no folder: datasets come with the extra train"
    text = _own(cache_folder())
    if os.environ.get("PCER_DATA"):
        text += "; PCER_DATA names another folder, which is looked through first"
    return text


def _secrets() -> str:
    folder = state_folder()
    n = sum(1 for _ in folder.glob("*.secret"))
    return f"{_own(folder)} ({n} kept)"


def _own(folder: Path) -> str:
    """A folder of pcer's, without the name of its owner."""
    home = Path.home()
    if folder.is_relative_to(home):
        return f"~/{folder.relative_to(home).as_posix()}"
    return str(folder)


LINES: Final[dict[str, Callable[[], str]]] = {
    "processor": _processor,
    "accelerator": _accelerator,
    "data": _data,
    "secrets": _secrets,
}
