"""Further trainings of one split: their spread is training noise, and is released."""

import json
import math

import numpy as np
import pytest

import pcer
from pcer.measuring.plan import BENEFITS
from pcer.release.file import read_release
from pcer.sweep import is_finished, sweep
from tests.sweep.test_run import tiny, train

N_REPEATS = 5


@pytest.fixture(scope="module", autouse=True)
def repeats():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "N_REPEATS", N_REPEATS)
        yield


@pytest.fixture(scope="module")
def kept(repeats, tmp_path_factory):
    folder = tmp_path_factory.mktemp("repeats")
    done, _ = train(folder, keep_scores=True)
    assert done[-1] == 2 * (4 + N_REPEATS)
    return folder


def scores_of_first_split(folder, epsilon):
    """(model, record) logits of all models that share the split of seed 0."""
    work = folder / "tiny.scores"
    index = json.loads((work / "index.json").read_text())
    first = index["splits"][0]
    rows = []
    for block in index["blocks"]:
        logits = np.load(work / block["scores"])
        for model, row in zip(block["models"], logits, strict=True):
            place = index["seeds"].index(model["seed"])
            if model["epsilon"] == epsilon and index["splits"][place] == first:
                rows.append((place, row))
    rows.sort(key=lambda one: one[0])
    member = np.load(work / index["membership"])
    places = [place for place, _ in rows]
    assert (member[places] == member[0]).all()
    return np.array([row for _, row in rows]), member[0]


def slow_covariances(folder, epsilon, kind):
    """Of one rate, over models: of all records, and of test beside all records."""
    dataset = tiny().dataset
    codes = dataset.attribute("sex").codes
    logits, member = scores_of_first_split(folder, epsilon)
    assert len(logits) == 1 + N_REPEATS
    everybody, tested = np.zeros((2, len(logits), 2))
    for m, scores in enumerate(logits):
        cell = np.where(
            dataset.labels == 1,
            np.where(scores >= 0, "tp", "fn"),
            np.where(scores >= 0, "fp", "tn"),
        )
        is_counted = np.isin(cell, kind.counted)
        is_among = np.isin(cell, kind.among)
        for g in (0, 1):
            for rates, part in (
                (everybody, codes == g),
                (tested, (codes == g) & ~member),
            ):
                rates[m, g] = is_counted[part].sum() / is_among[part].sum()
    of_all = np.cov(everybody.T)
    crossed = np.zeros((2, 2))
    for i in (0, 1):
        for j in (0, 1):
            one = np.cov(tested[:, i], everybody[:, j])[0, 1]
            other = np.cov(tested[:, j], everybody[:, i])[0, 1]
            crossed[i, j] = (one + other) / 2
    return of_all, crossed


def test_released_noise_is_the_spread_over_models_of_one_split(kept):
    release = read_release(kept / "tiny.sex.release.json")
    by_name = {kind.name: kind for kind in BENEFITS}
    n_rows = 0
    for row in release.training_noise:
        assert row.degrees_of_freedom == N_REPEATS
        if row.rate == "precision":  # linearised, held in test_training_variance
            continue
        of_all, crossed = slow_covariances(kept, row.epsilon, by_name[row.rate])
        np.testing.assert_allclose(row.everybody, of_all, rtol=0.006, atol=1e-15)
        np.testing.assert_allclose(row.crossed, crossed, rtol=0.006, atol=1e-15)
        n_rows += 1
    assert n_rows == 2 * (len(BENEFITS) - 1)
    assert any(np.any(row.everybody) for row in release.training_noise)


def test_repeats_are_no_runs_but_their_privacy_is_counted(kept):
    release = read_release(kept / "tiny.sex.release.json")
    assert {run.seed for run in release.runs} == {0, 1, 2, 3}
    assert len({run.split for run in release.runs}) == 4
    joint = release.training.joint_privacy
    assert joint["private_models"] == joint["models_without_privacy"] == 4 + N_REPEATS


def test_audits_take_training_noise_out(kept):
    release = read_release(kept / "tiny.sex.release.json")
    noisy = release.model_copy(update={"training_noise": []})
    taken, counted = (pcer.audit(one).settings for one in (release, noisy))
    for less, more in zip(taken, counted, strict=True):
        of_less, of_more = less.pairs[0].outcomes, more.pairs[0].outcomes
        assert (of_less.is_noise_known, of_more.is_noise_known) == (True, False)
        assert of_less.training_variance <= of_more.training_variance
        assert of_less.people_variance == of_more.people_variance
    assert any(
        less.pairs[0].outcomes.training_variance
        < more.pairs[0].outcomes.training_variance
        for less, more in zip(taken, counted, strict=True)
    )


def test_a_sweep_without_its_noise_is_not_finished_and_two_splits_need_none(
    kept, tmp_path
):
    assert tiny(seeds=(0, 1)).repeat_seeds == ()
    assert len(tiny(seeds=(3, 1, 2)).repeat_seeds) == N_REPEATS
    # Others' first split has other repeats.
    assert not {*tiny(seeds=(3, 1, 2)).repeat_seeds} & {*tiny().repeat_seeds}
    whole = tmp_path / "out"
    train(whole, tiny(seeds=(0, 1)))
    assert is_finished(tiny(seeds=(0, 1)), whole)
    assert not is_finished(tiny(), whole)
    done, _ = train(whole)
    assert done[-1] == tiny().n_trained
    released = read_release(whole / "tiny.sex.release.json")
    assert released == read_release(kept / "tiny.sex.release.json")
    assert math.isfinite(released.training_noise[0].everybody[0][0])
