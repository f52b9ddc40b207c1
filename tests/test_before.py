"""What earlier screens said of known releases, and what is said of them now.

Each example of an earlier screen that misled its readers is a test, here or elsewhere:

| before | test |
|---|---|
| a red badge for 0.13 points of an attack without figures | `test_a_slight_difference_has_no_alarm_and_both_attacks_have_figures` |
| red on 61.3 against 61.3, though the mix of outcomes may be the reason | `test_equal_successes_raise_no_alarm_and_the_mix_of_outcomes_is_named` |
| red for men's 0.5 points | `test_no_rate_and_no_slight_exposure_has_the_alarm_colour` |
| first who is more exposed, not that everybody is | `test_that_everybody_is_exposed_comes_before_who_is_more` |
| predictions alone, without what was, errors in small print | `test_errors_of_both_directions_and_what_was_stand_beside_the_rate` |
| PCER is not R over delta, a gap of 0 and .0064 | `test_the_paper_s_numbers_reconcile_on_sight` |
| 52.8 - 52.2 = 0.7; .91 and .83 for one bound | `test_a_difference_is_its_interval_and_no_name_has_two_values`, `test_one_voice.py` |
| three rules for Delta PCER | `test_delta_pcer_has_three_answers_by_one_rule`, `auditing/test_six.py` |
| the finding six times, 877 words, 65 lines | `test_the_finding_stands_once`, `report/test_browser.py`, `report/test_terminal.py` |
| "1 alarm in 200 trials" read three ways | `test_made_up_groups_are_counted_beside_how_many_may` |
| the trainer's word on no first screen | `test_what_is_taken_on_trust_is_on_the_first_screen` |
| which error a double disadvantage is by; missed "of 100 who were" | `test_double_disadvantage_says_by_what_it_is`, `test_bars_of_errors_say_of_whom` |
| double disadvantage never answered "no" | `test_double_disadvantage_can_be_answered_no` |
| epsilon .1 advised | `test_no_setting_near_guessing_is_advised`, `measuring/test_next_setting.py` |
| "improved" after attacks were left out | `deciding/test_trend.py` |
| a policy's two bounds for one group, JUnit's whole account | `test_a_policy_has_one_bound_a_group_and_junit_one_sentence` |
| `-q` printed the whole audit | `test_quietly_only_the_summary_and_broken_rules_are_printed` |
| an opinion without date, author, or anything to ask for | `report/test_opinion.py` |
"""

import re
from xml.etree import ElementTree

import pytest

import pcer
from pcer.auditing import sentences
from pcer.auditing.record import Audit
from pcer.auditing.sentences.rows import Row
from pcer.report.formats.junit import to_junit
from pcer.report.formats.terminal import terminal_text
from pcer.report.page import to_report
from pcer.report.tables.paper import paper_numbers
from pcer.report.views import view_of
from tests.commands import passed
from tests.pages import ROOT, audited

STUDY = ROOT / "studies" / "paper"
DEMO = STUDY / "compas.race.release.json"
BIOS = STUDY / "bios.gender.release.json"
ADULT = STUDY / "adult.sex.release.json"
FOREST = ROOT / "examples" / "compas-forest.release.json"
LOGISTIC = ROOT / "examples" / "compas-logistic.release.json"
ALL = pytest.mark.parametrize(
    "path", [DEMO, BIOS, ADULT, FOREST, LOGISTIC], ids=lambda path: path.name
)


def rows_of(audit: Audit) -> list[Row]:
    return [*sentences.of(audit, audit.told).rows]


def test_a_slight_difference_has_no_alarm_and_both_attacks_have_figures():
    audit = audited(DEMO)
    _, easier, served, both, *_ = rows_of(audit)
    assert easier.answer == "Slightly: African-American, by one of two attacks"
    assert not easier.is_alarm
    deciding, other = easier.figures[:2]
    assert re.search(r"0\.39 points .*paired confidence, p = \.004\): shown", deciding)
    assert re.search(r"\(RMIA\), .* less to .* more of 100 times .*: not shown", other)
    assert easier.points.attack == "RMIA"  # the picture shows what is said of
    assert served.is_alarm
    assert both.answer == "Yes: African-American; the privacy half is slight"
    assert not both.is_alarm


def test_equal_successes_raise_no_alarm_and_the_mix_of_outcomes_is_named():
    audit = audited(BIOS)
    first, easier, *_ = rows_of(audit)
    assert "61.3 of 100 times in either group (RMIA)" in first.figures[0]
    assert not easier.is_alarm
    assert any("the mix of outcomes may be the reason" in it for it in easier.figures)


def test_no_rate_and_no_slight_exposure_has_the_alarm_colour():
    audit = audited(ADULT)
    assert not any(row.is_alarm for row in rows_of(audit))
    assert audit.verdict == "exposure_differs"
    assert audit.metrics()["pcer_alarm"] == 0


def test_that_everybody_is_exposed_comes_before_who_is_more():
    audit = audited(FOREST)
    first, easier, *_ = rows_of(audit)
    assert first.answer == "Often"
    assert first.is_alarm
    assert not easier.is_alarm
    everybody = "67.6 (Other) to 69.2 (African-American) of 100 times; a coin: 50"
    assert everybody in audit.headline
    assert "easier" not in audit.headline


@pytest.mark.parametrize("path", [DEMO, FOREST, LOGISTIC])
def test_errors_of_both_directions_and_what_was_stand_beside_the_rate(path):
    """One group is wrongly predicted more often, and the other is missed more often."""
    audit = audited(path)
    _, _, served, *_ = rows_of(audit)
    wrongly, missed, rates = served.answer.split(". ")
    assert wrongly.startswith("Wrongly predicted ")
    assert wrongly.endswith("more often: African-American")
    assert missed == "Missed far more often: Other"
    truth = "(were charged again more often, too)"
    assert rates == f"Predicted far more often: African-American {truth}"
    assert served.main == f"{wrongly}."  # the colour is the first error's alone
    assert audit.headline.count("who were not charged again") == 1
    assert re.search(r"predicted \d+, were \d+ \(African-American\)", served.text)
    assert re.search(r"predicted \d+, were \d+ \(Other\)", served.text)
    assert [len(bars.bars) for bars in served.bars] == [2, 2, 2]


def test_the_paper_s_numbers_reconcile_on_sight():
    """PCER is a mean of ratios; the ratio of the means and the signed gap stand beside."""
    audit = audited(DEMO)
    table = paper_numbers(audit)
    places = {head: place for place, head in enumerate(table.columns)}
    row = next(row for row in table.rows if "African-American" in row)
    gap, signed = re.fullmatch(r"(\S+) \((\S+)\)", row[places["δ"]]).groups()
    ratio = float(row[places["R"]]) / float(gap)
    assert float(row[places["R/δ"]]) == pytest.approx(ratio, abs=0.5)
    assert float(row[places["PCER"]]) > 4 * ratio
    assert float(signed) < float(gap)


@ALL
def test_a_difference_is_its_interval_and_no_name_has_two_values(path):
    """Two printed figures may round to another difference than the printed one."""
    audit = audited(path)
    text = " ".join(row.text for row in rows_of(audit))
    assert re.search(r"apart by \d|less to \d", text)
    assert not re.search(r"apart by [\d.]+ (points|of 100)", text)
    for setting in audit.settings:
        for pair in setting.pairs:
            difference = pair.exposure.difference
            if difference.interval is not None:
                farther = max(map(abs, difference.interval))
                assert difference.upper_bound == pytest.approx(farther)


def test_delta_pcer_has_three_answers_by_one_rule():
    answers = {}
    for path in (DEMO, FOREST, LOGISTIC, ADULT):
        audit = pcer.audit(pcer.read_release(path))
        row = rows_of(audit)[4]
        answers[path.name] = row.answer
        pulls = "memorising pulls it towards 0 from" in row.figures[0]
        assert pulls == row.answer.startswith("Only that")
    assert answers == {
        DEMO.name: "No: unequal predictions alone give as much or more",
        FOREST.name: "Only that records are memorised, not whose",
        LOGISTIC.name: "No: no attack detects anybody",
        ADULT.name: "Only that records are memorised, not whose",
    }


@ALL
def test_the_finding_stands_once(path):
    """What an attack says of both groups stands once on the page, details unfolded."""
    audit = audited(path)
    seen, _, _ = to_report([audit], audit.sources[:1]).partition("<script")
    text = " ".join(re.sub(r"<[^>]*>", " ", seen).split())
    for setting in audit.settings:
        easier = sentences.of(audit, setting).rows[1]
        first = easier.figures[0].replace("'", "&#39;").replace("<", "&lt;")
        said = [text.count(form) for form in (first, easier.figures[0])]
        assert max(said) == 1
    assert len(terminal_text(view_of(audit)).splitlines()) <= 31


@pytest.mark.parametrize("path", [DEMO, BIOS, ADULT, FOREST])
def test_made_up_groups_are_counted_beside_how_many_may(path):
    trust = rows_of(audited(path))[5]
    raised = (
        r"\d+ of 200 made-up groups raises? the .*finding.*; chance alone allows 10\."
    )
    assert re.fullmatch(raised, trust.figures[0])
    assert "alarm in" not in trust.text
    assert "trial" not in trust.text


@ALL
def test_what_is_taken_on_trust_is_on_the_first_screen(path):
    audit = audited(path)
    trust = rows_of(audit)[5]
    assert trust.answer.endswith("; splits are taken on trust")
    assert trust.figures[-1].startswith("Not checked: whether splits were random ")
    shown = " ".join(terminal_text(view_of(audit)).split())
    assert "splits are taken on trust." in shown


@pytest.mark.parametrize("path", [DEMO, FOREST])
def test_double_disadvantage_says_by_what_it_is(path):
    """The same screen says that the other group is missed more often."""
    both = rows_of(audited(path))[3]
    assert (
        both.figures[0] == "By predictions and wrong predictions, not misses (Other)."
    )


def test_bars_of_errors_say_of_whom():
    said = {
        path: [bars.title for bars in rows_of(audited(path))[2].bars]
        for path in (DEMO, ADULT)
    }
    assert said[DEMO] == [
        "wrongly, of 100 not charged again",
        "missed, of 100 charged again",
        "predicted, of 100; mark: were",
    ]
    assert said[ADULT][:2] == [
        "missed, of 100 who earn above $50,000",
        "wrongly, of 100 who do not earn above $50,000",
    ]


def test_double_disadvantage_can_be_answered_no():
    both = rows_of(audited(ADULT))[3]
    assert both.answer.startswith("No: Male is easier to spot, but Female is ")


@pytest.mark.parametrize("path", [DEMO, ADULT])
def test_no_setting_near_guessing_is_advised(path):
    """ε = 0.1 exposes least, and is hardly more often right than guessing."""
    audit = audited(path)
    advised = audit.settings[audit.next_setting.place]
    lead = 100 * (advised.accuracy.mean - advised.majority)
    assert lead > audit.plan.outcome_margin
    assert "ε = 0.1 " not in audit.next_steps[0]


def test_a_policy_has_one_bound_a_group_and_junit_one_sentence():
    policy = pcer.Policy(largest_exposure=52, largest_wrongly_gap=5)
    audit = pcer.audit(pcer.read_release(FOREST), pcer.Plan(policy=policy))
    root = ElementTree.fromstring(to_junit([audit], []))
    failures = {
        case.get("name"): case[0].get("message")
        for case in root.iter("testcase")
        if case[0].tag == "failure"
    }
    assert failures.keys() == {
        "policy: largest_exposure",
        "policy: largest_wrongly_gap",
    }
    for rule in audit.broken_rules:
        assert failures[f"policy: {rule.rule}"] == rule.sentence
        assert audit.headline not in rule.sentence
        assert len(re.findall(r"\.(?= |$)", rule.sentence)) <= 1
    exposure = failures["policy: largest_exposure"]
    printed = [f"{one.interval[1]:.1f}" for one in audit.told.answers.spotting.groups]
    said = re.findall(r"as high as ([\d.]+)", exposure)
    assert said
    assert len(said) == len(set(said)) <= len(printed)
    assert set(said) <= set(printed)


def test_quietly_only_the_summary_and_broken_rules_are_printed():
    told = passed("audit", FOREST, "-q", "--fail-on", "exposure_differs", code=1)
    assert len(told.stdout.splitlines()) == 1
    assert told.stdout.strip().endswith("[double_disadvantage]")
    assert told.stderr.splitlines() == [
        "pcer: --fail-on is met: COMPAS, forest (race): exposure_differs."
    ]
