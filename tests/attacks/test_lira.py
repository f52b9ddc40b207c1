"""LiRA and RMIA against loops, the closed form, leaks of the target, honest errors."""

import math
from functools import partial

import numpy as np
import pytest
from benchmarks.lira import Form, lira_scores, rmia_scores
from scipy.stats import norm

from pcer.attacks.single import confidence_of
from tests import reference_attacks as slow
from tests.attacks.one_group import pooled_auc
from tests.worlds.sweeps import scaled_logits, splits

TWINS = {Form.SHRUNK: slow.shrunk_lira, Form.OFFLINE: slow.offline_lira}


def small_sweep(*, shift=0.5, n_models=10, n_records=14, seed=0):
    rng = np.random.default_rng(seed)
    member = rng.random((n_models, n_records)) < 0.6
    return scaled_logits(member, rng, shift=shift), member


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_lira_and_rmia_against_a_loop(shift):
    logit, member = small_sweep(shift=shift)
    for form, twin in TWINS.items():
        found = lira_scores(logit, member, form=form)
        assert np.isfinite(found).sum() > 100
        near = (
            1.1e-6 if form is Form.SHRUNK else 1e-9
        )  # rounded so that equal scores tie
        np.testing.assert_allclose(found, twin(logit, member), rtol=1e-9, atol=near)
    found = rmia_scores(confidence_of(logit), member)
    np.testing.assert_allclose(
        found, slow.rmia(confidence_of(logit), member), rtol=1e-12
    )


@pytest.mark.parametrize("form", TWINS)
def test_a_target_is_scored_without_its_own_membership(form):
    """The target's own membership of a record changes no score of that target."""
    logit, member = small_sweep(n_models=12)
    turned = member.copy()
    turned[3] = ~turned[3]
    before, after = (lira_scores(logit, m, form=form)[3] for m in (member, turned))
    np.testing.assert_allclose(after, before, rtol=1e-12)


def test_records_that_others_never_had_in_or_out_are_not_guessed():
    logit, member = small_sweep(n_models=8)
    member[:, 0] = True  # never out
    member[:, 1] = False  # never in
    member[:, 2] = np.arange(8) == 5  # in only for model 5: without it, never in
    scores = lira_scores(logit, member)
    ratios = rmia_scores(confidence_of(logit), member)
    assert (scores[:, [0, 1]] == 0).all()
    assert scores[5, 2] == 0
    assert (np.delete(scores[:, 2], 5) != 0).all()
    assert np.isnan(ratios[:, [0, 1]]).all()
    assert np.isnan(ratios[5, 2])
    assert np.isfinite(np.delete(ratios[:, 2], 5)).all()
    found = pooled_auc(ratios, member)
    assert found.n_excluded >= 3
    assert found.n_records <= 12


@pytest.mark.parametrize("form", TWINS)
def test_a_known_shift_gives_the_closed_form(form):
    """Equal Gaussians shifted by 1: with many models all forms near Phi(1 / sqrt 2)."""
    rng = np.random.default_rng(5)
    member = rng.random((300, 150)) < 0.5
    logit = scaled_logits(member, rng, shift=1.0, wander=0.0)
    found = pooled_auc(lira_scores(logit, member, form=form), member)
    closed = norm.cdf(1 / math.sqrt(2)) - 0.5
    assert abs(found.value - closed) < 3 * found.standard_error + 0.003


ATTACKS = (
    lira_scores,
    partial(lira_scores, form=Form.OFFLINE),
    lambda logit, member: rmia_scores(confidence_of(logit), member),
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_honest_errors_if_nothing_is_memorised(attack):
    """Splits of fixed size within labels, moods shared by records, two equal groups.

    The centre is chance (a leak of the target would move it), intervals cover it as
    they should, and the seed-to-seed error would be too small for the ratio with
    estimated differences.
    """
    rng = np.random.default_rng(11)
    labels = np.arange(240) % 2
    z = []
    for _ in range(120):
        member = splits(labels, 16, rng)[:, :120]
        logit = scaled_logits(member, rng, shift=0.0, labels=labels[:120])
        found = pooled_auc(attack(logit, member), member)
        z.append(found.value / found.standard_error)
    assert abs(np.mean(z)) < 3 / math.sqrt(len(z))
    assert 0.89 <= np.mean(np.abs(z) <= 1.96) <= 0.995


@pytest.mark.slow
def test_the_seed_to_seed_error_is_too_small_for_the_plain_ratio():
    rng = np.random.default_rng(12)
    naive = []
    clustered = []
    values = []
    for _ in range(120):
        member = splits(np.zeros(100, dtype=int), 16, rng)
        scores = lira_scores(
            scaled_logits(member, rng, shift=0.0), member, form=Form.PLAIN
        )
        found = pooled_auc(scores, member)
        one = [pooled_auc(scores[[s]], member[[s]]).value for s in range(16)]
        naive.append(np.std(one, ddof=1) / 4)
        clustered.append(found.standard_error)
        values.append(found.value)
    assert np.std(values) > 1.2 * np.mean(naive)
    assert np.std(values) == pytest.approx(np.mean(clustered), rel=0.2)
