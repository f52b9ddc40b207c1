"""Tests of the room paper."""
