import json
import math
import stat

import numpy as np
import pytest
from typer.testing import CliRunner

from pcer.cli.app import app
from pcer.errors import InputError
from pcer.sweep.receipts import (
    ARRAY,
    INDEX,
    ReceiptIndex,
    ReceiptSetting,
    find_receipts,
    has_receipts,
    person_receipts,
    read_receipts,
    receipts_folder,
    right_guesses,
    write_receipts,
)
from pcer.train.receipts import Terms, fold

N_STEPS = 40
TERMS = [Terms(noise, 0.1, N_STEPS, 1e-5) for noise in (4.0, 1.0)]


def kept_of(terms: Terms, bins: list[int]) -> np.ndarray:
    """What is kept of records whose norm stays in one bin; -1 is one that was not trained on."""
    steps = np.zeros((len(bins), 201), dtype=np.uint16)
    steps[np.arange(len(bins)), np.maximum(bins, 0)] = N_STEPS
    kept = fold(
        steps,
        noise_multiplier=terms.noise_multiplier,
        sampling_rate=terms.sampling_rate,
        dp_delta=terms.dp_delta,
    )
    return np.where(np.array(bins) < 0, np.float32(np.nan), kept)


BINS = [[200, 50, -1, 0], [200, -1, -1, 0], [150, 20, -1, 0]]
"""Of four records in three models."""
KEPT = np.array([[kept_of(terms, row) for row in BINS] for terms in TERMS])


MODELS = {
    "data_digest": "hmac-sha256:0",
    "mode": "held",
    "epsilons": [5.0, 0.5],
    "seeds": [0, 1, 2],
}


def index(**changed) -> ReceiptIndex:
    settings = [
        ReceiptSetting(
            epsilon=epsilon,
            epsilon_by_accountant={"pld": epsilon, "rdp": terms.nominal},
            noise_multiplier=terms.noise_multiplier,
            ladder=terms.ladder.tolist(),
        )
        for epsilon, terms in zip((0.5, 5.0), TERMS, strict=True)
    ]
    plain = {
        "dataset": "loans",
        "data_digest": "hmac-sha256:0",
        "mode": "held",
        "accountant": "rdp",
        "dp_delta": 1e-5,
        "clip_norm": 1.0,
        "standardised": True,
        "has_models_without_privacy": False,
        "settings": settings,
        "seeds": [0, 1, 2],
        "record_ids": [11, 12, 15, 40],
    }
    return ReceiptIndex(**{**plain, **changed})


@pytest.fixture
def folder(tmp_path):
    write_receipts(receipts_folder(tmp_path, "loans"), index(), KEPT)
    return tmp_path


def test_what_is_written_is_read_and_is_its_owners_only(folder):
    place = folder / "loans.receipts"
    found, kept = read_receipts(place)
    assert np.array_equal(kept.view(np.uint32), KEPT.view(np.uint32))
    assert found.record_ids == [11, 12, 15, 40]
    assert has_receipts(place, **MODELS)
    for other in (
        {"seeds": [0, 1, 3]},
        {"epsilons": [0.5]},
        {"mode": "exact"},
        {"data_digest": ""},
    ):
        assert not has_receipts(place, **{**MODELS, **other})
    assert not has_receipts(folder / "other.receipts", **MODELS)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o600}
    assert {path.name for path in place.iterdir()} == {ARRAY, INDEX}


def test_the_same_receipts_are_the_same_bytes(folder, tmp_path):
    again = tmp_path / "again"
    write_receipts(again, index(), KEPT)
    for name in (ARRAY, INDEX):
        assert (again / name).read_bytes() == (folder / "loans.receipts" / name).read_bytes()


def test_a_person_finds_what_each_budget_promised_and_spent(folder):
    found, rows = person_receipts(folder, "12")
    assert found.dataset == "loans"
    for row, terms in zip(rows, TERMS, strict=True):
        own = kept_of(terms, [50, 20])  # the second model was not trained on it
        assert row.realised.tolist() == terms.realised(own).tolist()
        assert row.receipt.tolist() == terms.receipt(own).tolist()
        assert row.nominal == terms.nominal
    _, clipped = person_receipts(folder / "loans.receipts", "11")
    assert [row.receipt.max() for row in clipped] == [terms.nominal for terms in TERMS]


@pytest.mark.parametrize("name", [ARRAY, INDEX])
def test_a_changed_file_does_not_count(folder, name):
    path = folder / "loans.receipts" / name
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"loans"', b'"roans"') if name == INDEX else data[:-1] + b"\7")
    with pytest.raises(InputError, match="is not as it was written; train again"):
        person_receipts(folder, "12")


def test_a_lost_array_does_not_count(folder):
    (folder / "loans.receipts" / ARRAY).unlink()
    with pytest.raises(InputError, match="is not as it was written"):
        person_receipts(folder, "12")
    assert not has_receipts(folder / "loans.receipts", **MODELS)


def test_receipts_of_two_sweeps_must_be_named(folder):
    write_receipts(receipts_folder(folder, "adult"), index(dataset="adult"), KEPT)
    with pytest.raises(InputError, match=r"name one of: adult\.receipts, loans\.receipts"):
        find_receipts(folder)
    assert person_receipts(folder / "adult.receipts", "12")[0].dataset == "adult"


def test_right_guesses_are_the_best_that_the_two_lines_allow():
    for epsilon, delta in ((0.0, 0.0), (0.3, 1e-5), (2.0, 0.01), (12.0, 1e-5)):
        fpr = np.linspace(0, 1, 200_001)
        tpr = np.minimum(np.exp(epsilon) * fpr + delta, 1 - np.exp(-epsilon) * (1 - fpr - delta))
        best = (np.minimum(tpr, 1) + 1 - fpr).max() / 2
        assert right_guesses(epsilon, delta) == pytest.approx(best, abs=1e-5)
    assert right_guesses(5_000.0, 1e-5) == 1


def words(done) -> str:
    return " ".join(done.output.split())


def shown(folder, record: str):
    return CliRunner().invoke(app, ["receipt", str(folder), "--record", record])


def test_a_receipt_in_words_and_numbers(folder):
    done = shown(folder, "12")
    assert done.exit_code == 0, done.exception
    assert "Receipt of record 12 of loans" in done.output
    own = TERMS[1].receipt(kept_of(TERMS[1], [50]))[0]
    line = next(line for line in done.output.splitlines() if line.split()[:1] == ["5"])
    promised, same, models, _, spent, receipt, guesses = line.split()
    assert (promised, models) == ("5", "2")
    assert float(same) == pytest.approx(TERMS[1].nominal, abs=5e-4)
    assert float(receipt) == pytest.approx(own, abs=5e-4)
    assert float(spent) < float(receipt) < float(same)
    assert int(guesses) == math.ceil(100 * right_guesses(own, 1e-5))
    for word in ("Promised:", "Spent:", "Receipt:", "Guesses:", "last computed norm", "Outside"):
        assert word in words(done)
    assert "without privacy" not in words(done)
    assert max(map(len, done.output.splitlines())) <= 80


@pytest.mark.parametrize(
    ("mode", "says"),
    [("exact", "computed at every step"), ("refreshed", "an estimate and not a bound")],
)
def test_a_receipt_says_what_its_norms_are_worth(tmp_path, mode, says):
    write_receipts(receipts_folder(tmp_path, "loans"), index(mode=mode, standardised=False), KEPT)
    done = shown(tmp_path, "11")
    assert says in words(done)
    assert "Outside" not in words(done)


def test_who_was_never_trained_on_spent_nothing(folder):
    done = shown(folder, "15")
    assert done.exit_code == 0
    assert done.output.strip() == (
        "No private model of loans was trained on record 15: nothing was spent."
    )


def test_who_never_had_a_gradient_is_a_coin(folder):
    line = next(x for x in shown(folder, "40").output.splitlines() if x.split()[:1] == ["5"])
    assert line.split()[3:] == ["0.000", "0.000", "0.000", "50"]


def test_without_privacy_there_is_no_bound(tmp_path):
    none = index(settings=[], has_models_without_privacy=True)
    write_receipts(receipts_folder(tmp_path, "loans"), none, KEPT[:0])
    assert "trained without privacy: no bound exists." in shown(tmp_path, "11").output


@pytest.mark.parametrize(
    ("record", "sentence"),
    [("99", r"has no receipt of a record '99'; give the id that the dataset 'loans' has for it\.")],
)
def test_an_unknown_record_is_one_sentence(folder, record, sentence):
    with pytest.raises(InputError, match=sentence):
        person_receipts(folder, record)
    assert "40" not in str(shown(folder, record).exception)


def test_a_sweep_without_receipts_is_one_sentence(tmp_path):
    done = shown(tmp_path, "11")
    assert isinstance(done.exception, InputError)
    assert str(done.exception) == (
        f"{tmp_path} holds no receipts; train with receipts 'held' to have them."
    )


def test_a_newer_file_is_refused(folder):
    path = folder / "loans.receipts" / INDEX
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 2}))
    with pytest.raises(InputError, match="upgrade pcer"):
        person_receipts(folder, "12")
