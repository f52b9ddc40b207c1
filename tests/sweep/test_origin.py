"""The sentence about versions: nothing to say, or who trained how many."""

from __future__ import annotations

from pcer.sweep.origin import version_note

OLD = {"numpy": "2.4.0", "pcer": "0.1.0", "torch": "2.12.0"}
NEW = {"numpy": "2.4.0", "pcer": "0.2.0", "torch": "2.13.0"}
HEAD = "Not all models are trained by the versions that write this release: "
TAIL = "; trained by one version, some numbers could differ slightly."


def test_one_version_needs_no_sentence():
    assert version_note([NEW, dict(reversed(NEW.items()))], NEW) is None


def test_several_versions_are_named_by_what_differs_in_one_order():
    sentence = f"{HEAD}2 by pcer 0.1.0 and torch 2.12.0, 1 by pcer 0.2.0 and torch 2.13.0{TAIL}"
    assert version_note([OLD, NEW, OLD], NEW) == sentence
    assert version_note([NEW, OLD, OLD], NEW) == sentence


def test_models_that_only_an_older_version_trained_are_told_too():
    assert version_note([OLD], NEW) == f"{HEAD}1 by pcer 0.1.0 and torch 2.12.0{TAIL}"


def test_a_folder_that_does_not_say_is_told_first():
    known = "numpy 2.4.0 and pcer 0.2.0 and torch 2.13.0"
    expected = f"{HEAD}3 by versions that were not noted, 1 by {known}{TAIL}"
    assert version_note([NEW, None, None, None], NEW) == expected


def test_a_package_that_was_not_noted_then_is_told():
    old = {"numpy": "2.4.0", "pcer": "0.2.0"}
    expected = f"{HEAD}1 by torch (not noted), 1 by torch 2.13.0{TAIL}"
    assert version_note([old, NEW], NEW) == expected
