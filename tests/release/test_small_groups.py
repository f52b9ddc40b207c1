"""Nobody is found in a small group, nor by subtracting one table from another."""

import itertools

import numpy as np
import pytest
from scipy.linalg import orth
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import coo_array

import pcer
from pcer.errors import InputError
from pcer.release import small_groups
from pcer.release.build import CELLS
from pcer.release.columns import SPLITS
from pcer.release.disclosure import Disclosure
from pcer.release.population import NOBODY, Attribute
from pcer.release.small_groups import (
    Model,
    Regrouping,
    allowed_groups,
    combination,
    regroup,
)

RULE = Disclosure(least_people=5)
MOST_ATOMS = 5  # of one table that are looked for: the rarest stand anywhere


def models(people: np.ndarray) -> list[Model]:
    """Of (split, part, atom, label) counts; an atom is one record for many."""
    part, atom, label = (axis.ravel() for axis in np.indices(people.shape[1:]))
    return [Model(atom, part, label == 1, own.ravel()) for own in people]


def people(*groups: tuple[int, int, int, int]) -> np.ndarray:
    """One split; each group as negative and positive in training, then in test."""
    return np.array(groups).reshape(len(groups), 2, 2).transpose(1, 0, 2)[None]


def even(*atoms: int) -> np.ndarray:
    """So many people of each atom in every part and with every label."""
    return people(*[(n,) * 4 for n in atoms])


def attribute(name: str, codes: list[int]) -> Attribute:
    return Attribute(
        name, tuple(f"{name}{k}" for k in range(max(codes) + 1)), np.array(codes)
    )


def alone(sizes: np.ndarray, **rule: bool) -> Regrouping:
    names = tuple("ABCDEFG"[: sizes.shape[2]])
    letters = Attribute("letter", names, np.arange(len(names)))
    return regroup(Disclosure(**rule), [letters], models(sizes))[0]


LARGE = (90, 90, 40, 40)
SMALL = (3, 3, 3, 3)
MIDDLE = (80, 70, 30, 30)
NEXT = (50, 50, 20, 20)


@pytest.mark.parametrize(
    ("sizes", "names", "place"),
    [
        ([(20, 20, 10, 10), (30, 30, 30, 30)], ("A", "B"), [0, 1]),
        (
            [LARGE, (6, 9, 5, 5), MIDDLE, (9,) * 4],
            ("A", "C", "2 small groups"),
            [0, 2, 1, 2],
        ),
        ([LARGE, SMALL, MIDDLE, NEXT], ("A", "C", "D + 1 small group"), [0, 2, 1, 2]),
    ],
)
def test_a_small_group_never_stands_alone_and_is_not_named(sizes, names, place):
    found = alone(people(*sizes))
    assert (found.names, found.place.tolist()) == (names, place)
    assert bool(found.note) == (len(sizes) > 2)
    found.attribute = found.attribute._replace(codes=np.array([1, 0, NOBODY]))
    assert found.released.codes.tolist() == [place[1], place[0], NOBODY]
    assert alone(people(*sizes), public_data=True).names == tuple("ABCD"[: len(sizes)])


def test_names_of_joined_groups_are_told_apart_and_not_too_long():
    sizes = even(90, 3, 8)
    names = ("2 small groups", "x", "y")
    found = regroup(Disclosure(), [Attribute("a", names, np.arange(3))], models(sizes))[
        0
    ]
    assert found.names == ("2 small groups", "2 small groups (joined)")
    long = tuple(letter * 50 for letter in "abcd")
    found = regroup(
        Disclosure(),
        [Attribute("a", long, np.arange(4))],
        models(even(90, 40, 30, 3)),
    )[0]
    assert found.names == (long[0], long[1], f"{long[2]} + 1 small group")
    one_left = Attribute("a", (*long, "e"), np.arange(5))
    found = regroup(Disclosure(), [one_left], models(even(90, 80, 1, 2, 4)))[0]
    assert found.names == (long[0], f"{long[1]} + 3 small groups")


def test_every_split_counts_and_a_note_says_why():
    sizes = np.concatenate([even(20, 21, 22)] * 2)
    sizes[1, 1, 2, 1] = 9
    found = alone(sizes)
    assert found.names == ("B", "A + 1 small group")
    assert found.note == (
        "Small groups were joined, so that neither this table nor several together are "
        "about fewer "
        "than 10 people of one label in training or in test."
    )
    with pytest.raises(InputError) as caught:
        alone(people((90, 90, 40, 40), (2, 1, 1, 0)))
    assert caught.value.field == "least_people"


def test_what_is_released_rests_on_enough_people():
    rng = np.random.default_rng(2)
    for _ in range(100):
        sizes = rng.geometric(0.02, size=(3, 2, 7, 2)) * rng.integers(0, 2, (7, 1))
        try:
            found = alone(sizes)
        except InputError:
            continue
        for place in range(len(found.names)):
            assert sizes[:, :, found.place == place].sum(axis=2).min() >= 10


def told(released, counts, least: int) -> set[int]:
    """Slow and obvious: sizes of all sets of atoms without which the rank is lower.

    Some combination of tables is then 0 on all other atoms, so that it is about these
    alone.
    """
    # Of those who are in a table of some attribute.
    rows = [own.attribute.codes for own in released]
    there = np.any([codes != NOBODY for codes in rows], axis=0)
    counts = counts[:, :, there]
    rows = [own.released.codes[there] for own in released if own.names]
    inside = np.array(
        [row == code for row in rows for code in np.unique(row)], dtype=float
    )
    cells = np.moveaxis(counts, 2, 3).reshape(-1, counts.shape[2])
    found = set[int]()
    rank = np.linalg.matrix_rank(inside)
    for atoms in itertools.product((False, True), repeat=counts.shape[2]):
        sizes = cells @ np.array(atoms)
        if (
            sizes.min() < least
            and np.linalg.matrix_rank(inside * ~np.array(atoms)) < rank
        ):
            found |= {int(n) for n in sizes if n < least}
    return found


def told_before(*attributes: Attribute, counts: np.ndarray) -> set[int]:
    public = regroup(Disclosure(public_data=True), attributes, models(counts))
    return told(public, counts, 5)


def test_a_crossing_less_its_margin_is_one_person() -> None:
    # Of the men 1 has no race, so men less the crossings of men are one person.
    sex = attribute("sex", [0, 0, 1, 1, 1])
    race = attribute("race", [0, 1, 0, 1, NOBODY])
    both = attribute("both", [0, 1, 2, 3, NOBODY])
    counts = even(20, 30, 20, 30, 1)
    assert told_before(sex, both, counts=counts) == {1}
    released = regroup(RULE, [sex, race, both], models(counts))
    assert released[0].names == sex.groups
    assert not told(released, counts, 5)


def test_few_without_a_group_are_hidden_by_the_smallest_group() -> None:
    race = attribute("race", [0, 1, 2, NOBODY])
    (released,) = regroup(RULE, [race], models(even(20, 30, 40, 1)))
    assert released.names == ("race1", "race2")
    assert released.place.tolist() == [NOBODY, 0, 1]
    assert "joined or left out" in released.note
    (released,) = regroup(RULE, [race], models(even(20, 30, 40, 5)))
    assert (released.names, released.note) == (race.groups, "")


def test_two_groups_and_few_without_one_cannot_be_released() -> None:
    with pytest.raises(
        InputError, match=r"'sex': fewer than two groups.*leave out the rec"
    ) as caught:
        regroup(RULE, [attribute("sex", [0, 1, NOBODY])], models(even(20, 30, 4)))
    assert caught.value.field == "least_people"
    assert regroup(RULE, [attribute("sex", [0, 1, NOBODY])], models(even(20, 30, 5)))


def test_what_a_coarse_table_hides_is_not_had_from_another_attribute() -> None:
    rng = np.random.default_rng(1)
    race = rng.choice(["a", "b", "c"], 900)
    sex = rng.choice(["f", "m"], 900)
    label = rng.random(900) < 0.5
    part = np.where(rng.random(900) < 0.7, *SPLITS)
    is_right = (rng.random(900) < 0.75) | (
        (race == "c") & (part == "train")
    )  # no error there
    data = {"features": {"race": race, "sex": sex}, "label": label, "part": part}
    data["answer"] = np.where(is_right, label, ~label)
    made = released(data, certain_cells=False)
    assert made["race"].disclosure.n_coarse_tables == 1
    assert [*made] == ["race"]  # both sexes less a and b are c
    assert [*made["race"].not_written] == ["sex"]
    assert [*released(data)] == ["race", "sex"]
    columns = [Attribute(k, (*np.unique(v),), np.unique(v, return_inverse=True)[1])
               for k, v in data["features"].items()]  # fmt: skip
    model = Model(np.arange(900), (part == "test").astype(np.int64), label)
    for beside, certain_cells in (
        (made["race"], True),
        (released(data)["race"], False),
    ):
        rule = Disclosure(certain_cells=certain_cells)
        with pytest.raises(InputError, match="'sex' beside others shows") as caught:
            allowed_groups(rule, columns, [model], [beside])
        assert caught.value.field == "certain_cells"


def test_the_attribute_named_last_gives_way_first() -> None:
    # Each attribute alone is large, but group b2 is a0 less two people.
    first = attribute("a", [0, 0, 1, 1])
    second = attribute("b", [0, 1, 1, 2])
    counts = even(30, 2, 40, 30)
    assert told_before(first, second, counts=counts) == {2}
    for attributes in ([first, second], [second, first]):
        released = regroup(RULE, attributes, models(counts))
        assert released[0].names == attributes[0].groups
        assert len(released[1].names) < len(attributes[1].groups)
        assert not told(released, counts, 5)


def test_what_is_not_written_says_why() -> None:
    first = attribute("a", [0, 0, 1])
    second = attribute("b", [0, 1, 1])
    released = regroup(RULE, [first, second], models(even(30, 2, 40)))
    assert released[1].names == ()
    assert released[1].note.startswith("attribute 'b': fewer than two groups are left")


def test_no_combination_of_released_tables_is_small() -> None:
    rng = np.random.default_rng(5)
    n_joined = 0
    for _ in range(60):
        n_atoms = int(rng.integers(4, 10))
        attributes = [
            attribute(name, [*range(k), *rng.integers(-1, k, n_atoms - k).tolist()])
            for name, k in zip("abc", rng.integers(2, 5, 3).tolist(), strict=True)
            if k <= n_atoms
        ]
        counts = rng.choice([1, 3, 8, 20, 60], (2, 2, n_atoms, 2))
        try:
            released = regroup(RULE, attributes, models(counts))
        except InputError:
            continue
        n_joined += any(
            len(own.names) < len(a.groups)
            for own, a in zip(released, attributes, strict=True)
        )
        assert not told(released, counts, RULE.least_people)
    assert n_joined > 10


def test_a_difference_of_two_people_is_not_released() -> None:
    # X has no region and ward 0; R alone has ward 2, which is joined: r0 + r1 - w0 is R
    # less X.
    region = attribute("r", [0, 1, 2, NOBODY, 0])
    ward = attribute("w", [0, 0, 1, 0, 2])
    counts = even(30, 40, 20, 1, 1)
    released = regroup(RULE, [region, ward], models(counts))
    assert released[0].names == ("r0", "r1")
    assert released[1].names == ()
    assert not told(released, counts, 5)


@pytest.mark.parametrize(
    ("codes", "shares", "people"),
    [
        # Atom 0 is (a0 + b0 - c0) / 2, which needs halves.
        ([[0, 0, 1, 1], [0, 1, 0, 1], [1, 0, 0, 1]], [1, 0, 0, 0], [3, 50, 50, 50]),
        ([[0, 1, 2, 2, 0], [0, 0, 1, 0, 1]], [0, 0, 0, -1, 1], [50, 50, 50, 1, 2]),
        # Nearly everybody has exactly one 0, so a0 + b0 + c0 less everybody counts the
        # others.
        (
            [[0, 0, 1, 1, 1], [0, 1, 0, 1, 1], [0, 1, 1, 0, 1]],
            [2, 0, 0, 0, -1],
            [2, 50, 50, 50, 1],
        ),
    ],
)
def test_combinations_with_any_coefficients_are_found(codes, shares, people) -> None:
    rows = np.array(codes)
    shares = np.array(shares)
    space = orth(
        np.array([1.0 * (row == k) for row in rows for k in np.unique(row)]).T
    ).T
    found = combination(space, np.array(people), 5)
    assert found is not None
    scale = found[shares != 0] / shares[shares != 0]
    assert np.allclose(found, scale[0] * shares)
    assert combination(space, np.where(shares, 5, people), 5) is None


def test_a_search_that_runs_out_of_time_is_refused(monkeypatch) -> None:
    rng = np.random.default_rng(4)
    columns = [attribute(name, rng.integers(0, 3, 24).tolist()) for name in "abc"]
    monkeypatch.setattr(small_groups, "SECONDS", 0.0)
    with pytest.raises(InputError, match="too many groups to check"):
        regroup(RULE, columns, models(even(*[1] * 24)))


def table(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Two to four attributes with rare and missing values.

    Exactly 70% train, of everybody or of each label; or each by a coin of their own.
    """
    n = int(rng.integers(400, 1_500))
    columns = {}
    for name in "abcd"[: rng.integers(2, 5)]:
        share = rng.dirichlet(np.full(int(rng.integers(2, 6)), 0.7))
        codes = rng.choice(len(share), n, p=share).astype(object)
        codes[rng.random(n) < rng.choice([0, 0.002, 0.03])] = None
        columns[name] = codes
    label = rng.random(n) < 0.4
    exact = str(rng.choice(["label", "size", "nothing"]))
    part = np.where(rng.random(n) < 0.7, *SPLITS).astype(object)
    strata = {"label": (label, ~label), "size": (label | True,), "nothing": ()}
    for own in strata[exact]:
        rows = rng.permutation(np.flatnonzero(own))
        part[rows] = np.where(np.arange(len(rows)) < round(0.7 * len(rows)), *SPLITS)
    answer = np.where(rng.random(n) < 0.25, ~label, label)
    data = {"features": columns, "label": label, "part": part, "answer": answer}
    return {**data, "exact": exact}


def certain(made: dict[str, pcer.Release], data: dict) -> int:
    """How many people an attacker is certain about: an integer program over all files.

    They know everybody's attributes, whose files these are, and what an exact split
    tells: how many people, of each label, are in each part. A person is found where no table of all people that fits the files
    has another label (or part, or answer) for somebody of the same attributes. Cells
    that a file shows to be empty, as ``disclosure`` declares, are left aside.
    """
    shown = np.array(
        [[v if v is not None else -1 for v in c] for c in data["features"].values()]
    )
    atoms, n = np.unique(shown, axis=1, return_counts=True)
    truth = np.stack([data["part"] == "test", data["label"], data["answer"]]).astype(
        int
    )
    n_atoms = len(n)
    rows = []
    bounds = []
    empty = np.zeros(n_atoms, dtype=bool)
    place = np.arange(8 * n_atoms).reshape(n_atoms, 8)  # by part, label and answer
    for a in range(n_atoms):
        rows.append(place[a])
        bounds.append(n[a])
    for part in (0, 1) if data["exact"] == "size" else ():
        rows.append(place[:, 4 * part : 4 * part + 4].ravel())
        bounds.append((truth[0] == part).sum())
    labels = (0, 1) if data["exact"] == "label" else ()
    for part, label in itertools.product((0, 1), labels):
        rows.append(place[:, 4 * part + 2 * label :][:, :2].ravel())
        bounds.append(((truth[0] == part) & (truth[1] == label)).sum())
    has_all = (atoms != -1).all(axis=0)  # others are in no table, unless it is public
    for name, release in made.items():
        has_all |= release.disclosure.public_data
        codes = atoms[[*data["features"]].index(name)]
        for group, values in released_blocks(release, name, data).items():
            inside = np.isin(codes, values) & has_all
            for part, split in enumerate(SPLITS):
                counts = getattr(release.runs[0].groups[group], split)
                for k, which in enumerate(CELLS):
                    rows.append(place[inside, 4 * part + k])
                    bounds.append(getattr(counts, which))
                    empty |= inside & (bounds[-1] == 0)
    column = np.concatenate(rows)
    row = np.repeat(np.arange(len(rows)), [len(own) for own in rows])
    matrix = coo_array(
        (np.ones(len(row)), (row, column)), shape=(len(rows), place.size)
    ).tocsr()
    equal = LinearConstraint(matrix, bounds, bounds)
    found = 0
    sides = np.array([[0, 1, 2, 3], [0, 1, 4, 5], [0, 2, 4, 6]])
    sides = np.concatenate([sides, 7 - sides])
    possible = np.zeros((n_atoms, len(sides)), dtype=bool)  # in some table that fits
    for a in np.flatnonzero((n < 10) & ~empty)[:MOST_ATOMS]:
        for k, side in enumerate(sides):
            if possible[a, k]:
                continue
            cost = np.zeros(place.size)
            cost[place[a, side]] = -1
            answer = milp(cost, constraints=equal, integrality=np.ones(place.size))
            assert answer.success  # the truth itself fits
            possible |= answer.x.round().reshape(n_atoms, 8)[:, sides].sum(axis=2) > 0
            found += int(n[a]) if not possible[a, k] else 0
    return found


def released_blocks(release, name, data) -> dict[str, list[int]]:
    """The values of each released group, found by size: joined ones have no names."""
    columns = [[-1 if v is None else v for v in c] for c in data["features"].values()]
    has_all = (np.array(columns) != -1).all(axis=0)
    has_all |= release.disclosure.public_data
    column = np.array(columns)[[*data["features"]].index(name)]
    column[~has_all] = -1  # they are in no table
    values = np.unique(column[column >= 0]).tolist()
    tables = {
        group: [getattr(release.runs[0].groups[group], s).n for s in SPLITS]
        for group in release.subject.groups
    }
    blocks = {group: [int(group)] for group in tables if group.isdigit()}
    rest = [v for v in values if v not in [v for b in blocks.values() for v in b]]
    sizes = {
        v: [int(((column == v) & (data["part"] == s)).sum()) for s in SPLITS]
        for v in rest
    }
    for group in tables.keys() - blocks.keys():
        for k in range(len(rest) + 1):
            for some in itertools.combinations(rest, k):
                if np.sum([sizes[v] for v in some], axis=0).tolist() == tables[group]:
                    blocks[group] = list(some)
    return blocks


def released(data, **rule) -> dict[str, pcer.Release]:
    return pcer.releases_from_predictions(
        data["label"],
        data["answer"],
        sensitive_features=data["features"],
        split=data["part"],
        split_kind="random",
        outcome="benefit",
        disclosure=pcer.Disclosure(**rule),
    )


def counted(n_tables: int, seed: int) -> tuple[int, int, int]:
    """People found with the rule and without, and tables that were refused."""
    rng = np.random.default_rng(seed)
    found = before = refused = 0
    for _ in range(n_tables):
        data = table(rng)
        try:
            made = released(data)
        except InputError:
            refused += 1
            continue
        found += certain(made, data)
        before += (
            certain(released(data, public_data=True), data) if n_tables < 50 else 0
        )
    return found, before, refused


def test_an_integer_program_over_all_files_finds_nobody():
    found, before, refused = counted(6, seed=1)
    assert found == 0
    assert before > 0
    assert refused < 4


@pytest.mark.slow
def test_an_integer_program_over_the_files_of_200_commands_finds_nobody():
    found, _, refused = counted(200, seed=2)
    assert found == 0
    assert refused < 100
