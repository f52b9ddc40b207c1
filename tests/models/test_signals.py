"""Releases of exposure alone, from the signals of one model and of references."""

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

import pcer
from pcer.attacks.single import error_at_chance
from pcer.errors import InputError
from tests.commands import passed
from tests.worlds.signals import draw_signals as draw
from tests.worlds.signals import signals_release as release

QUICK = pcer.Plan(resamples=50, null_draws=50)


def values(made, attack="reference_advantage"):
    return {row.group: row for row in made.pooled_exposure if row.attack == attack}


def test_exposure_is_the_auc_beyond_the_references_whatever_form_they_have():
    signal, references, member, group, _ = drawn = draw(0, planted=1.0, n_references=3)
    made = release(drawn)
    for name, row in values(made).items():
        own = group == name
        beyond = (signal - references.mean(axis=0))[own]
        assert row.value == pytest.approx(
            roc_auc_score(member[own], beyond) - 0.5, abs=1e-12
        )
        alone = values(made, "auc_advantage")[name].value
        assert alone == pytest.approx(
            roc_auc_score(member[own], signal[own]) - 0.5, abs=1e-12
        )
        sizes = int(member[own].sum()), int((~member[own]).sum())
        assert row.null_error >= error_at_chance(*sizes) * (1 - 1e-12)
        tables = made.runs[0].groups[name]
        assert (tables.train.n, tables.test.n) == sizes
    named = {f"base {k}": row for k, row in enumerate(references)}
    loss = release(
        drawn._replace(signal=-signal, references=-references),
        kind="loss",
        member=member * 1,
    )
    for same in (release(drawn, reference_signal=references.T), loss):
        assert values(same) == values(made)
    assert release(drawn, reference_signal=named) == made


def test_errors_are_clustered_by_person():
    """Against plain loops: influences by pairs, ranks that people carry to one side."""
    signal, references, member, group, person = drawn = draw(
        1, n=300, n_people=150, planted=1.0
    )
    made = release(drawn, disclosure=pcer.Disclosure(public_data=True))
    assert made.training.unit_of_split == "person"
    for name, row in values(made).items():
        own = np.flatnonzero(group == name)
        score = (signal - references[0])[own]
        inside = np.flatnonzero(member[own])
        outside = np.flatnonzero(~member[own])
        won = (score[inside][:, None] > score[outside]) - 0.5
        influence = np.zeros(len(own))
        influence[inside] = (won.mean(axis=1) - won.mean()) / len(inside)
        influence[outside] = (won.mean(axis=0) - won.mean()) / len(outside)
        people = person[own]
        ranks = rankdata(score) - (len(own) + 1) / 2
        factor = len(set(people)) / (len(set(people)) - 1)
        robust = factor * sum(
            influence[people == who].sum() ** 2 for who in set(people)
        )
        null = factor * sum(ranks[people == who].sum() ** 2 for who in set(people))
        null /= len(own) ** 2 * len(inside) * len(outside)
        assert row.null_error == pytest.approx(math.sqrt(null))
        assert row.standard_error == pytest.approx(math.sqrt(max(null, robust)))
        assert row.n_records == len(set(people))
        tables = made.runs[0].groups[name]
        assert tables.train.n + tables.test.n == len(set(people))
    alone = values(release(draw(2, n=300), person_id=np.arange(300)))
    plain = values(release(draw(2, n=300)))
    for name, row in alone.items():  # one record each: the errors of Mann and Whitney
        assert row.null_error == pytest.approx(
            error_at_chance(*_sides(draw(2, n=300), name))
        )
        assert row.value == plain[name].value


def _sides(drawn, name):
    inside = drawn[2][drawn[3] == name]
    return int(inside.sum()), int((~inside).sum())


def test_people_in_both_parts_are_clustered_and_counted_once_in_each():
    n_alarms = 0
    for seed in range(3, 8):
        texts = draw(seed, n=600, n_people=200)
        texts = texts._replace(member=np.arange(600) % 2 == 0)
        made = release(texts)
        assert made.training.unit_of_split is None
        who = set(zip(texts.person[::2], texts.group[::2], strict=True))
        n_train = sum(own.train.n for own in made.runs[0].groups.values())
        assert n_train == len(who)
        (pair,) = pcer.audit(made, QUICK).settings[0].pairs
        n_alarms += pair.exposure.answer == "differs"
    assert n_alarms <= 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kind": "logits"}, "kind"),
        ({"kind": "loss"}, "kind"),
        ({"member": np.ones(1200, dtype=bool)}, "member"),
        ({"member": np.arange(1200)}, "member"),
        ({"signal": np.full(1200, np.nan)}, "signal"),
        ({"reference_signal": np.zeros(7)}, "reference_signal"),
        ({"reference_signal": np.zeros((3, 7))}, "reference_signal"),
        (
            {"reference_signal": {"a": np.zeros(1200), "b": np.zeros(7)}},
            "reference_signal",
        ),
        ({"sensitive_features": ["a"] * 3}, "sensitive_features"),
        ({"person_id": [1, 2]}, "person_id"),
        ({"epsilon": 0}, "epsilon"),
        ({"dp_delta": 2}, "dp_delta"),
        ({"disclosure": pcer.Disclosure(secret=b"words")}, "secret"),
        ({"split_kind": "time"}, "split_kind"),
    ],
)
def test_bad_signals_get_one_clear_sentence(changes, field):
    with pytest.raises(InputError) as caught:
        release(draw(4, planted=3.0), **changes)
    assert caught.value.field == field


@pytest.mark.slow
@pytest.mark.parametrize("n_people", [None, 400])
def test_exposure_alone_goes_through_every_output(n_people, tmp_path):
    path = tmp_path / "tuned.release.json"
    release(draw(5, planted=1.5, n_people=n_people)).save(path)
    found = pcer.audit(path, QUICK)
    pair = found.settings[0].pairs[0]
    assert (pair.exposure.group, pair.outcomes.answer) == ("Welsh", "not_given")
    assert found.verdict == "exposure_differs"
    assert found.plot()._repr_svg_().startswith("<svg")
    for text in (
        str(found),
        found._repr_html_(),
        str(found.paper()),
        found.paper()._repr_html_(),
    ):
        assert "Welsh" in text
    for what in ("groups", "pairs", "settings", "attacks"):
        assert len(found.to_frame(what, full=True))
    places = {
        name: tmp_path / f"out.{name}"
        for name in ("json", "markdown", "latex", "junit")
    }
    options = []
    for name, place in places.items():
        options += [f"--{name}", str(place)]
    page = tmp_path / "report.html"
    plan = tmp_path / "plan.toml"
    plan.write_text("resamples = 50\n")
    options += [
        "--html",
        str(page),
        "--figures",
        str(tmp_path / "figures"),
        "--plan",
        str(plan),
    ]
    for view in ([], ["--full"], ["--paper"], ["--quiet"]):
        passed("audit", str(path), *options, *view)
    for arguments in (
        ["verify", str(page)],
        ["verify", str(places["json"]), str(path)],
    ):
        passed(*arguments)
    policy = tmp_path / "pcer.toml"
    policy.write_text(
        'strict = true\nrequired_attacks = ["Reference attack"]\nmin_splits = 1\n'
    )
    passed("audit", str(path), "--policy", str(policy))
    passed("plan", str(path), "--attack", "reference")
    passed("compare", str(path), str(path))


def test_a_memorised_group_is_found_as_by_the_reference_attack():
    """Equal scores as probabilities of a label give equal exposures and errors."""
    drawn = draw(6, planted=0.5)
    label = np.arange(len(drawn.signal)) % 2
    sides = np.where(label, 1, -1)
    scored = pcer.release_from_predictions(
        label,
        y_score=expit(sides * drawn.signal),
        sensitive_features={"language": drawn.group},
        split=drawn.member,
        split_kind="random",
        outcome="benefit",
        reference=expit(sides * drawn.references[0]),
    )
    for name, row in values(release(drawn)).items():
        same = values(scored)[name]
        assert row.value == pytest.approx(same.value, abs=1e-9)
        assert row.standard_error == pytest.approx(same.standard_error, rel=1e-6)
        assert row.null_error == pytest.approx(same.null_error, rel=1e-6)
    pair = pcer.audit(release(drawn), QUICK).settings[0].pairs[0]
    assert (pair.exposure.answer, pair.exposure.group) == ("differs", "Welsh")


@pytest.mark.slow
@pytest.mark.parametrize("n_people", [None, 300])
def test_nulls_alarm_rarely_and_a_memorised_group_is_found(n_people):
    """``python -m benchmarks.alarms signals`` counts a thousand of each."""
    nulls = [pcer.audit(release(draw(k, n_people=n_people)), QUICK) for k in range(60)]
    assert (
        sum("exposure_differs" in each.statements() for each in nulls) <= 8
    )  # 5%: p < .01
    planted = [
        pcer.audit(release(draw(k, n_people=n_people, planted=1.0)), QUICK)
        for k in range(9)
    ]
    assert [each.settings[0].pairs[0].exposure.group for each in planted] == [
        "Welsh"
    ] * 9
