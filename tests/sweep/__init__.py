"""Tests of the room sweep."""
