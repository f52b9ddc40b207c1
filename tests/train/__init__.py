"""Tests of the room train."""
