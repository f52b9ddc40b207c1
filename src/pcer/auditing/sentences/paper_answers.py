"""Which two of the paper's questions does every screen answer?

Whether the same group is easier to spot and gets the worse predictions, the paper's
double disadvantage; and whether Delta PCER, its number, adds evidence about privacy.
To add a sentence: a line of ``words.toml``, sections ``both`` or ``delta``.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcer.auditing.answers import BothPair, PaperPair, ServedPair
from pcer.auditing.record import Audit, SettingResult
from pcer.auditing.sentences.rows import MOST_DIFFERENCES, Row, adverb
from pcer.auditing.sentences.serving import rate_phrase
from pcer.auditing.sentences.spotting import is_by_one
from pcer.auditing.sentences.telling import answers_of
from pcer.measuring.plan import POSITIVE_RATE
from pcer.measuring.sizes import Size
from pcer.release.attack_kinds import attack_kind
from pcer.wording import bounds, capital, listed, say, signed, two_digits

# What the paper's answers are called in ``words.toml``.
DELTA = {
    "memorised_not_whose": "memorised",
    "nothing_detected": "undetected",
    "outcomes_alone": "no",
    "cannot_tell": "unknown",
    "not_defined": "not_defined",
}


# Is it the same group in both?


def both_row(audit: Audit, setting: SettingResult) -> Row:
    """The paper's double disadvantage, by rates."""
    answer = answers_of(setting).both
    yes = [pair for pair in answer.pairs if pair.answer == "yes"]
    return Row(
        question=say("question", "both"),
        answer=_yes(yes) if yes else _no(audit, setting, answer.pairs[0]),
        figures=[*_both_figures(audit, setting)],
    )


def _yes(pairs: list[BothPair]) -> str:
    names = [pair.group or "" for pair in pairs]
    groups = listed(names[:MOST_DIFFERENCES])
    if len(names) > MOST_DIFFERENCES:
        groups += f" and {len(names) - MOST_DIFFERENCES} more"
    text = say("both", "yes", groups=groups)
    if all(pair.exposure_size is Size.SLIGHT for pair in pairs):
        return text + say("both", "privacy_is_slight")
    if all(pair.outcomes_size is Size.SLIGHT for pair in pairs):
        return text + say("both", "rate_is_slight")
    return text


def _no(audit: Audit, setting: SettingResult, pair: BothPair) -> str:
    found = setting.pair_of(pair.groups)
    if pair.answer == "no" and pair.why == "different_groups":
        return say(
            "both",
            "no",
            exposed=found.exposure.group,
            served=found.outcomes.group,
            phrase=_rate_words(audit, found.outcomes.size),
        )
    if pair.answer == "no":
        margin = two_digits(audit.plan.equal_within or 0.0)
        return say("both", "no_equal", margin=margin)
    if pair.answer in ("not_given", "cannot_tell"):
        return say("both", pair.answer)
    if pair.downgraded is not None:
        return say("both", "withdrawn")
    if len(pair.not_shown) == 2:
        return say("both", "neither")
    return say("both", f"no_{pair.not_shown[0]}" if pair.not_shown else "no_both")


def _both_figures(audit: Audit, setting: SettingResult) -> Iterator[str]:
    answer = answers_of(setting)
    yes = [pair for pair in answer.both.pairs if pair.answer == "yes"]
    if yes:
        yield _by_what(audit, setting, yes)
    for pair in answer.both.pairs:
        if pair.downgraded is not None:
            reason = pair.downgraded.rstrip(".")
            yield say("both", "downgraded", reason=reason, groups=listed(pair.groups))
    first = answer.both.pairs[0]
    if first.group is None:
        return
    (easier,) = [one for one in answer.easier.pairs if {*one.groups} == {*first.groups}]
    shown = [found.attack for found in easier.by_attack if found.shown]
    attacks = listed([attack_kind(name).label for name in shown])
    how = adverb(first.exposure_size).strip()
    if is_by_one(easier):
        attacks += ", one of two attacks"
    sentence = say(
        "both",
        "halves",
        size=f"{how}, " if how else "",
        attacks=attacks,
        predicted=_rate_words(audit, first.outcomes_size),
    )
    yield capital(sentence)


def _by_what(audit: Audit, setting: SettingResult, pairs: list[BothPair]) -> str:
    """By which rates it is the same group in both, and by which error another."""
    served = answers_of(setting).served
    is_harm = audit.subject.outcome == "harm"
    kind = audit.plan.benefit_kind
    same = [kind.name.replace("_", " ")]
    if kind.name == POSITIVE_RATE:
        same = [say("both", "predictions")]
    other = ""
    for found, of_true in ((served.wrongly, not is_harm), (served.missed, is_harm)):
        noun = say("both", "misses" if of_true else "wrong_predictions")
        named = [_named_by(found, pair) for pair in pairs]
        if named == [pair.group for pair in pairs]:
            same.append(noun)
        elif len(pairs) == 1 and named != [None]:
            other = say("both", "not_by", named=noun, group=named[0])
    if len(same) == 1 and not other:
        other = say("both", "alone")
    return say("both", "by", named=listed(same), other=other)


def _named_by(found: list[ServedPair], both: BothPair) -> str | None:
    """Which of two groups an error names; None where it shows no difference."""
    (pair,) = [one for one in found if {*one.groups} == {*both.groups}]
    return pair.groups[0] if pair.answer == "differ" else None


def _rate_words(audit: Audit, size: Size | None) -> str:
    """What is said of the group with the worse rate."""
    return rate_phrase(audit).format(size=adverb(size))


# Does Delta PCER add evidence about privacy?


def delta_row(audit: Audit, setting: SettingResult) -> Row:
    """Whether Delta PCER is outside what it would be if nothing were memorised."""
    answer = answers_of(setting).paper
    form = DELTA[answer.answer]
    if answer.answer == "cannot_tell" and answers_of(setting).trust.contradictions:
        form = "contradicted"
    pairs = [pair for pair in answer.pairs if pair.answer == answer.answer]
    figures = [*_delta_figures(pairs, has_many=len(answer.pairs) > 1)]
    return Row(say("question", "paper"), say("delta", form), figures)


def _delta_figures(pairs: list[PaperPair], *, has_many: bool) -> Iterator[str]:
    """The value, what models that memorise nobody give, and what its sign means."""
    known = [pair for pair in pairs if pair.value is not None]
    if not known:
        return
    pair = max(known, key=lambda one: abs(one.value or 0.0))
    first, second = pair.groups
    words = {
        "value": signed(pair.value),
        "interval": "" if pair.interval is None else f" {bounds(pair.interval)}",
        "of_pair": "",
    }
    if has_many:
        words["of_pair"] = say("delta", "of_pair", first=first, second=second)
    if pair.null_mean is None:
        yield say("delta", "value_alone", **words)
    else:
        null_interval = ""
        if pair.null_interval is not None:
            null_interval = f" {bounds(pair.null_interval)}"
        null = signed(pair.null_mean)
        yield say(
            "delta",
            "value_pulled" if pair.answer == "memorised_not_whose" else "value",
            null=null,
            null_interval=null_interval,
            moves=_moves(pair),
            **words,
        )
    yield say("delta", "higher", first=first)


def _moves(pair: PaperPair) -> str:
    """Which way memorising moves Delta PCER from what it would be without."""
    value, null = pair.value or 0.0, pair.null_mean or 0.0
    is_nearer = abs(value) < abs(null) and value * null >= 0
    return say("delta", "towards_0" if is_nearer else "away")
