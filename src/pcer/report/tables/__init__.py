"""Which tables tell an audit? One file for each kind of table."""
