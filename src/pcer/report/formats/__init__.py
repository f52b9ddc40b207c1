"""How is an audit written? A file each format; each escapes names as it must."""
