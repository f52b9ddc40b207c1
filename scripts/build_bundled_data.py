"""Write the bundled extracts of Adult and COMPAS from the published files.

Run it as ``PCER_DATA=folder python scripts/build_bundled_data.py``; the folder holds
``adult.data.gz``, ``adult.test.gz`` and ``compas-scores-two-years*.csv.gz``. Only the
columns that the tasks need are written: no name, no date of birth, no case number. The
same input gives the same bytes; the digests printed belong into the task literals.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from pcer_studies.sensitivity.readings import COLUMNS as COLUMNS_OF_BOTH

TARGET = Path(__file__).parent.parent / "src" / "pcer" / "data" / "files"
ADULT_COLUMNS = (
    *("age", "education_num", "occupation", "race", "sex"),
    *("capital_gain", "capital_loss", "hours_per_week", "income"),
)
COMPAS_COLUMNS = (
    *(
        "age",
        "race",
        "juv_fel_count",
        "juv_misd_count",
        "juv_other_count",
        "priors_count",
    ),
    *(
        "days_b_screening_arrest",
        "c_charge_degree",
        "is_recid",
        "score_text",
        "two_year_recid",
    ),
)


def adult_rows(folder: Path) -> Iterable[dict[str, str]]:
    """Every record of both Adult files, without the full stop after test labels."""
    for name in ("adult.data.gz", "adult.test.gz"):
        with gzip.open(folder / name, "rt", encoding="utf-8", newline="") as stream:
            for fields in csv.reader(stream, skipinitialspace=True):
                if len(fields) == len(COLUMNS_OF_BOTH):
                    fields[-1] = fields[-1].removesuffix(".")
                    yield dict(zip(COLUMNS_OF_BOTH, fields, strict=True))


def compas_rows(folder: Path) -> Iterable[dict[str, str]]:
    """Every record of ProPublica's two-year file."""
    (path,) = folder.glob("compas-scores-two-years*.csv.gz")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream)


def write_extract(
    name: str, columns: Sequence[str], rows: Iterable[dict[str, str]]
) -> None:
    """Write the named columns as compressed CSV, and print size and digest."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    data = gzip.compress(text.getvalue().encode(), compresslevel=9, mtime=0)
    (TARGET / name).write_bytes(data)
    print(name, f"{len(data):,} bytes", hashlib.sha256(data).hexdigest())


if __name__ == "__main__":
    source = Path(os.environ["PCER_DATA"])
    write_extract("adult.csv.gz", ADULT_COLUMNS, adult_rows(source))
    write_extract("compas.csv.gz", COMPAS_COLUMNS, compas_rows(source))
