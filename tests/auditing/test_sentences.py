"""How numbers are written, and what every headline and card keeps to."""

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pcer
from pcer import wording
from pcer.auditing.record import Audit, PairResult
from pcer.auditing.sentences import certainty, headline, of
from pcer.auditing.sentences.account import conclude
from pcer.auditing.six import six_answers
from pcer.measuring.plan import BENEFITS, Benefit
from pcer.measuring.sizes import Size
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


# Every row and headline: on all answers, forced upon one audit; and on releases

FORBIDDEN = re.compile(
    "recognis|outsider|worse off|this alone|told apart|by lot|taken back|takes back|"
    "coin-flip|of its own|surer|witness|picture of chance|no memory|privacy cost|"
    "twice as often|[{}]|\\bnan\\b|None(?! of)| %|p [=<] 0"
)
PEOPLE = (
    None,
    "defendants",
    "people who asked for a loan in one of our branches last year",
)
MEANS = (None, "are predicted to be charged again", "earn " + "very " * 14 + "much")
EXPOSURE = ("differs", "no_difference_shown", "none_detected", "cannot_tell")
OUTCOMES = ("differ", "no_difference_shown", "not_given", "cannot_tell")


def said_of(audit: Audit) -> Iterator[str]:
    """Everything that is said of an audit, and of each of its settings."""
    yield from (*audit.account, *audit.trust, *audit.next_steps, audit.choice)
    for setting in audit.settings:
        said = of(audit, setting)
        yield from (said.headline, said.next_step, said.if_in_data, *said.header)
        yield from (row.text for row in said.rows)


@pytest.fixture(scope="module")
def forest() -> Release:
    return pcer.read_release(ROOT / "examples" / "compas-forest.release.json")


def check(audit: Audit) -> None:
    """Six answers, at most 40 words above and 60 below, no phrase that has gone."""
    for setting in audit.settings:
        said = of(audit, setting)
        assert said.headline == setting.headline
        headline_words = headline.n_words(said.headline, audit.subject.groups)
        assert headline_words <= headline.MOST_WORDS, said.headline
        assert len(said.if_in_data.split()) <= 60
        assert [row.question for row in said.rows] == [
            wording.say("question", name) for name in QUESTIONS
        ]
        assert all(row.answer for row in said.rows)
    for sentence in said_of(audit):
        assert not FORBIDDEN.search(sentence), sentence


QUESTIONS = ("spotting", "easier", "serving", "both", "paper", "trust")


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
    return answered(audit.model_copy(update={"settings": settings, "subject": about}))


def answered(audit: Audit) -> Audit:
    """The audit with the six answers and the headlines of its numbers."""
    settings = []
    for setting in audit.settings:
        six = six_answers(audit, setting)
        changes = {"answers": six, "level": six.spotting.answer}
        settings.append(setting.model_copy(update=changes))
    audit = audit.model_copy(update={"settings": settings})
    return conclude(audit, disclosed=[], more=None)


def forced_pair(pair: PairResult, exposure: str, outcomes: str) -> PairResult:
    """Where groups differ, the second is named."""
    ours = {"answer": exposure, "group": None}
    theirs = {"answer": outcomes, "group": None}
    if exposure == "differs":
        ours |= {"group": pair.groups[1], "size": Size.CLEAR}
    if outcomes == "differ":
        theirs |= {"group": pair.groups[1], "size": Size.FAR}
    changes = {
        "exposure": pair.exposure.model_copy(update=ours),
        "outcomes": pair.outcomes.model_copy(update=theirs),
        "wrongly": pair.wrongly.model_copy(update=theirs),
    }
    return pair.model_copy(update=changes)


@pytest.mark.parametrize("exposure", EXPOSURE)
@pytest.mark.parametrize("outcomes", OUTCOMES)
def test_every_answer_has_six_rows_and_a_headline_of_forty_words(exposure, outcomes):
    for people, means, outcome in product(PEOPLE, MEANS, ("benefit", "harm")):
        subject = {"people": people, "positive_means": means, "outcome": outcome}
        audit = forced(three_groups(), exposure, outcomes, subject)
        for stronger, benefit in product((None, "lira_advantage"), get_args(Benefit)):
            plan = audit.plan.model_copy(update={"benefit": benefit})
            changes = {"stronger_attack": stronger, "plan": plan}
            check(answered(audit.model_copy(update=changes)))


def test_a_difference_without_detection_is_no_difference_and_said_to_be():
    audit = forced(three_groups(), "none_detected", "differ", {})
    assert (audit.told.answers.easier.pairs[0].p_value or 1.0) <= 0.05
    _, easier, *_ = of(audit, audit.told).rows
    assert easier.answer == "Not shown: no attack detects anybody"
    assert any("is not itself detected" in figure for figure in easier.figures)


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
        "AUC finds Male easier to spot; paired gap finds Female; "
        "they contradict each other"
    )
    assert any(said in sentence for sentence in audit.trust)
    *_, delta, _ = of(audit, audit.told).rows
    assert delta.answer == "Only that records are memorised, not whose"


def test_to_be_flagged_rightly_is_no_harm_and_its_placebos_are_not_those_of_rates():
    release = pcer.read_release(ROOT / "examples" / "compas-forest.release.json")
    audit = pcer.audit(release, QUICK.model_copy(update={"benefit": "precision"}))
    # 60 of 100 are right in Other, 69 in the other group.
    assert audit.verdict is pcer.Verdict.EXPOSURE_DIFFERS
    serving = of(audit, audit.told).rows[2]
    assert serving.answer.endswith("Precision lower: Other")
    (pair,) = audit.told.pairs
    assert pair.outcomes.group == "Other"
    checks = pair.exposure.placebo
    assert checks.n_exposure is not None is not checks.exposure_p
    assert {checks.n_double, checks.n_ratio, checks.n_any, checks.ratio_p} == {None}
    qualified = pcer.audit(release, planned(benefit="true_positive_rate"))
    assert qualified.told.pairs[0].exposure.placebo.n_double is None
    # What stands is the check of exposure alone, and it is named.
    assert "the exposure finding" in of(qualified, qualified.told).rows[-1].figures[0]


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


SHARES = {kind.name: wording.capital(kind.share) for kind in BENEFITS}


@pytest.mark.parametrize("outcome", ["benefit", "harm"])
@pytest.mark.parametrize(
    ("benefit", "tables", "said"),
    [
        ("false_positive_rate", WRONG, "Of people in group Ann who have a negative"),
        ("false_negative_rate", MISSED, "Of people in group Ann who have a positive"),
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
    is_same = (outcome == "harm") == (benefit == "false_positive_rate")
    first = headline.serving_sentences(audit, audit.told)[0]
    assert first.startswith(said if is_same else SHARES[benefit])
    assert "32 of 100" in first
    assert "17" in first
    # 2 of 3 records train, so that 600 of a label are in both parts, 200 in each test.
    n = 10
    variance = 0
    for rate in rates:
        variance += rate * (1 - rate) * (1 / 600 + (1 / 200 - 1 / 600) / n)
    assert pair.outcomes.difference.standard_error == pytest.approx(
        np.sqrt(variance), rel=0.01
    )


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


def test_other_attacks_that_show_a_difference_are_in_headline_and_row():
    release = pcer.read_release(ROOT / "examples" / "compas-forest.release.json")
    audit = pcer.audit(release, QUICK.model_copy(update={"attack": "overfitting_gap"}))
    assert "only other attacks find a group easier" in audit.headline
    _, easier, *_ = of(audit, audit.told).rows
    assert easier.answer == "Not shown"
    assert any("do show a difference" in figure for figure in easier.figures)
    assert "exposure_differs" in audit.statements()


def test_every_figure_of_a_row_names_its_attack_and_the_deciding_one_comes_first():
    release = pcer.read_release(ROOT / "examples" / "compas-forest.release.json")
    for attack in ("sharpest", "paired_confidence"):
        audit = pcer.audit(release, QUICK.model_copy(update={"attack": attack}))
        _, easier, *_ = of(audit, audit.told).rows
        assert "paired confidence" in easier.figures[0]
        assert "p < .001): shown." in easier.figures[0]
        assert ("RMIA" in easier.figures[1]) == (attack == "sharpest")


def test_a_file_that_contradicts_itself_is_no_evidence_in_the_papers_words():
    tree = pcer.read_release(ROOT / "examples" / "compas-forest.release.json").to_tree()
    tree["training"]["stratified_by"] = "both"
    audit = pcer.audit(parse_release(tree, file="x"), QUICK)
    *_, delta, trust = of(audit, audit.told).rows
    assert delta.answer == "Cannot tell: the file contradicts itself"
    assert trust.answer == "Not at all: the file contradicts itself"
    assert audit.next_steps[0].startswith("Ask the trainer to correct")


@pytest.mark.parametrize("said", [{"stratified_by": "both"}, {"split_kind": "other"}])
def test_a_file_that_cannot_tell_does_not_say_that_no_attack_detects(said):
    tree = pcer.read_release(ROOT / "examples" / "compas-forest.release.json").to_tree()
    audit = pcer.audit(
        parse_release({**tree, "training": {**tree["training"], **said}}, file="x"),
        QUICK,
    )
    assert audit.headline.startswith(
        "This file cannot tell whether anybody can be spotted"
    )
    assert not any(
        re.search("attacks? detect|none shows", sentence) for sentence in audit.trust
    )


def test_gaps_agree_with_the_parity_gap_and_r_is_the_benefit_that_was_asked_for():
    release = pcer.read_release(ROOT / "studies" / "paper" / "compas.race.release.json")
    audit = pcer.audit(release, QUICK)
    # 50.4 and 26.6, which are printed as 50 and 27: the gap is printed by its ends.
    (rates,) = (
        figure
        for figure in of(audit, audit.told).rows[2].figures
        if figure.startswith("Of all 100")
    )
    low, high = (abs(end) for end in audit.told.pairs[0].outcomes.difference.interval)
    assert f"apart by {100 * high:.0f} to {100 * low:.0f} points" in rates
    assert "R: predicted positive." in certainty.paper_note(audit)
    precise = pcer.audit(release, QUICK.model_copy(update={"benefit": "precision"}))
    assert "R: qualify, of those predicted positive." in certainty.paper_note(precise)
    tree = release.to_tree()
    tree["subject"]["n_missing_group"] = 12
    shown = str(parse_release(tree, file="x"))
    assert "People in no table, left out: 12." in shown


@pytest.mark.parametrize(("reliability", "is_said"), [(0.9, True), (0.75, False)])
def test_intervals_of_forests_are_said_to_be_perhaps_too_narrow(reliability, is_said):
    said = json.loads((ROOT / "examples" / "compas-forest.release.json").read_text())
    for row in said["pooled_exposure"]:
        row["reliability"] = reliability
    audit = pcer.audit(parse_release(said, file="forest"), QUICK)
    text = " ".join(certainty.trust_sentences(audit))
    assert ("may be too narrow" in text) == is_said
