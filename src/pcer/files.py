"""JSON files, read strictly and written whole: the bottom of both file formats.

Reading refuses what other readers let pass (NaN, a key twice, a truncated file, another
encoding, bottomless nesting) and names the file. Writing gives the same bytes for the same
content and never leaves half a file.
"""

from __future__ import annotations

import gc
import json
import operator
import os
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pcer.errors import InputError, OutputError, clipped, shown

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_BYTES = 64_000_000
# Numbers, texts, lists and objects of one file: each costs far more memory than its text.
MAX_VALUES = 2_000_000
ALLOW = "allow it by name if it is meant to be so large"
# Beyond so many a file is not one of ours, and telling the first would need them all at once.
MOST_MISTAKES = 10_000
LONGEST_QUOTE = 60
MOST_BITS = 10_000  # python writes no whole number of more than some thousand digits
# What pydantic says in other words.
PROBLEMS = {
    "extra_forbidden": "is not a field of this format; remove it or check its spelling",
    "string_pattern_mismatch": "should be one line of text that can be seen",
    "model_type": "should be an object",
}
CACHE_VARIABLE = "PCER_CACHE"  # environment variable that names another cache folder


class Record(BaseModel):
    """Base of every record in our files: frozen, strict, no unknown fields, no NaN."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True
    )


RecordT = TypeVar("RecordT", bound=Record)
AnyTree = TypeVar("AnyTree")


def as_shown(value: AnyTree) -> AnyTree:
    """Records, lists and mappings with every text in them as it can be shown.

    What needs no change is the same object, so that nothing is copied in vain.
    """
    tree: Any = value
    if type(tree) in (int, float, bool, NoneType):  # asking whether it is a record takes long
        return value
    made: Any = tree
    if type(tree) is str:
        made = shown(tree)
    elif isinstance(tree, Record):
        parts = ((name, getattr(tree, name)) for name in type(tree).model_fields)
        changed = {name: new for name, part in parts if (new := as_shown(part)) is not part}
        made = tree.model_copy(update=changed) if changed else tree
    elif isinstance(tree, dict):
        made = {as_shown(key): as_shown(part) for key, part in tree.items()}
        made = tree if all(tree.get(key) is part for key, part in made.items()) else made
    elif type(tree) in (list, tuple):
        made = type(tree)(map(as_shown, tree))
        made = tree if all(map(operator.is_, made, tree)) else made
    found: AnyTree = made
    return found


@contextmanager
def many_objects() -> Iterator[None]:
    """While millions of objects are made and none is dropped: no search for those to collect."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def read_regular(path: str | os.PathLike[str], *, max_bytes: int | None = MAX_BYTES) -> bytes:
    """Read one file of known size: no pipe, which may never end, nor a device, which never does."""
    file = os.fspath(path)
    try:
        with open(path, "rb", opener=_open_at_once) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError(
                    f"{file} is a pipe or a device, and only regular files are read; save what it "
                    "gives to a file, and name that."
                )
            data = stream.read(-1 if max_bytes is None else max_bytes + 1)
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}); check the path.") from None
    size = max(status.st_size, len(data))  # files of /proc say 0 and give more
    if max_bytes is not None and size > max_bytes:
        raise InputError(
            f"{file} has {size:,} bytes, more than the {max_bytes:,} that are read by default; "
            f"{ALLOW}."
        )
    return data


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting for somebody to write into a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


def read_text(path: str | os.PathLike[str], *, max_bytes: int | None = MAX_BYTES) -> str:
    """Read one UTF-8 file, or raise InputError with one sentence."""
    try:
        return read_regular(path, max_bytes=max_bytes).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{os.fspath(path)} is not UTF-8 text; save it again as UTF-8.") from None


def read_json(
    path: str | os.PathLike[str],
    *,
    max_bytes: int | None = MAX_BYTES,
    max_values: int | None = MAX_VALUES,
) -> Any:
    """Parse one JSON file into plain objects; None reads any size and any number of values."""
    text = read_text(path, max_bytes=max_bytes)
    return parse_json(text, file=os.fspath(path), max_values=max_values)


def parse_json(text: str, *, file: str, max_values: int | None = MAX_VALUES) -> Any:
    """Parse JSON text strictly; ``file`` is the name that errors mention."""
    # A value begins the text or follows one of these; those in strings are counted in vain.
    n_values = 1 + sum(text.count(mark) for mark in ",[{")
    if max_values is not None and n_values > max_values:
        raise InputError(
            f"{file} holds up to {n_values:,} values, more than the {max_values:,} that are read "
            f"by default; {ALLOW}."
        )
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{file} is not complete JSON: {error.msg} at line {error.lineno}, column "
            f"{error.colno}; write the file again with the tool that made it."
        ) from None
    except RecursionError:
        raise InputError(f"{file} is nested too deeply to be one of our files.") from None
    except ValueError as error:
        reason = str(error)
        if "integer string" in reason:
            reason = "it holds a whole number of thousands of digits; write fewer"
        raise InputError(f"{file} cannot be used: {reason}.") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}, which is not a number; write null for what is unknown")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        twice = first_repeated(key for key, _ in pairs)
        raise ValueError(f"the field {_quoted(twice)} appears twice in one object; keep one")
    return record


def first_repeated(keys: Iterable[str]) -> str | None:
    """The first text that stands more than once; None where all differ."""
    return next((key for key, n in Counter(keys).items() if n > 1), None)


def require_format(data: Any, *, file: str, name: str, version: int) -> None:
    """Check the first two fields of a file: which format it is, and that we know its version."""
    given = data.get("format") if isinstance(data, dict) else type(data).__name__
    if not isinstance(data, dict) or given != name:
        sentence = f'must be an object with "format": "{name}", but has {_quoted(given)}.'
        raise InputError(f"{file} {sentence}", field="format")
    given = data.get("version")
    if type(given) is not int or given < 1:
        sentence = f'"version" must be a whole number from 1, but is {_quoted(given)}.'
        raise InputError(f"{file}: {sentence}", field="version")
    if given > version:
        sentence = f"and this pcer reads up to version {version}; upgrade pcer."
        raise InputError(
            f"{file} has version {_quoted(given)} of {name}, {sentence}", field="version"
        )


def parse_record(
    record: type[RecordT], data: Any, *, file: str, hints: Mapping[str, str] | None = None
) -> RecordT:
    """Check plain objects against a record, or raise InputError with one sentence.

    The sentence is about the first thing wrong: the file, the path to the field (which is the
    error's ``field``), the remedy (one of ``hints`` by the field's name).
    """
    try:
        return record.model_validate(data)
    except ValidationError as error:
        if (n_mistakes := error.error_count()) > MOST_MISTAKES:
            raise InputError(
                f"{file} has {n_mistakes:,} values that do not fit this format; write the file "
                "again with the tool that made it."
            ) from None
        raise _first_mistake(error.errors(include_url=False)[0], data, file, hints or {}) from None


def _first_mistake(
    error: ErrorDetails, data: Any, file: str, hints: Mapping[str, str]
) -> InputError:
    kind, given, problem = error["type"], error["input"], error["msg"].removeprefix("Input ")
    own = error.get("ctx", {}).get("error")  # what a check of ours raised
    path = _place(error["loc"], data, is_missing=kind == "missing")
    where, name = field_path(path), str(path[-1]) if path else ""
    problem = PROBLEMS.get(kind, problem) if own is None else str(own)
    if isinstance(given, str | int | float | None) and kind not in ("missing", "extra_forbidden"):
        problem += f", but is {_quoted(given)}"
    problem = problem[0].lower() + problem[1:]
    is_hinted = name in hints and kind not in ("extra_forbidden", "model_type")
    hint = f"; {hints[name]}" if is_hinted else ""
    return InputError(
        f"{file}: {f'field {where}: ' if where else ''}{problem}{hint}.",
        field=getattr(own, "field", None) or where or None,
    )


def _place(where: tuple[int | str, ...], data: Any, *, is_missing: bool) -> tuple[int | str, ...]:
    """The part of pydantic's location that a reader finds in the file.

    Where a value may have several forms pydantic adds the name of the one it tried, and after a
    bad key the word "[key]"; neither is in the data.
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
    parts = (f"[{p}]" if isinstance(p, int) else f".{shown(clipped(p))}" for p in location)
    return "".join(parts).removeprefix(".")


def _quoted(value: object) -> str:
    """A value as Python writes it; of a long one the beginning."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"a whole number of {value.bit_length():,} bits"
    return clipped(repr(value[:LONGEST_QUOTE] if isinstance(value, str) else value), LONGEST_QUOTE)


def canonical_json(tree: Any) -> str:
    """Serialise plain objects to the one text form that our files use.

    Characters that cannot be seen are written by their number, so that no text in a file can
    steer a terminal, or hide in it; a reader of JSON sees the same either way.
    """
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False, indent=1)
    return shown(text, keep="\n") + "\n"


def write_files(
    contents: Mapping[str | os.PathLike[str], str | bytes], *, private: bool = False
) -> None:
    """Write every file or none, in as far as the file system allows.

    All are staged beside their targets and renamed into place. Should a rename fail, what was
    replaced before it gets its old content back, and what is new goes. Text is written as UTF-8
    with the line ends it has; ``private`` files are for their owner only, from the first byte on.

    Raises:
        OutputError: nothing was changed; or, where even going back failed, which files were, and
            where their old content lies.
    """
    staged: dict[Path, Path] = {}  # by target, the new content
    kept: dict[Path, Path] = {}  # by target, the old content
    stuck: dict[Path, Path | None] = {}
    target = Path()
    try:
        for path, content in contents.items():
            target = Path(path)
            staged[target] = _stage(target, content, private)
        for target in [*staged][:-1]:  # the last is replaced or not, and needs no way back
            if os.path.lexists(target):
                kept[target] = staged[target].with_name(f"{staged[target].name}.old")
                shutil.copy2(target, kept[target], follow_symlinks=False)
        for target, new in staged.items():
            os.replace(new, target)
    except BaseException as error:
        replaced = [path for path, new in staged.items() if not new.exists()]
        for path in replaced if len(replaced) < len(staged) else ():
            try:
                os.replace(kept[path], path) if path in kept else path.unlink(missing_ok=True)
            except OSError:
                stuck[path] = kept.pop(path, None)
        if isinstance(error, OSError):
            raise _cannot_write(target, error, stuck) from None
        raise
    finally:
        for leftover in (*staged.values(), *kept.values()):
            with suppress(OSError):
                leftover.unlink(missing_ok=True)


def _stage(target: Path, content: str | bytes, private: bool) -> Path:
    """The content as a whole file beside its target."""
    if target.is_dir():
        raise IsADirectoryError("it is a folder")
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        if not private:  # as it is made, only its owner can read it
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _cannot_write(target: Path, error: OSError, stuck: Mapping[Path, Path | None]) -> OutputError:
    replaced = "".join(
        f"; {path} was replaced all the same" + (f", its old content is in {old}" if old else "")
        for path, old in stuck.items()
    )
    return OutputError(
        f"{target} cannot be written ({error.strerror or error}); choose a path in a folder that "
        f"exists and that you may write to{replaced}."
    )


def make_folder(path: str | os.PathLike[str], *, parents: bool = False) -> bool:
    """Make sure that there is a folder to write into; True if it is new."""
    folder = Path(path)
    if folder.is_dir():
        return False
    try:
        folder.mkdir(parents=parents)
    except OSError as error:
        raise _cannot_write(folder, error, {}) from None
    return True


def cache_folder() -> Path:
    """The folder named by ``PCER_CACHE``, or the user's cache folder of this operating system."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named)
    import pooch

    return Path(pooch.os_cache("pcer"))
