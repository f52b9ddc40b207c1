"""In which sizes, colours, marks and words are pictures drawn?

What the pictures beside this file share. To add a picture: a function beside these that
fills a template of ``templates/`` with coordinates and words.
"""

from __future__ import annotations

import math
import textwrap
from functools import cache
from typing import TYPE_CHECKING, Any

from pcer.auditing.record import Audit, SettingResult
from pcer.auditing.sentences.telling import answers_of
from pcer.errors import clipped
from pcer.release.attack_kinds import AttackKind
from pcer.report.table import isolated

if TYPE_CHECKING:
    import jinja2


# Widths in pixels that text is laid out for: a telephone's, a screen's.
NARROW = 440
WIDE = 1160
FONT = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Arial, sans-serif"
# Sizes of fonts.
CLAIM_SIZE = 15
TEXT_SIZE = 12
NOTE_SIZE = 11
# Average width of a letter in a wide font, and height of a line, as shares of the
# font's size.
LETTER = 0.55
BOLD_LETTER = 0.6
LINE = 1.32
LETTER_WIDTH = 7  # pixels of a letter in names
LONGEST_NAME = 26
MARK_MARGIN = 7  # room for half a point at both ends of an axis
MOST_GROUPS = 5
# Colours by role, for light and dark; distinct with any colour vision.
PALETTE = {
    "ink": ("#1f2933", "#e6e9ec"),
    "muted": ("#52606d", "#a9b4c0"),
    "line": ("#c9d1d9", "#3e4c59"),
    "shade": ("#eceff2", "#232d37"),
    "band": ("#c3ccd5", "#46545f"),
    "group": ("#1f5b94", "#8cbfec"),  # all groups: their marks differ
    "alarm": ("#a4161a", "#ff9d94"),  # what is alarming, and nothing else
    "series-0": ("#0072b2", "#56b4e9"),
    "series-1": ("#c14f00", "#f0a860"),
    "series-2": ("#00805d", "#3fcf9f"),
    "series-3": ("#a8497e", "#eda3cb"),
    "series-4": ("#6f6100", "#e3d34a"),
    "series-5": ("#5d4fb3", "#b3a8f5"),
}
LIGHT = {name: light for name, (light, _) in PALETTE.items()}
# The colour of a role: the page's own, and outside a page the light one.
COLOUR_OF = {role: f"var(--{role}, {light})" for role, light in LIGHT.items()}
N_SERIES = 6
CIRCLE = "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z"
SQUARE = "M-4.5-4.5h9v9h-9z"
UP = "M0-6L5.5 4.5h-11z"
DOWN = "M0 6L5.5-4.5h-11z"
DIAMOND = "M0-6L6 0L0 6L-6 0z"
# Marks of the groups in their order, drawn around 0, every second one hollow.
SHAPES = (CIRCLE, SQUARE, UP, DIAMOND, DOWN)
Drawn = dict[str, Any]  # what a template places: words, coordinates, looks


def drawn_groups(audit: Audit, setting: SettingResult) -> list[str]:
    """Groups in their order; of too many those that the verdict names come first."""
    names = marked_groups(audit)
    first = sorted(names, key=lambda name: name not in setting.named)[:MOST_GROUPS]
    return [name for name in names if name in first]


def text_lines(text: str, y: float, size: int, width: int = NARROW) -> list[Drawn]:
    """A text broken into lines, the first at ``y``."""
    letter = BOLD_LETTER if size == CLAIM_SIZE else LETTER
    n_letters = int(width / (letter * size))
    lines = []
    for number, part in enumerate(broken(text, n_letters)):
        lines.append({"y": round(y + number * LINE * size, 1), "text": part})
    return lines


def broken(text: str, n_letters: int) -> list[str]:
    """A text in lines of at most so many letters, one at least."""
    return textwrap.wrap(text, n_letters, break_on_hyphens=False) or [""]


def plain_number(value: float) -> str:
    """A number of an axis with a true minus sign."""
    return f"{value:g}".replace("-", "−")


def round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below ``least``.

    >>> round_step(0.3), round_step(2.0), round_step(7)
    (0.5, 2.0, 10.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    steps = [factor * power for factor in (1, 2, 5, 10)]
    return next(step for step in steps if step >= least * (1 - 1e-9))


def exposure_amount(kind: AttackKind, exposure: float) -> str:
    """An exposure in people of 100, as the audit's sentences have it."""
    return kind.scale.hundredths(exposure).replace("-", "−")


def group_mark(position: int) -> Drawn:
    """The mark of a group by its position: one hue, its own shape and filling."""
    return {
        "shape": SHAPES[position % len(SHAPES)],
        "colour": COLOUR_OF["group"],
        "is_filled": position % 2 == 0,
    }


def look(audit: Audit, name: str) -> Drawn:
    """A group's mark, in every picture, row and notebook."""
    return group_mark(marked_groups(audit).index(name))


def marked_groups(audit: Audit) -> list[str]:
    """Groups in the order of their marks: those that differ come first.

    The first mark is dark, so that the group that an answer names catches the eye.
    """
    answers = answers_of(audit.told)
    pairs = [*answers.served.wrongly[:1], *answers.served.rates[:1]]
    first = next((pair.groups for pair in pairs if pair.answer == "differ"), ())
    first = first or answers.easier.pairs[0].groups
    return [*dict.fromkeys([*first, *audit.subject.groups])]


def short_name(name: str) -> str:
    """A name as a picture has room for it."""
    return isolated(clipped(name, LONGEST_NAME))


def fill_template(template: str, notes: list[Drawn], **marks: Any) -> str:
    """A template with its marks, as high as its last line of notes needs."""
    height = round(notes[-1]["y"] + 6)
    form = environment().get_template(template)
    return form.render(height=height, notes=notes, **marks)


@cache
def environment() -> jinja2.Environment:
    """The templates of the room; what they are filled with is escaped."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("pcer.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
