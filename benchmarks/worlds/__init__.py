"""Simulated people and models of the benchmarks; those that tests share are in ``tests/worlds``."""
