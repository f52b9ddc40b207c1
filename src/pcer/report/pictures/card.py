"""How does one image show an audit: a card for a slide, a badge of one line?

``pcer audit --picture`` and ``Audit.plot`` draw the card (headline, six answers, the
pictures of two of them, digest), ``--badge`` the line (level and sizes). Both say in
their ``metadata`` what they were made from, and ``pcer verify`` makes them again. To
add a kind of image: a function of an audit that gives SVG, and its row in ``KINDS``.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from typing import Final, NamedTuple

from pcer._version import __version__
from pcer.auditing import sentences
from pcer.auditing.answers import EasierPair, ServedPair
from pcer.auditing.record import Audit, parse_plan
from pcer.auditing.sentences import Sentences, rows, telling
from pcer.errors import InputError
from pcer.files import as_shown, parse_json, require_format
from pcer.measuring.plan import Plan
from pcer.report.pictures import answers, looks
from pcer.report.pictures.looks import LIGHT, Drawn
from pcer.report.table import isolated
from pcer.wording import say

FORMAT: Final = "pcer-picture"
VERSION: Final = 1
METADATA: Final = "<metadata>"
WIDTH = 1200
MARGIN = 36
TEXT_SIZE = 16
LINE = 1.3  # height of a line, as a share of its font
ANSWER_LEFT = 330  # from the left edge of the card
PICTURES_LEFT = 800
COLUMN_GAP = 24
ROWS_RIGHT = PICTURES_LEFT - COLUMN_GAP
PICTURE_SCALE = 1.2
ROW_GAP = 18
# Of a badge.
BADGE_HEIGHT = 24
BADGE_TEXT = 13
BADGE_GAP = 14
BADGE_LETTER = 0.53
# Width of a letter as a share of its font, wide enough for any font.
LETTER = 0.58
BOLD_LETTER = 0.64


# What a picture was made from


class Source(NamedTuple):
    """What a picture says that it was made from."""

    kind: str
    release_sha256: str
    family: list[str]  # digests of all that it was judged together with
    plan: Plan


def picture_of(audit: Audit, kind: str) -> str:
    """An image of an audit by the name of its kind."""
    tree = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "generator": f"pcer {__version__}",
        "release_sha256": audit.release_sha256,
        "family": audit.family,
        "plan": audit.plan.model_dump(),
    }
    source = json.dumps(tree, allow_nan=False)
    return f"{KINDS[kind](as_shown(audit), source)}\n"


def read_source(text: str, *, file: str) -> Source:
    """What a picture was made from, by its own words."""
    if text.count(METADATA) != 1:
        raise InputError(f"{file} is not a picture of pcer: it names no release.")
    content = text.partition(METADATA)[2].partition("</metadata>")[0]
    tree = parse_json(html.unescape(content), file=file)
    require_format(tree, file=file, name=FORMAT, version=VERSION)
    kind = tree.get("kind")
    if kind not in KINDS:
        raise InputError(f"{file}: kind must be {' or '.join(KINDS)}, not {kind!r}.")
    plan = parse_plan(tree.get("plan"), file=f"{file}: plan")
    family = tree.get("family")
    if not isinstance(family, list):
        raise InputError(f"{file}: family must be a list of digests; write it again.")
    digest = str(tree.get("release_sha256"))
    return Source(kind, digest, [str(member) for member in family], plan)


# The card


class _Style(NamedTuple):
    """How a line of text looks."""

    size: int = TEXT_SIZE
    is_bold: bool = False
    role: str = "ink"  # of its colour


class _Text(NamedTuple):
    """A line of text as it stands on the card."""

    x: float
    y: float
    text: str
    size: int
    is_bold: bool
    colour: str


PLAIN = _Style()
MUTED = _Style(role="muted")
HEADLINE = _Style(size=28, is_bold=True)
FOOT = _Style(size=13, role="muted")


def card_svg(audit: Audit, source: str) -> str:
    """Headline, six answers, two pictures, and how to recompute them."""
    said = sentences.of(audit, audit.told)
    texts = _written(" · ".join(said.header), MARGIN, 44, MUTED)
    y = texts[-1].y + 40
    texts += _written(said.headline, MARGIN, y, HEADLINE)
    top = texts[-1].y + 58
    groups = _group_keys(audit, top - 22)
    rules = [(top, WIDTH - MARGIN)]
    drawings = _drawings(audit, said, top + ROW_GAP)
    for row in said.rows:
        texts += _row(row, top + TEXT_SIZE + ROW_GAP / 2)
        top = max(text.y for text in texts) + ROW_GAP / 2
        rules.append((top, ROWS_RIGHT))
    foot = max([top, *[one["foot"] for one in drawings]]) + ROW_GAP / 2
    rules[-1] = (foot, WIDTH - MARGIN)
    texts += _foot(audit, foot + ROW_GAP / 2 + FOOT.size)
    form = looks.environment().get_template("card.svg")
    return form.render(
        width=WIDTH,
        height=round(texts[-1].y + MARGIN / 2),
        margin=MARGIN,
        headline=said.headline,
        source=source,
        texts=texts,
        rules=rules,
        groups=groups,
        drawings=drawings,
        colour=LIGHT["group"],
    )


def _written(
    text: str, x: float, y: float, style: _Style = PLAIN, right: float = WIDTH - MARGIN
) -> list[_Text]:
    """A text broken into lines that end before ``right``."""
    letter = BOLD_LETTER if style.is_bold else LETTER
    n_letters = int((right - x) / (letter * style.size))
    lines = []
    for number, part in enumerate(looks.broken(text, n_letters)):
        line_y = round(y + number * LINE * style.size, 1)
        colour = LIGHT[style.role]
        lines.append(_Text(x, line_y, part, style.size, style.is_bold, colour))
    return lines


def _row(row: rows.Row, y: float) -> list[_Text]:
    """A question, and its answer beside it."""
    end = ANSWER_LEFT - COLUMN_GAP
    asked = _written(row.question, MARGIN, y, MUTED, end)
    parts = [(row.main, "alarm"), (row.aside, "ink")]
    if not row.is_alarm:
        parts = [(row.answer, "ink")]
    answered: list[_Text] = []
    for text, role in parts:
        if text:
            style = _Style(is_bold=True, role=role)
            answered += _written(text, ANSWER_LEFT, y, style, ROWS_RIGHT)
            y = answered[-1].y + LINE * TEXT_SIZE
    return [*asked, *answered]


def _group_keys(audit: Audit, y: float) -> list[Drawn]:
    keys = []
    x = MARGIN + 8.0
    for name in looks.drawn_groups(audit, audit.told):
        text = looks.short_name(name)
        keys.append({"x": x, "y": y, "name": text, **looks.look(audit, name)})
        x += LETTER * TEXT_SIZE * len(text) + 40
    return keys


def _drawings(audit: Audit, said: Sentences, top: float) -> list[Drawn]:
    """The rows' pictures below each other, at the right."""
    drawn: list[Drawn] = []
    for row in said.rows:
        drawing = answers.row_drawing(row, audit)
        if drawing is None:
            continue
        place = {"x": PICTURES_LEFT, "y": round(top, 1), "scale": PICTURE_SCALE}
        top += PICTURE_SCALE * drawing.height
        drawn.append({"drawing": drawing, "foot": top, **place})
        top += ROW_GAP
    return drawn


def _foot(audit: Audit, y: float) -> list[_Text]:
    lines = []
    digest = audit.release_sha256
    for text in (say("image", "verify"), say("image", "digest", digest=digest)):
        lines += _written(text, MARGIN, y, FOOT)
        y = lines[-1].y + LINE * FOOT.size
    return lines


# The badge


def badge_svg(audit: Audit, source: str) -> str:
    """Level and sizes in one line."""
    parts = []
    x = MARGIN / 3
    for text, is_alarm in badge_parts(audit):
        colour = LIGHT["alarm" if is_alarm else "ink"]
        parts.append({"x": round(x, 1), "text": isolated(text), "colour": colour})
        x += BADGE_LETTER * BADGE_TEXT * len(text) + BADGE_GAP
    form = looks.environment().get_template("badge.svg")
    return form.render(
        width=round(x), height=BADGE_HEIGHT, size=BADGE_TEXT, parts=parts, source=source
    )


def badge_parts(audit: Audit) -> list[tuple[str, bool]]:
    """Each with whether it has the alarm colour."""
    found = telling.answers_of(audit.told)
    level = say("level", found.spotting.answer).lower()
    easier = found.easier.pairs[0]
    wrongly = found.served.wrongly[0]
    return [
        (say("image", "spotted", level=level), "spotting" in found.alarms),
        (say("image", "easier", who=_who(easier)), "exposure" in found.alarms),
        (say("image", "wrongly", who=_who(wrongly)), "wrongly" in found.alarms),
    ]


def _who(pair: EasierPair | ServedPair) -> str:
    """The group that an answer names, and how large its difference is."""
    if pair.answer in ("differs", "differ"):
        return f"{rows.adverb(pair.size)}{looks.short_name(pair.groups[0])}"
    return say("image", pair.answer)


# By the name of its option's file.
KINDS: Final[dict[str, Callable[[Audit, str], str]]] = {
    "card": card_svg,
    "badge": badge_svg,
}
