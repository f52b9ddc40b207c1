"""Which verbs does the command line have, and how does it start, stop and end?

Called by ``pcer`` and ``python -m pcer``. To add a verb: a function, and its row in
``VERBS`` with an example.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from importlib.metadata import entry_points
from itertools import chain
from types import FrameType
from typing import Any, NoReturn, TextIO

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from pcer.cli import audit, compare, doctor, outputs, receipt, release, train
from pcer.cli.options import MOST_COMMON, optional
from pcer.cli.outputs import KEPT, QUIET, ExitCode
from pcer.errors import InputError, OutputError, PcerError, printable
from pcer.measuring.plan import Plan

STUDY = "reproduce"
NO_STUDY = (
    "pcer reproduce comes with the study, which is not installed; in a clone of pcer "
    'run: pip install ".[train]" ./studies'
)
SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)
GRACE_SECONDS = 3.0  # time for cleaning up
SIGNALLED = 128  # added to a signal's number for the exit code, as shells do
PIPE_CLOSED = [errno.EPIPE, errno.ESHUTDOWN]
if os.name == "nt":
    PIPE_CLOSED.append(errno.EINVAL)
# Substitutes for encodings that lack these characters.
PLAIN = dict.fromkeys("─−–—·", "-") | {
    "±": "+-",
    "ε": "e",
    "…": "...",
    "Δ": "D",
    "δ": "d",
}
# Patterns of system errors, by what the machine lacks.
LACKS = {
    "memory": r"allocate memory|out of memory|failed to map segment|bad.alloc",
    "processes or threads": r"can't start new thread|resource temporarily unavailable",
    "open files": r"too many open files",
    "room on the disk": r"no space left on device",
}


class VerbGroup(TyperGroup):
    """pcer's verbs, and the study's, which is a separate distribution."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the help page."""
        names = super().list_commands(ctx)
        position = names.index("demo") if "demo" in names else len(names)
        return [*names[:position], STUDY, *names[position:]]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A verb by name, which takes ``--quiet``, too; None where there is none."""
        if cmd_name == STUDY:
            verb = self._study()
        else:
            verb = super().get_command(ctx, cmd_name)
        quiet = [option for option in self.params if option.name == "quiet"]
        if verb is not None and verb.params[-1:] != quiet:
            verb.params += quiet
        return verb

    def _study(self) -> Any:
        """The study's own verb; one that refuses where the study is not installed."""
        study = typer.Typer(add_completion=False)
        points = entry_points(group="pcer.verbs", name=STUDY)
        if points:
            register = points[STUDY].load()
            register(study)
        else:
            takes_anything = {"ignore_unknown_options": True, "allow_extra_args": True}
            refusing = study.command(
                STUDY, help=escape(NO_STUDY), context_settings=takes_anything
            )
            refusing(_refuse)
        return typer.main.get_command(study)


def _refuse() -> NoReturn:
    raise InputError(NO_STUDY)


class Verb(TyperCommand):
    """A verb whose help has the common options first, with all their defaults."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Sort the options and look their defaults up, then write the help."""
        defaults = _defaults(str(self.name))
        options: list[Any] = [
            parameter
            for parameter in self.params
            if parameter.param_type_name == "option"
        ]
        for option in options:
            option.default = defaults.get(option.name, option.default)
        for option in options[:MOST_COMMON]:
            option.rich_help_panel = None
        for option in options[MOST_COMMON:]:
            option.rich_help_panel = option.rich_help_panel or "More options"
        super().format_help(ctx, formatter)


def _defaults(verb: str) -> dict[str, Any]:
    """Defaults of the settings that a verb's options fill, by their names."""
    kinds: list[Any] = []
    if verb == "audit":
        return {name: field.default for name, field in Plan.model_fields.items()}
    if verb == "release":
        from pcer.tables import PredictionColumns, ReleaseFacts  # slow to import

        kinds = [PredictionColumns, ReleaseFacts]
    if verb == "train":
        from pcer.train import EngineFlags, TrainConfig  # slow to import

        kinds = [TrainConfig, EngineFlags]
    defaults = {}
    for field in chain.from_iterable(map(fields, kinds)):
        if field.default is not MISSING:
            defaults[field.name] = field.default
    return defaults


FOREST = "examples/compas-forest.release.json"
LOGISTIC = "examples/compas-logistic.release.json"
# Every verb in the order of the help page, with an example that runs in a clone of
# pcer.
VERBS: dict[Callable[..., None], str] = {
    compare.plan: (
        "plan --groups Women=1200,Men=3400 --accuracy 0.8 --splits 20 --target 0.01"
    ),
    train.train: (
        "train compas --attribute race --budgets none,1 --seeds 8 --receipts held "
        "-o out"
    ),
    release.release: (
        "release loans.csv --attribute sex --outcome benefit --split-kind random"
    ),
    audit.audit: f"audit {FOREST} --html report.html",
    compare.compare: f"compare {LOGISTIC} {FOREST}",
    compare.trend: f"trend {LOGISTIC} {FOREST} --html trend.html",
    compare.recommend: "recommend out --largest-exposure 53 --least-accuracy 60",
    audit.verify: "verify report.html",
    train.demo: "demo --seeds 10",
    release.datasets: "datasets",
    audit.schema: "schema release > release.schema.json",
    receipt.receipt: "receipt out --record 1234",
    doctor.doctor: "doctor",
    audit.version: "version",
}
# Help texts that are too long for the first line of a docstring.
HELP: dict[Callable[..., None], str] = {
    compare.compare: (
        "Is the new model worse: higher exposure, or a larger gap between groups? "
        "Exit 1 if so."
    ),
    compare.trend: (
        "Versions of one model: both answers of each. Exit 1 if the last is worse than "
        "the first."
    ),
    compare.recommend: (
        "Which setting to train: the most accurate one that holds your limits. Exit 1 "
        "if none does."
    ),
    audit.audit: (
        "Audit a release: who is easier to spot, who is worse served, and how sure."
    ),
    release.release: (
        "Make a release per protected attribute from a table of predictions of any "
        "size."
    ),
    release.datasets: (
        "List the benchmark datasets: sizes, licences, cautions, and which are on this "
        "machine."
    ),
}
MORE = (
    "datasets",
    "schema",
    "receipt",
    "doctor",
    "version",
)  # verbs that are listed apart
# What an argument that the library asks for is called here.
FLAGS = {
    "positive_label": "--positive",
    "limits": "--largest-exposure 52",
    "addressee": "--for",
}
# What does the work of options that are gone, by verb and option.
IN_POLICY = "its key in a policy file, --policy FILE: docs/choosing.md"
SUCCESSORS = {
    ("plan", "exposure"): "pcer.detectable(..., exposure=...) in Python",
    ("plan", "figures"): "pcer.detectable(...).plot() in Python",
    ("recommend", "largest-difference"): IN_POLICY,
    ("recommend", "largest-disparity"): IN_POLICY,
    ("recommend", "largest-odds-gap"): IN_POLICY,
    ("recommend", "largest-outcome-gap"): IN_POLICY,
    ("recommend", "most-spent"): IN_POLICY,
    ("release", "loss"): "--membership-score with a column of minus the loss",
    ("audit", "summary"): "--quiet, which prints the one line",
    ("release", "split-id"): "a column of the name split_id",
    ("train", "learning-rate"): "learning_rate in the table [train] of --config FILE",
}
QUIETLY = {
    "default": False,
    "expose_value": False,
    "callback": lambda on: on and QUIET.set(True),
}
# What to do next, for somebody who types pcer alone.
START = """A release file?     pcer audit m.release.json --html report.html
A model or a table? pcer train --help; pcer release --help
Nothing yet?        pcer demo, or pcer plan --help
Every verb:         pcer --help"""


def made_of(verbs: Mapping[Callable[..., None], str]) -> typer.Typer:
    """The command line of verbs with their examples."""
    command_line = typer.Typer(
        name="pcer",
        cls=VerbGroup,
        help=(
            "Audit who pays for privacy: who is easier to spot, who is worse "
            "served, and whether the data can tell."
        ),
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
    )
    command_line.callback(invoke_without_command=True)(_start)
    for verb, example in verbs.items():
        panel = "More" if verb.__name__ in MORE else None
        add = command_line.command(
            help=HELP.get(verb),
            epilog=f"Example: pcer {example}",
            cls=Verb,
            rich_help_panel=panel,
        )
        add(verb)
    return command_line


def _start(
    ctx: typer.Context,
    version: bool = optional("Print the version.", "--version", default=False),
    quiet: bool = optional("No progress and no notes.", "--quiet", "-q", **QUIETLY),
) -> None:
    if version:
        audit.version()
    elif ctx.invoked_subcommand is None:
        typer.echo(START)


app = made_of(VERBS)


def main() -> None:
    """Run the command line; an error or a signal is one sentence and an exit code."""
    sys.stdout = steady(sys.stdout)
    sys.stderr = steady(sys.stderr)
    require_width()
    QUIET.set(False)
    try:
        listen()
        sys.exit(app(prog_name="pcer", standalone_mode=False))
    except Stopped as stopped:
        stopped.tell()
        sys.exit(stopped.exit_code)
    except Exception as error:
        interrupted = _stopped_behind(error)
        if interrupted is not None:
            interrupted.tell()
            sys.exit(interrupted.exit_code)
        sentence = _sentence_of(error)
        if sentence is None:
            raise
    outputs.say(f"pcer: {sentence}", err=True)
    sys.exit(ExitCode.UNUSABLE)


def _sentence_of(error: Exception) -> str | None:
    """What a user is told of an error; None of one that is a mistake of pcer's."""
    if isinstance(error, PcerError):
        flag = FLAGS.get(error.field or "")
        return str(error) if flag is None else f"{error} Here that is {flag}."
    if hasattr(error, "format_message"):  # of the parser
        return _parser_sentence(error)
    lack = what_lacks(error)
    if lack is None:
        return None
    remedy = "free some, raise the limit (ulimit), or ask for less at once"
    return f"this machine gives no more {lack}; {remedy}."


def _parser_sentence(error: Any) -> str:
    """The parser's message, and an example of the verb or where its help is."""
    message = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    path = app.info.name if context is None else context.command_path
    option = str(getattr(error, "option_name", "")).removeprefix("--")
    successor = SUCCESSORS.get((str(path).removeprefix("pcer "), option))
    if successor is not None:
        return f"{path} --{option} is gone; use {successor}."
    hint = f"Help: {path} -h"
    if context is not None and message.startswith("Missing"):
        hint = context.command.epilog or hint
    return f"{message.replace('Value error, ', '').rstrip('.')} ({hint})."


# The process: its streams, its limits, and the signals that stop it: they become an
# exception in the main thread, so that workers end, locks are released and staged files
# removed; if that takes long, the process ends without it.


class Stopped(BaseException):
    """A signal asked us to stop; carries what is kept. Only ``main`` catches it."""

    def __init__(self, signal_number: int, kept: str = "") -> None:
        super().__init__(signal_number, kept)
        self.exit_code = SIGNALLED + signal_number
        self.kept = kept
        self._is_shown = False

    def tell(self) -> None:
        """Say on stderr, once, that we were stopped and what is kept."""
        if not self._is_shown:
            self._is_shown = True
            sentence = "pcer: stopped"
            if self.kept:
                sentence += f"; {self.kept}; run the same command again to resume"
            print(printable(f"{sentence}."), file=sys.stderr, flush=True)


def _stopped_behind(error: BaseException | None) -> Stopped | None:
    """The signal behind an error of a library that it interrupted, as DuckDB's is."""
    while error is not None and not isinstance(error, Stopped):
        error = error.__cause__ or error.__context__
    return error


def listen() -> None:
    """Handle the signals from now on, but for those ignored at the start (nohup)."""
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    # It often comes twice: to us and to our group.
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    stopped = Stopped(number, KEPT[-1]() if KEPT else "")
    backstop = threading.Timer(GRACE_SECONDS, _leave, [stopped])
    backstop.daemon = True
    backstop.start()
    raise stopped


def _leave(stopped: Stopped) -> None:
    """End at once, wherever the main thread is."""
    stopped.tell()
    os._exit(stopped.exit_code)


class _Pipe(io.FileIO):
    """A file or a pipe that drops everything after a failed write."""

    is_gone = False

    def write(self, data: Any) -> int:
        """Write, or drop what cannot be received."""
        if not self.is_gone:
            try:
                return super().write(data)
            except OSError as error:
                self.is_gone = True
                if error.errno not in PIPE_CLOSED:
                    raise OutputError(
                        f"standard output cannot be written ({error.strerror}); name "
                        "a file on a disk with room."
                    ) from None
        return memoryview(data).nbytes


def steady(stream: TextIO | None) -> TextIO:
    """Wrap stdout or stderr so that writing cannot fail; a closed one drops all."""
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    if not isinstance(stream, io.TextIOWrapper) or stream not in (
        sys.__stdout__,
        sys.__stderr__,
    ):
        return stream
    codecs.register_error("plainly", _plainly)
    if stream.isatty():
        stream.reconfigure(errors="plainly")
        return stream
    buffer = io.BufferedWriter(_Pipe(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(
        buffer, stream.encoding, "plainly", line_buffering=stream.line_buffering
    )


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """Substitutes for characters that an encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(PLAIN.get(character, "?") for character in lacking), error.end


def require_width() -> None:
    """Ignore an impossible width, which would leave pages empty."""
    width = os.environ.get("COLUMNS", "80")
    if not (width.isdecimal() and 20 <= int(width) < 100_000):
        del os.environ["COLUMNS"]


def what_lacks(error: BaseException) -> str | None:
    """What the machine ran out of, if that is what an error says; else None.

    Every library says it in other words.

    >>> what_lacks(OSError(24, "Too many open files"))
    'open files'
    """
    if isinstance(error, MemoryError):
        return "memory"
    text = f"{type(error).__name__} {error} {error.__cause__}".lower()
    for what, words in LACKS.items():
        if re.search(words, text):
            return what
    return None
