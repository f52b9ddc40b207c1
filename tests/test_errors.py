"""Other people's words: what is spelt out, and which names look the same."""

import math
import pickle
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcer import errors
from pcer.errors import LONGEST_SENTENCE, InputError, confusable, normalised, printable


@given(st.text(st.characters(codec=None), max_size=30))
def test_every_character_against_a_loop(text):
    def one(letter: str) -> str:
        if (
            letter in "\u200c\u200d"
            or letter.isprintable()
            or unicodedata.category(letter) == "Zs"
        ):
            return letter
        units = letter.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[k : k + 2].hex()}" for k in range(0, len(units), 2))

    told = printable(text)
    assert told == "".join(one(letter) for letter in text) == printable(told)
    told.encode("utf-8")


def test_names_of_many_scripts_and_marks_of_our_own_stay():
    for name in ("نزن\u200cکن", "👩\u200d🔬", "זכר", "女性", "a\u00a0b", "\u3000x"):
        assert printable(name) == name
    assert printable("a\u00ad\nb\x1b", keep="\u00ad\n") == "a\u00ad\nb\\u001b"
    told = str(InputError("file \x1b]0;title\x07 " + "long " * 10_000))
    assert told.startswith(r"file \u001b]0;title\u0007 long")
    assert told.isprintable()
    assert len(told) <= LONGEST_SENTENCE + 20


@pytest.mark.parametrize(
    ("check", "bad"),
    [
        (errors.require_positive, (0.0, -1.0, math.nan, math.inf)),
        (errors.require_open_unit, (0.0, 1.0, math.nan)),
        (lambda **named: errors.require_at_least(2, **named), (1, True, 2.0)),
    ],
)
def test_an_argument_that_is_refused_is_the_errors_field(check, bad):
    for value in bad:
        with pytest.raises(InputError) as caught:
            check(some_name=value)
        again = pickle.loads(pickle.dumps(caught.value))
        assert (again.field, str(again)) == ("some_name", str(caught.value))
    assert InputError("a sentence").field is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(("men", "Men"), ("Straße", "STRASSE"), ("ﬁeld", "field"), ("Ａ", "a")),
        *(("a b", "a\u00a0 b "), ("e\u0301", "é"), ("women", "wo\u00admen")),
        *(("a", "a\u202e"), ("a\u202e", r"a\u202e")),
    ],
)
def test_names_that_read_alike(one, other):
    assert confusable(["x", one, other]) == (one, other)
    assert confusable(["x", one, "y"]) is None
    for blank in ("", " ", "\u3000", "\u200b", "\u202e", "\u00ad\u2066 "):
        assert normalised(blank) == ""
