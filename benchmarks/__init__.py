"""Measurements that are too long or too noisy for tests; each script prints a table."""
