"""What the paper leaves open: variants, their training, what they change, and the page about it."""
