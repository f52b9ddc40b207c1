"""On disk: finished blocks of work, durable and resumable; and worker processes."""

# Other rooms import the modules by name; nothing here is for users.
__all__: list[str] = []
