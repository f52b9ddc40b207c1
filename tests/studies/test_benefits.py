"""The page of other benefits: made again, and a cell by plain loops."""

from pathlib import Path

import numpy as np
import pytest

from pcer_studies.benefits import PAGE, benefits_page, disparities
from pcer_studies.claims.quantities import COMPAS
from tests.worlds.studies import shipped_study

DOCS = Path(__file__).parents[2] / "studies" / "docs"


def test_the_page_is_made_from_the_study_again():
    page = benefits_page(shipped_study())
    assert page == (DOCS / PAGE).read_text(encoding="utf-8")


def test_a_disparity_by_precision_is_that_of_a_plain_loop():
    study = shipped_study()
    by_seed = []
    for run in study.release("compas", "race").runs:
        if run.epsilon == 0.5:
            ratios = []
            for name in COMPAS.groups:
                train, test = run.groups[name].train, run.groups[name].test
                right = [(part.tp + part.tn) / part.n for part in (train, test)]
                precision = test.tp / (test.tp + test.fp)
                ratios.append(precision / max(right[0] - right[1], 1e-3))
            by_seed.append(ratios[0] - ratios[1])
    found = disparities(study, COMPAS)["precision"][0.5]
    assert found.mean == pytest.approx(np.mean(by_seed))
