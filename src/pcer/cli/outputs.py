"""Where do results go, and with which exit code?

Used by every verb that writes a result: files are written together or not at all, and
at most one result goes to standard output.

To add an output: an option of the verb that names a place, and what renders it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from typing import Any

import typer

from pcer.cli.options import require_packages
from pcer.cli.process import require_stdout
from pcer.cli.progress import say, show, working
from pcer.errors import OutputError
from pcer.files import make_folder, write_files
from pcer.report.table import Lines, Table

STDOUT = "-"
FIGURES = "figures"  # the option that names a folder, for several pictures
# What is printed of the places that are written, by option.
PLACES = {"html": "Report", "opinion": "Opinion", FIGURES: "Figures"}


class ExitCode(IntEnum):
    """What a script learns from a verb that ended by itself."""

    PASSED = 0
    FINDING = 1  # --fail-on or a policy is met, a model is worse, verify differs, ...
    UNUSABLE = 2  # what was given cannot be used


class Outputs:
    """Where results go, by option.

    Files are written together, and at most one result goes to stdout. Refuses to write
    two results to one place, over an input, or to a closed stdout.
    """

    def __init__(self, inputs: Iterable[Path] = (), **paths: str | None) -> None:
        self.paths = {name: path for name, path in paths.items() if path is not None}
        self.uses_stdout = STDOUT in self.paths.values()
        if self.uses_stdout:
            require_stdout()
        if FIGURES in self.paths:
            require_packages(("vl_convert",), FIGURES, by="--figures")
        taken = {
            path.resolve(): "would overwrite a release; choose another"
            for path in inputs
        }
        for name, path in self.paths.items():
            _require_kind(name, path)
            place = Path(path) if path == STDOUT else Path(path).resolve()
            if place in taken:
                raise OutputError(f"--{name} {path} {taken[place]}.")
            taken[place] = "is given twice; choose two places"

    def write(self, render: Mapping[str, Callable[[], Any]]) -> None:
        """Render what is asked for, then write all or nothing.

        Figures are several contents, by the names of their files.
        """
        folder = self.paths.get(FIGURES)
        with folder_for(folder):
            with working("Rendering"):
                rendered = {name: render[name]() for name in self.paths}
            pictures = rendered.pop(FIGURES, {})
            files = {self.paths[name]: text for name, text in rendered.items()}
            for file_name, picture in pictures.items():
                files[str(Path(folder or "", file_name))] = picture
            give(files)

    def give(self, view: Iterable[Lines | Table], **render: Callable[[], Any]) -> None:
        """Write; where nothing goes to stdout, show the result and the places, too."""
        self.write(render)
        if not self.uses_stdout:
            show(view)
            self.print_places()

    def print_places(self) -> None:
        """Print where the report and the figures are."""
        for name, what in PLACES.items():
            if name in self.paths:
                say(f"{what}: {self.paths[name]}")


def _require_kind(name: str, path: str) -> None:
    """Raise OutputError where an option cannot write to such a place."""
    if path == STDOUT and name == FIGURES:
        raise OutputError("--figures needs a folder; stdout can hold one file only.")
    ending = Path(path).suffix.lower()
    if ending in (".docx", ".pdf"):
        raise OutputError(
            f"--{name} writes no {ending}; convert a *.md or an *.html file."
        )


def give(contents: Mapping[str, str | bytes]) -> None:
    """Write all files or none, by path; stdout gets at most one, as UTF-8."""
    if STDOUT in contents:
        require_stdout()
    write_files({path: content for path, content in contents.items() if path != STDOUT})
    if content := contents.get(STDOUT):
        typer.echo(content.encode() if isinstance(content, str) else content, nl=False)


@contextmanager
def folder_for(path: str | None, *, parents: bool = False) -> Iterator[None]:
    """A folder to write into, if any; a new one is removed after a failure."""
    is_new = path is not None and make_folder(path, parents=parents)
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):
                Path(str(path)).rmdir()
        raise
