"""Where do results go, and with which exit code?"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer

from pcer.cli.options import require_packages
from pcer.cli.process import require_stdout
from pcer.cli.progress import say, show, working
from pcer.errors import OutputError
from pcer.files import make_folder, write_files
from pcer.report.table import Lines, Table

# Exit codes: passed; audited and --fail-on met, or verify differs; input cannot be
# used.
PASSED, MET, UNUSABLE = range(3)
STDOUT, FIGURES = "-", "figures"


class Outputs:
    """Where results go, by option: files that are written together, and at most one on stdout.

    Refuses to write two results to one place, over an input, or to a closed stdout.
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
            if path == STDOUT and name == FIGURES:
                raise OutputError(
                    "--figures needs a folder; stdout can hold one file only."
                )
            if (ending := Path(path).suffix.lower()) in (".docx", ".pdf"):
                raise OutputError(
                    f"--{name} writes no {ending}; convert a *.md or an *.html file."
                )
            place = Path(path) if path == STDOUT else Path(path).resolve()
            if place in taken:
                raise OutputError(f"--{name} {path} {taken[place]}.")
            taken[place] = "is given twice; choose two places"

    def write(self, render: Mapping[str, Callable[[], Any]]) -> None:
        """Render what is asked for, then write all or nothing; figures are contents by name."""
        folder = self.paths.get(FIGURES)
        with folder_for(folder):
            with working("Rendering"):
                made = {name: render[name]() for name in self.paths}
            pictures = made.pop(FIGURES, {})
            files = {self.paths[name]: content for name, content in made.items()}
            give(
                files
                | {
                    str(Path(folder or "", name)): data
                    for name, data in pictures.items()
                }
            )

    def give(self, view: Iterable[Lines | Table], **render: Callable[[], Any]) -> None:
        """Write, and where nothing goes to stdout show what was found, and where the files are."""
        self.write(render)
        if not self.uses_stdout:
            show(view)
            self.print_places()

    def print_places(self) -> None:
        """Print where the report and the figures are."""
        for name, what in (
            ("html", "Report"),
            ("opinion", "Opinion"),
            (FIGURES, "Figures"),
        ):
            if name in self.paths:
                say(f"{what}: {self.paths[name]}")


def drawing(name: str, *of: Any) -> dict[str, bytes]:
    """Call a function of ``pcer.report.pictures.charts``, which is slow to import."""
    charts = importlib.import_module("pcer.report.pictures.charts")
    return dict(getattr(charts, name)(*of))


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
