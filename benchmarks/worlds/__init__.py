"""Simulated people and models of the benchmarks; the tests' are in ``tests/worlds``."""
