"""Tests of pcer."""
