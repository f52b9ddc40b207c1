"""The two screens: the audit's words for every cost, terms explained once, texts said once."""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree

import pytest

import pcer
from pcer.report.card import card
from pcer.report.exposures import MOST_SETTINGS, drawn_settings, exposures_svg, spread_claim
from pcer.report.glossary import GLOSSARY, PATTERN, explained
from pcer.report.hero import hero_svg
from pcer.report.story import other_audits, screens, story_tree
from tests.pages import HOSTILE, QUICK, many_groups, mixed_release, with_attacks, with_models

SVG = "{http://www.w3.org/2000/svg}"


def plain(text: str) -> str:
    """HTML without its marks."""
    return html.unescape(re.sub(r"<[^>]+>", "", text))


@pytest.fixture(scope="module")
def case():
    """A release with attack results, and its audit."""
    release = with_attacks(mixed_release())
    return pcer.audit(release, QUICK), release


def test_every_cost_says_what_its_own_audit_says(case):
    audit, release = case
    found = {one.cost: one for one in screens(audit, release, [])}
    assert list(found) == [cost.cost for cost in audit.costs]
    for cost, one in found.items():
        own = pcer.audit(release, QUICK, cost=cost)
        assert plain(one.headline) == own.headline
        assert [plain(line) for line in one.account] == own.account
        assert [plain(line) for line in one.trust] == own.trust
        assert [plain(line) for line in one.next_steps] == own.next_steps
        assert (one.verdict, one.telling) == (own.verdict.value, own.telling)
        assert [view.words for view in one.settings] == [b.verdict.words for b in own.budgets]
        assert one.settings[one.telling].hero == hero_svg(own)


def test_a_family_counts_in_every_cost(case):
    audit, release = case
    sister = with_attacks(mixed_release(n_seeds=3, attribute="other"))
    found = list(other_audits(audit, release, [sister]))
    assert found
    for one in found:
        own = pcer.audit(release, QUICK, family=[sister], cost=one.cost)
        assert (one.family, one.family_p) == (own.family, own.family_p)
        assert (one.headline, one.trust) == (own.headline, own.trust)


def test_a_family_without_that_cost_is_judged_by_its_own(case):
    audit, release = case
    found = list(other_audits(audit, release, [mixed_release(n_seeds=2, attribute="other")]))
    assert all(len(one.family) == 2 and one.family_p is not None for one in found)


def test_without_a_family_no_other_cost_is_computed(case):
    assert len(screens(*case, None)) == 1


def test_texts_are_said_once(case):
    found = screens(*case, [])
    tree = story_tree(found)
    assert len(set(tree["texts"])) == len(tree["texts"])
    for one, screen in zip(tree["screens"], found, strict=True):
        for view, setting in zip(one["settings"], screen.settings, strict=True):
            assert "\n".join(tree["texts"][k] for k in view["hero"]) == setting.hero
        assert "\n".join(tree["texts"][k] for k in one["exposures"]) == screen.exposures
        assert [tree["texts"][k] for k in one["trust"]] == screen.trust


def test_rows_are_people_in_100(case):
    audit, release = case
    [one] = screens(audit, release, None)
    group = audit.budgets[0].groups["men"]
    base = 50 if audit.proxy.scale.is_advantage else 0
    setting, name, benefit, value, low, high, limit, shown = one.rows[0]
    assert (setting, name, shown) == ("ε = 0.1", "men", "yes" if group.resolved else "no")
    assert benefit == pytest.approx(100 * group.benefit.mean, abs=1e-4)
    costs = (group.cost.value, *group.cost.interval, group.cost.upper_limit_together)
    assert (value, low, high, limit) == pytest.approx([base + 100 * c for c in costs], abs=1e-4)


def test_a_term_is_explained_where_it_first_stands():
    known: set[str] = set()
    text = explained("Of 3 splits, one split at ε = 0.5 <b>", known)
    assert text.count("<dfn") == 2
    assert plain(text) == "Of 3 splits, one split at ε = 0.5 <b>"
    assert "&lt;b&gt;" in text
    assert "<dfn" not in explained("splits", known)


def test_every_term_has_a_name_of_its_own_and_finds_itself():
    assert len({term.id for term in GLOSSARY}) == len(GLOSSARY)
    for term in GLOSSARY:
        words = "p = 0.03" if term.name == "p" else term.name
        found = PATTERN.search(words)
        assert found is not None, term.name
        assert GLOSSARY[int(found.lastgroup[1:])] == term


def test_the_card_says_what_to_check(case):
    audit, release = case
    facts = {fact.name: fact for fact in card(audit, release)}
    assert facts["Release"].code == release.sha256
    assert facts["Plan"].code == audit.plan.sha256
    assert "Loans" in facts["Data"].text
    assert "men (6,000), women (3,000)" in facts["Compared"].text
    assert facts["Cost"].text == audit.choice
    assert facts["Check it"].code == "pcer verify FILE"


def test_the_second_picture_has_every_setting(case):
    audit, _ = case
    root = ElementTree.fromstring(exposures_svg(audit))
    told = [g.findtext(f"{SVG}title") for g in root.iter(f"{SVG}g")]
    assert len(told) == 6 * 2
    for budget, first in zip(audit.budgets, told[::2], strict=True):
        name = "no-DP" if budget.epsilon is None else f"ε = {budget.epsilon:g}"
        assert first.startswith(f"{name}, men: ")
    costs = [max(g.cost.value for g in b.groups.values()) for b in audit.budgets]
    scale = audit.proxy.scale
    assert scale.hundredths(max(costs)) in spread_claim(audit)
    assert scale.hundredths(max(min(costs), 0)) in spread_claim(audit)


def test_of_many_settings_the_second_picture_has_those_of_the_told_model():
    names = [f"a model with a name, {k}" for k in range(6)]
    audit = pcer.audit(with_models(mixed_release(n_seeds=2), names), QUICK)
    assert len(audit.budgets) == 36
    drawn = drawn_settings(audit)
    assert len(drawn) == 6
    assert {one.model for one in drawn} == {audit.told.model}
    assert "30 further" in exposures_svg(audit)
    settings = [audit.told.model_copy(update={"epsilon": 1.0 + k}) for k in range(30)]
    long = audit.model_copy(update={"budgets": settings, "telling": 29})
    assert drawn_settings(long) == settings[-MOST_SETTINGS:]


def test_one_setting_has_no_second_picture():
    audit = pcer.audit(mixed_release(), QUICK)
    assert exposures_svg(audit.model_copy(update={"budgets": audit.budgets[:1]})) == ""


def test_hostile_names_are_text_in_the_second_picture():
    text = exposures_svg(pcer.audit(many_groups(HOSTILE), QUICK))
    tags = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(text).iter()}
    assert tags <= {"svg", "title", "style", "text", "g", "path"}
