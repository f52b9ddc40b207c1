"""What a release says it lacks."""

from __future__ import annotations

import numpy as np

from pcer.attacks import costs
from pcer.attacks.attack import MODEL_ATTACKS, BudgetScores, attack_models
from pcer.attacks.single import Advantage
from pcer.release import proxies


def test_a_new_cost_of_every_run_is_not_called_missing(monkeypatch):
    """A row and a function, as CONTRIBUTING shows: nothing else has to know of it."""
    mine = proxies.Proxy("my_advantage", "mine", proxies.AUC, proxies.Basis.MODEL)
    advantage = Advantage(value=0.25, standard_error=0.01, n_members=20, n_nonmembers=10)
    monkeypatch.setattr(costs, "MEASURED", (*costs.MEASURED, mine))
    monkeypatch.setitem(MODEL_ATTACKS, mine.name, lambda ranked, loss: advantage)
    rng = np.random.default_rng(0)
    scores = BudgetScores(
        logits=rng.normal(size=(1, 60)).astype(np.float32),
        labels=np.arange(60) % 2,
        member=rng.random((1, 60)) < 0.7,
        group=np.arange(60) // 2 % 2,
        group_names=("a", "b"),
    )
    missing = costs.not_computed([scores], attack_models([scores]))
    assert mine.name not in missing
    assert proxies.LIRA.name in missing
