"""The attacks: complete, documented, and no name means anything by its spelling."""

import re
from pathlib import Path

import numpy as np
import pytest

import pcer
from pcer.auditing import sentences
from pcer.errors import PlanError
from pcer.paper.rankings import agreement
from pcer.release import attack_kinds
from pcer.release.attack_kinds import ATTACK_KINDS, Basis
from pcer.release.file import parse_release
from tests.worlds.releases import World, simulate

ROOT = Path(__file__).parents[2]


def audited(name: str, *, error: float = 0.001, **plan: str) -> pcer.Audit:
    """Two groups, one budget, five runs, each with an exposure of that name."""
    shape = {
        "sizes": (4_000, 3_000),
        "label_shares": (0.5, 0.3),
        "right": [(0.9, 0.7)] * 2,
    }
    world = World(**shape, gaps=(0.0, 0.0), n_seeds=5, budgets=(1.0,))
    tree = simulate(world, np.random.default_rng(0)).to_tree()
    for run in tree["runs"]:
        for tables in run["groups"].values():
            tables["exposure"] = {name: {"value": 0.25, "standard_error": error}}
    quick = pcer.Plan(resamples=20, null_draws=20, **plan)
    return pcer.audit(parse_release(tree, file="made"), quick)


def test_a_row_is_all_that_an_attack_needs():
    rows = [
        one
        for one in vars(attack_kinds).values()
        if isinstance(one, attack_kinds.AttackKind)
    ]
    assert list(ATTACK_KINDS.values()) == rows
    assert len({one.short for one in rows}) == len(rows) == len(ATTACK_KINDS)
    assert {one.basis for one in rows} == set(Basis) - {Basis.ELSEWHERE}
    of_several = {Basis.MODELS, Basis.TABLES}
    assert all((one.least_models > 1) == (one.basis in of_several) for one in rows)


def test_what_the_docs_say_of_an_attack_is_what_its_row_says():
    table = (ROOT / "docs" / "attacks.md").read_text(encoding="utf-8")
    lines = dict(
        re.findall(r"^\| `(\w+)`.*? \| (.*)$", table, re.MULTILINE)[::-1]
    )  # the first
    places = {
        Basis.MODELS: "pooled",
        Basis.TABLES: "pooled",
        Basis.COUNTS: "counts",
        Basis.TRAINING: "training",
    }
    assert lines.keys() & ATTACK_KINDS.keys()
    for name in lines.keys() & ATTACK_KINDS.keys():
        kind = ATTACK_KINDS[name]
        (found, scale, *_) = lines[name].split(" | ")
        assert found.split(", ")[0] == places.get(kind.basis, "per model")
        assert scale == kind.scale.unit.replace("1/2", "½")


def first_answer(audit):
    """What is said of whether anybody can be spotted."""
    return sentences.of(audit, audit.settings[audit.main_setting]).rows[0]


def test_a_name_means_nothing_by_its_ending():
    """Somebody else's attack is named in general words, whatever it is called."""
    theirs = audited("their_advantage", attack="their_advantage")
    assert first_answer(theirs).figures == [
        "By their advantage, exposure is 25 hundredths (g0) and 25 hundredths (g1)."
    ]
    assert [row.exceeding for row in agreement(audited("their_advantage"))] == [None]
    ours = agreement(audited("auc_advantage", attack="overfitting_gap"))
    assert [row.exceeding[0] for row in ours] == [2]
    unseen = audited("their_attack", error=10.0, attack="their_attack")
    assert unseen.verdict is pcer.Verdict.NONE_DETECTED
    assert first_answer(unseen).answer == "Cannot tell"


def test_an_attack_that_is_not_there_says_what_it_needs():
    with pytest.raises(
        PlanError, match="lira_advantage needs every record's score by at least 8"
    ):
        audited("their_attack", attack="lira_advantage")
    with pytest.raises(PlanError, match=r"overfitting_gap, their_attack\.$"):
        audited("their_attack", attack="another")
