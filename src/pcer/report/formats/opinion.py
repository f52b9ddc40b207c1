"""How is an auditor's opinion written?

``pcer audit --opinion`` and ``Audit.opinion`` call ``to_opinion``. Date, auditor and
addressee are the caller's: no clock is read. To add a part: a value in ``_opinion``,
its place in ``templates/opinion.md``, its words in the section ``opinion`` of
``words.toml``; what rests on the trainer's word is a row of ``_on_trust``, with what
would prove it.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from pcer import wording
from pcer._version import __version__
from pcer.auditing import sentences
from pcer.auditing.answers import Difference
from pcer.auditing.record import Audit
from pcer.auditing.sentences import Sentences, telling
from pcer.auditing.sentences.rows import Row, shortened
from pcer.errors import InputError
from pcer.files import as_shown
from pcer.release.attack_kinds import ACCURACY, Scale, attack_kind
from pcer.release.records import require_phrases
from pcer.report.formats.markdown import markdown_text, n_words, pipe_table
from pcer.report.pictures.looks import environment
from pcer.report.tables import background
from pcer.report.tables.finding import FEW_ROWS
from pcer.report.tables.settings import settings_table

MOST_WORDS: Final = 650
MOST_SETTINGS: Final = 12  # with a row of findings each
ENTITIES: Final = {"&lt;": "\\<", "&gt;": "\\>", "&amp;": "\\&"}
GENERATOR: Final = f"pcer {__version__}"

_say = partial(wording.say, "opinion")


class Signed(NamedTuple):
    """What a caller says of an opinion, which lists what is None as not given."""

    date: str | None = None  # as ISO 8601 has it
    auditor: str | None = None
    addressee: str | None = None


UNSIGNED: Final = Signed()


class OnTrust(NamedTuple):
    """A statement that rests on the trainer's word, and what would prove it."""

    statement: str
    proof: str


def signed_by(
    date: str | None = None, auditor: str | None = None, addressee: str | None = None
) -> Signed:
    """Check what a caller says of an opinion.

    Args:
        date: such as "2026-11-19".
        auditor: who gives the opinion, in at most 80 characters.
        addressee: whom it is for, likewise.
    """
    require_phrases(date=date, auditor=auditor, addressee=addressee)
    if date is not None:
        _require_date(date)
    return Signed(date, auditor, addressee)


def _require_date(date: str) -> None:
    try:
        is_date = datetime.date.fromisoformat(date).isoformat() == date
    except ValueError:
        is_date = False
    if not is_date:
        raise InputError(
            f"date must be year, month and day, such as 2026-11-19, not {date!r}.",
            field="date",
        )


def to_opinion(audits: Sequence[Audit], signed: Signed = UNSIGNED) -> str:
    """One opinion after the other; some 650 words at most each."""
    shown = map(as_shown, audits)
    text = "\n".join(_one_opinion(audit, signed) for audit in shown)
    for entity, escaped in ENTITIES.items():  # no HTML, which Word would show
        text = text.replace(entity, escaped)
    return text


def _one_opinion(audit: Audit, signed: Signed) -> str:
    """The opinion, with as many figures of its rows as it has room for unsigned."""
    page = environment().get_template("opinion.md")
    parts = _opinion(audit)

    def written(rows: Sequence[Row], by: Signed) -> str:
        places = {**parts, "rows": rows, "signed": _signature(by)}
        return page.render(**places, say=_say, text=markdown_text)

    def fits(rows: Sequence[Row]) -> bool:
        return n_words([written(rows, UNSIGNED)]) <= MOST_WORDS

    return written(shortened(parts["rows"], fits), signed)


def _opinion(audit: Audit) -> dict[str, Any]:
    """What the template places, in its order: sentences, and rows of its tables."""
    said = sentences.of(audit, audit.told)
    caps_verdict = any(declaration.caps_verdict for declaration in audit.declarations)
    on_trust = _on_trust(audit, said)
    beside = [one for one in audit.family if one != audit.release_sha256]
    return {
        "title": _say("title", subject=background.subject_name(audit)),
        "scope": _scope(audit, said),
        "release_sha256": audit.release_sha256,
        "beside": beside,
        "plan_sha256": audit.plan_sha256,
        "program": GENERATOR,
        "checked": [_say("computed"), *_checks(audit)],
        "on_trust": [one.statement for one in on_trust],
        "headline": said.headline,
        "rows": said.rows,
        "numbers": pipe_table(settings_table(audit, most_rows=MOST_SETTINGS)).strip(),
        "bounds": _bounds(audit),
        "bound_note": _say("no_bounds" if caps_verdict else "bound_note"),
        "limits": [
            audit.choice,
            *background.left_out(audit),
            wording.say("account", "not_measured"),
        ],
        "to_ask": _to_ask(audit, said, on_trust),
    }


def _signature(signed: Signed) -> list[str]:
    """Date, auditor and addressee, then which of them are not given."""
    given = []
    missing = []
    for name, value in signed._asdict().items():
        if value is None:
            missing.append(_say(f"no_{name}"))
        else:
            given.append(_say(name, value=value))
    if missing:
        given.append(_say("not_given", missing=", ".join(missing)))
    return given


def _scope(audit: Audit, said: Sentences) -> list[str]:
    subject = audit.subject
    groups = wording.listed(subject.groups)
    settings = ", ".join(background.setting_labels(audit))
    return [
        f"{' · '.join(said.header)}.",
        _say("subject", about=subject, groups=groups),
        _say("settings", settings=settings),
    ]


def _checks(audit: Audit) -> list[str]:
    """Contradictions; without any, what is said of counts that agree or are absent."""
    if audit.declarations:
        return [declaration.sentence for declaration in audit.declarations]
    agreements = [wording.say("how_sure", name) for name in ("consistent", "no_counts")]
    return [sentence for sentence in agreements if sentence in audit.trust]


def _on_trust(audit: Audit, said: Sentences) -> list[OnTrust]:
    """What no number of the release can show, the check with made-up groups too."""
    splits = "random" if _is_random(audit) else "not_random"
    names = ["counts", splits]
    if any(setting.epsilon is not None for setting in audit.settings):
        names.append("epsilon")
    names.append("nothing_left_out")
    on_trust = [OnTrust(_say(name), _say(f"ask_{name}")) for name in names]
    if _has_placebo(audit):
        checked = said.rows[-1].figures[0]
        on_trust.append(OnTrust(checked, _say("ask_placebo_again")))
    return on_trust


def _is_random(audit: Audit) -> bool:
    return audit.subject.split_kind == "random"


def _bounds(audit: Audit) -> list[dict[str, str]]:
    """The most by which two groups may differ, in exposure and in outcomes."""
    bounds = []
    for pair in audit.told.pairs[:FEW_ROWS]:
        exposure = _bound(pair.exposure.difference, audit.attack_kind.scale)
        outcomes = _bound(pair.outcomes.difference, ACCURACY)
        groups = wording.listed(pair.groups)
        bounds.append({"groups": groups, "exposure": exposure, "outcomes": outcomes})
    return bounds


def _bound(difference: Difference, scale: Scale) -> str:
    bound = difference.upper_bound
    if bound is None:
        return wording.NOTHING
    return f"{scale.difference(bound)} {scale.points}"


def _to_ask(audit: Audit, said: Sentences, on_trust: Sequence[OnTrust]) -> list[str]:
    """What would prove what rests on the trainer's word, then what is missing."""
    questions = []
    if audit.declarations:
        questions.append(_say("ask_contradiction"))
    questions += [one.proof for one in on_trust]
    if not _has_placebo(audit):
        questions.append(_say("ask_placebo"))
    if audit.stronger_attack is not None:
        attack = attack_kind(audit.stronger_attack)
        questions.append(_say("ask_attack", attack=attack.label))
    return [*questions, _say("ask_who"), said.next_step, *audit.next_steps[1:]]


def _has_placebo(audit: Audit) -> bool:
    """Whether the finding was checked with made-up groups."""
    return telling.answers_of(audit.told).trust.made_up is not None
