"""Tests of the studies' distribution."""
