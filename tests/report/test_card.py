"""A card and a badge: the audit's words, escaped, and made again by ``pcer verify``."""

import re
from xml.etree import ElementTree

import pytest

import pcer
from pcer.auditing import sentences
from pcer.errors import InputError
from pcer.report import verify_picture
from pcer.report.pictures import looks
from pcer.report.pictures.card import KINDS, badge_parts, picture_of
from tests.commands import run
from tests.pages import QUICK, ROOT, audited, hostile_audit, many_groups, mixed_audit

SVG = "{http://www.w3.org/2000/svg}"
COMPAS = ROOT / "studies" / "paper" / "compas.race.release.json"


def lines_of(text: str) -> list[str]:
    """The lines of text that the image shows."""
    elements = ElementTree.fromstring(text).iter(f"{SVG}text")
    return [element.text or "" for element in elements]


def coloured(text: str) -> str:
    """What stands in the alarm colour."""
    found = []
    for element in ElementTree.fromstring(text).iter(f"{SVG}text"):
        if element.get("fill") == looks.LIGHT["alarm"]:
            found.append(element.text or "")
    return " ".join(found)


def test_the_card_has_headline_answers_digest_and_how_to_recompute_it():
    audit = mixed_audit()
    words = " ".join(lines_of(picture_of(audit, "card")))
    said = sentences.of(audit, audit.told)
    assert audit.headline in words
    for row in said.rows:
        assert re.sub(r"\s", "", row.answer) in re.sub(r"\s", "", words)
    assert audit.release_sha256 in words
    assert "pcer verify" in words


def test_the_badge_has_level_and_sizes_in_one_line():
    audit = audited(COMPAS)
    svg = picture_of(audit, "badge")
    assert lines_of(svg) == [text for text, _ in badge_parts(audit)]
    assert [text.partition(": ")[2] for text in lines_of(svg)] == [
        "barely",
        "slightly African-American",
        "clearly African-American",
    ]
    assert coloured(svg).endswith("clearly African-American")
    heights = {
        element.get("y") for element in ElementTree.fromstring(svg).iter(f"{SVG}text")
    }
    assert len(heights) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_alarming_has_the_alarm_colour(kind):
    for audit in (mixed_audit(), audited(COMPAS), hostile_audit()):
        rows = sentences.of(audit, audit.told).rows
        is_alarming = any(row.is_alarm for row in rows)
        assert bool(coloured(picture_of(audit, kind))) == is_alarming


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_text_and_lines_end_within_the_image(kind):
    for audit in (hostile_audit(), pcer.audit(many_groups([*"abcdefgh"]), QUICK)):
        svg = picture_of(audit, kind)
        root = ElementTree.fromstring(svg)
        tags = {element.tag.removeprefix(SVG) for element in root.iter()}
        assert tags <= {"svg", "title", "metadata", "rect", "text", "path", "g"}
        for element in root.findall(f"{SVG}text"):
            size = float(element.get("font-size") or root.get("font-size"))
            end = float(element.get("x")) + 0.45 * size * len(element.text or "")
            assert end <= float(root.get("width"))


def write(path, kind="card", audit=None):
    path.write_text(picture_of(audit or mixed_audit(), kind), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_is_made_again_from_its_release(tmp_path, kind):
    audit = mixed_audit()
    path = write(tmp_path / "a.svg", kind)
    assert verify_picture(path, audit.sources) is None
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("<rect", "<rect ", 1), encoding="utf-8")
    difference = verify_picture(path, audit.sources)
    assert difference.startswith("at line 4, in the picture: the file says '<rect ")
    other = "0" * 64
    assert "its plan has the digest" in verify_picture(
        path, audit.sources, plan_sha256=other
    )


def test_an_image_of_another_release_is_refused(tmp_path):
    path = write(tmp_path / "a.svg")
    other = many_groups(["a", "b"])
    with pytest.raises(InputError, match="was made from the release with digest"):
        verify_picture(path, [other])
    for text, problem in (
        ("<svg></svg>", "is not a picture of pcer"),
        ("<metadata>{}</metadata>", '"format"'),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=problem):
            verify_picture(path, [other])


def test_an_image_of_a_family_needs_all_of_it(tmp_path):
    release = many_groups(["a", "b"])
    digest = {"provenance": release.provenance.model_copy(update={"data_digest": "d"})}
    first = release.model_copy(update=digest)
    about = first.subject.model_copy(update={"attribute": "another"})
    second = first.model_copy(update={"subject": about})
    audit = pcer.audit([first, second], QUICK)[0]
    assert len(audit.family) == 2
    path = write(tmp_path / "a.svg", audit=audit)
    assert verify_picture(path, [first], family=[second]) is None
    with pytest.raises(InputError, match=f"digest {second.sha256}"):
        verify_picture(path, [first])


def test_the_command_writes_and_verifies_both(tmp_path):
    release = ROOT / "tests" / "releases" / "by-hand.release.json"
    card, badge = tmp_path / "card.svg", tmp_path / "badge.svg"
    done = run("audit", release, "--picture", card, "--badge", badge)
    assert done.returncode == 0, done.stderr
    for path in (card, badge):
        done = run("verify", path, release)
        assert done.returncode == 0
        assert "every byte agrees with a fresh picture" in done.stdout
    refused = run("verify", card)
    assert refused.returncode == 2
    assert "needs the release that it audited" in refused.stderr
    refused = run("audit", release, "--picture", tmp_path / "card.png")
    assert refused.returncode == 2
    assert "--picture writes an SVG" in refused.stderr
    refused = run("audit", release, COMPAS, "--badge", badge)
    assert refused.returncode == 2
    assert "a badge shows one release" in refused.stderr
