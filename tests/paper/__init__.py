"""Tests of the room auditing."""
