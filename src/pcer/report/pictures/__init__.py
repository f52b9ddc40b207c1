"""How is an audit drawn? A file for each picture; ``charts`` lists those by name."""
