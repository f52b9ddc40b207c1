"""On disk: finished blocks of any work, durable and resumable; and the processes that do it."""

from __future__ import annotations

from pcer.store.blocks import (
    Settings,
    finished_blocks,
    load_block,
    record_digest,
    resume_folder,
    save_block,
    settings_digest,
)
from pcer.store.lock import LOCK, owned
from pcer.store.processes import Task, die_with, run_tasks
from pcer.store.secret import (
    SECRET_BYTES,
    keep_secret,
    new_secret,
    read_secret,
    secret_name,
    secret_path,
    state_folder,
)

__all__ = [
    "LOCK",
    "SECRET_BYTES",
    "Settings",
    "Task",
    "die_with",
    "finished_blocks",
    "keep_secret",
    "load_block",
    "new_secret",
    "owned",
    "read_secret",
    "record_digest",
    "resume_folder",
    "run_tasks",
    "save_block",
    "secret_name",
    "secret_path",
    "settings_digest",
    "state_folder",
]
