"""Simulated people and models that tests and benchmarks share."""
