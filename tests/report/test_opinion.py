"""The opinion: short, without HTML or praise.

``test_one_voice`` compares it with the JSON.
"""

import re

import numpy as np
import pytest

import pcer
from pcer.release.file import parse_release
from tests.commands import passed
from tests.pages import ROOT, hostile_audit
from tests.test_one_voice import check_opinion
from tests.worlds.lies import FOREST, LIES, told

DEMO = ROOT / "studies" / "paper" / "compas.race.release.json"
HEADINGS = [
    "Scope",
    "What was received",
    "What was checked and recomputed",
    "What rests on the trainer's word",
    "Findings",
    "Bounds",
    "Limits",
    "What to ask for next",
]
# Sizes against the plan's margins are no judgement, and a weak attack is one by its kind.
PRAISE = "sound|good|fair|safe"
BLAME = "bad|unfair|serious|severe|alarming"
JUDGING = rf"\b({PRAISE}|{BLAME})\b"


MOST_WORDS = 650


def words(text: str) -> int:
    return sum(bool(re.search(r"\w", word)) for word in text.split())


@pytest.mark.parametrize("path", [DEMO, FOREST], ids=lambda path: path.name)
def test_it_is_short_says_what_the_json_says_and_judges_nobody(path):
    audit = pcer.audit(pcer.read_release(path))
    text = audit.opinion()
    check_opinion(audit)
    assert words(text) <= MOST_WORDS
    assert re.findall("^## (.+)$", text, re.MULTILINE) == HEADINGS
    assert not re.search(JUDGING, text)
    assert audit.release_sha256 in text
    assert audit.plan_sha256 in text
    assert re.search("[15] of 200 made-up groups raises? the exposure finding", text)
    assert "which the release lacks" not in text
    assert passed("audit", path, "--opinion", "-").stdout == text


@pytest.mark.parametrize("lie", LIES)
def test_a_release_that_contradicts_itself_is_named_and_nothing_is_found(lie):
    release = parse_release(told(lie, np.random.default_rng(4)), file="forged")
    audit = pcer.audit(release, pcer.Plan(resamples=20, null_draws=20))
    text = audit.opinion()
    check_opinion(audit)
    assert words(text) <= MOST_WORDS
    asked = "A correction or an explanation of each contradiction above." in text
    assert asked == bool(audit.declarations)
    if any(each.caps_verdict for each in audit.declarations):
        assert "training data? **Cannot tell.**" in text
        assert "worse served? **Cannot tell.**" in text


def test_made_up_groups_are_taken_on_trust_where_they_are_and_asked_for_where_not():
    release = pcer.read_release(FOREST)
    for rows in (release.placebo, []):
        audit = pcer.audit(release.model_copy(update={"placebo": rows}))
        text = audit.opinion()
        assert (" of 200 made-up groups raise" in text) == bool(rows)
        assert ("with made-up groups, which the release" in text) == (not rows)


def test_names_of_others_are_text_and_several_releases_are_parts_of_one_file(tmp_path):
    text = hostile_audit().opinion()
    assert not re.search(r"(?<!\\)[<>]|&(?:lt|gt|amp);", text)
    out = tmp_path / "opinion.md"
    done = passed("audit", FOREST, DEMO, "--opinion", out, "--summary")
    assert f"Opinion: {out}" in done.stdout
    written = out.read_text(encoding="utf-8")
    assert len(re.findall("^# Opinion", written, re.MULTILINE)) == 2
