"""Secrets of one's own: random ones are read, guessable ones refused."""

import base64
import os
import random
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from pcer.cli.release import given_secret
from pcer.errors import InputError, OutputError
from pcer.store.secret import read_secret, state_folder

GUESSABLE = [
    "correct horse battery staple",
    "CorrectHorseBatteryStaple",
    "schöner Sommer im Garten",
    "password12345678",
    "Passw0rd!Passw0rd!",
    "the clinic's secret of 2026",
    "0123456789abcdef0123456789abcdef",
    "deadbeefdeadbeefdeadbeefdeadbeef",
    "1234567890123456",
    "a" * 40,
]


def test_a_pass_phrase_or_a_pattern_is_refused(tmp_path):
    path = tmp_path / "secret"
    patterns = (bytes(32), b"\x00\xff" * 16, bytes([200] * 20))
    for phrase in (
        *(phrase + end for phrase in GUESSABLE for end in ("", "\n")),
        *patterns,
    ):
        path.write_bytes(phrase if isinstance(phrase, bytes) else phrase.encode())
        with pytest.raises(
            InputError, match="can be guessed, and a release holds its"
        ) as error:
            read_secret(path)
        assert "head -c 32 /dev/urandom > secret" in str(error.value)
        assert isinstance(phrase, bytes) or phrase.strip() not in str(error.value)


def test_random_bytes_and_random_text_are_read(tmp_path):
    chance = random.Random(1)
    path = tmp_path / "secret"
    n_read = 0
    for n in (16, 32, 64):
        for _ in range(100):
            secret = chance.randbytes(n)
            path.write_bytes(secret)
            assert read_secret(path) == secret
    for _ in range(100):
        drawn = chance.randbytes(32)
        for text in (drawn.hex(), str(uuid.UUID(bytes=drawn[:16]))):
            path.write_text(text)
            assert read_secret(path)
        path.write_bytes(base64.b64encode(drawn) + b"\n")
        with suppress(InputError):
            n_read += bool(read_secret(path))
    assert n_read >= 97


def test_secrets_lie_in_the_state_folder_of_the_user(monkeypatch):
    assert state_folder() == Path(os.environ["XDG_STATE_HOME"], "pcer")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    assert state_folder() == Path("/home/ada/.local/state/pcer")


def test_four_that_need_a_secret_at_the_same_time_get_the_same(tmp_path, monkeypatch):
    """All have looked, and found none, before any of them makes one."""
    gate = threading.Barrier(4, timeout=10)
    exists = Path.exists
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with monkeypatch.context() as patch, ThreadPoolExecutor(4) as pool:
        patch.setattr(Path, "exists", lambda path: (exists(path), gate.wait())[0])
        found = pool.map(lambda _: given_secret(None, is_needed=True), range(4))
    assert len({*found}) == 1
    assert [path.name for path in (tmp_path / "pcer").iterdir()] == ["tables.secret"]


def test_a_full_disk_leaves_no_empty_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "fsync", lambda _: os.pwrite(os.open("/dev/full", os.O_WRONLY), b"x", 0)
        )
        with pytest.raises(OutputError, match="No space left"):
            given_secret(None, is_needed=True)
    assert list((tmp_path / "pcer").iterdir()) == []
    assert len(given_secret(None, is_needed=True)) == 32


def test_its_length_is_said_and_only_a_regular_file_is_read(tmp_path):
    path = tmp_path / "secret"
    for n in (0, 15, 65, 10_000):
        path.write_bytes(os.urandom(n))
        with pytest.raises(
            InputError, match=f"must hold 16 to 64 bytes, but holds {n}; make one"
        ):
            read_secret(path)
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "none"):
        with pytest.raises(InputError, match="the secret: "):
            read_secret(tmp_path / name)
