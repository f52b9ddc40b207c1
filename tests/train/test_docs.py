"""The example of the training page runs as it stands."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "training.md"


def test_the_example_runs_and_says_its_shape():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    assert names["found"].logits.shape == (2, 3, 400)
