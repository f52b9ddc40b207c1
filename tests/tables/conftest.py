"""What the tests of tables share with those of models."""

from tests.models.conftest import few_permutations

__all__ = ["few_permutations"]
