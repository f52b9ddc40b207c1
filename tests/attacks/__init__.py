"""Tests of the room attacks."""
