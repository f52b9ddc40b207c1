"""Fitted models of made-up people, for benchmarks and for the tests that are their short form."""
