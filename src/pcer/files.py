"""JSON files, read strictly and written whole: the bottom of both file formats.

Reading refuses what other readers let pass (NaN, a key twice, a truncated file, another
encoding, bottomless nesting) and names the file. Writing gives the same bytes for the same
content and never leaves half a file.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar, Union, get_args, get_origin

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from pcer.errors import InputError, OutputError, clipped, shown
from pcer.metrics import BoolArray, IntArray

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_BYTES = 64_000_000
MAX_VALUES = 2_000_000
"""Numbers, texts, lists and objects of one file: each costs far more memory than its text."""
ALLOW = "allow it by name if it is meant to be so large"
MOST_MISTAKES = 10_000
"""Beyond so many a file is not one of ours, and telling the first would need them all at once."""
LONGEST_QUOTE = 60
MOST_BITS = 10_000
"""Python writes no whole number of more than some thousand digits."""
Location = tuple[int | str, ...]


_BEFORE_VALUES = b",[{"


class Record(BaseModel):
    """Base of every record in our files: frozen, strict, no unknown fields, no NaN."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True
    )


RecordT = TypeVar("RecordT", bound=Record)
AnyTree = TypeVar("AnyTree")


def as_shown(value: AnyTree) -> AnyTree:
    """The same records, lists and mappings with every text in them as it can be shown.

    What needs no change is the same object, so that nothing is copied in vain.
    """
    found: AnyTree = _shown_inside(value)
    return found


def _shown_inside(value: Any) -> Any:
    if type(value) is str:
        return shown(value)
    if isinstance(value, Record):
        texts = ((name, getattr(value, name)) for name in _fields_with_text(type(value)))
        changed = {k: new for k, part in texts if (new := _shown_inside(part)) is not part}
        return value.model_copy(update=changed) if changed else value
    if isinstance(value, dict):
        parts = {_shown_inside(k): _shown_inside(part) for k, part in value.items()}
        is_same = all(value.get(k) is part for k, part in parts.items())
        return value if is_same else parts
    if type(value) in (list, tuple):
        items = [_shown_inside(part) for part in value]
        is_same = all(one is other for one, other in zip(items, value, strict=True))
        return value if is_same else type(value)(items)
    return value


@cache
def _fields_with_text(kind: type[Record]) -> list[str]:
    """Names of the fields that may hold a text, or something with one in it."""
    return [name for name, field in kind.model_fields.items() if _may_hold_text(field.annotation)]


def _may_hold_text(annotation: Any) -> bool:
    if annotation in (int, float, bool, type(None)):
        return False
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return bool(_fields_with_text(annotation))
    parts = get_args(annotation)[: 1 if get_origin(annotation) is Annotated else None]
    return not parts or any(map(_may_hold_text, parts))


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


def read_json(
    path: str | os.PathLike[str],
    *,
    max_bytes: int | None = MAX_BYTES,
    max_values: int | None = MAX_VALUES,
) -> Any:
    """Parse one JSON file into plain objects, or raise InputError with one sentence.

    Args:
        path: the file.
        max_bytes: refuse larger files before reading them; None reads any size.
        max_values: refuse files of more values before parsing them; None parses any number.
    """
    text = read_text(path, max_bytes=max_bytes)
    return parse_json(text, file=os.fspath(path), max_values=max_values)


def parse_json(text: str, *, file: str, max_values: int | None = MAX_VALUES) -> Any:
    """Parse JSON text strictly; ``file`` is the name that errors mention."""
    if max_values is not None and (found := _values_beyond(max_values, text)):
        raise InputError(
            f"{file} holds {found:,} values, more than the {max_values:,} that are read by "
            f"default; {ALLOW}."
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
        raise InputError(f"{file} cannot be used: {_of_json(error)}.") from None


def _values_beyond(limit: int, text: str) -> int:
    """How many values a text holds if they are more than a limit, else 0."""
    at_most = 1 + sum(text.count(chr(mark)) for mark in _BEFORE_VALUES)  # some may stand in strings
    found = count_values(text) if at_most > limit else 0
    return found if found > limit else 0


def count_values(text: str) -> int:
    r"""How many values a JSON text holds, lists and objects among them; never too few.

    Whatever a parser reads begins the text, or follows a bracket or a comma outside of strings.

    >>> count_values('[1, {"a": "x, [y\\", z"}]')
    4
    """
    letters = np.frombuffer(text.encode("utf-8", "replace"), dtype=np.uint8)
    return 1 + len(_marks(letters, _BEFORE_VALUES)[0])


def _of_json(error: ValueError) -> str:
    """What is wrong with a JSON text, from what the parser says."""
    if "integer string" in str(error):
        return "it holds a whole number of thousands of digits; write fewer"
    return str(error)


def require_format(data: Any, *, file: str, name: str, version: int) -> None:
    """Check the first two fields of a file: which format it is, and that we know its version."""
    if not isinstance(data, dict) or data.get("format") != name:
        found = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise InputError(
            f'{file} must be an object with "format": "{name}", but has {_quoted(found)}.'
        )
    found = data.get("version")
    if type(found) is not int or found < 1:
        raise InputError(
            f'{file}: "version" must be a whole number from 1, but is {_quoted(found)}.'
        )
    if found > version:
        raise InputError(
            f"{file} has version {_quoted(found)} of {name}, and this pcer reads up to version "
            f"{version}; upgrade pcer."
        )


def parse_record(
    record: type[RecordT], data: Any, *, file: str, hints: Mapping[str, str] | None = None
) -> RecordT:
    """Check plain objects against a record, or raise InputError with one sentence.

    The sentence is about the first thing wrong: the file, the path to the field, the remedy.

    Args:
        record: what the objects should be.
        data: the objects.
        file: the name that errors mention.
        hints: a remedy by the name of the field.
    """
    try:
        return record.model_validate(data)
    except ValidationError as error:
        if (n_mistakes := error.error_count()) > MOST_MISTAKES:
            raise InputError(
                f"{file} has {n_mistakes:,} values that do not fit this format; write the file "
                "again with the tool that made it."
            ) from None
        first = error.errors(include_url=False)[0]
        raise InputError(f"{file}: {_sentence(record, first, hints or {})}") from None


def _sentence(record: type[Record], error: ErrorDetails, hints: Mapping[str, str]) -> str:
    kind, given = error["type"], error["input"]
    path, field = _place(record, error["loc"])
    problem = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if kind == "extra_forbidden":
        path, field = (*path, error["loc"][-1]), None
        problem = "is not a field of this format; remove it or check its spelling"
    elif kind == "string_pattern_mismatch":
        problem = "should be one line of text that can be seen"
    elif kind == "model_type":
        problem = "should be an object"
    if isinstance(given, str | int | float | None) and kind not in ("missing", "extra_forbidden"):
        problem += f", but is {_quoted(given)}"
    where = f"field {field_path(path)}: " if path else ""
    hint = hints.get(field or "")
    return f"{where}{problem[0].lower() + problem[1:]}{'; ' + hint if hint else ''}."


def _place(record: type[Record], location: Location) -> tuple[Location, str | None]:
    """The part of pydantic's location that a reader finds in the file, and the field it is in.

    Where a value may have several forms pydantic adds the name of the one it tried, and after a
    bad key the word "[key]". A key may have any name, so that only the types can tell them apart.
    """
    kinds, path = _kinds(record), list[int | str]()
    field: str | None = None
    named = False
    for part in location:
        if len(kinds) > 1 and not named:
            named = True
            continue
        inside = next(((k, b) for k in kinds if (b := _below(k, part)) is not None), None)
        if inside is None:
            break
        path.append(part)
        if isinstance(part, str):
            field = None if get_origin(inside[0]) is dict else part
        kinds, named = _kinds(inside[1]), False
    return tuple(path), field


def _kinds(annotation: Any) -> list[Any]:
    """The forms that a value may have, apart from null."""
    if annotation is JsonValue:
        return [dict[str, JsonValue], list[JsonValue], str]
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kinds(inside[0])
    if origin in (Union, UnionType):
        return [kind for part in inside if part is not NoneType for kind in _kinds(part)]
    return [annotation]


def _below(kind: Any, part: int | str) -> Any:
    """What a field, a key or an index of such a value holds; None where it has none such."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is dict:
        return inside[1]
    if origin in (list, tuple):
        known = isinstance(part, int) and part < len(inside)
        return inside[int(part) if origin is tuple and known else 0]
    fields = getattr(kind, "model_fields", {})
    return fields[part].annotation if part in fields else None


def field_path(location: Location) -> str:
    """Render a location as a reader would write it: ``runs[3].groups.Other.train.tp``."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{shown(clipped(part))}" if path else shown(clipped(part))
    return path


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
    flat = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ": "))
    return _indented(shown(flat)) + "\n"


def _indented(flat: str) -> str:
    """JSON text with a line for every value, as ``json.dumps`` indents by 1, but compiled."""
    text = np.frombuffer(flat.encode(), dtype=np.uint8)
    marks, kind = _marks(text, b"[]{},")
    opens, closes = _among(b"[{")[kind], _among(b"]}")[kind]
    depth = np.cumsum(opens.astype(np.int64) - closes)
    is_empty = opens[:-1] & closes[1:] & (np.diff(marks) == 1)
    breaks = ~(np.append(is_empty, False) | np.append(False, is_empty))[: len(marks)]
    before, n_added = (
        (marks + ~closes)[breaks],
        1 + depth[breaks],
    )  # what closes gets its line first
    start = before + np.cumsum(n_added) - n_added
    turns = np.zeros(len(text) + n_added.sum() + 1, dtype=np.int8)
    turns[start] += 1
    turns[start + n_added] -= 1
    is_old = np.cumsum(turns, dtype=np.int8)[:-1] == 0
    lines = np.full(len(is_old), ord(" "), dtype=np.uint8)
    lines[is_old], lines[start] = text, ord("\n")
    return lines.tobytes().decode()


def _marks(text: npt.NDArray[np.uint8], which: bytes) -> tuple[IntArray, npt.NDArray[np.uint8]]:
    """Where such letters of a JSON text stand outside of strings, and which of them."""
    plain = text.tobytes().replace(rb"\\", b"__").replace(rb"\"", b"__")
    letters = np.frombuffer(plain, dtype=np.uint8)
    is_outside = np.cumsum(letters == ord('"'), dtype=np.uint8) % 2 == 0  # overflow keeps parity
    found = np.flatnonzero(_among(which)[letters] & is_outside)
    return found, letters[found]


def _among(letters: bytes) -> BoolArray:
    """By a letter's number, whether it is one of these."""
    return np.isin(np.arange(256), list(letters))


def write_files(
    contents: Mapping[str | os.PathLike[str], str | bytes], *, private: bool = False
) -> None:
    """Write every file or none, in as far as the file system allows.

    All are staged beside their targets and renamed into place. Should a rename fail, what was
    replaced before it gets its old content back, and what is new goes. Text is written as UTF-8
    with the line ends it has.

    Args:
        contents: by path.
        private: for the eyes of their owner only, from the first byte on.

    Raises:
        OutputError: nothing was changed; or, where even going back failed, which files were, and
            where their old content lies.
    """
    staged: list[_Staged] = []
    try:
        for path, content in contents.items():
            data = content.encode() if isinstance(content, str) else content
            staged.append(_Staged(Path(path), _stage(Path(path), data, private)))
        for one in staged[:-1]:
            one.keep_old()
        _publish(staged)
    finally:
        for one in staged:
            one.clean_up()


def make_folder(path: str | os.PathLike[str], *, parents: bool = False) -> bool:
    """Make sure that a folder is there to write into; True if it is new.

    Args:
        path: the folder.
        parents: whether to make the folders above it, too.
    """
    folder = Path(path)
    if folder.is_dir():
        return False
    try:
        folder.mkdir(parents=parents)
    except OSError as error:
        _cannot_write(folder, error)
    return True


def _stage(target: Path, data: bytes, private: bool) -> Path:
    try:
        if target.is_dir():
            raise IsADirectoryError("it is a folder")
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        _cannot_write(target, error)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if not private:  # as it is made, only its owner can read it
            os.chmod(name, 0o666 & ~_umask())
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            _cannot_write(target, error)
        raise
    return Path(name)


class _Staged:
    """A file that is written beside its target and waits to take its place."""

    def __init__(self, target: Path, new: Path) -> None:
        self.target, self.new = target, new
        self.old = new.with_name(f"{new.name}.old")
        self.is_stuck = False

    @property
    def is_published(self) -> bool:
        """Whether it has taken its place."""
        return not self.new.exists()

    def keep_old(self) -> None:
        """Give what the target holds a second name: a link, or a copy where there are no links."""
        if not os.path.lexists(self.target):
            return
        try:
            os.link(self.target, self.old, follow_symlinks=False)
        except (OSError, NotImplementedError):
            self._copy_old()

    def _copy_old(self) -> None:
        try:
            shutil.copy2(self.target, self.old, follow_symlinks=False)
        except OSError as error:
            _cannot_write(self.target, error)

    def put_back(self) -> None:
        """The old content again, or nothing where there was none."""
        try:
            if os.path.lexists(self.old):
                os.replace(self.old, self.target)
            else:
                self.target.unlink(missing_ok=True)
        except OSError:
            self.is_stuck = True

    def clean_up(self) -> None:
        """Leave nothing beside the target, but the old content if it could not be put back."""
        with suppress(OSError):
            self.new.unlink(missing_ok=True)
            if not self.is_stuck:
                self.old.unlink(missing_ok=True)


def _publish(staged: list[_Staged]) -> None:
    """Rename all into place, or put everything back."""
    try:
        for one in staged:
            os.replace(one.new, one.target)
    except BaseException as error:
        waiting = [one for one in staged if not one.is_published]
        for one in staged if waiting else ():
            if one.is_published:
                one.put_back()
        if isinstance(error, OSError):
            _cannot_write(waiting[0].target, error, [one for one in staged if one.is_stuck])
        raise


def _cannot_write(target: Path, error: OSError, stuck: Sequence[_Staged] = ()) -> NoReturn:
    reason = error.strerror or str(error)
    changed = "".join(
        f"; {one.target} was replaced all the same"
        + (f", its old content is in {one.old}" if one.old.exists() else "")
        for one in stuck
    )
    raise OutputError(
        f"{target} cannot be written ({reason}); choose a path in a folder that exists and that "
        f"you may write to{changed}."
    ) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_text(path: str | os.PathLike[str], *, max_bytes: int | None = MAX_BYTES) -> str:
    """Read one UTF-8 file, or raise InputError with one sentence."""
    file = os.fspath(path)
    try:
        return read_regular(path, max_bytes=max_bytes).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{file} is not UTF-8 text; save it again as UTF-8.") from None


def read_regular(path: str | os.PathLike[str], *, max_bytes: int | None = MAX_BYTES) -> bytes:
    """Read one file of known size: no pipe, which may never end, nor a device, which never does.

    Args:
        path: the file.
        max_bytes: refuse larger files; None reads any size.

    Raises:
        InputError: one sentence says why it cannot be read.
    """
    file = os.fspath(path)
    try:
        with open(path, "rb", opener=_open_at_once) as stream:
            found = os.fstat(stream.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise InputError(
                    f"{file} is a pipe or a device, and only regular files are read; save what it "
                    "gives to a file, and name that."
                )
            data = stream.read(-1 if max_bytes is None else max_bytes + 1)
            size = max(found.st_size, len(data))
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}); check the path.") from None
    if max_bytes is not None and size > max_bytes:
        raise InputError(
            f"{file} has {size:,} bytes, more than the {max_bytes:,} that are read by default; "
            f"{ALLOW}."
        )
    return data


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting for somebody to write into a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}, which is not a number; write null for what is unknown")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        twice = first_repeated(key for key, _ in pairs)
        raise ValueError(f"the field {_quoted(twice)} appears twice in one object; keep one")
    return record


def first_repeated(keys: Iterable[str]) -> str | None:
    """The first text that stands a second time; None where all differ."""
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    return None


CACHE_VARIABLE = "PCER_CACHE"
"""Environment variable that names another folder."""


def cache_folder() -> Path:
    """The folder named by ``PCER_CACHE``, or the user's cache folder of this operating system."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named)
    import pooch

    return Path(pooch.os_cache("pcer"))
