"""Secrets of one's own: random ones are read, guessable ones refused."""

from __future__ import annotations

import base64
import os
import random
import uuid

import pytest

from pcer.errors import InputError
from pcer.store import read_secret

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


@pytest.mark.parametrize("phrase", GUESSABLE)
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_pass_phrase_is_refused(tmp_path, phrase, end):
    path = tmp_path / "secret"
    path.write_text(phrase + end, encoding="utf-8")
    with pytest.raises(InputError, match="can be guessed, and a release holds its digest") as told:
        read_secret(path)
    assert "head -c 32 /dev/urandom > secret" in str(told.value)
    assert phrase not in str(told.value)


@pytest.mark.parametrize("pattern", [bytes(32), b"\x00\xff" * 16, bytes([200] * 20)])
def test_bytes_that_repeat_are_refused(tmp_path, pattern):
    (tmp_path / "secret").write_bytes(pattern)
    with pytest.raises(InputError, match="can be guessed"):
        read_secret(tmp_path / "secret")


@pytest.mark.parametrize("n", [16, 32, 64])
def test_random_bytes_are_read_as_they_are(tmp_path, n):
    chance = random.Random(n)
    for _ in range(200):
        secret = chance.randbytes(n)
        (tmp_path / "secret").write_bytes(secret)
        assert read_secret(tmp_path / "secret") == secret


def test_random_text_is_read(tmp_path):
    chance, path = random.Random(1), tmp_path / "secret"
    n_read = 0
    for _ in range(200):
        drawn = chance.randbytes(32)
        path.write_text(drawn.hex())
        assert read_secret(path)
        path.write_text(str(uuid.UUID(bytes=drawn[:16])))
        assert read_secret(path)
        path.write_bytes(base64.b64encode(drawn) + b"\n")
        try:
            n_read += bool(read_secret(path))
        except InputError:
            continue
    assert n_read >= 195


@pytest.mark.parametrize("n", [0, 15, 65, 10_000])
def test_its_length_is_said(tmp_path, n):
    (tmp_path / "secret").write_bytes(os.urandom(n))
    with pytest.raises(InputError, match=f"must hold 16 to 64 bytes, but holds {n}; make one with"):
        read_secret(tmp_path / "secret")


def test_a_secret_is_a_regular_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"the secret: .*pipe is a pipe or a device"):
        read_secret(tmp_path / "pipe")
    with pytest.raises(InputError, match="cannot be read"):
        read_secret(tmp_path / "none")
