"""What is there already stays what it is: pipes, links, folders, earlier releases."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pcer
from pcer.errors import InputError
from tests.commands import GOOD, config, passed, refusal, run, write_people
from tests.models.worlds import release as release_of_estimator
from tests.models.worlds import world

ESTIMATOR = ("--estimator", "sklearn.naive_bayes:GaussianNB")
NETWORK = ("--batch", "32", "--budgets", "none")
POSIX_ONLY = pytest.mark.skipif(sys.platform == "win32", reason="pipes have no path")


# Targets that are no regular files


@contextmanager
def read_pipe(pipe: Path, copy: Path) -> Iterator[None]:
    """A pipe whose reader writes what comes out into a file."""
    os.mkfifo(pipe)
    with copy.open("wb") as stream:
        reader = subprocess.Popen(["cat", str(pipe)], stdout=stream)
        try:
            yield
            reader.wait(timeout=10)
        finally:
            reader.kill()
            reader.wait()


@POSIX_ONLY
def test_a_pipe_is_written_into_and_stays_a_pipe(tmp_path):
    passed("audit", GOOD, "--json", tmp_path / "audit.json")
    pipe = tmp_path / "pipe.json"
    copy = tmp_path / "copy.json"
    with read_pipe(pipe, copy):
        passed("audit", GOOD, "--json", pipe)
        assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert copy.read_bytes() == (tmp_path / "audit.json").read_bytes()


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root makes devices"
)
def test_a_device_stays_a_device(tmp_path):
    """A twin of /dev/null: the real one is never named here."""
    device = tmp_path / "null.json"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("devices cannot be made here")
    passed("audit", GOOD, "--json", device)
    assert stat.S_ISCHR(device.stat().st_mode)


@POSIX_ONLY
def test_a_link_is_refused_and_what_it_points_to_is_left(tmp_path):
    target = tmp_path / "target.json"
    target.write_text("of somebody else")
    link = tmp_path / "link.json"
    link.symlink_to(target)
    refusal("audit", GOOD, "--json", link)
    assert link.is_symlink()
    assert target.read_text() == "of somebody else"


@pytest.mark.parametrize("model", [ESTIMATOR, NETWORK])
def test_a_refused_training_leaves_no_folder(model, tmp_path):
    table = write_people(tmp_path / "people.csv", 60)
    out = tmp_path / "out"
    said = ("--label", "approved", "--positive", "yes", "--outcome", "benefit")
    quick = ("--attribute", "sex", "--seeds", "2", *config(engine={"jobs": 1}))
    done = passed("train", table, *said, *quick, *model, "-o", out, code=2)
    assert "fewer than 10 people" in done.stderr
    assert not out.exists()


# Updates: the same people but for one, released again


def release_people(
    folder: Path, name: str, people: pd.DataFrame, *more: str
) -> tuple[int, str]:
    """The exit code and the words of a release of these people, into the folder."""
    table = folder / name
    people.to_csv(table, index=False)
    said = ("--attribute", "sex", "--outcome", "benefit", "--split-kind", "random")
    done = run("release", table, *said, "--out", folder / "out", *more)
    return done.returncode, done.stderr


def scored() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    columns = {name: rng.integers(0, 2, 400) for name in ("y_true", "y_pred")}
    columns["sex"] = rng.choice(["f", "m"], 400)
    columns["split"] = np.where(rng.random(400) < 0.7, "train", "test")
    return pd.DataFrame({**columns, "id": np.arange(400)})


@pytest.mark.parametrize("columns", [(), ("--record-id", "id")])
def test_an_update_under_another_name_without_one_person_is_refused(columns, tmp_path):
    people = scored()
    assert release_people(tmp_path, "nov.csv", people, *columns)[0] == 0
    code, told = release_people(tmp_path, "dec.csv", people[1:], *columns)
    assert code == 2, told
    assert [path.name for path in (tmp_path / "out").glob("*.json")] == [
        "nov.sex.release.json"
    ]


@pytest.mark.parametrize("n_missing", [0, 1])
def test_an_update_under_the_same_name_is_not_written_over_the_old_one(
    n_missing, tmp_path
):
    people = scored()
    release_people(tmp_path, "people.csv", people)
    (written,) = (tmp_path / "out").glob("*.json")
    old = written.read_bytes()
    changed = people[n_missing:].assign(y_pred=1 - people["y_pred"])
    code, told = release_people(tmp_path, "people.csv", changed)
    assert code == 2
    assert ("--replace" in told) == (n_missing == 0)  # few are refused whatever is said
    assert written.read_bytes() == old


def test_keyed_digests_of_the_rows_lie_beside_a_release_for_its_owner_alone(tmp_path):
    release_people(tmp_path, "people.csv", scored())
    beside = [
        path
        for path in (tmp_path / "out").iterdir()
        if not path.name.endswith(".release.json")
    ]
    (digests,) = beside
    assert stat.S_IMODE(digests.stat().st_mode) == 0o600


# The same of what is trained, and of releases that Python writes


def trained(folder: Path, name: str, people: pd.DataFrame, *model: str) -> str:
    """What training on these people says; it ends by itself, or is refused."""
    people.to_csv(folder / name, index=False)
    said = ("--label", "y", "--positive", "1", "--attribute", "sex")
    quick = ("--outcome", "benefit", "--seeds", "2", *config(engine={"jobs": 1}))
    out = folder / "out"
    return run("train", folder / name, *said, *quick, *model, "-o", out).stderr


@pytest.mark.parametrize("n_missing", [1, 60])
def test_an_update_of_what_was_trained_is_refused_for_few_people(n_missing, tmp_path):
    rng = np.random.default_rng(7)
    people = pd.DataFrame({"y": rng.integers(0, 2, 400), "age": rng.random(400)})
    people["sex"] = rng.choice(["f", "m"], 400)
    trained(tmp_path, "nov.csv", people, *ESTIMATOR)
    told = trained(tmp_path, "dec.csv", people[n_missing:], *ESTIMATOR)
    made = sorted(path.name for path in (tmp_path / "out").glob("*.release.json"))
    assert ("fewer than 10 of one group and label" in told) == (n_missing == 1)
    assert made == ["dec.sex.release.json", "nov.sex.release.json"][n_missing == 1 :]
    (rows, *_) = (tmp_path / "out").glob("*.rows")
    assert stat.S_IMODE(rows.stat().st_mode) == 0o600


def written(people: pd.DataFrame, secret: bytes) -> pcer.Release:
    return pcer.release_from_predictions(
        people["y_true"],
        people["y_pred"],
        sensitive_features=people[["sex"]],
        split=people["split"],
        split_kind="random",
        outcome="benefit",
        record_id=people["id"],
        disclosure={"secret": secret},
    )


def test_python_writes_over_a_private_release_only_where_it_is_told_to(tmp_path):
    path = tmp_path / "people.release.json"
    people = scored()
    written(people, b"").save(path)
    old = path.read_bytes()
    written(people, b"").save(path)  # the same bytes
    other = written(people[1:], b"")
    with pytest.raises(InputError, match=r"cannot be checked.*replace=True"):
        other.save(path)
    assert path.read_bytes() == old
    pcer.write_release(other, path, replace=True)
    assert path.read_text() == other.to_json()


def test_python_refuses_an_update_by_few_people_under_a_secret(tmp_path):
    secret = bytes(np.random.default_rng(3).bytes(32))
    people = scored()
    written(people, secret).save(tmp_path / "nov.release.json")
    (rows,) = tmp_path.glob("*.rows")
    assert stat.S_IMODE(rows.stat().st_mode) == 0o600
    with pytest.raises(InputError, match="wait until more have changed"):
        written(people[1:], secret).save(tmp_path / "dec.release.json", replace=True)
    assert not (tmp_path / "dec.release.json").exists()
    written(people[200:], secret).save(tmp_path / "dec.release.json")
    again = written(people.assign(y_pred=1 - people["y_pred"]), secret)
    with pytest.raises(InputError, match=r"other numbers; to write over it"):
        again.save(tmp_path / "nov.release.json")
    again.save(tmp_path / "nov.release.json", replace=True)


def test_estimators_of_few_others_are_refused_under_a_secret(tmp_path):
    from sklearn.naive_bayes import GaussianNB

    known = world(400)
    fewer = tuple(column[1:] for column in known)
    secret = bytes(np.random.default_rng(3).bytes(32))
    nov, dec = (
        release_of_estimator(GaussianNB(), people, secret=secret, random_state=None)
        for people in (known, fewer)
    )
    nov.save(tmp_path / "nov.release.json")
    with pytest.raises(InputError, match="wait until more have changed"):
        dec.save(tmp_path / "dec.release.json")
