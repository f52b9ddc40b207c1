"""Which releases are judged together, and what Holm makes of their p-values."""

import pytest

import pcer
from pcer.auditing.audit import families, family_p
from pcer.measuring import tested
from tests import reference
from tests.auditing.made import changed, drawn

QUICK = pcer.Plan(resamples=5, null_draws=5)


def drawn_and_tested(gap: float, data_digest: str | None) -> tested.Tested:
    release = drawn((4_000, 4_000), (0.4, 0.4), (0.01, gap), n_seeds=3)
    return tested.run_tests(
        changed(release, provenance={"data_digest": data_digest}), QUICK
    )


@pytest.fixture(scope="module")
def members() -> list[tested.Tested]:
    """Two of the same records, one of others, and one that does not say."""
    gaps = (0.01, 0.04, 0.02, 0.03)
    digests = ("d", "d", "e", None)
    return [drawn_and_tested(*each) for each in zip(gaps, digests, strict=True)]


def digests_of(members: list[tested.Tested]) -> list[str]:
    return sorted(member.release.sha256 for member in members)


def test_releases_of_the_same_records_are_a_family_and_no_others(members):
    one, other, apart, silent = members
    found = [list(family) for family in families(members, [])]
    together = digests_of([one, other])
    assert found == [together, together, digests_of([apart]), digests_of([silent])]


def test_a_named_release_counts_in_every_family(members):
    one, other, apart, silent = members
    found = families([one, silent], [other, apart])
    assert list(found[0]) == digests_of([one, other, apart])
    assert list(found[1]) == digests_of([other, apart, silent])


def errors_of(member):
    return member.wrongly.smallest_p, member.missed.smallest_p


def test_the_smallest_p_values_are_adjusted_over_the_family_by_holm(members):
    family = families(members, members)[0]
    smallest = [
        (*member.evidence[member.attacks].smallest_p, *errors_of(member))
        for member in family.values()
    ]
    by_family = [reference.holm(p) for p in zip(*smallest, strict=True)]
    for place, member in enumerate(family.values()):
        by_hand = [adjusted[place] for adjusted in by_family]
        assert family_p(member, family) == pytest.approx(by_hand)


def test_a_release_alone_has_no_family_and_an_absent_attack_counts_as_1(members):
    one = members[0]
    assert family_p(one, {one.release.sha256: one}) is None
    family = families(members, members)[0]
    assert family_p(one, family, "lira_advantage")[:2] == (1.0, 1.0)
