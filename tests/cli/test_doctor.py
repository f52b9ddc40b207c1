"""``pcer doctor``: what a bug report needs, and nothing of its writer."""

import re

import pytest

import pcer
from pcer.cli.doctor import FOR_WORK_ON_PCER, report_lines
from pcer.files import cache_folder
from tests.commands import passed
from tests.pages import ROOT


def test_it_fits_a_screen_and_names_every_extra():
    import tomllib

    text = passed("doctor").stdout
    lines = text.splitlines()
    assert lines[0].startswith(f"pcer          {pcer.__version__}, Python 3.")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra in {*project["optional-dependencies"]} - {*FOR_WORK_ON_PCER}:
        assert re.search(rf"^{extra} ", text, re.MULTILINE), extra
    assert re.search(r"numpy 2\.", text)


@pytest.mark.parametrize("is_inside", [True, False])
def test_it_names_no_folder_but_its_own(is_inside, tmp_path, monkeypatch):
    home = tmp_path / "erika-mustermann"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PCER_DATA", str(tmp_path / "patients"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    state = home / "state" if is_inside else tmp_path / "elsewhere"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    (state / "pcer").mkdir(parents=True)
    (state / "pcer" / "abc.secret").write_bytes(b"not to be read")
    text = "\n".join(report_lines())
    assert "erika" not in text
    assert "patients" not in text
    assert "not to be read" not in text
    folders = re.findall(r"(?:^|\s)(/\S+)", text)
    ours = [] if is_inside else [str(state / "pcer")]
    assert sorted(folders) == sorted([f"{cache_folder()};", *ours])
    assert "(1 kept)" in text
    assert "PCER_DATA names another folder" in " ".join(text.split())


def test_what_is_missing_is_said(monkeypatch):
    monkeypatch.setattr("pcer.cli.doctor.requires", lambda _: ["numpy>=2", "nosuch>=1"])
    monkeypatch.setattr("pcer.cli.doctor.find_spec", lambda name: None)
    monkeypatch.delenv("PCER_CACHE", raising=False)
    text = "\n".join(report_lines())
    assert re.search(r"^auditor +numpy \S+; lacks nosuch$", text, re.MULTILINE)
    assert "torch is not installed" in text
    assert "datasets come with the extra train" in text
