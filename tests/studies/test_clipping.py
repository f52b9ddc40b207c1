"""The page of group clipping: made again, and its front by plain loops."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pcer_studies.clipping import PAGE, clipping_page, main, on_front

STUDIES = Path(__file__).parents[2] / "studies"


def test_the_page_is_made_from_its_releases_again(tmp_path):
    page = clipping_page(STUDIES / "clipping")
    assert page == (STUDIES / "docs" / PAGE).read_text(encoding="utf-8")
    (tmp_path / "none").mkdir()
    assert main([str(tmp_path / "none"), str(tmp_path)]) == 0
    assert "##" in (tmp_path / PAGE).read_text(encoding="utf-8")


@pytest.mark.parametrize("seed", range(5))
def test_a_point_is_on_the_front_where_no_other_beats_it(seed):
    drawn = np.random.default_rng(seed).integers(0, 4, (8, 2)).tolist()
    points = [SimpleNamespace(accuracy=a, apart=d) for a, d in drawn]
    expected = []
    for a, d in drawn:
        beaten = [
            other_a >= a and other_d <= d and (other_a > a or other_d < d)
            for other_a, other_d in drawn
        ]
        expected.append(not any(beaten))
    assert on_front(points, "apart") == expected
