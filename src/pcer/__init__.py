"""pcer."""
