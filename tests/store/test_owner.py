"""One owner a folder: also across processes, after a kill, and without the system's locks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pcer.errors import InputError, OutputError
from pcer.store.blocks import owned

SYSTEM, NO_SYSTEM = "", "import sys; sys.modules['fcntl'] = None"
"""With the system's locks, and where Python has none."""

OWNER = """
from pathlib import Path
from pcer.store.blocks import owned
with owned(Path(sys.argv[1])):
    print("owned", flush=True)
    sys.stdin.readline()
"""


def start(folder: Path, before: str) -> subprocess.Popen[str]:
    """A process that owns a folder until it is told something, or is refused it."""
    return subprocess.Popen(
        [sys.executable, "-c", f"import sys\n{before}\n{OWNER}", str(folder)],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@contextmanager
def owner(folder: Path, before: str) -> Iterator[subprocess.Popen[str]]:
    running = start(folder, before)
    assert running.stdout is not None
    assert running.stdout.readline() == "owned\n", running.communicate()[1]
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


@pytest.mark.parametrize("before", [SYSTEM, NO_SYSTEM])
def test_a_second_process_is_refused_until_the_first_is_done(tmp_path, before):
    folder = tmp_path / "new" / "folder"
    with owner(folder, before) as first:
        said, error = start(folder, before).communicate()
        assert said == ""
        assert f"InputError: {folder} is in use by another process; wait for it" in error
        assert first.communicate("done\n") == ("", "")  # and filelock has nothing to remark
        assert first.returncode == 0
    assert start(folder, before).communicate("done\n") == ("owned\n", "")


@pytest.mark.parametrize("before", [SYSTEM, NO_SYSTEM])
def test_a_killed_owner_owns_nothing(tmp_path, before):
    with owner(tmp_path, before) as first:
        first.send_signal(signal.SIGKILL)
        first.communicate()
        assert first.returncode == -signal.SIGKILL
    assert start(tmp_path, before).communicate("done\n") == ("owned\n", "")


def test_an_owner_that_fails_gives_the_folder_back(tmp_path):
    with pytest.raises(KeyError), owned(tmp_path):
        raise KeyError
    with owned(tmp_path), pytest.raises(InputError, match="in use"), owned(tmp_path):
        pass


def test_a_folder_may_be_removed_while_it_is_owned(tmp_path):
    folder = tmp_path / "work"
    with owned(folder):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    assert list(tmp_path.iterdir()) == []
    with owned(folder):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    sentence = r"file/below cannot be made \(.*\); choose a folder that you may write to"
    with pytest.raises(OutputError, match=sentence), owned(tmp_path / "file" / "below"):
        pass


@pytest.mark.skipif(os.name != "posix", reason="modes are for POSIX")
def test_nobody_else_can_look_into_the_folder_also_one_that_was_open(tmp_path):
    folder = tmp_path / "above" / "work"
    with owned(folder):
        pass
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.parent.stat().st_mode & 0o777 == 0o777 & ~current_umask()
    folder.chmod(0o755)
    with owned(folder):
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / ".lock").stat().st_mode & 0o777 == 0o600


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_system_without_modes_breaks_nothing(tmp_path, monkeypatch):
    def unknown(*arguments, **more):
        raise PermissionError("no modes here")

    monkeypatch.setattr(Path, "chmod", unknown)
    with owned(tmp_path):
        pass
