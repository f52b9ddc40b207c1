"""A short run of the fuzzer, and that it finds what there is to find."""

from __future__ import annotations

import pytest

from tests.fuzz import targets
from tests.fuzz.targets import Findings, audit_one, fuzz, read_one, trees


def test_nothing_ends_but_in_an_answer_or_one_sentence():
    wanted = {"releases": 1_000, "audits": 6, "commands": 3, "pages": 4, "tables": 4}
    findings = fuzz(wanted, seed=1)
    assert findings.failures == []
    assert sum(findings.counts[kind] for kind in findings.counts if "read" in kind) == 1_000
    for kind in ("read: refused", "read: answered", "audit: answered", "page: answered"):
        assert findings.counts[kind] > 0, kind


@pytest.mark.slow
def test_a_longer_run():
    wanted = {"releases": 30_000, "audits": 300, "commands": 60, "pages": 100, "tables": 150}
    assert fuzz(wanted, seed=2).failures == []


def test_a_traceback_would_be_found(monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise KeyError("evil")

    monkeypatch.setattr(targets, "parse_json", fail)
    findings = Findings()
    assert read_one(7, trees(), findings) is None
    assert findings.failures[0].startswith("read 7: KeyError: 'evil' (fail:")


def test_a_stall_would_be_found(monkeypatch):
    def stall(*_: object, **__: object) -> None:
        while True:
            pass

    monkeypatch.setattr(targets, "SECONDS", 0.2)
    monkeypatch.setattr(targets, "parse_json", stall)
    findings = Findings()
    read_one(7, trees(), findings)
    assert "TimeoutError: longer than 0.2 seconds" in findings.failures[0]


def test_a_hidden_character_would_be_found(monkeypatch):
    release = targets.parse_release(trees()[0], file="x")
    monkeypatch.setattr(targets, "plan_for", lambda *_: targets.parse_plan({}, file="x"))
    monkeypatch.setattr(targets, "to_latex_tables", lambda _: "\u202e")
    findings = Findings()
    audit_one(1, release, findings)
    assert "in an output" in findings.failures[0]
