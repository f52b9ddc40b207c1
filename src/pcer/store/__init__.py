"""On disk: finished blocks of any work, durable and resumable; and the processes that do it."""

__all__: list[str] = []  # other rooms import the files by name, and no user comes here
