"""How numbers are written, and what every headline and card keeps to."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from string import Formatter
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pcer
from pcer import wording
from pcer.auditing.record import Audit, PairResult
from pcer.auditing.sentences import advice, cards, certainty, headline, of, telling
from pcer.measuring.plan import BENEFITS, Benefit
from pcer.paper.records import Summary
from pcer.release.file import Release, parse_release
from pcer.report.tables.paper import plus_minus
from pcer.wording import bounds, decimals, signed
from tests.auditing.made import drawn
from tests.pages import ROOT, SAMPLES
from tests.release.test_file import CELLS
from tests.test_one_voice import QUICK, any_release

NUMBER = re.compile(r"[−-](\d[\d,]*\.?\d*|\.\d+)(e[−+-]?\d+)?")

numbers = (
    st.floats(-1.5, 1.5) | st.floats(-1e9, 1e9) | st.sampled_from([0.0, -0.0, -1e-300])
)
digits = st.integers(0, 6)


def negatives(text: str) -> list[float]:
    """Every number in a text that is written with a minus."""
    plain = [
        match[0].replace("−", "-").replace(",", "") for match in NUMBER.finditer(text)
    ]
    return [float(number) for number in plain]


def test_the_check_sees_a_negative_zero():
    found = negatives("[−.000, +.100] ± −0.0; −1.50 and -2e-05, −1,234")
    assert found == [-0.0, -0.0, -1.5, -2e-05, -1234]


@given(numbers, numbers, digits)
@example(-0.00001, -0.0, 4)
def test_numbers_are_written_rounded_and_none_as_a_negative_zero(value, other, places):
    ci = (min(value, other), max(value, other))
    summary = Summary(mean=value, std=abs(other), ci=ci)
    texts = [decimals(value, places), signed(value), bounds(ci), bounds(ci, places)]
    texts += [plus_minus(summary), plus_minus(summary, places)]
    for text in texts:
        assert all(number < 0 for number in negatives(text))
    assert float(decimals(value, places).replace("−", "-")) == round(value, places)
    near = float(signed(value).replace("−", "-").replace(",", ""))
    assert near == pytest.approx(value, rel=0.005, abs=1e-300)


def test_rates_lose_only_the_zero_before_the_point():
    rates = {0.5: ".50", -0.5: "−.50", 10.5: "10.50", -0.001: ".00", 1.0: "1.00"}
    for value, text in rates.items():
        assert plus_minus(Summary(mean=value, std=None, ci=None), 2) == text


# Every headline and card: on all answers, forced upon one audit; and on releases

FORBIDDEN = re.compile(
    "worse off|this alone|told apart|by lot|taken back|takes back|coin-flip|of its own|"
    "surer|witness|picture of chance|no memory|privacy cost|[{}]|\\bnan\\b|"
    "None(?! of)| %",
)
AXES = (
    re.compile("recognis|exposure|detect"),
    re.compile("outcome|[Ww]orse served|often"),
)
PEOPLE = (
    None,
    "defendants",
    "people who asked for a loan in one of our branches last year",
)
MEANS = (None, "are predicted to be charged again", "earn " + "very " * 14 + "much")
EXPOSURE = ("differs", "no_difference_shown", "none_detected", "cannot_tell")
OUTCOMES = ("differ", "no_difference_shown", "not_given", "cannot_tell")


def sentences(audit: Audit) -> Iterator[str]:
    """Everything that is said of an audit, and of each of its settings."""
    yield from (*audit.account, *audit.trust, *audit.next_steps, audit.choice)
    yield from (certainty.paper_words(audit), certainty.paper_note(audit))
    for setting in audit.settings:
        yield from (headline.headline(audit, setting), headline.badge(audit, setting))
        for card in (cards.exposure_card, cards.outcomes_card, cards.how_sure_card):
            question, answer, text = card(audit, setting)
            yield from (question, answer, *text)
        yield from advice.what_would_change(audit, setting)


@pytest.fixture(scope="module")
def forest() -> Release:
    return pcer.read_release(ROOT / "examples" / "compas-forest.release.json")


PLACES_OF_ONE_SENTENCE = {
    *("others", "do", "double"),
    *("reason", "stronger", "n", "all", "better", "detected", "by"),  # exposure card
    *("truth", "verb", "numbers"),  # outcomes card
    *("rates", "here"),  # account
    *("pair", "before", "after", "count", "moved", "old", "new"),  # levelling
}
TOLD = ("exposure", "outcomes", "badge", "exposure_card", "outcomes_card")
TOLD_FORMS = {
    "how_sure": ("outcomes_differ", "outcomes_no_difference_shown"),
    "account": ("no_difference",),
    "advice": ("shrinks", "grows", "stays"),
}


def told_templates() -> Iterator[str]:
    """Templates that ``Telling`` fills."""
    for section in TOLD:
        yield from wording.templates()[section].values()
    for section, forms in TOLD_FORMS.items():
        yield from (wording.templates()[section][form] for form in forms)
    for kind in BENEFITS:
        yield from (kind.differ, kind.moved, kind.account)


@pytest.mark.parametrize("axis", get_args(telling.Axis))
@pytest.mark.parametrize("is_plain", [False, True])
def test_telling_has_every_place_of_every_template(axis, is_plain):
    audit = three_groups()
    for setting in audit.settings:
        told = telling.Telling(audit, setting, axis, is_plain=is_plain)
        for template in told_templates():
            places = {place for _, place, _, _ in Formatter().parse(template)}
            for place in places - {None} - PLACES_OF_ONE_SENTENCE:
                assert isinstance(told.places[place], str)


def test_a_place_of_one_sentence_hides_the_one_of_that_name(forest):
    audit = pcer.audit(forest, QUICK)
    told = telling.Telling(audit, audit.told, "exposure")
    once = told.say("exposure_card", "detected_by", beside="nobody", by="no attack")
    assert once == "For nobody that shows by no attack alone."
    assert told.places["beside"] != "nobody"


def test_all_sentences_of_a_setting_come_by_one_door(forest):
    audit = pcer.audit(forest, QUICK)
    for setting in audit.settings:
        said = of(audit, setting)
        assert said.headline == headline.headline(audit, setting) == setting.headline
        assert said.badge == headline.badge(audit, setting)
        assert said.exposure == cards.exposure_card(audit, setting)
        assert said.outcomes == cards.outcomes_card(audit, setting)
        assert said.how_sure == cards.how_sure_card(audit, setting)
        assert said.advice == advice.what_would_change(audit, setting)
        assert said.evidence == certainty.paper_words(audit)
        assert said.paper_note == certainty.paper_note(audit)
        assert said.paper_title == certainty.paper_note(audit, "strip")
        assert (said.named, said.policy) == (setting.named, audit.policy_lines)
        assert {*said.exposure_order} == {*said.outcomes_order} == {*setting.groups}
    told = of(audit, audit.told)
    assert told.headline == audit.headline
    assert {*told.certainty} <= {*audit.trust}


def check(audit: Audit) -> None:
    """At most 30 words, both axes, no phrase that has gone."""
    for setting in audit.settings:
        said = headline.headline(audit, setting)
        for name in sorted(audit.subject.groups, key=len, reverse=True):
            said = re.sub(re.escape(name), "N", said, flags=re.IGNORECASE)
        assert len(said.split()) <= 30, said
        assert all(axis.search(said) for axis in AXES), said
    for sentence in sentences(audit):
        assert not FORBIDDEN.search(sentence), sentence


@cache
def three_groups() -> Audit:
    """Settings of three groups, two of which differ from the first."""
    release = drawn(
        sizes=(3000, 900, 700),
        label_shares=(0.3, 0.6, 0.1),
        gaps=(0.02, 0.1, 0.06),
        budgets=(0.5, None),
        n_seeds=3,
    )
    return pcer.audit(release, pcer.Plan(resamples=5, null_draws=5))


def forced(
    audit: Audit, exposure: str, outcomes: str, subject: dict[str, object]
) -> Audit:
    """The audit with other answers of all pairs, and with groups detected or not."""
    is_detected = exposure in ("differs", "no_difference_shown")
    settings = []
    for setting in audit.settings:
        groups = {
            name: group.model_copy(update={"detected": is_detected})
            for name, group in setting.groups.items()
        }
        pairs = [forced_pair(pair, exposure, outcomes) for pair in setting.pairs]
        settings.append(setting.model_copy(update={"pairs": pairs, "groups": groups}))
    about = audit.subject.model_copy(update=subject)
    return audit.model_copy(update={"settings": settings, "subject": about})


def forced_pair(pair: PairResult, exposure: str, outcomes: str) -> PairResult:
    """Where groups differ, the second is named."""
    ours = {"answer": exposure, "group": None}
    theirs = {"answer": outcomes, "group": None}
    if exposure == "differs":
        ours["group"] = pair.groups[1]
    if outcomes == "differ":
        theirs["group"] = pair.groups[1]
    changes = {
        "exposure": pair.exposure.model_copy(update=ours),
        "outcomes": pair.outcomes.model_copy(update=theirs),
    }
    return pair.model_copy(update=changes)


@pytest.mark.parametrize("exposure", EXPOSURE)
@pytest.mark.parametrize("outcomes", OUTCOMES)
def test_every_answer_has_a_headline_of_thirty_words(exposure, outcomes):
    for people, means, outcome in product(PEOPLE, MEANS, ("benefit", "harm")):
        subject = {"people": people, "positive_means": means, "outcome": outcome}
        audit = forced(three_groups(), exposure, outcomes, subject)
        for stronger, benefit in product((None, "lira_advantage"), get_args(Benefit)):
            plan = audit.plan.model_copy(update={"benefit": benefit})
            check(audit.model_copy(update={"stronger_attack": stronger, "plan": plan}))


def test_a_difference_without_detection_is_no_difference_and_said_to_be():
    audit = forced(three_groups(), "none_detected", "differ", {})
    said = certainty.how_sure(audit, audit.told)
    n = sum((pair.exposure.p_value or 1.0) <= 0.05 for pair in audit.told.pairs)
    assert sum("is not itself detected" in sentence for sentence in said) == n > 0


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_releases_of_the_repository_have_headlines(path):
    check(pcer.audit(pcer.read_release(path), pcer.Plan(resamples=5, null_draws=5)))


def test_drawn_releases_have_headlines():
    for k in range(40):
        check(pcer.audit(*any_release(np.random.default_rng([27, k]))))


def test_attacks_that_contradict_each_other_are_said_to():
    release = pcer.read_release(ROOT / "studies/paper/bios.gender.release.json")
    audit = pcer.audit(release, QUICK)
    said = (
        "AUC finds Male easier to recognise; paired gap finds Female; "
        "they contradict each other"
    )
    assert any(said in sentence for sentence in audit.trust)
    (setting,) = (each for each in audit.settings if each.epsilon == 0.1)
    # By RMIA she may be recognised no better than by a coin.
    alone = "For Female that shows by paired confidence alone."
    assert alone in cards.exposure_card(audit, setting).sentences

    # Outcomes drive the ratios, and Δ PCER is evidence of memorisation: both are said.
    least_private = audit.settings[-1]
    badge = "PCER differs because predictions do, not privacy"
    assert least_private.verdict is pcer.Verdict.RATIO_DIFFERS
    assert headline.badge(audit, least_private) == badge
    assert certainty.paper_words(audit).startswith(
        "Δ PCER adds only that records are memorised"
    )


def test_to_be_flagged_rightly_is_no_harm_and_its_placebos_are_not_those_of_rates():
    release = pcer.read_release(ROOT / "examples" / "compas-forest.release.json")
    audit = pcer.audit(release, QUICK.model_copy(update={"benefit": "precision"}))
    # 60 of 100 are right in Other, 69 in the other group.
    assert audit.verdict is pcer.Verdict.EXPOSURE_DIFFERS
    assert (
        "Positive predictions for Other defendants are right less often"
        in audit.headline
    )
    (pair,) = audit.told.pairs
    assert pair.outcomes.group == "Other"
    checks = pair.exposure.placebo
    assert checks.n_exposure is not None is not checks.exposure_p
    assert {checks.n_double, checks.n_ratio, checks.n_any, checks.ratio_p} == {None}
    double = pcer.audit(
        release, QUICK.model_copy(update={"benefit": "true_positive_rate"})
    )
    assert (
        "This release lacks the made-up-groups check of this finding." in double.trust
    )


# By group in every split: tp, fp, tn and fn of 400 test records.
WRONG = {"Ann": (150, 64, 136, 50), "Bob": (150, 34, 166, 50)}  # 32 and 17 of 100
MISSED = {"Ann": (136, 20, 180, 64), "Bob": (166, 20, 180, 34)}


def of_tables(tables: dict, outcome: str) -> pcer.Release:
    """Ten splits with these test tables, and training tables in proportion."""
    rng = np.random.default_rng(1)
    runs = []
    for split in range(10):
        groups = {}
        for name, counts in tables.items():
            a, b = rng.integers(-5, 6, 2)
            moved = np.array([a, b, -b, -a])  # labels are balanced in every split
            test = np.array(counts) + moved
            train = 2 * np.array(counts) - moved
            groups[name] = {
                "train": dict(zip(CELLS, train.tolist(), strict=True)),
                "test": dict(zip(CELLS, test.tolist(), strict=True)),
            }
        run = {"epsilon": None, "seed": split, "split": f"s{split}", "groups": groups}
        runs.append(run)
    subject = {
        "dataset": "made",
        "attribute": "name",
        "groups": [*tables],
        "outcome": outcome,
    }
    tree = {"format": "pcer-release", "version": 4, "subject": subject, "runs": runs}
    tree["training"] = {"split_kind": "random", "stratified_by": "both"}
    return parse_release(tree, file="made")


@pytest.mark.parametrize("outcome", ["benefit", "harm"])
@pytest.mark.parametrize(
    ("benefit", "tables", "said"),
    [
        ("false_positive_rate", WRONG, "Among people with a negative label, "),
        ("false_negative_rate", MISSED, "Among people with a positive label, "),
    ],
)
def test_of_an_error_rate_less_is_better_whatever_a_positive_prediction_is(
    outcome, benefit, tables, said
):
    audit = pcer.audit(of_tables(tables, outcome), planned(benefit=benefit))
    (pair,) = audit.told.pairs
    assert (pair.outcomes.answer, pair.outcomes.group) == ("differ", "Ann")
    rates = [group.benefit.mean for group in audit.told.groups.values()]
    assert rates == pytest.approx([0.32, 0.17], abs=0.005)
    sentence, *_ = headline.outcome_sentences(audit, audit.told)
    assert sentence.startswith(said)
    assert sentence.endswith("more often: 32 of 100, against 17.")
    # 2 of 3 records train, so that 600 of a label are in both parts, 200 in each test.
    n = 10
    variance = 0
    for rate in rates:
        variance += rate * (1 - rate) * (1 / 600 + (1 / 200 - 1 / 600) / n)
    assert pair.outcomes.difference.standard_error == pytest.approx(
        np.sqrt(variance), rel=0.01
    )
    assert audit.account[0].startswith("Out of 100 people with a ")


def test_the_two_rates_of_qualified_people_name_one_group_of_a_benefit():
    release = of_tables(MISSED, "benefit")
    named = set()
    for benefit in ("true_positive_rate", "false_negative_rate"):
        audit = pcer.audit(release, planned(benefit=benefit))
        named.add(audit.told.pairs[0].outcomes.group)
        assert audit.told.pairs[0].outcomes.difference.value == pytest.approx(
            0.15 if benefit == "false_negative_rate" else -0.15, abs=0.01
        )
    assert named == {"Ann"}


def planned(**fields: object) -> pcer.Plan:
    return QUICK.model_copy(update=fields)


def test_other_attacks_that_show_a_difference_are_in_headline_badge_and_card():
    release = pcer.read_release(ROOT / "examples" / "compas-forest.release.json")
    audit = pcer.audit(release, QUICK.model_copy(update={"attack": "overfitting_gap"}))
    assert audit.headline.startswith(
        "Only other attacks show a group to be easier to recognise."
    )
    assert (
        headline.badge(audit, audit.told)
        == "Only other attacks show a privacy difference"
    )
    card = cards.exposure_card(audit, audit.told)
    assert any("do show a difference" in sentence for sentence in card.sentences)
    assert "exposure_differs" in audit.statements()


def test_a_p_value_beside_another_attacks_numbers_names_its_own():
    release = pcer.read_release(ROOT / "examples" / "compas-forest.release.json")
    for attack, whose in (
        ("sharpest", " by paired confidence"),
        ("paired_confidence", ""),
    ):
        audit = pcer.audit(release, QUICK.model_copy(update={"attack": attack}))
        assert audit.told.pairs[0].exposure.attack == "paired_confidence"
        (said,) = (each for each in audit.account if each.startswith("They differ by"))
        assert said.endswith(f"; p < 0.001{whose}).")


def test_a_file_that_contradicts_itself_is_no_evidence_in_the_papers_words():
    tree = pcer.read_release(ROOT / "examples" / "compas-forest.release.json").to_tree()
    tree["training"]["stratified_by"] = "both"
    audit = pcer.audit(parse_release(tree, file="x"), QUICK)
    assert certainty.paper_words(audit).startswith(
        "This file cannot tell whether Δ PCER is evidence."
    )


@pytest.mark.parametrize("said", [{"stratified_by": "both"}, {"split_kind": "other"}])
def test_a_file_that_cannot_tell_does_not_say_that_no_attack_detects(said):
    tree = pcer.read_release(ROOT / "examples" / "compas-forest.release.json").to_tree()
    audit = pcer.audit(
        parse_release({**tree, "training": {**tree["training"], **said}}, file="x"),
        QUICK,
    )
    assert audit.headline.startswith(
        "This file cannot tell who is easier to recognise."
    )
    assert not any(
        re.search("attacks? detect|none shows", sentence) for sentence in audit.trust
    )


def test_of_several_pairs_the_widest_is_told_with_its_names():
    audit = forced(three_groups(), "differs", "differ", {})
    pairs = audit.told.pairs
    widest = max(pairs, key=lambda pair: abs(pair.outcomes.difference.value))
    double = next(pair for pair in pairs if pair is not widest)
    of_group = double.double_disadvantage.model_copy(update={"group": double.groups[1]})
    marked = double.model_copy(update={"double_disadvantage": of_group})
    setting = audit.told.model_copy(
        update={"pairs": [marked if pair is double else pair for pair in pairs]}
    )
    assert telling.in_order(setting, "outcomes")[0] == widest.groups[1]
    assert telling.in_order(setting, "exposure")[0] == double.groups[1]
    alone = audit.model_copy(update={"settings": [setting]})
    _, gap, *_ = certainty.how_sure(alone, setting)
    assert gap.startswith(f"Outcome gap between {' and '.join(widest.groups)}: ")


def test_gaps_agree_with_the_parity_gap_and_r_is_the_benefit_that_was_asked_for():
    release = pcer.read_release(ROOT / "studies" / "paper" / "compas.race.release.json")
    audit = pcer.audit(release, QUICK)
    (gap,) = (each for each in audit.trust if each.startswith("Outcome gap"))
    # 50.4 and 26.6, which are printed as 50 and 27: the gap is not 23.
    parity = 100 * audit.told.demographic_parity_gap.mean
    start = f"Outcome gap: {parity:.1f} points (95% interval 19.0 to 28.7"
    assert gap.startswith(start)
    (shrinks,) = (
        each for each in audit.next_steps if each.startswith("The outcome gap")
    )
    assert "shrink from 23.8 to 10.6 points" in shrinks
    assert "R: predicted positive;" in certainty.paper_note(audit)
    precise = pcer.audit(release, QUICK.model_copy(update={"benefit": "precision"}))
    assert "R: qualify, of those predicted positive;" in certainty.paper_note(precise)
    # What changes is the rate that was asked for.
    for benefit, moves in (
        ("true_positive_rate", "with a positive label are predicted to be charged"),
        ("false_negative_rate", "with a positive label are predicted negative (32 to"),
    ):
        steps = pcer.audit(release, planned(benefit=benefit)).next_steps
        assert any(moves in step for step in steps)
    tree = release.to_tree()
    tree["subject"]["n_missing_group"] = 12
    shown = str(parse_release(tree, file="x"))
    assert "People in no table, left out: 12." in shown
