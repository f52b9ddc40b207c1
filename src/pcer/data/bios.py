"""Bias in Bios: is a person with a biography on the web a professor or a nurse?

``benchmarks`` lists it. To add a feature or an attribute: a row of the literal.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from pcer.data.readers import Columns, read_columns
from pcer.data.task import (
    DataFile,
    DatasetTask,
    Encoded,
    FeatureRule,
    GroupRule,
    require_count,
)

PROFESSOR = 21  # the publisher's codes
NURSE = 13
HUB_URL = (
    "https://huggingface.co/datasets/LabHC/bias_in_bios/resolve/"
    "052f01de644dba841176e0449528b41f27d94a61/data/"
)
# Publisher's files, and their numbers of biographies.
HUB_FILES = (
    ("train-00000-of-00001-0ab65b32c47407e8.parquet", 257_478),
    ("dev-00000-of-00001-e6551072fff26949.parquet", 39_642),
    ("test-00000-of-00001-5598c840ce8de1ee.parquet", 99_069),
)
COPY_FILES = (
    ("train", "311df6233850e8736c3cfa9fe4750f7cdf4f16e8b69e23478a8e46f735caea2b"),
    ("dev", "6393259f559811116b84f26f2490bc84568ca78c5cc883ee28626283ca9ba1fe"),
    ("test", "34c21ee9be16e4c68ab54ceecb0e9d25f2599f4a898b7d39da99242028f999d5"),
)
ENCODING_SEED = 0


@dataclass(frozen=True)
class TextComponents(FeatureRule):
    """The paper's encoding: TF-IDF of words and word pairs, then truncated SVD."""

    # Fitted on all texts before any split, as in the paper, and never sees a label. The
    # last digits depend on the linear-algebra library, and with them the dataset's
    # digest.
    n_terms: int = 15_000
    n_components: int = 200

    def encode(self, columns: Columns) -> Encoded:
        """Columns named ``text[0]``, ``text[1]``, ..."""
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer
        from threadpoolctl import threadpool_limits

        terms = TfidfVectorizer(
            ngram_range=(1, 2), max_features=self.n_terms, sublinear_tf=True
        ).fit_transform(columns[self.column])
        reduction = TruncatedSVD(self.n_components, random_state=ENCODING_SEED)
        # One order of summation, whatever the number of cores.
        with threadpool_limits(1):
            values = reduction.fit_transform(terms).astype(np.float32)
        return tuple(f"text[{i}]" for i in range(self.n_components)), values


def check_biographies(path: Path, *, n_rows: int) -> None:
    """Raise InputError unless the file holds the published number of biographies."""
    n_found = read_columns(path, ["gender"])["gender"].size
    require_count(path, n_found, n_rows, "biographies")


BIOS = DatasetTask(
    name="bios",
    title="Bias in Bios, professor against nurse",
    files=tuple(
        DataFile(
            name=name, url=HUB_URL + name, check=partial(check_biographies, n_rows=n)
        )
        for name, n in HUB_FILES
    ),
    features=(TextComponents("hard_text"),),
    label=("profession", operator.eq, PROFESSOR),
    attributes={"gender": GroupRule.of_each("gender", {"Male": 0, "Female": 1})},
    keep=(("profession", np.isin, [PROFESSOR, NURSE]),),
    balance=True,
    outcome="benefit",
    people="professionals",
    positive_means="are predicted to be professors",
    trained="on Bias in Bios",
    membership_means="your biography stood on a public web page",
    positive_label="professor",
    source=(
        "De-Arteaga et al. 2019 (microsoft/biosbias), as published in "
        "LabHC/bias_in_bios"
    ),
    licence="MIT (the collection); the texts come from Common Crawl",
    caution=(
        "Biographies of real people, collected from the web without asking; some texts "
        "hold telephone numbers or addresses, so print none."
    ),
    notes=(
        "Bios: all nurses, and as many professors drawn with a fixed seed.",
        "Bios: the text encoding is fitted on all texts before the split, as in the "
        "paper.",
    ),
)

# A public sample of 14,000 biographies whose texts were scrubbed further.
BIOS_COPY = replace(
    BIOS,
    files=tuple(
        DataFile(name=f"bias_in_bios_14k_{part}.csv.gz", sha256=digest)
        for part, digest in COPY_FILES
    ),
    features=(TextComponents("Bio"),),
    label=("Profession", operator.eq, "professor"),
    attributes={"gender": GroupRule.of_each("Gender", {"Male": "M", "Female": "F"})},
    keep=(("Profession", np.isin, ["professor", "nurse"]),),
    n_records=1_608,
    notes=(
        *BIOS.notes,
        "Bios: from a sample of 14,000 biographies (the paper's has about 396,000), so "
        "804 nurses, 86 of them men, and 804 professors.",
        "Bios: the texts have names and gendered pronouns replaced by '_'; the paper's "
        "'hard_text' keeps the pronouns, so gender is harder to read here and gaps are "
        "smaller.",
    ),
)
