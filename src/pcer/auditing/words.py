"""The words of an audit: how numbers are written for people, and every sentence of the finding.

``words.toml`` has the sentences; this file chooses among them. Outputs print them and
make none:

``headline(audit, setting)``            both answers: exposure, then outcomes; at most 30 words
``badge(audit, setting)``               the verdict in a few words
``exposure_card(audit, setting)``       question, answer, sentences: who is easier to recognise?
``outcomes_card(audit, setting)``       who is worse served, what was true, who was wrongly judged
``how_sure_card(audit, setting)``       how often made-up groups alarm, and what it rests on
``how_sure(audit, setting)``            all sentences of certainty, each naming its finding
``what_would_change(audit, setting)``   exposure, accuracy and outcomes where exposure is least
``subject_line(audit, setting)``        data, attribute, people, splits; ``setting_title(setting)``
``paper_words(audit)``                  above the paper's table; ``paper_note(audit)`` below it
``say("paper", "detected")``            below tables: what "detected" and intervals are about
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from itertools import chain
from typing import Literal, NamedTuple

from pcer.auditing.file import Audit, BudgetResult, CostStory, PairResult, Summary
from pcer.auditing.verdict import Verdict
from pcer.errors import alike
from pcer.release import proxies
from pcer.release.proxies import proxy_named
from pcer.statistics import SIGNIFICANCE

MOST_WORDS = 30  # of a headline, a group's name counting as one
MOST_GROUPS_IN_A_SENTENCE = 4
MOST_DOUBTS = 2  # of a finding, in a card
WEAK = (
    5.0  # right answers of 100 beyond a coin that a file must exclude to clear a model
)
# a difference of outcomes is "far" more where its interval's nearer end is this large
FAR = 0.1
NOUNS = ("women", "men", "girls", "boys")  # names that are no adjectives of people
NOTHING = "–"
ALARMING = (
    "exposure",
    "double_disadvantage",
)  # answers whose doubts stand beside the finding

Axis = Literal["exposure", "outcomes"]
# What pairs can answer on either axis, strongest first.
ANSWERS = (
    "differs",
    "differ",
    "no_difference_shown",
    "none_detected",
    "cannot_tell",
    "not_given",
)
# Which count of placebo groups decides about an alarm.
ALARMS = {
    Verdict.DOUBLE_DISADVANTAGE: "double",
    Verdict.EXPOSURE_DIFFERS: "exposure",
    Verdict.RATIO_DIFFERS: "ratio",
}


@cache
def templates() -> dict[str, dict[str, str]]:
    """The sentences of ``words.toml`` by section and name."""
    path = resources.files("pcer.auditing").joinpath("words.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def say(section: str, which: str, /, **values: object) -> str:
    """A sentence, its places filled in."""
    return templates()[section][which].format(**values)


# Numbers and names


def budget_name(epsilon: float | None) -> str:
    """How a budget is called in print.

    >>> budget_name(0.5), budget_name(None)
    ('ε = 0.5', 'no-DP')
    """
    return "no-DP" if epsilon is None else f"ε = {epsilon:g}"


def setting_name(model: str | None, epsilon: float | None) -> str:
    """How a setting is called in print: its model, where it has a name, and its budget.

    >>> setting_name(None, 0.5), setting_name("forest", None)
    ('ε = 0.5', 'forest, no-DP')
    """
    return budget_name(epsilon) if model is None else f"{model}, {budget_name(epsilon)}"


def in_setting(model: str | None, epsilon: float | None) -> str:
    """A setting as part of a sentence.

    >>> in_setting(None, 0.5), in_setting("forest", None)
    ('at ε = 0.5', 'in forest without privacy')
    """
    budget = "without privacy" if epsilon is None else f"at {budget_name(epsilon)}"
    return budget if model is None else f"in {model} {budget}"


def short_setting(model: str | None, epsilon: float | None) -> str:
    """A setting in a table."""
    return (
        short_budget(epsilon) if model is None else f"{model}, {short_budget(epsilon)}"
    )


def setting_called(
    text: str | float, settings: Sequence[tuple[str | None, float | None]]
) -> int | None:
    """Position of the (model, epsilon) that a user calls so; None where none or several are.

    Any name that outputs print will do, in capitals or not; and a model or an epsilon
    alone.

    >>> settings = [("forest", None), ("forest", 0.5)]
    >>> [setting_called(text, settings) for text in (0.5, "Forest, none", "ε = 0.50", "forest")]
    [1, 0, 1, None]
    """

    def plain(name: object) -> str:
        name = re.sub(r"(ε|epsilon|eps)\s*=?\s*(?=[\d.e-]+$)", "", alike(str(name)))
        head, comma, last = re.sub(
            "(no-dp|without privacy|inf)$", "none", name
        ).rpartition(", ")
        with suppress(ValueError):
            last = f"{float(last):g}"
        return head + comma + last

    whole = [plain(setting_name(*setting)) for setting in settings]
    parts = [
        (plain(model or ""), plain(short_budget(epsilon)))
        for model, epsilon in settings
    ]
    found = [k for k, name in enumerate(whole) if name == plain(text)]
    found = found or [k for k, names in enumerate(parts) if plain(text) in names]
    return found[0] if len(found) == 1 else None


def plus_minus(summary: Summary, digits: int | None = None) -> str:
    """Mean ± standard deviation, or the mean alone; of a rate, with digits, as the paper does.

    >>> plus_minus(Summary(mean=0.6821, std=0.0081, ci=None), 3)
    '.682±.008'
    """
    mean = summary.mean
    std = summary.std
    if digits is None:
        return signed(mean) + ("" if std is None else f" ± {signed(std).lstrip('+')}")
    return no_zero(mean, digits) + ("" if std is None else f"±{no_zero(std, digits)}")


def bounds(ci: tuple[float, float] | None, digits: int | None = None) -> str:
    """An interval of disparities, or of rates with so many digits; or what stands for none.

    >>> bounds((-169.2, 3.0)), bounds((0.6801, 0.6842), 3)
    ('[−169, +3]', '[.680, .684]')
    """
    ends = [signed(end) if digits is None else no_zero(end, digits) for end in ci or ()]
    return f"[{', '.join(ends) or 'no interval'}]"


def decimals(value: float | None, digits: int) -> str:
    """A number with fixed decimals and a true minus sign; what rounds to 0 has none.

    >>> decimals(-0.01234, 3), decimals(-0.0000123, 4)
    ('−0.012', '0.0000')
    """
    return NOTHING if value is None else f"{value:z.{digits}f}".replace("-", "−")


def signed(value: float | None) -> str:
    """A number with its sign and about three significant digits.

    >>> signed(-169.2), signed(0.0234), signed(-0.0), signed(None)
    ('−169', '+0.0234', '+0', '–')
    """
    if value is None:
        return NOTHING
    text = f"{value:+,.0f}" if abs(value) >= 100 else f"{value:+z.3g}"
    return text.replace("-", "−")


def p_value(value: float | None) -> str:
    """A p-value as it is printed."""
    if value is None:
        return NOTHING
    return "<.001" if value < 0.001 else f"{value:.3f}"


def both_p(adjusted: float | None, alone: float | None) -> str:
    """A p-value adjusted over all tests, and the test's own in brackets where it prints otherwise.

    >>> both_p(0.2, 0.004), both_p(0.0001, 0.00001)
    ('0.200 (0.004)', '<.001')
    """
    first = p_value(adjusted)
    second = p_value(alone)
    return first if first == second or alone is None else f"{first} ({second})"


def no_zero(value: float | None, digits: int) -> str:
    """A rate without the zero before its point, as the paper writes it."""
    return re.sub(r"^(−?)0\.", r"\1.", decimals(value, digits))


def short_budget(epsilon: float | None) -> str:
    """A budget in a table."""
    return "no-DP" if epsilon is None else f"{epsilon:g}"


def budget_list(budgets: Sequence[float | None]) -> str:
    """Budgets tied for a choice."""
    tie = " (tie)" if len(budgets) > 1 else ""
    return (", ".join(short_budget(epsilon) for epsilon in budgets) or NOTHING) + tie


def yes_no(value: bool | None) -> str:
    """A truth value, or what stands for none."""
    return NOTHING if value is None else "yes" if value else "no"


def number_range(values: list[int]) -> str:
    """Sorted whole numbers as one of them or a range."""
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


def listed(parts: Sequence[str]) -> str:
    """Names or amounts as a sentence lists them."""
    return " and ".join(
        [", ".join(parts[:-1]), *parts[-1:]] if len(parts) > 1 else parts
    )


def capital(text: str) -> str:
    """A text at the head of a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


def points(amount: float) -> str:
    """A difference of rates or exposures in hundredths, with two digits.

    >>> points(0.0123), points(-0.236), points(0.01)
    ('1.2 points', '−24 points', '1 point')
    """
    text = proxies.ACCURACY.difference(amount)
    return f"{text} point" if text in ("1", "−1") else f"{text} points"


def of_100(*rates: float) -> list[str]:
    """Rates of 100, with decimals only where different ones would print alike.

    >>> of_100(0.501, 0.266), of_100(0.0141, 0.0094)
    (['50', '27'], ['1.4', '0.9'])
    """
    for digits in range(3):
        texts = [decimals(100 * rate, digits) for rate in rates]
        if len(set(texts)) == len(set(rates)):
            break
    return texts


def p_words(value: float | None) -> str:
    """A p-value in a sentence.

    >>> p_words(0.61), p_words(1e-9)
    ('p = 0.610', 'p < 0.001')
    """
    if value is None:
        return "not tested"
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def largest(limits: Sequence[float | None]) -> float | None:
    """The largest of some amounts; None where one of them is not known, or there is none."""
    given = [limit for limit in limits if limit is not None]
    return max(given) if given and len(given) == len(limits) else None


def setting_title(setting: BudgetResult) -> str:
    """A setting in a menu: its model, and whether it was trained with differential privacy."""
    epsilon = "" if setting.epsilon is None else f", {budget_name(setting.epsilon)}"
    model = "" if setting.model is None else f"{setting.model}, "
    return (
        f"{model}trained with{'' if epsilon else 'out'} differential privacy{epsilon}"
    )


def subject_line(audit: Audit, setting: BudgetResult) -> list[str]:
    """What the audit is about, in parts: data, attribute, people, splits."""
    subject = audit.subject
    n = setting.n_splits
    people = (
        [f"{subject.n_records:,} {subject.people or 'people'}"]
        if subject.n_records
        else []
    )
    random = "random " if subject.split_kind == "random" else ""
    return [
        subject.dataset,
        subject.attribute,
        *people,
        f"{n} {random}split{'s' * (n > 1)}",
    ]


# What the pairs of a setting say together, and what sentences are filled with


def answer_of(setting: BudgetResult, axis: Axis) -> str:
    """One of the two answers: the strongest of the pairs; equality only where all have it."""
    answers = {getattr(pair, axis).answer for pair in setting.pairs}
    answer = next(each for each in ANSWERS if each in answers)
    are_equal = all(
        p.equivalence is not None and p.equivalence.shown for p in setting.pairs
    )
    is_open = axis == "exposure" and answer in ("no_difference_shown", "none_detected")
    return "equal_within_margin" if are_equal and is_open else answer


def is_weak(audit: Audit, setting: BudgetResult) -> bool:
    """Whether a setting that shows nothing is too weak to clear the model.

    It is where a stronger attack was possible and is absent without a reason, or where
    exposure may exceed 55 of 100, which is a gap of 10 points. Where some exposure is
    detected but no difference is, the same bound is held against the difference.
    """
    answer = answer_of(setting, "exposure")
    per_success = audit.proxy.scale.per_success or 0.0
    if answer not in ("none_detected", "no_difference_shown"):
        return False
    bound = (
        _bound(setting) if answer == "none_detected" else _apart(setting, "exposure")
    )
    return (
        audit.stronger_attack is not None or bound is None or per_success * bound > WEAK
    )


def _bound(setting: BudgetResult) -> float | None:
    """The largest exposure that the data allow in groups of eligible size."""
    groups = setting.groups.values()
    return largest([group.cost.upper_bound for group in groups if not group.too_few])


def _apart(setting: BudgetResult, axis: Axis) -> float | None:
    """The largest difference that the data allow between groups that are compared."""
    compared = [getattr(pair, axis) for pair in setting.pairs]
    return largest(
        [each.difference.upper_bound for each in compared if each.p_value is not None]
    )


def _facts(
    audit: Audit, setting: BudgetResult, axis: Axis, *, plain: bool = False
) -> dict[str, str]:
    """What sentences are filled with: the widest of the pairs that they are about.

    ``plain`` leaves out what the release calls people and outcomes.
    """
    differing = [
        pair for pair in setting.pairs if getattr(pair, axis).group is not None
    ]
    pair = _widest(setting, axis)
    answer = getattr(pair, axis)
    subject = audit.subject
    several = len(setting.pairs) > 1
    name, other = in_order(setting, axis)[:2]
    groups = [setting.groups[name], setting.groups[other]]
    n_more = max(0, len(differing) - 1)
    scale = audit.proxy.scale
    bound = _bound(setting)
    apart = _apart(setting, axis)
    if axis == "exposure":
        costs = [group.cost.value for group in groups]
        high, low = (
            NOTHING if cost is None else scale.hundredths(cost) for cost in costs
        )
        amount: Callable[[float], str] = scale.difference
    else:
        scale = proxies.ACCURACY
        rates = [group.benefit.mean or 0.0 for group in groups]
        high, low = of_100(*rates)
        amount = _tenths
    value = answer.difference.value or 0.0
    ends = answer.difference.interval or (0.0, 0.0)
    start, end = sorted(math.copysign(1.0, value) * each for each in ends)
    size = f"{amount(abs(value))} {scale.points}"
    outcome = audit.plan.outcome_of(subject.outcome)
    often = f"{'far ' * (start >= FAR)}{'more' if outcome == 'harm' else 'less'} often"
    more = f", and {n_more} more pair{'s differ' if n_more > 1 else ' differs'}" * (
        n_more > 0
    )
    known = [group.benefit.mean for group in setting.groups.values()]
    rates = [rate for rate in known if rate is not None] or [0.0]
    people, means = (None, None) if plain else (subject.people, subject.positive_means)
    facts = {"name": name, "other": other, "high": high, "low": low, "unit": scale.said}
    facts |= {
        "who": _who(people, name),
        "people": people or "people",
        "coin": scale.coin,
    }
    facts |= {"reference": f" in {other}" * several, "beside": f" ({other})" * several}
    facts |= {"more": more, "difference": size, "p": p_words(answer.p_value)}
    facts |= {"start": amount(start), "end": amount(end)}
    facts |= {"they": listed(pair.groups) if several else "They"}
    facts |= {"between": f" between {listed(pair.groups)}" * several}
    facts |= {
        "level": f"{100 * audit.plan.confidence_level:g}%",
        "named": _named(setting, axis),
    }
    facts |= {
        "apart": NOTHING
        if apart is None
        else f"{scale.difference(apart)} {scale.points}"
    }
    facts |= {"means": means or say("outcomes", subject.outcome), "often": often}
    facts |= {"range": " to ".join(dict.fromkeys(of_100(min(rates), max(rates))))}
    facts |= {"margin": points(audit.plan.margin or 0.0), "main": audit.proxy.phrase}
    facts |= {"at_most": NOTHING if bound is None else scale.hundredths(bound)}
    most = scale.most.format(amount=facts["at_most"])
    facts |= {"bounded": "no bound is known" if bound is None else most}
    by = proxy_named(pair.exposure.attack)
    facts |= {"whose": f" by {by.phrase}" * (by.name != audit.cost)}
    size = by.scale.difference(abs(pair.exposure.attack_difference or 0.0))
    return facts | {"attack": by.phrase, "by_attack": f"{size} {by.scale.points}"}


def _tenths(rate: float) -> str:
    """A difference of outcomes in points, to a tenth: rates that are printed whole hide as much."""
    return decimals(100 * rate, 1)


def _widest(setting: BudgetResult, axis: Axis) -> PairResult:
    """The widest pair of those shown to differ, or of all; exposures of the doubly worse first."""
    doubled = [
        p for p in setting.pairs if axis == "exposure" and p.double_disadvantage.group
    ]
    differing = [
        pair for pair in setting.pairs if getattr(pair, axis).group is not None
    ]
    pairs = doubled or differing or setting.pairs
    return max(pairs, key=lambda each: abs(getattr(each, axis).difference.value or 0.0))


def in_order(setting: BudgetResult, axis: Axis) -> list[str]:
    """Groups as an answer names them: the pair that it is about, then the others."""
    pair = _widest(setting, axis)
    first = (
        pair.groups[::-1]
        if getattr(pair, axis).group == pair.groups[1]
        else pair.groups
    )
    return list(dict.fromkeys([*first, *setting.groups]))


def _who(people: str | None, name: str) -> str:
    """A group's people as a sentence names them: "White defendants", "people in group 2"."""
    if name.lower() in NOUNS:
        return name
    is_adjective = people is not None and not re.search(r"\d", name)
    return (
        f"{name} {people}" if is_adjective else f"{people or 'people'} in group {name}"
    )


def _named(setting: BudgetResult, what: str) -> str:
    """The groups that an answer names in any pair; of many, how many."""
    names = setting.named_by(what)
    return (
        listed(names)
        if len(names) <= MOST_GROUPS_IN_A_SENTENCE
        else f"{len(names)} groups"
    )


def _others(audit: Audit, setting: BudgetResult) -> dict[str, str]:
    """Attacks that show what the answer does not: somebody detected, or a difference.

    The attack whose numbers people see is none of them. Empty where there are none.
    """
    answer = answer_of(setting, "exposure")
    k = audit.budgets.index(setting)
    what = {"none_detected": "detected_in", "no_difference_shown": "differs_in"}.get(
        answer
    )
    found = [each.cost for each in _attacks(audit) if what and k in getattr(each, what)]
    names = [proxy_named(cost).phrase for cost in found if cost != audit.cost]
    named = listed(names) if len(names) < 3 else f"{len(names)} other attacks"
    return {"others": named, "do": "does" if len(names) == 1 else "do"} if names else {}


def _attacks(audit: Audit) -> list[CostStory]:
    """Every attack that was run; what training spent is none."""
    return [story for story in audit.costs if story.cost != proxies.SPENT.name]


# The headline and the badge


def headline(audit: Audit, setting: BudgetResult) -> str:
    """Both answers of a setting: the longest form that keeps to 30 words."""
    exposure = _exposure_forms(audit, setting)
    names = audit.subject.groups
    forms = [
        f"{first} {then}"
        for then in _outcome_forms(audit, setting)
        for first in exposure
    ]
    return next(
        (form for form in forms if n_words(form, names) <= MOST_WORDS), forms[-1]
    )


def n_words(text: str, names: Sequence[str]) -> int:
    """Words of a text, a group's name counting as one.

    >>> n_words("Old men get less: 9 of 100.", ["old men"])
    6
    """
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(re.escape(name), "X" * len(name), text, flags=re.IGNORECASE)
    return len(text.split())


def _exposure_forms(audit: Audit, setting: BudgetResult) -> list[str]:
    """The exposure sentence, longest form first."""
    answer = answer_of(setting, "exposure")
    facts = _facts(audit, setting, "exposure")
    others = _others(audit, setting)
    forms = [answer]
    if answer == "differs":
        # where only the other attack shows it, the numbers that people see need not
        # differ
        shown_by = _widest(setting, "exposure").exposure.shown_by
        forms = (
            ["differs", "differs_brief"] if audit.cost in shown_by else ["differs_by"]
        )
        bare = _facts(audit, setting, "exposure", plain=True)
        sentences = [
            say("exposure", form, **facts) for form in [*forms, "differs_bare"]
        ]
        return [*map(capital, [*sentences, say("exposure", "differs_bare", **bare)])]
    if answer == "none_detected":
        forms = (
            [answer, "none_detected_bare"] if facts["coin"] else ["none_detected_bare"]
        )
    if others:
        kind = "others_detect" if answer == "none_detected" else "others_differ"
        forms = [kind, f"{kind}_bare"]
    if is_weak(audit, setting):
        forms = [f"weak_{form}" for form in (forms if others else [answer])]
    return [capital(say("exposure", form, **facts, **others)) for form in forms]


def _outcome_forms(audit: Audit, setting: BudgetResult) -> list[str]:
    """The outcome sentence, longest form first."""
    answer = answer_of(setting, "outcomes")
    benefit = audit.plan.benefit
    forms = [_facts(audit, setting, "outcomes", plain=plain) for plain in (False, True)]
    if answer != "differ":
        return [say("outcomes", answer, **forms[0])]
    is_said = _named(setting, "exposure") == forms[0]["name"]  # by the sentence before
    for form in forms if is_said and benefit == "positive_rate" else []:
        form |= {"who": "They", "means": re.sub(r"^(are )?", r"\1also ", form["means"])}
    sentences = [capital(say(benefit, "differ", **form)) for form in forms]
    return [*sentences, say("outcomes", "differ_bare", **forms[0])]


def badge(audit: Audit, setting: BudgetResult) -> str:
    """The verdict in a few words, with the groups that it names."""
    verdict = setting.verdict
    form = setting.verdict.value
    drivers = {
        pair.ratio.driven_by for pair in setting.pairs if pair.ratio.group is not None
    }
    if verdict is Verdict.RATIO_DIFFERS and drivers == {"outcomes"}:
        form = "ratio_differs_outcomes"
    elif not verdict.is_alarm and is_weak(audit, setting):
        form = "weak"
    if verdict is Verdict.NO_DIFFERENCE_SHOWN and _others(audit, setting):
        form = "others"
    double = _named(setting, "double_disadvantage")
    return say("badge", form, **_facts(audit, setting, "exposure"), double=double)


# The cards


class Card(NamedTuple):
    """A question, its answer in a few words, and sentences."""

    question: str
    answer: str
    sentences: list[str]


def exposure_card(audit: Audit, setting: BudgetResult) -> Card:
    """Who is easier to recognise, and by how much."""
    answer = answer_of(setting, "exposure")
    facts = _facts(audit, setting, "exposure")
    detected = [name for name, group in setting.groups.items() if group.resolved]
    n = len(setting.groups)
    per_success = audit.proxy.scale.per_success or math.inf
    costs = [setting.groups[name].cost.value or 0.0 for name in detected]
    is_slight = per_success * max(costs, default=0.0) <= WEAK
    others = _others(audit, setting)
    facts |= {
        "all": "Both" if n == 2 else f"All {n} groups",
        "n": str(len(_attacks(audit))),
    }
    facts |= {"detected": listed(detected[:MOST_GROUPS_IN_A_SENTENCE]), **others}
    facts |= {"better": "slightly better" if is_slight else "better"}
    facts |= {"reason": capital(setting.reason or "no test could be made").rstrip(".")}
    # the attack whose numbers people see may be no better than a coin for some that are
    # detected
    beside = {
        name: proxy_named(group.detected_by).phrase
        for name, group in setting.groups.items()
        if group.resolved
        and group.detected_by not in (None, audit.cost)
        and not group.is_clear
    }
    facts |= {
        "beside": listed([*beside]),
        "by": listed([*dict.fromkeys(beside.values())]),
    }
    forms = ["all" if len(detected) == n else "some" if detected else "none"]
    forms += ["detected_by"] if beside else []
    forms = ["reason"] if answer == "cannot_tell" else forms
    if others:
        forms.append("others_detect" if answer == "none_detected" else "others_differ")
    if answer == "differs":
        shown = audit.cost in _widest(setting, "exposure").exposure.shown_by
        forms.append("difference" if shown else "decided_by")
    elif detected and facts["apart"] != NOTHING:
        forms.append("if_they_differ")
    if audit.stronger_attack is not None and answer != "differs":
        forms = [*forms, "stronger"]
        facts["stronger"] = proxy_named(audit.stronger_attack).phrase
    sentences = [capital(say("exposure_card", form, **facts)) for form in forms]
    return Card(
        say("exposure_card", "question"),
        say("exposure_card", answer, **facts),
        sentences,
    )


def outcomes_card(audit: Audit, setting: BudgetResult) -> Card:
    """Who is worse served, what was true, and who was wrongly given or denied it."""
    answer = answer_of(setting, "outcomes")
    facts = _facts(audit, setting, "outcomes")
    groups = [setting.groups[facts[each]] for each in ("name", "other")]
    found = re.match(r"are predicted to (be )?(.+)", audit.subject.positive_means or "")
    truth, verb = (
        (found[2], "were" if found[1] else "do") if found else ("positive", "are")
    )
    denied = [group.true_positive_rate.mean for group in groups]
    numbers = {
        "truth": [group.true_rate.mean for group in groups],
        "harm": [group.false_positive_rate.mean for group in groups],
        "benefit": [None if rate is None else 1 - rate for rate in denied],
    }
    facts = facts | {"truth": truth, "verb": verb}
    sentences = []
    for form in ("truth", audit.subject.outcome):
        if None not in numbers[form]:
            rates = " against ".join(of_100(*(rate or 0.0 for rate in numbers[form])))
            sentences.append(say("outcomes_card", form, **facts, numbers=rates))
    if sentences and (answer != "differ" or len(setting.pairs) > 1):
        sentences.append(say("outcomes_card", "order", **facts))
    return Card(
        say("outcomes_card", "question"),
        say("outcomes_card", answer, **facts),
        sentences,
    )


def how_sure_card(audit: Audit, setting: BudgetResult) -> Card:
    """How often made-up groups raise the alarm, how sure the outcomes are, and what it rests on."""
    facts = _false_alarms(setting)
    short = say("how_sure_card", "checked" if facts else "unchecked", **facts)
    against = [
        each for pair in setting.pairs for each in _against(audit, pair, ALARMING)
    ]
    more = [say("how_sure_card", "more")] * (len(against) > MOST_DOUBTS)
    sentences = [*how_sure(audit, setting)[:2], *against[:MOST_DOUBTS], *more]
    return Card(say("how_sure_card", "question"), short, sentences)


# How sure it is


def how_sure(audit: Audit, setting: BudgetResult) -> list[str]:
    """Sentences of certainty: alarms, outcomes, splits; then what speaks against a finding."""
    facts = _false_alarms(setting)
    outcomes = answer_of(setting, "outcomes")
    n = setting.n_splits
    is_random = audit.subject.split_kind == "random"
    sentences = [say("how_sure", facts.get("kind", "lacking"), **facts)]
    if outcomes in ("differ", "no_difference_shown"):
        facts = _facts(audit, setting, "outcomes")
        sentences.append(say("how_sure", f"outcomes_{outcomes}", **facts))
    form = "splits" if is_random else "splits_not_random"
    sentences.append(say("how_sure", form, n=n, s="s" * (n > 1)))
    return [
        *sentences,
        *(each for pair in setting.pairs for each in _against(audit, pair)),
    ]


def _false_alarms(setting: BudgetResult) -> dict[str, str]:
    """The count of placebo groups that decides about the verdict; empty where it is not known."""
    kind = ALARMS.get(setting.verdict, "any")
    statement = "double_disadvantage" if kind == "double" else kind
    rows = [
        (pair.ratio if kind == "ratio" else pair.exposure).placebo
        for pair in setting.pairs
        if kind == "any" or getattr(pair, statement).group is not None
    ]
    counts = [
        (getattr(row, f"n_{kind}"), row.n_draws) for row in rows if row is not None
    ]
    if not (known := [(n, n_draws) for n, n_draws in counts if n is not None]):
        return {}
    n, n_draws = max(known)
    facts = {"kind": kind, "n": str(n), "s": "s" * (n != 1), "n_draws": str(n_draws)}
    most = math.ceil(SIGNIFICANCE * n_draws)
    return facts | {"times": "once" if n == 1 else f"{n} times", "most": str(most)}


def _against(
    audit: Audit,
    pair: PairResult,
    what_of: Sequence[str] = (*ALARMING, "ratio", "outcomes"),
) -> Iterator[str]:
    """What speaks against a difference: a check, people with the same label, another attack."""
    facts = {
        "pair": listed(pair.groups),
        "one": proxy_named(pair.exposure.attack).phrase,
    }
    for what in what_of:
        answer = getattr(pair, what)
        said = say("how_sure", f"the_{what}")
        if answer.downgraded is not None:
            reason = answer.downgraded.rstrip(".")
            yield capital(
                say("how_sure", "downgraded", **facts, what=said, reason=reason)
            )
        p = getattr(getattr(answer, "placebo", None), f"{what}_p_within_labels", None)
        if answer.group is not None and p is not None:
            form = "not_within" if p > SIGNIFICANCE else "also_within"
            if form == "not_within" or what_of != ALARMING:  # a card has doubts only
                yield say("how_sure", form, **facts, what=said, p=p_words(p))
    exposure = pair.exposure
    p = pair.exposure.p_value
    is_open = exposure.answer in ("no_difference_shown", "none_detected")
    if is_open and exposure.downgraded is None and p is not None and p <= SIGNIFICANCE:
        yield say("how_sure", "undetected", **facts, p=p_words(p))
    if (
        pair.exposure.contradicted
    ):  # of two deciding attacks, which come first among the costs
        others = [
            cost.cost for cost in audit.costs[:2] if cost.cost != pair.exposure.attack
        ]
        other = listed([proxy_named(name).phrase for name in others])
        yield say("how_sure", "contradicted", **facts, other=other)


def _trust(audit: Audit) -> Iterator[str]:
    """How sure the audit is: of the setting that it opens with, then of the whole release."""
    yield from how_sure(audit, audit.told)
    has_counts = any(group.n_test is not None for group in audit.told.groups.values())
    agrees = say("how_sure", "consistent" if has_counts else "no_counts")
    yield from [each.sentence for each in audit.declarations] or [agrees]
    stories = _attacks(audit)
    n = len(stories)
    k = sum(bool(story.detected_in) for story in stories)
    if n > 1 and (
        k or audit.verdict is not Verdict.INSUFFICIENT_DATA
    ):  # else nothing is tested
        form = "attacks_all" if k == n else "attacks_some" if k else "attacks_none"
        yield say("how_sure", form, n=n, k=k, s="s" * (k == 1))
        yield from _differences(audit, stories)
    if audit.family_p is not None:
        p = p_words(audit.family_p)
        of_outcomes = p_words(audit.family_p_outcomes)
        yield say("how_sure", "family", p=p, of_outcomes=of_outcomes)
    if few := [name for name, group in audit.told.groups.items() if group.too_few]:
        yield say("how_sure", "too_few", names=listed(few))
    if audit.subject.n_missing_group:
        yield say("how_sure", "missing", n=f"{audit.subject.n_missing_group:,}")


def _differences(audit: Audit, stories: Sequence[CostStory]) -> Iterator[str]:
    """Which attacks find whom easier to recognise, corrected for their number."""
    found = dict[tuple[str, ...], list[str]]()
    n = len(stories)
    for story in stories:
        if "exposure_differs" in story.statements:
            found.setdefault(tuple(story.more_exposed), []).append(
                proxy_named(story.cost).short
            )
    said = list[str]()
    for of, by in found.items():
        form = "attacks_find_others" if said else "attacks_find"
        facts = {"attacks": listed(by), "s": "s" * (len(by) == 1), "names": listed(of)}
        said.append(say("how_sure", form, **facts))
    if said:
        is_both = len(audit.subject.groups) == len({*chain(*found)}) == 2 <= len(found)
        more = say("how_sure", "attacks_contradict") if is_both else ""
        yield say("how_sure", "attacks_differ", n=n, found="; ".join(said) + more)
        return
    by_ratio = [each for each in stories if "ratio_differs" in each.statements]
    ratios = [proxy_named(each.cost).short for each in by_ratio]
    form = "attacks_ratio" if ratios else "attacks_same"
    yield say("how_sure", form, n=n, attacks=listed(ratios))


# What would happen


def what_would_change(audit: Audit, setting: BudgetResult) -> list[str]:
    """Exposure of each group, accuracy and outcomes in the setting of least exposure.

    Empty where nothing is detected, or no setting of the same model with more privacy
    exposes less.
    """
    others = [
        b
        for b in audit.budgets
        if b.model == setting.model and b.budget < setting.budget
    ]
    if not any(group.resolved for group in setting.groups.values()) or not others:
        return []
    best = min(others, key=lambda budget: budget.largest_cost)
    scale = audit.proxy.scale
    before = setting.accuracy.mean
    after = best.accuracy.mean
    exposures = [scale.hundredths(each.largest_cost) for each in (best, setting)]
    is_less = best.largest_cost < setting.largest_cost and len(set(exposures)) > 1
    if not is_less or before is None or after is None:
        return []
    changes = []
    cut = "cut"
    for name in in_order(setting, "exposure")[:MOST_GROUPS_IN_A_SENTENCE]:
        old = setting.groups[name].cost.value
        new = best.groups[name].cost.value
        if old is not None and new is not None:
            cut = "change" if new > max(old, 0.0) else cut
            found = [scale.hundredths(max(cost, 0.0)) for cost in (old, new)]
            changes.append(f"{' to '.join(found)} ({name})")
    facts = {
        "budget": budget_name(best.epsilon),
        "cut": cut,
        "exposures": listed(changes),
    }
    facts |= {"measure": "the attacker's success" if scale.coin else "exposure"}
    facts |= {"unit": "" if scale.coin else f" ({scale.said})"}
    facts |= {"before": f"{100 * before:.0f}%", "after": f"{100 * after:.0f}%"}
    return [say("advice", "less_exposed", **facts), *_levelling(audit, setting, best)]


def _levelling(
    audit: Audit, setting: BudgetResult, best: BudgetResult
) -> Iterator[str]:
    """What becomes of the outcome gap, and whose outcomes would change most."""
    facts = _facts(audit, setting, "outcomes")
    names = facts["name"], facts["other"]
    rates = [at.groups[name].benefit.mean for at in (setting, best) for name in names]
    known = [rate for rate in rates if rate is not None]
    if answer_of(setting, "outcomes") != "differ" or len(known) < len(rates):
        return
    old = known[:2]
    new = known[2:]
    before = _tenths(abs(old[0] - old[1]))
    after = _tenths(abs(new[0] - new[1]))
    is_less = float(after) < float(before)
    form = "stays" if before == after else "shrinks" if is_less else "grows"
    # the group whose rate moves further towards the other's
    closer = [
        (new[k] - old[k]) * math.copysign(1.0, old[1 - k] - old[k]) for k in (0, 1)
    ]
    k = closer.index(max(closer))
    facts |= {"pair": listed(names), "before": before, "after": after}
    facts |= dict(zip(("old", "new"), of_100(old[k], new[k]), strict=True))
    facts |= {"who": _who(audit.subject.people, names[k])}
    yield say("advice", form, **facts, count="more" if new[k] > old[k] else "fewer")


def _choosing(audit: Audit) -> Iterator[str]:
    """The command that answers which setting to train, for half of the exposure found or more."""
    per = audit.proxy.scale.per_success
    half = audit.told.largest_cost / 2
    large = [
        s
        for s in audit.budgets
        if not any(group.too_few for group in s.groups.values())
    ]
    known = [bound for bound in map(_bound, large) if bound is not None]
    if len(audit.budgets) > 1 and audit.told.accuracy.mean is not None and known:
        # some setting is shown to hold it; the next half point
        exposure = math.ceil(100 + 2 * (per or 1.0) * max(half, min(known))) / 2
        yield say(
            "advice", "recommend", exposure=f"{max(exposure, 50.5):g}" if per else "52"
        )


# The paper's table


def paper_words(audit: Audit) -> str:
    """Above the table: whether its difference of ratios is evidence, and what its sign means."""
    found = {
        (published.model, budget.epsilon): [
            pair.pcer_disparity.is_beyond_null for pair in budget.pairs
        ]
        for published in audit.published
        for budget in published.budgets
    }
    detected = {
        (setting.model, setting.epsilon)
        for setting in audit.budgets
        if any(group.resolved for group in setting.groups.values())
    }
    beyond = [setting for setting, marks in found.items() if True in marks]
    shown = [setting for setting in beyond if setting in detected]
    form = "some_evidence" if shown else "undetected" if beyond else "no_evidence"
    if all(mark is None for marks in found.values() for mark in marks):
        form = "unknown"
    elif audit.verdict is Verdict.INSUFFICIENT_DATA:
        form = "contradicted"
    elif len(shown) == len(found):
        form = "evidence"
    first, second = audit.told.pairs[0].groups
    sign = say(
        "paper",
        "sign" if len(audit.told.pairs) == 1 else "signs",
        one=first,
        two=second,
    )
    return f"{say('paper', form, settings=_in_settings(shown))} {sign}"


def _in_settings(settings: Sequence[tuple[str | None, float | None]]) -> str:
    """Settings as part of a sentence: "at ε = 1 and 5 and without privacy"."""
    if any(model is not None for model, _ in settings):
        return listed([in_setting(*setting) for setting in settings])
    private = [f"{epsilon:g}" for _, epsilon in settings if epsilon is not None]
    parts = [f"at ε = {listed(private)}"] if private else []
    return listed(
        [*parts, *(["without privacy"] if len(private) < len(settings) else [])]
    )


def paper_note(audit: Audit, which: str = "note") -> str:
    """Below the table: its symbols; in the title of a ``strip`` the shortest of them."""
    seeds = sorted({setting.n_seeds for setting in audit.budgets})
    n = f"{number_range(seeds)} seed{'s' * (seeds != [1])}"
    level = audit.plan.confidence_level
    facts = {
        "floor": f"{audit.plan.floor:g}".lstrip("0"),
        "seeds": n,
        "level": f"{100 * level:g}%",
    }
    facts["received"] = say(audit.plan.benefit, "share")
    pair = f": {', '.join(audit.told.pairs[0].groups)}" * (len(audit.told.pairs) == 1)
    return say("paper", which, **facts, pair=pair)


# The account, the choice of attacks, and all of it together


def conclude(audit: Audit, *, disclosed: Sequence[str], more: str | None) -> Audit:
    """The audit with its words, among them what is disclosed and what more data would show."""
    budgets = [
        b.model_copy(update={"headline": headline(audit, b)}) for b in audit.budgets
    ]
    steps = [
        *what_would_change(audit, audit.told),
        *([more] if more is not None else []),
    ]
    steps += _choosing(audit)
    first = budgets[audit.telling].headline
    account = [*_account(audit), *disclosed]
    trust = [*_trust(audit)]
    words = {"account": account, "trust": trust, "next_steps": steps}
    return audit.model_copy(update=words | {"budgets": budgets, "headline": first})


def _account(audit: Audit) -> Iterator[str]:
    """For the people affected: what was found, and what was not looked at."""
    subject = audit.subject
    setting = audit.told
    scale = audit.proxy.scale
    known = [(name, setting.groups[name].benefit.mean) for name in subject.groups]
    rates = [f"{of_100(rate)[0]} in {name}" for name, rate in known if rate is not None]
    facts = _facts(audit, setting, "outcomes")
    n_more = len(rates) - MOST_GROUPS_IN_A_SENTENCE
    if rates:
        more = f" (and {n_more} further groups)" * (n_more > 0)
        facts["rates"] = listed(rates[:MOST_GROUPS_IN_A_SENTENCE]) + more
        facts["here"] = f" (here a {subject.outcome})" if subject.positive_means else ""
        yield say("account", audit.plan.benefit, **facts)
    costs = [
        (name, group.cost.value)
        for name, group in setting.groups.items()
        if group.resolved
    ]
    found = [
        f"{scale.hundredths(cost)} ({name})" for name, cost in costs if cost is not None
    ]
    if found:
        amounts = listed(found[:MOST_GROUPS_IN_A_SENTENCE])
        yield f"{capital(scale.full.format(label=audit.proxy.label, found=amounts))}."
    yield from exposure_card(audit, setting).sentences
    if setting.verdict is Verdict.NO_DIFFERENCE_SHOWN:
        yield say("account", "no_difference", **_facts(audit, setting, "exposure"))
    if double := _named(setting, "double_disadvantage"):
        yield say("account", "double", double=double)
    drivers = dict.fromkeys(
        pair.ratio.driven_by for pair in setting.pairs if pair.ratio.group
    )
    yield from (say("account", f"ratio_{driver}") for driver in drivers)
    yield from _allowed(audit)
    yield say("account", "not_measured")


def _allowed(audit: Audit) -> Iterator[str]:
    """What training allows, where it kept receipts: in the told setting, or the least private."""
    bounded = [b for b in audit.budgets if any(g.allowed for g in b.groups.values())]
    if not bounded:
        return
    budget = (
        audit.told if audit.told in bounded else max(bounded, key=lambda b: b.budget)
    )
    bounds = [
        (name, g.allowed) for name, g in budget.groups.items() if g.allowed is not None
    ]
    bounds = bounds[:MOST_GROUPS_IN_A_SENTENCE]
    right = [
        f"{50 + 100 * b.advantage:.1f} ({n})"
        for n, b in bounds
        if b.advantage is not None
    ]
    facts = {
        "where": capital(in_setting(budget.model, budget.epsilon)),
        "right": listed(right),
    }
    facts |= {
        "estimate": " (an estimate)" * any(b.mode == "refreshed" for _, b in bounds)
    }
    if own := [f"{b.promised:.3g} ({n})" for n, b in bounds if b.promised is not None]:
        yield say("account", "promised", **facts, promised=listed(own))
    if own := [f"{b.spent:.2g} ({n})" for n, b in bounds if b.spent is not None]:
        yield say(
            "account",
            "allowed_right" if right else "allowed",
            **facts,
            spent=listed(own),
        )
