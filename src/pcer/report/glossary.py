"""The terms of a report, each explained where it first stands, and all of them in the appendix."""

from __future__ import annotations

import html
import re
from typing import NamedTuple


class Term(NamedTuple):
    """A term, the words it stands under, and what it means."""

    name: str
    words: str
    meaning: str

    @property
    def id(self) -> str:
        """Of its entry in the glossary."""
        return "term-" + re.sub(r"[^a-z]+", "-", self.name.lower()).strip("-")


GLOSSARY = (
    Term(
        "positive prediction",
        r"positive predictions?",
        "What the model decides for or against a person: the release says whether it helps "
        "(a benefit) or harms.",
    ),
    Term(
        "privacy cost",
        r"privacy costs?",
        "What a group pays: how much the model gives away about whether its people were in the "
        "training data. Also called exposure.",
    ),
    Term(
        "exposure",
        r"exposures?",
        "How much better than guessing somebody can tell that a person's record was used to train "
        "the model, or another sign that the model remembers the record.",
    ),
    Term(
        "guessing",
        r"guess(?:ing|es)",
        "Somebody who only guesses whether a person was in the training data is right 50 of 100 "
        "times. What counts is how much more.",
    ),
    Term(
        "privacy budget",
        r"ε = [\d.]+|privacy budget",
        "A promise made before training, called epsilon (ε): the smaller, the more noise hides "
        "each person, and the less accurate the model is.",
    ),
    Term(
        "differential privacy",
        r"differential privacy|no-DP",
        "A way of training that hides each person by added noise and promises how well (ε). no-DP: "
        "trained without it.",
    ),
    Term(
        "split",
        r"splits?",
        "Which records train a model and which test it, drawn by chance. More splits make the "
        "numbers surer.",
    ),
    Term(
        "people like these",
        r"people like these",
        "Not only the people in this data: others like them, too. Intervals allow for the chance "
        "of who is in the data.",
    ),
    Term(
        "coin-flip attribute",
        r"coin-flip attributes?",
        "A made-up group, drawn by coin flips. It cannot matter, so alarms about it show how often "
        "chance alone raises one.",
    ),
    Term(
        "floor",
        r"floors?",
        "The smallest privacy cost that counts in a ratio; a smaller one counts as this much.",
    ),
    Term(
        "interval",
        r"intervals?",
        "Where the true number lies with the stated confidence, 95 % unless the plan says other.",
    ),
    Term(
        "resolved",
        r"resolved",
        "A privacy cost that is larger than chance alone would give.",
    ),
    Term(
        "double disadvantage",
        r"double disadvantage|doubly disadvantaged",
        "A group that is easier to recognise and also gets the worse predictions, both beyond "
        "chance.",
    ),
    Term(
        "disparity",
        r"disparity|disparities",
        "The groups' ratios of what they receive to what they pay are not equal.",
    ),
    Term(
        "ratio",
        r"ratios?",
        "What a group receives divided by what it pays: the Privacy-Cost Equity Ratio (PCER).",
    ),
    Term(
        "upper limit",
        r"upper limits?",
        "The largest value that the data allow: were the truth larger, such data would be rare "
        "(5 in 100, unless the plan says other).",
    ),
    Term(
        "detectable",
        r"detectable",
        "The smallest exposure that 80 of 100 data sets like this one would show.",
    ),
    Term(
        "allowed",
        r"allowed|allows",
        "The most that training can have given away, by its own accounting. An attack finds less.",
    ),
    Term(
        "digest",
        r"digests?|SHA-256",
        "A fingerprint of a file: a file with one changed letter has another.",
    ),
    Term(
        "p",
        r"p = [\d.e-]+",
        "How often chance alone would give at least as much. Small: hardly chance.",
    ),
)
PATTERN = re.compile("|".join(rf"(?P<t{k}>\b{one.words}\b)" for k, one in enumerate(GLOSSARY)))


def explained(text: str, known: set[str]) -> str:
    """Text as HTML, each term marked where it first stands.

    Args:
        text: plain; all of it is escaped.
        known: names of terms that were marked before; those that are marked are added.

    >>> explained("no-DP & <b>", set())
    '<dfn tabindex="0" aria-describedby="term-differential-privacy">no-DP</dfn> &amp; &lt;b&gt;'
    """
    parts, end = [], 0
    for match in PATTERN.finditer(text):
        term = GLOSSARY[int(str(match.lastgroup)[1:])]
        if term.name in known:
            continue
        known.add(term.name)
        parts += [html.escape(text[end : match.start()]), _marked(term, match[0])]
        end = match.end()
    return "".join([*parts, html.escape(text[end:])])


def _marked(term: Term, words: str) -> str:
    return f'<dfn tabindex="0" aria-describedby="{term.id}">{html.escape(words)}</dfn>'
