"""How are numbers, settings and lists written for people?

Plain numbers in, text out; every room below calls it. Sentences with places to fill
stand in ``words.toml``, by section and name: ``say("headline", "differs", who=...)``.
To add a sentence: a line there; to add a form of a number: a function here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from typing import NamedTuple

from pcer.errors import normalised

NOTHING = "–"


@cache
def templates() -> dict[str, dict[str, str]]:
    """The sentences of ``words.toml`` by section and name."""
    path = resources.files("pcer.auditing").joinpath("words.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def say(section: str, which: str, /, **values: object) -> str:
    """A sentence, its places filled in."""
    return templates()[section][which].format(**values)


class SettingName(NamedTuple):
    """A setting in print: its model, where it has a name, and its epsilon.

    No epsilon means trained without differential privacy.

    >>> forest, plain = SettingName("forest", None), SettingName(None, 0.5)
    >>> forest.full, forest.short, forest.in_sentence
    ('forest, no-DP', 'forest, no-DP', 'in forest without privacy')
    >>> plain.full, plain.short, plain.in_sentence
    ('ε = 0.5', '0.5', 'at ε = 0.5')
    >>> plain.title, plain.paper
    ('trained with differential privacy, ε = 0.5', '0.5')
    >>> forest.in_brackets
    'forest, no DP'
    """

    model: str | None
    epsilon: float | None

    @property
    def full(self) -> str:
        """Where a setting stands alone."""
        is_private = self.epsilon is not None
        return self._after_model(f"ε = {self.epsilon:g}" if is_private else "no-DP")

    @property
    def in_brackets(self) -> str:
        """In a sentence, after what it is about."""
        is_private = self.epsilon is not None
        return self._after_model(f"ε = {self.epsilon:g}" if is_private else "no DP")

    @property
    def short(self) -> str:
        """In a table, whose head says what the number is."""
        is_private = self.epsilon is not None
        return self._after_model(f"{self.epsilon:g}" if is_private else "no-DP")

    @property
    def in_sentence(self) -> str:
        """As part of a sentence."""
        is_private = self.epsilon is not None
        budget = f"at ε = {self.epsilon:g}" if is_private else "without privacy"
        return budget if self.model is None else f"in {self.model} {budget}"

    @property
    def title(self) -> str:
        """In a menu."""
        if self.epsilon is None:
            return self._after_model("trained without differential privacy")
        return self._after_model(
            f"trained with differential privacy, ε = {self.epsilon:g}"
        )

    @property
    def paper(self) -> str:
        """In the paper's tables."""
        is_private = self.epsilon is not None
        return self._after_model(f"{self.epsilon:g}" if is_private else "none")

    def _after_model(self, budget: str) -> str:
        return budget if self.model is None else f"{self.model}, {budget}"


def budget_name(epsilon: float | None) -> str:
    """How an epsilon is called in print."""
    return SettingName(None, epsilon).full


def setting_name(model: str | None, epsilon: float | None) -> str:
    """How a setting is called in print."""
    return SettingName(model, epsilon).full


def in_setting(model: str | None, epsilon: float | None) -> str:
    """A setting as part of a sentence."""
    return SettingName(model, epsilon).in_sentence


def setting_called(
    text: str | float, settings: Sequence[tuple[str | None, float | None]]
) -> int | None:
    """Position of the (model, epsilon) that a user calls so; None unless it is one.

    Any name that outputs print will do, in capitals or not; and a model or an epsilon
    alone.

    >>> settings = [("forest", None), ("forest", 0.5)]
    >>> [setting_called(text, settings) for text in (0.5, "Forest, none", "forest")]
    [1, 0, None]
    """
    wanted = _plain_name(text)
    names = [SettingName(model, epsilon) for model, epsilon in settings]
    found = [k for k, name in enumerate(names) if _plain_name(name.full) == wanted]
    if not found:
        for k, name in enumerate(names):
            epsilon = SettingName(None, name.epsilon).short
            if wanted in (_plain_name(name.model or ""), _plain_name(epsilon)):
                found.append(k)
    return found[0] if len(found) == 1 else None


def _plain_name(name: object) -> str:
    """A setting's name without what people write in different ways."""
    text = re.sub(r"(ε|epsilon|eps)\s*=?\s*(?=[\d.e-]+$)", "", normalised(str(name)))
    text = re.sub("(no[- ]dp|without privacy|inf)$", "none", text)
    model, comma, epsilon = text.rpartition(", ")
    with suppress(ValueError):
        epsilon = f"{float(epsilon):g}"
    return model + comma + epsilon


def bounds(ci: tuple[float, float] | None, digits: int | None = None) -> str:
    """An interval of disparities, or of rates with so many digits; or "no interval".

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
    return "<.001" if value < 0.001 else no_zero(value, 3)


def both_p(adjusted: float | None, alone: float | None) -> str:
    """A p-value adjusted over all tests; in brackets the test's own if it differs.

    >>> both_p(0.2, 0.004), both_p(0.0001, 0.00001)
    ('.200 (.004)', '<.001')
    """
    first = p_value(adjusted)
    second = p_value(alone)
    return first if first == second or alone is None else f"{first} ({second})"


def no_zero(value: float | None, digits: int) -> str:
    """A rate without the zero before its point, as the paper writes it."""
    return re.sub(r"^(−?)0\.", r"\1.", decimals(value, digits))


def short_budget(epsilon: float | None) -> str:
    """A budget in a table."""
    return SettingName(None, epsilon).short


def budget_list(budgets: Sequence[float | None]) -> str:
    """Budgets tied for a choice."""
    tie = " (tie)" if len(budgets) > 1 else ""
    return (", ".join(short_budget(epsilon) for epsilon in budgets) or NOTHING) + tie


def yes_no(value: bool | None) -> str:
    """A truth value, or what stands for none."""
    if value is None:
        return NOTHING
    return "yes" if value else "no"


def number_range(values: list[int]) -> str:
    """Sorted whole numbers as one of them or a range."""
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


def listed(parts: Sequence[str]) -> str:
    """Names or amounts as a sentence lists them."""
    return " and ".join(
        [", ".join(parts[:-1]), *parts[-1:]] if len(parts) > 1 else parts
    )


def plural(n: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "split"), plural(20, "random split")
    ('1 split', '20 random splits')
    """
    return f"{n} {noun}{plural_ending(n)}"


def plural_ending(n: int) -> str:
    """What a regular noun ends in, for templates with a place for it: ``split{s}``.

    >>> plural_ending(1), plural_ending(2)
    ('', 's')
    """
    return "" if n == 1 else "s"


def capital(text: str) -> str:
    """A text at the head of a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


def two_digits(amount: float) -> str:
    """An amount in the unit it is printed in: two digits, whole from 10 on.

    >>> two_digits(1.234), two_digits(-23.6)
    ('1.2', '−24')
    """
    text = f"{amount:z.2g}" if abs(amount) < 10 else f"{amount:z.0f}"
    return text.replace("-", "−")


def points(amount: float) -> str:
    """A difference of rates or exposures in hundredths, with two digits.

    >>> points(0.0123), points(-0.236), points(0.01)
    ('1.2 points', '−24 points', '1 point')
    """
    text = two_digits(100 * amount)
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
    ('p = .610', 'p < .001')
    """
    if value is None:
        return "not tested"
    return "p < .001" if value < 0.001 else f"p = {no_zero(value, 3)}"


def largest(limits: Sequence[float | None]) -> float | None:
    """The largest of some amounts; None where one is not known, or there is none."""
    given = [limit for limit in limits if limit is not None]
    return max(given) if given and len(given) == len(limits) else None


def some_of(names: Sequence[object], most: int) -> str:
    """Names in a sentence: so many, and how many more there are."""
    more = f" (and {len(names) - most} more)" if len(names) > most else ""
    return listed([*map(str, names[:most])]) + more
