"""Tests of the room integrations."""
