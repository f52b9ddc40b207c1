"""Six answers, always all of them, that say no more than their intervals bear."""

import re

import numpy as np
import pytest

import pcer
from pcer.auditing.answers import Answers
from pcer.auditing.record import Audit, SettingResult
from pcer.auditing.sentences import of
from pcer.measuring.sizes import Level, Size
from tests.test_one_voice import ROOT, any_release

QUICK = pcer.Plan(resamples=1, null_draws=20)
RELEASES = sorted((ROOT / "studies" / "paper").glob("*.release.json"))
RELEASES.append(ROOT / "tests" / "releases" / "forest.release.json")
N_DRAWN = 25


def check_colours(answers: Answers) -> None:
    """An alarm is a high level, or a clear difference of exposure or errors."""
    allowed = set()
    if answers.spotting.answer in (Level.OFTEN, Level.ALMOST_ALWAYS):
        allowed.add("spotting")
    if any(pair.size in (Size.CLEAR, Size.FAR) for pair in answers.easier.pairs):
        allowed.add("exposure")
    if any(pair.size in (Size.CLEAR, Size.FAR) for pair in answers.served.wrongly):
        allowed.add("wrongly")
    assert set(answers.alarms) == allowed
    ranks = [(one.is_alarm, one.size.rank) for one in answers.found if one.size]
    assert ranks == sorted(ranks, reverse=True)


def check_sizes(audit: Audit, setting: SettingResult) -> None:
    """Sizes stand only at differences that are shown, and their intervals bear them."""
    plan = audit.plan
    per_success = audit.attack_kind.scale.per_success or np.nan
    for pair in setting.pairs:
        for answer, points, margin in (
            (pair.exposure, per_success, plan.exposure_margin),
            (pair.outcomes, 100, plan.outcome_margin),
            (pair.wrongly, 100, plan.outcome_margin),
        ):
            assert (answer.size is None) == (answer.group is None)
            if answer.size in (None, Size.OPEN, Size.NEAR_CERTAINTY):
                continue
            ends = points * np.abs(answer.difference.interval)
            if answer.size is Size.SLIGHT:
                assert max(ends) <= margin
            else:
                least = margin * (2 if answer.size is Size.FAR else 1)
                assert np.prod(answer.difference.interval) > 0
                assert min(ends) >= least


def check_intervals(setting: SettingResult) -> None:
    """A printed interval without 0 implies that the test, before downgrades, rejects."""
    for pair in setting.pairs:
        tests = [(found.difference, found.p_value) for found in pair.exposure.by_attack]
        tests += [
            (found.difference, found.p_value) for found in (pair.outcomes, pair.wrongly)
        ]
        for difference, p_value in tests:
            if difference.interval is not None and p_value is not None:
                low, high = difference.interval
                assert low <= 0 <= high or p_value <= 0.05


def check_rows(audit: Audit, setting: SettingResult) -> None:
    """Each question is answered, figures name attacks, and the deciding one is first."""
    answers = setting.answers
    assert setting.level is answers.spotting.answer
    assert answers.spotting.attack == audit.attack
    n_pairs = len(setting.pairs)
    rows = (answers.easier, answers.both, answers.paper)
    assert all(len(row.pairs) == n_pairs for row in rows)
    for pair in setting.pairs:
        first = pair.exposure.by_attack[0]
        assert first.attack == pair.exposure.attack
        others = [found.p_value for found in pair.exposure.by_attack]
        known = [p for p in others if p is not None]
        assert not known or first.p_value == min(known) == pair.exposure.p_value
    doubled = [pair.groups for pair in setting.pairs if pair.double_disadvantage.group]
    assert (answers.both.answer == "yes") == bool(doubled)
    told = (answers.spotting.answer is Level.CANNOT_TELL) == bool(answers.spotting.why)
    assert told


def check_truth(audit: Audit, setting: SettingResult) -> None:
    """A shown rate says whether what was true differs so, where all groups agree."""
    served = setting.answers.served
    named = [pair.groups for pair in served.rates if pair.answer == "differ"]
    were = {group.group: group.were for group in served.groups}
    told = set()
    for worse, other in named if None not in were.values() else ():
        printed = [f"{100 * were[name]:.0f}" for name in (worse, other)]
        way = "more often" if were[worse] > were[other] else "less often"
        told.add("as often" if printed[0] == printed[1] else way)
    answer = of(audit, setting).rows[2].answer
    said = re.search(r" \((?:but )?[^(]*((?:as|more|less) often)(?:, too)?\)$", answer)
    is_rate = audit.plan.benefit == "positive_rate"
    assert (said and {said[1]}) == (told if len(told) == 1 and is_rate else None)


def check_both(audit: Audit, setting: SettingResult) -> None:
    """A "yes" says by which errors the same group is worse served, too."""
    answers = setting.answers
    yes = [pair for pair in answers.both.pairs if pair.answer == "yes"]
    if not yes:
        return
    is_harm = audit.subject.outcome == "harm"
    wrongly, missed = answers.served.wrongly, answers.served.missed
    by_noun = {
        "wrong predictions": wrongly if is_harm else missed,
        "misses": missed if is_harm else wrongly,
    }
    sentence = of(audit, setting).rows[3].figures[0]
    same, _, other = sentence.partition(", not ")
    for noun, pairs in by_noun.items():
        worse = {
            frozenset(one.groups): one.groups[0]
            for one in pairs
            if one.answer == "differ"
        }
        found = [worse.get(frozenset(pair.groups)) for pair in yes]
        agrees = found == [pair.group for pair in yes]
        assert (noun in same) == agrees
        assert not (noun in other and agrees)


def check(audit: Audit) -> None:
    for setting in audit.settings:
        check_colours(setting.answers)
        check_sizes(audit, setting)
        check_intervals(setting)
        check_rows(audit, setting)
        check_truth(audit, setting)
        check_both(audit, setting)


@pytest.mark.parametrize("path", RELEASES, ids=lambda path: path.stem)
def test_answers_of_releases_that_are_here(path):
    check(pcer.audit(pcer.read_release(path), QUICK))


@pytest.mark.parametrize("seed", range(N_DRAWN))
def test_answers_of_drawn_releases(seed):
    release, plan = any_release(np.random.default_rng(seed))
    check(pcer.audit(release, plan))


def test_the_paper_s_number_has_one_rule():
    """Outside its null it shows memorisation, inside it nothing, whatever its size."""
    (path,) = (path for path in RELEASES if path.stem == "forest.release")
    audit = pcer.audit(pcer.read_release(path), QUICK)
    for setting in audit.settings:
        for pair in setting.answers.paper.pairs:
            low, high = pair.null_interval
            is_outside = not low <= pair.value <= high
            assert (pair.answer != "outcomes_alone") == is_outside


def test_a_file_without_a_stronger_attack_cannot_tell_instead_of_clearing():
    tree_path = ROOT / "tests" / "releases" / "counts.release.json"
    audit = pcer.audit(pcer.read_release(tree_path), QUICK)
    for setting in audit.settings:
        level = setting.answers.spotting
        if not any(group.detected for group in level.groups):
            assert level.answer in (Level.CANNOT_TELL, Level.NOT_DETECTED)
            assert level.why != "bound" or max(one.interval[1] for one in level.groups)
