"""A short run of the fuzzer, and that it finds what there is to find."""

from __future__ import annotations

import pytest

from tests.fuzz.targets import fuzz


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
