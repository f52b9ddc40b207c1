"""How is an audit written? One file for each format."""
