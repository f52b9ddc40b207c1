"""JSON files, read strictly and written atomically: the base of all file formats.

Reading refuses NaN, duplicate keys, truncated files, other encodings and deep nesting,
and names the file. Writing gives the same bytes for the same content and never leaves a
partial file.
"""

from __future__ import annotations

import gc
import json
import operator
import os
import shlex
import shutil
import stat
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pcer.errors import InputError, clipped, refused_as, shown

MAX_BYTES = 64_000_000
# Numbers, texts, lists and objects of one file: each takes far more memory than its
# text.
MAX_VALUES = 2_000_000
ALLOW = "allow it by name if it is meant to be so large"
# With more mistakes than this a file is not ours, and finding the first would need all
# of them.
MOST_MISTAKES = 10_000
LONGEST_QUOTE = 60
TABLES = (".csv", ".parquet", ".tsv")  # endings of files of records, which are not ours
MOST_BITS = 10_000  # Python writes no integer of more than some thousand digits
MOST_LEVELS = 100  # nesting: our files have about ten, and recursion is limited
WRITABLE = "choose a path in a folder that exists and that you may write to"
# Clearer words for pydantic's messages.
PROBLEMS = {
    "extra_forbidden": "is not a field of this format; remove it or check its spelling",
    "string_pattern_mismatch": "should be one line of text that can be seen",
    "model_type": "should be an object",
}
CACHE_VARIABLE = "PCER_CACHE"  # environment variable that names another cache folder


if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)


class _Checked(ModelMetaclass):
    """Makes a record that code writes out, ``pcer.Policy(...)``, refuse as a file is refused."""

    def __call__(cls, *args: Any, **fields: Any) -> Any:
        try:
            return super().__call__(*args, **fields)
        except ValidationError as error:
            mistake = error.errors(include_url=False)[0]
            raise _first_mistake(mistake, fields, f"pcer.{cls.__name__}", {}) from None


class Record(BaseModel, metaclass=_Checked):
    """Base of every record in our files: frozen, strict, no unknown fields, no NaN."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True
    )


RecordT = TypeVar("RecordT", bound=Record)
AnyTree = TypeVar("AnyTree")


def as_shown(value: AnyTree) -> AnyTree:
    """Records, lists and mappings with every text safe to display; unchanged parts are kept."""
    tree: Any = value
    if type(tree) in (int, float, bool, NoneType):  # the check for a record is slow
        return value
    made: Any = tree
    if type(tree) is str:
        made = shown(tree)
    elif isinstance(tree, Record):
        parts = ((name, getattr(tree, name)) for name in type(tree).model_fields)
        changed = {
            name: new for name, part in parts if (new := as_shown(part)) is not part
        }
        made = tree.model_copy(update=changed) if changed else tree
    elif isinstance(tree, dict):
        made = {as_shown(key): as_shown(part) for key, part in tree.items()}
        made = (
            tree if all(tree.get(key) is part for key, part in made.items()) else made
        )
    elif type(tree) in (list, tuple):
        made = type(tree)(map(as_shown, tree))
        made = tree if all(map(operator.is_, made, tree)) else made
    found: AnyTree = made
    return found


@contextmanager
def many_objects() -> Iterator[None]:
    """Pause garbage collection while millions of objects are made and none is dropped."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def read_regular(
    path: str | os.PathLike[str], *, max_bytes: int | None = MAX_BYTES
) -> bytes:
    """Read one regular file; pipes and devices, which may never end, are refused."""
    file = os.fspath(path)
    try:
        # without waiting for somebody to write into a pipe
        at_once = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
        with open(
            path, "rb", opener=lambda name, flags: os.open(name, flags | at_once)
        ) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError(
                    f"{file} is a pipe or a device, and only regular files are read; save its "
                    "content to a file and name that."
                )
            data = stream.read(-1 if max_bytes is None else max_bytes + 1)
    except OSError as error:
        raise InputError(
            f"{file} cannot be read ({error.strerror}); check the path."
        ) from None
    size = max(status.st_size, len(data))  # files of /proc report 0
    if max_bytes is not None and size > max_bytes:
        raise InputError(
            f"{file} has {size:,} bytes, more than the {max_bytes:,} that are read by default; "
            f"{ALLOW}."
        )
    return data


def read_text(
    path: str | os.PathLike[str], *, max_bytes: int | None = MAX_BYTES
) -> str:
    """Read one UTF-8 file, or raise InputError with one sentence."""
    data = read_regular(path, max_bytes=max_bytes)
    file = os.fspath(path)
    if Path(file).suffix.lower() in TABLES:
        raise InputError(
            f"{file} is a table; pcer release {shlex.quote(file)} makes a release of predictions."
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{file} is not UTF-8 text; save it again as UTF-8.") from None


def read_json(
    path: str | os.PathLike[str], *, max_bytes: int | None = MAX_BYTES
) -> Any:
    """Parse one JSON file into plain objects; None reads any size."""
    return parse_json(read_text(path, max_bytes=max_bytes), file=os.fspath(path))


def parse_json(text: str, *, file: str, max_values: int | None = MAX_VALUES) -> Any:
    """Parse JSON text strictly; ``file`` is the name that errors mention."""
    # A value begins the text or follows one of these; those inside strings are counted
    # too.
    n_values = 1 + sum(text.count(mark) for mark in ",[{")
    if max_values is not None and n_values > max_values:
        raise InputError(
            f"{file} holds up to {n_values:,} values, more than the {max_values:,} that are read "
            f"by default; {ALLOW}."
        )
    try:
        tree = json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys
        )
        level: list[Any] = [[tree]]
        for _ in range(MOST_LEVELS + 1):
            values = (node.values() if type(node) is dict else node for node in level)
            level = [
                value
                for inner in values
                for value in inner
                if type(value) in (dict, list)
            ]
        if level:
            raise RecursionError
        return tree
    except json.JSONDecodeError as error:
        raise InputError(
            f"{file} is not complete JSON: {error.msg} at line {error.lineno}, column "
            f"{error.colno}; write the file again with the tool that made it."
        ) from None
    except RecursionError:
        raise InputError(
            f"{file} is nested too deeply to be one of our files."
        ) from None
    except ValueError as error:
        reason = str(error)
        if "integer string" in reason:
            reason = "it holds an integer of thousands of digits; write fewer"
        raise InputError(f"{file} cannot be used: {reason}.") from None


def read_toml(path: str | os.PathLike[str], *, see: str) -> dict[str, Any]:
    """Parse one TOML file into plain objects; errors refer to the page ``see``."""
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as error:  # numbers too long, and nesting too deep
        is_said = isinstance(error, tomllib.TOMLDecodeError)
        reason = (
            error if is_said else "it holds more digits or brackets than can be read"
        )
        raise InputError(
            f"{os.fspath(path)} is not TOML: {reason}; see {see}."
        ) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(
        f"it holds {name}, which is not a number; write null for what is unknown"
    )


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        twice = next(
            key for key, n in Counter(key for key, _ in pairs).items() if n > 1
        )
        raise ValueError(
            f"the field {_quoted(twice)} appears twice in one object; keep one"
        )
    return record


def require_format(
    data: Any, *, file: str, name: str, version: int, if_older: str | None = None
) -> None:
    """Check a file's format and version; older ones are refused where ``if_older`` says so."""
    given = data.get("format") if isinstance(data, dict) else type(data).__name__
    if not isinstance(data, dict) or given != name:
        sentence = (
            f'must be an object with "format": "{name}", but has {_quoted(given)}.'
        )
        raise InputError(f"{file} {sentence}", field="format")
    given = data.get("version")
    fault = ""
    has = f" has version {_quoted(given)} of {name}, and this pcer"
    if type(given) is not int or given < 1:
        fault = f': "version" must be a whole number from 1, but is {_quoted(given)}'
    elif given > version:
        fault = f"{has} reads up to version {version}; upgrade pcer"
    elif given < version and if_older is not None:
        fault = f"{has} checks version {version}; {if_older}"
    if fault:
        raise InputError(f"{file}{fault}.", field="version")


def parse_record(
    record: type[RecordT],
    data: Any,
    *,
    file: str,
    hints: Mapping[str, str] | None = None,
) -> RecordT:
    """Check plain objects against a record, or raise InputError with one sentence.

    The sentence is about the first mistake: the file, the path to the field (the
    error's ``field``) and the remedy (one of ``hints`` by the field's name).
    """
    try:
        return record.model_validate(data)
    except ValidationError as error:
        if (n_mistakes := error.error_count()) > MOST_MISTAKES:
            raise InputError(
                f"{file} has {n_mistakes:,} values that do not fit this format; write the file "
                "again with the tool that made it."
            ) from None
        raise _first_mistake(
            error.errors(include_url=False)[0], data, file, hints or {}
        ) from None


def _first_mistake(
    error: Mapping[str, Any], data: Any, file: str, hints: Mapping[str, str]
) -> InputError:
    kind = error["type"]
    given = error["input"]
    problem = error["msg"].removeprefix("Input ")
    own = error.get("ctx", {}).get("error")  # raised by one of our checks
    path = _place(error["loc"], data, is_missing=kind == "missing")
    where = field_path(path)
    name = str(path[-1]) if path else ""
    problem = PROBLEMS.get(kind, problem) if own is None else str(own)
    if isinstance(given, str | int | float | None) and kind not in (
        "missing",
        "extra_forbidden",
    ):
        problem += f", but is {_quoted(given)}"
    problem = problem[0].lower() + problem[1:]
    is_hinted = name in hints and kind not in ("extra_forbidden", "model_type")
    hint = f"; {hints[name]}" if is_hinted else ""
    return InputError(
        f"{file}: {f'field {where}: ' if where else ''}{problem}{hint}.",
        field=getattr(own, "field", None) or where or None,
    )


def _place(
    where: tuple[int | str, ...], data: Any, *, is_missing: bool
) -> tuple[int | str, ...]:
    """The part of pydantic's location that a reader finds in the file.

    Where a value may have several forms pydantic adds the name of the one it tried, and
    after a bad key the word "[key]"; neither is in the data.
    """
    path = list[int | str]()
    for part in where:
        is_list = isinstance(data, list) and isinstance(part, int)
        if is_list or (isinstance(data, dict) and part in data):
            data = data[part]
            path.append(part)
    return (*path, where[-1]) if is_missing else tuple(path)


def field_path(location: Iterable[int | str]) -> str:
    """Render a location as a reader would write it: ``runs[3].groups.Other.train.tp``."""
    parts = (
        f"[{p}]" if isinstance(p, int) else f".{shown(clipped(p))}" for p in location
    )
    return "".join(parts).removeprefix(".")


def _quoted(value: object) -> str:
    """A value as Python writes it, shortened."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"a whole number of {value.bit_length():,} bits"
    return clipped(
        repr(value[:LONGEST_QUOTE] if isinstance(value, str) else value), LONGEST_QUOTE
    )


def canonical_json(tree: Any) -> str:
    """The one text form of our files: invisible characters by their number, which control none."""
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False, indent=1)
    return shown(text, keep="\n") + "\n"


def write_files(
    contents: Mapping[str | os.PathLike[str], str | bytes], *, private: bool = False
) -> None:
    """Write every file or none, as far as the file system allows.

    All are staged beside their targets and renamed into place; if that fails, it is
    undone. Text is UTF-8 with its line ends; ``private`` files are readable by their
    owner only.

    Raises:
        OutputError: nothing was changed; or, where undoing failed, which files were
            changed and where their old content is.
    """
    staged: dict[Path, Path] = {}  # by target, the new content
    kept: dict[Path, Path] = {}  # by target, the old content
    stuck: dict[Path, Path | None] = {}
    target = Path()
    made = list[Path]()
    try:
        for path, content in contents.items():
            target = Path(path)
            if target.is_dir():
                raise IsADirectoryError("it is a folder")
            new = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
            made.append(new)  # first, or a signal could leave it behind
            with open(
                new, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)
            ) as stream:
                staged[target] = new
                stream.write(content.encode() if isinstance(content, str) else content)
                stream.flush()
                os.fsync(stream.fileno())
            if not private:  # as it is made, only its owner can read it
                mask = os.umask(0)
                os.umask(mask)
                os.chmod(new, 0o666 & ~mask)
        for target in [*staged][:-1]:  # the last needs no undo
            if os.path.lexists(target):
                kept[target] = staged[target].with_name(f"{staged[target].name}.old")
                shutil.copy2(target, kept[target], follow_symlinks=False)
        for target, new in staged.items():
            os.replace(new, target)
    except BaseException:
        replaced = [path for path, new in staged.items() if not new.exists()]
        for path in replaced if len(replaced) < len(staged) else ():
            try:
                os.replace(kept[path], path) if path in kept else path.unlink(
                    missing_ok=True
                )
            except OSError:
                stuck[path] = kept.pop(path, None)
        also = "".join(
            f"; {path} was replaced all the same"
            + (f", its old content is in {old}" if old else "")
            for path, old in stuck.items()
        )
        with refused_as(f"{target} cannot be written", WRITABLE + also):
            raise
    finally:
        for leftover in (*made, *kept.values()):
            with suppress(OSError):
                leftover.unlink(missing_ok=True)


def make_folder(path: str | os.PathLike[str], *, parents: bool = False) -> bool:
    """Make a folder where there is none; True if it is new."""
    folder = Path(path)
    if folder.is_dir():
        return False
    with refused_as(f"{folder} cannot be written", WRITABLE):
        folder.mkdir(parents=parents)
    return True


def cache_folder() -> Path:
    """The folder named by ``PCER_CACHE``, or the user's cache folder of this operating system."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named)
    import pooch

    return Path(pooch.os_cache("pcer"))
