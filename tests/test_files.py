"""Files: read to a limit, written all or none, one text form, texts safe to show."""

import errno
import json
import os
import re
import socket
import stat
import sys
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import JsonValue

from pcer.errors import InputError, OutputError, printable
from pcer.files import (
    Record,
    as_shown,
    canonical_json,
    parse_json,
    read_text,
    write_files,
)
from pcer.release.file import read_release

POSIX_ONLY = pytest.mark.skipif(sys.platform == "win32", reason="no such files")
FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.sampled_from('ab,[]{}":\\\n\té😀'))
PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), FINITE, TEXT),
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


def n_values(tree: Any) -> int:
    if isinstance(tree, dict):
        return 1 + sum(n_values(part) for part in tree.values())
    if isinstance(tree, list):
        return 1 + sum(n_values(part) for part in tree)
    return 1


@given(PLAIN)
@example({"a\u202e": ["\ud800", "\U000e0041", "\u2028", "\x9b", "\uffff", "é 女 😀"]})
def test_our_text_form_is_read_back_and_its_values_are_limited(tree):
    text = canonical_json(tree)
    plain = json.dumps(tree, ensure_ascii=False, indent=1) + "\n"
    assert text == plain or "\u202e" in plain
    assert text.replace("\n", "").isprintable()
    assert parse_json(text, file="x") == tree
    with pytest.raises(InputError):
        parse_json(text, file="x", max_values=n_values(tree) - 1)


def test_pipes_and_devices_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        for read in (read_release, read_text):
            with pytest.raises(
                InputError, match=r"only regular files are read|Is a directory"
            ):
                read(path)


def test_a_file_that_grows_is_not_read_without_end(tmp_path, monkeypatch):
    """What a file says of its size may be less than it gives: those of /proc say 0."""
    path = tmp_path / "text"
    path.write_text("x" * 100)
    real = os.fstat
    monkeypatch.setattr(
        "pcer.files.os.fstat", lambda n: os.stat_result([*real(n)[:6], 0, *real(n)[7:]])
    )
    assert read_text(path, max_bytes=100) == "x" * 100
    with pytest.raises(InputError, match="has 100 bytes, more than the 99"):
        read_text(path, max_bytes=99)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def failing(call, error, *, at: int, until: int = 1_000) -> Mock:
    """A system call that fails from its ``at``-th time, counted from 1, to another."""
    effects = [DEFAULT] * (at - 1) + [error] * (until - at + 1) + [DEFAULT] * 1_000
    return Mock(wraps=call, side_effect=effects)


@pytest.fixture
def three(tmp_path) -> dict[Path, str]:
    """Two files that are there, one that is not, and what they are to hold."""
    for name in "ac":
        (tmp_path / name).write_text(f"old {name}")
    return {tmp_path / name: f"new {name}" for name in "abc"}


OLD = {"a": b"old a", "c": b"old c"}


def test_every_file_is_written(tmp_path, three):
    write_files({**three, tmp_path / "a": "ε\n", tmp_path / "d": b"\x00"})
    written = {"a": "ε\n".encode(), "b": b"new b", "c": b"new c", "d": b"\x00"}
    write_files({})
    assert contents(tmp_path) == written


@pytest.mark.parametrize(
    ("call", "at", "named"),
    [*(("os.replace", k, "abc"[k - 1]) for k in (1, 2, 3)), ("shutil.copy2", 1, "a")],
)
def test_a_call_that_fails_leaves_everything_as_it_was(
    tmp_path, three, monkeypatch, call, at, named
):
    """Also an interruption, which is passed on; one file alone needs no way back."""
    for kind in (OSError(errno.EIO, os.strerror(errno.EIO)), KeyboardInterrupt()):
        monkeypatch.setattr(call, failing(os.replace, kind, at=at, until=at))
        with pytest.raises((OutputError, KeyboardInterrupt)) as caught:
            write_files(three)
        told = (
            rf"{named} cannot be written \(Input/output"
            if isinstance(kind, OSError)
            else "^$"
        )
        assert re.search(told, str(caught.value))
        assert contents(tmp_path) == OLD
        monkeypatch.undo()
    monkeypatch.setattr("shutil.copy2", failing(None, kind, at=1))
    write_files({tmp_path / "a": "new"})
    assert contents(tmp_path)["a"] == b"new"


def test_a_signal_at_the_worst_moment_leaves_nothing_behind(tmp_path, monkeypatch):
    """The staged file is there, and the call that made it has not come back."""

    def interrupted(*arguments, real=os.open, **more):
        os.close(real(*arguments, **more))
        raise KeyboardInterrupt

    (tmp_path / "b").write_text("old")
    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_files({tmp_path / "a": "new", tmp_path / "b": "new"})
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [
        ("b", "old")
    ]


def test_what_cannot_be_put_back_is_named_with_its_old_content(
    tmp_path, three, monkeypatch
):
    """From the second rename on none works: a is replaced, and stays so."""
    monkeypatch.setattr(
        os, "replace", failing(os.replace, OSError(errno.EIO, "broken"), at=2)
    )
    with pytest.raises(OutputError) as caught:
        write_files(three)
    said = str(caught.value)
    assert said.startswith(f"{tmp_path / 'b'} cannot be written")
    kept = Path(said.partition("its old content is in ")[2].rstrip("."))
    assert kept.read_text() == "old a"
    assert contents(tmp_path) == {"a": b"new a", "c": b"old c", kept.name: b"old a"}


@POSIX_ONLY
@pytest.mark.parametrize("leads_to", ["c", "nowhere", "a"])
def test_a_link_is_refused_wherever_it_leads(tmp_path, three, leads_to):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / leads_to)
    with pytest.raises(OutputError, match=r"link cannot be written \(it is a link"):
        write_files({**three, link: "new"})
    assert link.readlink() == tmp_path / leads_to
    assert not (tmp_path / "nowhere").exists()
    link.unlink()
    assert contents(tmp_path) == OLD


@POSIX_ONLY
def test_a_socket_is_refused_and_stays(monkeypatch, three, tmp_path):
    monkeypatch.chdir(tmp_path)  # a socket's path has at most 107 characters
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s")
        with pytest.raises(OutputError, match="it is no regular file"):
            write_files({**three, "s": "new"})
        assert stat.S_ISSOCK(Path("s").stat().st_mode)
    Path("s").unlink()
    assert contents(tmp_path) == OLD


@POSIX_ONLY
def test_a_device_gets_its_content_by_its_name_or_by_a_link(tmp_path, three):
    link = tmp_path / "link"
    link.symlink_to(os.devnull)
    write_files({**three, link: "new", os.devnull: "new"})
    assert link.is_symlink()
    assert Path(os.devnull).is_char_device()
    link.unlink()
    assert set(contents(tmp_path).values()) == {b"new a", b"new b", b"new c"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
def test_where_a_device_takes_nothing_no_file_is_replaced(tmp_path, three):
    with pytest.raises(OutputError, match="/dev/full cannot be written"):
        write_files({**three, "/dev/full": "new"})
    assert contents(tmp_path) == OLD


def test_a_folder_that_is_in_the_way_missing_or_may_not_be_written_to(tmp_path, three):
    (tmp_path / "d").mkdir()
    locked = tmp_path / "locked"
    locked.mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    if os.access(locked, os.W_OK):  # who may do everything is still kept out of here
        locked = Path("/sys")
    for bad in (tmp_path / "d", tmp_path / "missing" / "x", locked / "x.json"):
        with pytest.raises(OutputError, match=f"{bad} cannot be written"):
            write_files({**three, bad: "new"})
        assert contents(tmp_path) == OLD


class Inner(Record):
    """A text that may be missing."""

    word: str | None = None
    sizes: tuple[float, ...] = (1.0,)


class Outer(Record):
    """Texts in every place that a format has."""

    name: str
    parts: dict[str, list[Inner]]
    either: int | Inner
    loose: JsonValue
    inner: Inner = Inner()


def test_every_text_in_a_record_is_shown_wherever_it_stands():
    """Records without any text are passed over, and nothing else is."""

    def made(name: str) -> Outer:
        parts = {name: [Inner(word=name), Inner()]}
        return Outer(
            name=name, parts=parts, either=Inner(word=name), loose={"deep": [name]}
        )

    evil = made("a\x1b[2Jb\u202e")
    told = as_shown(evil)
    assert told == made(printable("a\x1b[2Jb\u202e")) != evil
    assert told.inner is evil.inner
    plain = Outer(name="a", parts={"b": [Inner()]}, either=1, loose=None)
    assert as_shown(plain) is plain
