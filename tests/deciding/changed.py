"""The world whose two releases are compared, and releases that are edited."""

import json

from pcer.release.file import Release, parse_release
from tests.worlds.two_models import TwoModels

WORLD = TwoModels(people=(400, 700), old=(0.05, 0.05), new=(0.05, 0.2), n_splits=10)


def edited(release: Release, edit) -> Release:
    """A release after a change of its file."""
    tree = json.loads(release.to_json())
    edit(tree)
    return parse_release(tree, file="edited")
