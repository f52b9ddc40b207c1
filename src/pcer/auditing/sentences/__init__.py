"""What is said of an audit: every sentence of the finding, from one object."""
