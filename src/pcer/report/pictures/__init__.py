"""How is an audit drawn? One file for each picture; ``axis`` has what they share."""
