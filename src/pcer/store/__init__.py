"""On disk: finished blocks of work, durable and resumable; and worker processes."""

__all__: list[
    str
] = []  # other rooms import the modules by name; nothing here is for users
