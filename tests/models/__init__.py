"""Tests of the room models."""
