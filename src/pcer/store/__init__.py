"""On disk: finished blocks of any work, durable and resumable; and the processes that do it."""
