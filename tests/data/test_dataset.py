"""GroupedDataset, the seeded split and the standardisation."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from pcer.data import GroupedDataset, ProtectedAttribute, split, standardise
from pcer.data.dataset import SPLIT_KEY
from pcer.errors import InputError
from pcer.sweep.sweep import column_widths

SECRET = b"sixteen bytes or more"
NAN = np.nan


def small(n=10, **changes):
    groups = ProtectedAttribute(
        name="side", group_names=("left", "right"), codes=np.arange(n) // 2 % 2
    )
    whole = {
        "name": "small",
        "features": np.arange(2.0 * n).reshape(n, 2),
        "feature_names": ("even", "odd"),
        "labels": np.arange(n) % 2,
        "attributes": (groups,),
        "outcome": "benefit",
        "positive_label": "yes",
        "record_ids": np.arange(n) * 3,
    }
    return GroupedDataset(**{**whole, **changes})


def slow_split(dataset, seed):
    """The documented rule, one record at a time."""
    train = []
    for label in (0, 1):
        records = [i for i in range(dataset.n_records) if dataset.labels[i] == label]
        generator = np.random.PCG64(np.random.SeedSequence((SPLIT_KEY, seed, label)))
        numbers = [int(generator.random_raw()) for _ in records]
        in_order = [record for _, record in sorted(zip(numbers, records, strict=True))]
        train += in_order[: int(0.7 * len(records) + 0.5)]
    return sorted(train)


@pytest.mark.parametrize("n", [5, 20, 101])
def test_split_follows_its_documented_rule(n):
    """70 of 100 of each label train, halves rounded up, drawn anew for every seed."""
    dataset = small(n)
    for seed in (*range(5), 2**40):
        chosen = split(dataset, seed=seed)
        assert chosen.train.tolist() == slow_split(dataset, seed)
        assert sorted([*chosen.train, *chosen.test]) == list(range(n))
    if n == 20:  # the same on every machine
        known = split(dataset, seed=7)
        assert (known.test.tolist(), known.id) == (
            [0, 1, 6, 11, 12, 13],
            "d821d72a157a7103",
        )


def test_split_depends_on_ids_labels_seed_and_secret_only():
    dataset = small(50)
    other = replace(dataset, features=dataset.features * -2, notes=("other",))
    plain = split(dataset, seed=1)
    keyed = split(dataset, seed=1, secret=SECRET)
    assert plain.train.tolist() == split(other, seed=1).train.tolist()
    assert plain.train.tolist() != keyed.train.tolist()
    assert len(plain.train) == len(keyed.train)
    assert keyed.train.tolist() == split(dataset, seed=1, secret=SECRET).train.tolist()
    shifted = replace(dataset, record_ids=dataset.record_ids + 1)
    others = split(dataset, seed=2), split(shifted, seed=1)
    reversed_key = split(dataset, seed=1, secret=SECRET[::-1])
    assert len({one.id for one in (plain, keyed, reversed_key, *others)}) == 5
    with pytest.raises(ValueError, match="seed"):
        split(small(), seed=-1)


def test_standardise_is_fitted_on_the_training_part_only():
    for features, scaled in (
        (
            [[1, 5], [3, 5], [100, 7]],
            [[-1, 0], [1, 0], [98, 2]],
        ),  # the last does not train
        ([[1, NAN], [3, NAN], [NAN, 4]], [[-1, 0], [1, 0], [0, 0]]),
    ):
        result = standardise(
            np.array(features, dtype=np.float32), train=np.array([0, 1])
        )
        assert result.tolist() == scaled
        assert result.dtype == np.float32
    features = (
        np.random.default_rng(0).normal(3, [1, 10, 0.1], (200, 3)).astype(np.float32)
    )
    train = np.arange(0, 200, 3)
    expected = (
        StandardScaler()
        .fit(features[train].astype(float))
        .transform(features.astype(float))
    )
    np.testing.assert_allclose(
        standardise(features, train=train), expected, rtol=1e-5, atol=1e-5
    )


def test_digest_is_over_documented_bytes_of_arrays_that_cannot_be_written_to():
    dataset = small(4)
    expected = hashlib.sha256(
        repr(((4, 2), ("even", "odd"))).encode()
        + np.array([0, 3, 6, 9], dtype="<i8").tobytes()
        + bytes([0, 1, 0, 1])
        + repr(("side", ("left", "right"))).encode()
        + np.array([0, 0, 1, 1], dtype="<i8").tobytes()
        + np.arange(8, dtype="<f4").tobytes()
    )
    assert (
        replace(dataset, notes=("a note",)).digest
        == dataset.digest
        == expected.hexdigest()
    )
    for array in (dataset.features, dataset.labels, dataset.record_ids):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"labels": np.zeros(10)}, "labels must be 0 and 1"),
        ({"labels": np.arange(10)}, "labels must be 0 and 1"),
        ({"record_ids": np.zeros(10)}, "strictly increasing"),
        ({"record_ids": np.arange(9)}, "strictly increasing"),
        ({"feature_names": ("one",)}, r"shape \(10, 1\)"),
        ({"features": np.full((10, 2), np.inf)}, "finite or NaN"),
        ({"attributes": ()}, "at least one protected attribute"),
        ({"attributes": (small(8).attributes[0],)}, "one code per record"),
    ],
)
def test_faulty_datasets_are_refused(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        small(**changes)


def test_an_attribute_needs_two_groups_and_valid_codes():
    for names, codes in (
        (("only",), [0, 0]),
        (("x", "x"), [0, 0]),
        (("x", "y"), [0, 2]),
    ):
        with pytest.raises(InputError, match="'a'"):
            ProtectedAttribute(name="a", group_names=names, codes=np.array(codes))
    unknown = ProtectedAttribute(
        name="a", group_names=("x", "y"), codes=np.array([0, -1])
    )
    assert unknown.n_missing == 1
    with pytest.raises(InputError, match="no attribute 'age'; choose one of: side"):
        small().attribute("age")
    assert small().attribute("side").group_names == ("left", "right")


def test_who_knows_all_records_but_one_cannot_guess_that_one():
    """The attack: try every value of the last person's field until the digest fits."""
    dataset = small(10)
    known = dataset.features.copy()
    truth = int(dataset.features[9, 0])
    plain = dataset.published_digest(b"")
    keyed = dataset.published_digest(SECRET)
    assert plain == f"sha256:{dataset.digest}"
    assert keyed.startswith("hmac-sha256:")
    for published, secret, found in (
        (plain, b"", [truth]),
        (keyed, b"", []),
        (keyed, SECRET[::-1], []),
    ):
        guesses = []
        for value in range(100):
            known[9, 0] = value
            if replace(dataset, features=known).published_digest(secret) == published:
                guesses.append(value)
        assert guesses == found


def test_columns_and_widths_name_no_value():
    names = ("age", "age=(missing)", "name=Alice", "name=Bob=Robert", "a")
    assert column_widths(names) == {"age": 2, "name": 2, "a": 1}
