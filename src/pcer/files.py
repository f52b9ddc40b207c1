"""How are files read and written? Strictly, and whole or not at all.

Releases, reports, policies, receipts and caches are read and written here; a part of
one is a ``Record``. Reading refuses NaN, duplicate keys, truncated files, other
encodings and deep nesting, and names the file. Writing gives the same bytes for the
same content and never leaves a partial file. To add a kind of file: a ``Record`` of its
fields, read by ``parse_record``.
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
from inspect import Parameter, Signature, get_annotations, signature
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from pcer.errors import InputError, clipped, printable, refused_as

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
    """Makes ``pcer.Policy(...)``, written in code, refuse as a file is refused.

    A wrong value is an InputError with the field and the remedy; a wrong argument is
    Python's own TypeError.
    """

    def __call__(cls, *args: Any, **fields: Any) -> Any:
        try:
            return super().__call__(*args, **fields)
        except ValidationError as error:
            mistake = error.errors(include_url=False)[0]
            cls._require_arguments(*args, **fields)
            raise _first_mistake(mistake, fields, f"pcer.{cls.__name__}", {}) from None

    @property
    def __signature__(cls) -> Signature:
        """What a call takes: every field by name, in the order of the file."""
        fields: dict[str, FieldInfo] = cls.model_fields  # type: ignore[attr-defined]
        types: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            types |= get_annotations(base)
        parameters = []
        for name, field in fields.items():
            default = Parameter.empty
            if not field.is_required():
                default = field.get_default(call_default_factory=True)
            parameters.append(
                Parameter(
                    name,
                    Parameter.KEYWORD_ONLY,
                    default=default,
                    annotation=types[name],
                )
            )
        return Signature(parameters)

    @__signature__.setter
    def __signature__(cls, given: object) -> None:
        """Pydantic would set another one when it builds the validator."""

    def _require_arguments(cls, *args: Any, **fields: Any) -> None:
        """Raise TypeError for an argument that is unknown or missing."""
        try:
            signature(cls).bind(*args, **fields)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}() {error}") from None


class Record(BaseModel, metaclass=_Checked):
    """Base of every record in our files: frozen, strict, no unknown fields, no NaN."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True
    )


RecordT = TypeVar("RecordT", bound=Record)
AnyTree = TypeVar("AnyTree")


def as_shown(value: AnyTree) -> AnyTree:
    """A tree with every text safe to display; unchanged parts are not copied."""
    tree: Any = value
    if type(tree) in (int, float, bool, NoneType):  # the check for a record is slow
        return value
    safe: Any = tree
    if type(tree) is str:
        safe = printable(tree)
    elif isinstance(tree, Record):
        safe = _record_as_shown(tree)
    elif isinstance(tree, dict):
        parts = {as_shown(key): as_shown(part) for key, part in tree.items()}
        if any(tree.get(key) is not part for key, part in parts.items()):
            safe = parts
    elif type(tree) in (list, tuple):
        items = type(tree)(map(as_shown, tree))
        if not all(map(operator.is_, items, tree)):
            safe = items
    result: AnyTree = safe
    return result


def _record_as_shown(record: Record) -> Record:
    changed = {}
    for name in type(record).model_fields:
        part = getattr(record, name)
        printable = as_shown(part)
        if printable is not part:
            changed[name] = printable
    return record.model_copy(update=changed) if changed else record


@contextmanager
def many_objects() -> Iterator[None]:
    """Pause garbage collection while millions of objects are made, none dropped."""
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
        with open(path, "rb", opener=_open_at_once) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError(
                    f"{file} is a pipe or a device, and only regular files are read; "
                    "save its content to a file and name that."
                )
            data = stream.read(-1 if max_bytes is None else max_bytes + 1)
    except OSError as error:
        raise InputError(
            f"{file} cannot be read ({error.strerror}); check the path."
        ) from None
    size = max(status.st_size, len(data))  # files of /proc report 0
    if max_bytes is not None and size > max_bytes:
        raise InputError(
            f"{file} has {size:,} bytes, more than the {max_bytes:,} that are read by "
            f"default; {ALLOW}."
        )
    return data


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for somebody to write into a pipe."""
    # Systems without pipes lack these flags.
    at_once = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    return os.open(path, flags | at_once)


def read_text(
    path: str | os.PathLike[str], *, max_bytes: int | None = MAX_BYTES
) -> str:
    """Read one UTF-8 file, or raise InputError with one sentence."""
    data = read_regular(path, max_bytes=max_bytes)
    file = os.fspath(path)
    if Path(file).suffix.lower() in TABLES:
        raise InputError(
            f"{file} is a table; pcer release {shlex.quote(file)} makes a release of "
            "predictions."
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
    # A value begins the text or follows one of these marks; marks within strings are
    # counted too.
    n_values = 1 + sum(text.count(mark) for mark in ",[{")
    if max_values is not None and n_values > max_values:
        raise InputError(
            f"{file} holds up to {n_values:,} values, more than the {max_values:,} "
            f"that are read by default; {ALLOW}."
        )
    try:
        tree = json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys
        )
        _require_shallow(tree)
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
    return tree


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(
        f"it holds {name}, which is not a number; write null for what is unknown"
    )


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """One object of a file; ValueError if it has a field twice."""
    record = dict(pairs)
    if len(record) < len(pairs):
        n_fields = Counter(key for key, _ in pairs)
        repeated = [key for key, n in n_fields.items() if n > 1]
        raise ValueError(
            f"the field {_quoted(repeated[0])} appears twice in one object; keep one"
        )
    return record


def _require_shallow(tree: Any) -> None:
    """Raise RecursionError if lists and objects are nested below ``MOST_LEVELS``."""
    level = _lists_and_objects([tree])
    for _ in range(MOST_LEVELS):
        deeper: list[Any] = []
        for node in level:
            parts = node.values() if type(node) is dict else node
            deeper += _lists_and_objects(parts)
        level = deeper
    if level:
        raise RecursionError


def _lists_and_objects(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if type(value) in (dict, list)]


def read_toml(path: str | os.PathLike[str], *, see: str) -> dict[str, Any]:
    """Parse one TOML file into plain objects; errors refer to the page ``see``."""
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it holds more digits or brackets than can be read"
        if isinstance(error, tomllib.TOMLDecodeError):
            reason = str(error)
        raise InputError(
            f"{os.fspath(path)} is not TOML: {reason}; see {see}."
        ) from None


def require_format(
    data: Any, *, file: str, name: str, version: int, if_older: str | None = None
) -> None:
    """Raise InputError unless a file has this format, in a version that is read.

    Older versions are refused where ``if_older`` says what to do with them.
    """
    stated = data.get("format") if isinstance(data, dict) else type(data).__name__
    if not isinstance(data, dict) or stated != name:
        sentence = (
            f'must be an object with "format": "{name}", but has {_quoted(stated)}.'
        )
        raise InputError(f"{file} {sentence}", field="format")
    stated = data.get("version")
    fault = ""
    has = f" has version {_quoted(stated)} of {name}, and this pcer"
    if type(stated) is not int or stated < 1:
        fault = f': "version" must be a whole number from 1, but is {_quoted(stated)}'
    elif stated > version:
        fault = f"{has} reads up to version {version}; upgrade pcer"
    elif stated < version and if_older is not None:
        fault = f"{has} reads version {version}; {if_older}"
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
        n_mistakes = error.error_count()
        if n_mistakes > MOST_MISTAKES:
            raise InputError(
                f"{file} has {n_mistakes:,} values that do not fit this format; write "
                "the file again with the tool that made it."
            ) from None
        mistake = error.errors(include_url=False)[0]
        raise _first_mistake(mistake, data, file, hints or {}) from None


def _first_mistake(
    error: Mapping[str, Any], data: Any, file: str, hints: Mapping[str, str]
) -> InputError:
    """What pydantic says of one field, as a sentence with its place and the remedy."""
    kind = error["type"]
    path = _place(error["loc"], data, is_missing=kind == "missing")
    where = field_path(path)
    our_error = error.get("ctx", {}).get("error")  # raised by one of our checks
    problem = _problem(error, our_error)
    subject = f"field {where}: " if where else ""
    hint = ""
    name = str(path[-1]) if path else ""
    if name in hints and kind not in ("extra_forbidden", "model_type"):
        hint = f"; {hints[name]}"
    return InputError(
        f"{file}: {subject}{problem}{hint}.",
        field=getattr(our_error, "field", None) or where or None,
    )


def _problem(error: Mapping[str, Any], our_error: Exception | None) -> str:
    """What is wrong with a value, and which value it is."""
    kind = error["type"]
    value = error["input"]
    if our_error is not None:
        problem = str(our_error)
    else:
        problem = PROBLEMS.get(kind, error["msg"].removeprefix("Input "))
    is_short = isinstance(value, str | int | float | None)
    if is_short and kind not in ("missing", "extra_forbidden"):
        problem += f", but is {_quoted(value)}"
    return problem[0].lower() + problem[1:]


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
    """A location as readers write it: ``runs[3].groups.Other.train.tp``."""
    path = ""
    for part in location:
        is_position = isinstance(part, int)
        path += f"[{part}]" if is_position else f".{printable(clipped(str(part)))}"
    return path.removeprefix(".")


def _quoted(value: object) -> str:
    """A value as Python writes it, shortened."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"a whole number of {value.bit_length():,} bits"
    if isinstance(value, str):
        value = value[:LONGEST_QUOTE]
    return clipped(repr(value), LONGEST_QUOTE)


def canonical_json(tree: Any) -> str:
    """The one text form of our files; invisible characters stand by their number."""
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False, indent=1)
    return printable(text, keep="\n") + "\n"


def write_files(
    contents: Mapping[str | os.PathLike[str], str | bytes], *, private: bool = False
) -> None:
    """Write every file or none, as far as the file system allows.

    All are staged beside their targets and renamed into place; if that fails, it is
    undone. What is there already stays what it is: a device or a pipe is written into,
    before the others are replaced, and a link is refused. Text is UTF-8 with its line
    ends; ``private`` files are readable by their owner only.

    Raises:
        OutputError: nothing was changed; or, where undoing failed, which files were
            changed and where their old content is.
    """
    batch = _Batch()
    try:
        for path, content in contents.items():
            batch.stage(Path(path), content, is_private=private)
        batch.keep_old_content()
        batch.write_streams()
        batch.move_into_place()
    except BaseException:
        remedy = WRITABLE + batch.undo()
        with refused_as(f"{batch.target} cannot be written", remedy):
            raise
    finally:
        batch.clear()


class _Batch:
    """Files that are written all or none."""

    def __init__(self) -> None:
        self.target = Path()  # the file that is being worked on
        self.streams: dict[Path, bytes] = {}  # what devices and pipes are to get
        self.staged: dict[Path, Path] = {}  # by target, the new content
        self.kept: dict[Path, Path] = {}  # by target, the old content
        self.made: list[Path] = []  # every staged file, begun or finished

    def stage(self, target: Path, content: str | bytes, *, is_private: bool) -> None:
        """Write new content beside its target; keep that of a stream for later."""
        self.target = target
        data = content.encode() if isinstance(content, str) else content
        if _is_stream(target):
            self.streams[target] = data
            return
        new = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
        self.made.append(new)  # first, or a signal could leave it behind
        with open(new, "xb", opener=_open_private) as stream:
            self.staged[target] = new
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if not is_private:  # as it is made, only its owner can read it
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(new, 0o666 & ~mask)

    def keep_old_content(self) -> None:
        """Copy what will be replaced, but for the last, which needs no undo."""
        for target in [*self.staged][:-1]:
            self.target = target
            if os.path.lexists(target):
                new = self.staged[target]
                self.kept[target] = new.with_name(f"{new.name}.old")
                shutil.copy2(target, self.kept[target])

    def write_streams(self) -> None:
        """Write into every device and pipe, which cannot be undone."""
        for target, data in self.streams.items():
            self.target = target
            with target.open("wb") as stream:
                stream.write(data)

    def move_into_place(self) -> None:
        """Replace every target."""
        for target, new in self.staged.items():
            self.target = target
            os.replace(new, target)

    def undo(self) -> str:
        """Put back what was replaced, unless all was; says which files it could not."""
        replaced = [target for target, new in self.staged.items() if not new.exists()]
        if len(replaced) == len(self.staged):
            return ""
        stuck = ""
        for target in replaced:
            try:
                self._put_back(target)
            except OSError:
                stuck += f"; {target} was replaced all the same"
                old = self.kept.pop(target, None)
                if old is not None:
                    stuck += f", its old content is in {old}"
        return stuck

    def _put_back(self, target: Path) -> None:
        if target in self.kept:
            os.replace(self.kept[target], target)
        else:
            target.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove whatever is left beside the targets."""
        for leftover in (*self.made, *self.kept.values()):
            with suppress(OSError):
                leftover.unlink(missing_ok=True)


def _is_stream(target: Path) -> bool:
    """Whether content goes into what is there, or replaces a regular file or nothing.

    Raises OSError for all else, which would be lost: folders, links, disks, sockets.
    """
    if not os.path.lexists(target):
        return False
    try:
        mode = target.stat().st_mode  # of what a link leads to
    except FileNotFoundError:
        mode = target.lstat().st_mode  # of a link that leads nowhere
    if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):
        return True
    if stat.S_ISDIR(mode):
        raise IsADirectoryError("it is a folder")
    if target.is_symlink():
        raise OSError("it is a link to another place")
    if not stat.S_ISREG(mode):
        raise OSError("it is no regular file")
    return False


def _open_private(path: str, flags: int) -> int:
    """Open a file that only its owner can read."""
    return os.open(path, flags, 0o600)


def make_folder(path: str | os.PathLike[str], *, parents: bool = False) -> bool:
    """Make a folder where there is none; True if it is new."""
    folder = Path(path)
    if folder.is_dir():
        return False
    with refused_as(f"{folder} cannot be written", WRITABLE):
        folder.mkdir(parents=parents)
    return True


def cache_folder() -> Path:
    """The folder that ``PCER_CACHE`` names, or else the user's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    import pooch

    return Path(pooch.os_cache("pcer"))
