"""Is one group worse served, by error and by rate?

The third row of every screen: the error that harms people first, with its denominator,
then the other error, then the rate beside what was true. Error and rate are two
answers, and where they name different groups both are said. To add a sentence: a line
of ``words.toml``, section ``serving``, and where it is said here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pcer.auditing.answers import Served, ServedAnswer, ServedPair
from pcer.auditing.record import Audit, SettingResult
from pcer.auditing.sentences.predicted import error_title, predicted_in
from pcer.auditing.sentences.rows import (
    Bar,
    Bars,
    Named,
    Row,
    apart,
    by_size,
    turned,
)
from pcer.auditing.sentences.telling import MOST_GROUPS_IN_A_SENTENCE, answers_of
from pcer.measuring.plan import POSITIVE_RATE
from pcer.wording import capital, decimals, listed, of_100, say

HUNDRED: Final = 100.0
# Splits below which the error of what training moves is itself very uncertain.
ENOUGH_SPLITS: Final = 5


def serving_row(audit: Audit, setting: SettingResult) -> Row:
    """Who is wrongly judged more often, and who gets the prediction more often."""
    answer = answers_of(setting).served
    is_alarm = "wrongly" in answers_of(setting).alarms
    return Row(
        question=say("question", "serving"),
        answer=_answer_words(audit, answer),
        figures=[*_figures(audit, setting, answer)],
        is_alarm=is_alarm,
        aside=_beside_errors(audit, answer) if is_alarm else "",
        bars=_bars(audit, answer),
    )


# The answer


def _answer_words(audit: Audit, answer: ServedAnswer) -> str:
    """All answers in a few words, the error that harms first."""
    errors = answer.wrongly[0].answer
    rates = answer.rates[0].answer
    if errors == rates == "no_difference_shown" and not _named(answer.missed):
        return say("serving", "neither_shown")
    if {errors, rates} == {"cannot_tell"}:
        return say("serving", "cannot_tell")
    if {errors, rates} == {"not_given"}:
        return say("serving", "not_given")
    return f"{_error_words(audit, answer)}. {_beside_errors(audit, answer)}"


def _error_words(audit: Audit, answer: ServedAnswer) -> str:
    named = _named(answer.wrongly)
    if named:
        phrase = _phrase(f"wrongly_{audit.subject.prediction_is}")
        return by_size(named, phrase)
    if _named(answer.missed):
        return say("serving", f"no_error_shown_{audit.subject.prediction_is}")
    forms = {
        "not_given": "errors_not_given",
        "too_few": "errors_too_few",
        "cannot_tell": "errors_cannot_tell",
    }
    return say("serving", forms.get(answer.wrongly[0].answer, "no_error_shown"))


def _beside_errors(audit: Audit, answer: ServedAnswer) -> str:
    """The other error, where it differs: often that of the other group; the rate."""
    rates = _rate_words(audit, answer)
    named = _named(answer.missed)
    if not named:
        return rates
    missed = by_size(named, _phrase(f"missed_{audit.subject.prediction_is}"))
    return f"{missed}. {rates}"


def _rate_words(audit: Audit, answer: ServedAnswer) -> str:
    named = _named(answer.rates)
    if not named:
        forms = {"not_given": "not_given", "cannot_tell": "rates_cannot_tell"}
        form = forms.get(answer.rates[0].answer, "rates_not_shown")
        return say("serving", form)
    return by_size(named, rate_phrase(audit)) + _truth_words(audit, answer)


def _truth_words(audit: Audit, answer: ServedAnswer) -> str:
    """Whether the groups with the worse rate differ so in truth; empty if they vary."""
    if audit.plan.benefit_kind.name != POSITIVE_RATE:
        return ""
    were = {group.group: group.were for group in answer.groups}
    ways = set()
    for pair in answer.rates:
        first, second = (were[name] for name in pair.groups)
        if pair.answer == "differ":
            ways.add(_way(first, second))
    if len(ways) != 1 or None in ways:
        return ""
    (way,) = ways
    expected = "more" if audit.subject.outcome == "harm" else "less"
    form = f"truth_{way}" if way in (expected, "alike") else f"truth_but_{way}"
    return say("serving", form, those_who_were=predicted_in(audit).those_who_were)


def _way(first: float | None, second: float | None) -> str | None:
    """Whether the first share is more or less than the second, or prints alike."""
    if first is None or second is None:
        return None
    one, two = (decimals(HUNDRED * share, 0) for share in (first, second))
    if one == two:
        return "alike"
    return "more" if first > second else "less"


def rate_phrase(audit: Audit) -> str:
    """What is said of a group with a worse rate, with a place for its size."""
    kind = audit.plan.benefit_kind
    if kind.name == POSITIVE_RATE:
        return _phrase(f"rate_{audit.subject.prediction_is}")
    is_harm = audit.plan.outcome_of(audit.subject.prediction_is) == "harm"
    return say(
        "serving",
        "rate_of",
        benefit=kind.name.replace("_", " "),
        size="{size}",
        way="higher" if is_harm else "lower",
    )


def _phrase(form: str) -> str:
    return say("serving", form, size="{size}")


def _named(pairs: Sequence[ServedPair]) -> list[Named]:
    """Groups that are worse served by this rate, the largest difference first."""
    return [
        Named(pair.groups[0], pair.size) for pair in pairs if pair.answer == "differ"
    ]


# The figures


class Figures(NamedTuple):
    """Both groups of a pair, and how its interval is written."""

    first: Served
    second: Served
    apart: str


def _figures(
    audit: Audit, setting: SettingResult, answer: ServedAnswer
) -> Iterator[str]:
    """Errors with their denominators, then the rate and what was, then accuracy."""
    first = _main_pair(answer)
    errors = _figures_of(setting, answer, answer.wrongly, first)
    missed = _figures_of(setting, answer, answer.missed, first)
    yield from _error_figures(audit, errors, missed.apart)
    rates = _figures_of(setting, answer, answer.rates, first)
    yield from _rate_figures(audit, rates)
    yield from _loss(setting)
    yield from _limits(setting)


def _main_pair(answer: ServedAnswer) -> ServedPair:
    """The pair whose groups all figures name in one order: by error, else by rate."""
    return answer.wrongly[0] if _named(answer.wrongly) else answer.rates[0]


def _figures_of(
    setting: SettingResult,
    answer: ServedAnswer,
    pairs: Sequence[ServedPair],
    first: ServedPair,
) -> Figures:
    """One rate of the groups of the first pair, in its order."""
    groups = {group.group: group for group in answer.groups}
    names = first.groups
    pair = next(one for one in pairs if {*one.groups} == {*names})
    is_first = setting.pair_of(names).groups[0] == names[0]
    ends = turned(pair.difference.interval, is_first=is_first, per_one=HUNDRED)
    words = apart(ends, is_shown=pair.answer == "differ")
    return Figures(groups[names[0]], groups[names[1]], words)


def _error_figures(audit: Audit, errors: Figures, missed_apart: str) -> Iterator[str]:
    """The harmful error first: false positives of a harm, misses of a benefit."""
    said = predicted_in(audit)
    is_harm = audit.subject.prediction_is == "harm"
    wrongly_of = said.those_who_were_not if is_harm else said.those_who_were
    missed_of = said.those_who_were if is_harm else said.those_who_were_not
    wrongly_what = said.wrongly if is_harm else said.missed
    missed_what = said.missed if is_harm else said.wrongly
    first, second = errors.first, errors.second
    names = {"first": first.group, "second": second.group}
    if first.wrongly is not None and second.wrongly is not None:
        one, two = of_100(first.wrongly, second.wrongly)
        yield say(
            "serving",
            "wrongly",
            of_whom=wrongly_of,
            what=wrongly_what,
            one=one,
            two=two,
            apart=errors.apart,
            **names,
        )
    if first.missed is not None and second.missed is not None:
        one, two = of_100(first.missed, second.missed)
        yield say(
            "serving",
            "missed",
            of_whom=missed_of,
            what=missed_what,
            one=one,
            two=two,
            apart=missed_apart,
            **names,
        )


def _rate_figures(audit: Audit, rates: Figures) -> Iterator[str]:
    first, second = rates.first, rates.second
    if first.rate is None or second.rate is None:
        return
    one, two = of_100(first.rate, second.rate)
    words = {
        "one": one,
        "two": two,
        "first": first.group,
        "second": second.group,
        "apart": rates.apart,
    }
    kind = audit.plan.benefit_kind
    said = predicted_in(audit)
    if kind.name != POSITIVE_RATE:
        yield capital(say("serving", "rates_of", share=kind.share, **words))
    elif first.were is None or second.were is None:
        yield say("serving", "rates_only", brief=said.brief, **words)
    else:
        was_one, was_two = of_100(first.were, second.were)
        truth = {"was_one": was_one, "was_two": was_two, "truth": said.truth}
        yield say("serving", "rates", brief=said.brief, **truth, **words)
    if first.right is not None and second.right is not None:
        right = [decimals(HUNDRED * rate, 0) for rate in (first.right, second.right)]
        form = "right_both" if right[0] == right[1] else "right"
        names = {"first": first.group, "second": second.group}
        yield say("serving", form, one=right[0], two=right[1], **names)


def _loss(setting: SettingResult) -> Iterator[str]:
    """How much accuracy a group loses where a synthetic table replaces the real one."""
    losses = []
    for row in setting.accuracy_loss[:MOST_GROUPS_IN_A_SENTENCE]:
        error = "–"
        if row.standard_error is not None:
            error = decimals(HUNDRED * row.standard_error, 1)
        losses.append(f"{decimals(HUNDRED * row.value, 1)} ± {error} ({row.group})")
    if losses:
        yield say("serving", "loss", losses=listed(losses))


def _limits(setting: SettingResult) -> Iterator[str]:
    """Whom rates are about, where not people like these; how few splits there are."""
    outcomes = setting.pairs[0].outcomes
    if outcomes.answer in ("not_given", "cannot_tell"):
        return
    if outcomes.lack is not None:
        n = setting.n_seeds
        models = "this model" if n == 1 else f"these {n} models"
        why = say("lack", outcomes.lack)
        yield say("serving", "about_models", models=models, why=why)
    elif setting.n_splits < ENOUGH_SPLITS:
        yield say("serving", "few_splits", n=setting.n_splits)


# The picture


def _bars(audit: Audit, answer: ServedAnswer) -> list[Bars]:
    """Both errors and the rate of the two groups that the answer is about."""
    pair = _main_pair(answer)
    by_name = {group.group: group for group in answer.groups}
    groups = [by_name[name] for name in pair.groups]
    said = predicted_in(audit)
    is_harm = audit.subject.prediction_is == "harm"
    wrongly = error_title(said, of_true=not is_harm)
    missed = error_title(said, of_true=is_harm)
    found = [_bars_of(wrongly, groups, "wrongly"), _bars_of(missed, groups, "missed")]
    if audit.plan.benefit_kind.name == POSITIVE_RATE:
        title = say("serving", "bars_rate", brief=said.brief, truth=said.truth)
        rates = []
        for group in groups:
            if group.rate is not None:
                was = None if group.were is None else HUNDRED * group.were
                rates.append(Bar(group.group, HUNDRED * group.rate, was))
        found.append(Bars(title, rates))
    return [bars for bars in found if bars.bars]


def _bars_of(title: str, groups: Sequence[Served], rate: str) -> Bars:
    bars = []
    for group in groups:
        value = {"wrongly": group.wrongly, "missed": group.missed}[rate]
        if value is not None:
            bars.append(Bar(group.group, HUNDRED * value))
    return Bars(title, bars)
