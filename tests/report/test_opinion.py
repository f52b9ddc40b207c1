"""The opinion: short, without HTML or praise.

``test_one_voice`` compares it with the JSON.
"""

import re

import numpy as np
import pytest

import pcer
from pcer.release.file import parse_release
from tests.commands import passed, refusal
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
    assert "\nNot given: a date, who audited, whom this is for.\n" in text
    assert f"Computed by pcer {pcer.__version__}." in text
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


SIGNED = ("--date", "2026-01-31", "--auditor", "A. <b>Auditor</b>", "--for", "you")


def test_date_auditor_and_addressee_are_the_callers_and_stand_first():
    text = passed("audit", FOREST, "--opinion", "-", *SIGNED).stdout
    first, _, rest = text.partition("## Scope")
    _, *signed = [line for line in first.splitlines() if line]
    auditor = r"Auditor: A. \<b\>Auditor\</b\>."
    assert signed == ["Date: 2026-01-31.", auditor, "For: you."]
    audit = pcer.audit(FOREST)
    plain = audit.opinion()
    assert rest == plain.partition("## Scope")[2]
    given = {"date": "2026-01-31", "auditor": "A. <b>Auditor</b>", "addressee": "you"}
    assert audit.opinion(**given) == text
    assert "Not given: whom this is for." in audit.opinion(
        **{**given, "addressee": None}
    )


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (("--date", "31.1.2026"), "date must be"),
        (("--date", "20260131"), "date must be"),
        (("--date", "2026-02-30"), "such as 2026-11-19"),
        (("--auditor", "x" * 81), "auditor must be"),
        (("--for", "two\nlines"), "Here that is --for."),
        (("--for", ""), "Here that is --for."),
    ],
)
def test_what_no_reader_could_use_in_an_opinion_is_refused(options, field):
    assert field in refusal("audit", FOREST, "--opinion", "-", *options)


@pytest.mark.parametrize("option", ["--date", "--auditor", "--for"])
def test_what_only_an_opinion_shows_is_refused_without_one(option):
    assert "add --opinion FILE" in refusal("audit", FOREST, option, "2026-01-31")


def section(text: str, title: str) -> list[str]:
    """The paragraphs below a title."""
    body = text.split(f"## {title}\n")[1].split("\n## ")[0]
    return [line for line in body.splitlines() if line]


# What the trainer alone knows, and a word of what would prove it.
PROOFS = {
    "The counts and attack results are": "A rerun by a third party",
    "The splits were drawn at random": "The seeds of the splits",
    "does not say that its splits were random": "How the records were split",
    "The models kept the epsilon": "The training log and code",
    "No model and no record was left out": "A list of all models and records",
    "made-up groups": "The attack's score of each record",
}


@pytest.mark.parametrize("split_kind", ["random", "other"])
@pytest.mark.parametrize("path", [DEMO, FOREST], ids=lambda path: path.name)
def test_all_that_rests_on_the_trainers_word_has_what_would_prove_it(path, split_kind):
    release = pcer.read_release(path)
    training = release.training.model_copy(update={"split_kind": split_kind})
    audit = pcer.audit(release.model_copy(update={"training": training}))
    text = audit.opinion()
    asked = section(text, "What to ask for next")
    said = section(text, "What rests on the trainer's word")
    assert len(said) >= 3
    for statement in said:
        (proof,) = [PROOFS[words] for words in PROOFS if words in statement]
        assert len([line for line in asked if line.startswith(proof)]) == 1
    assert any(
        "does not name the trainer, a date or a contact" in each for each in asked
    )


def test_names_of_others_are_text_and_several_releases_are_parts_of_one_file(tmp_path):
    text = hostile_audit().opinion()
    assert not re.search(r"(?<!\\)[<>]|&(?:lt|gt|amp);", text)
    out = tmp_path / "opinion.md"
    done = passed("audit", FOREST, DEMO, "--opinion", out, "--quiet")
    assert f"Opinion: {out}" in done.stdout
    written = out.read_text(encoding="utf-8")
    assert len(re.findall("^# Opinion", written, re.MULTILINE)) == 2
