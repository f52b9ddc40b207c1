"""On disk: finished blocks of any work, durable and resumable; and the processes that do it."""

from __future__ import annotations

from pcer.store.blocks import (
    Key,
    StoredBlock,
    finished_blocks,
    load_block,
    load_second,
    save_array,
    save_block,
)
from pcer.store.lock import LOCK, owned
from pcer.store.processes import Task, die_with, run_tasks
from pcer.store.seals import file_digest, is_sealed, record_digest, sealed
from pcer.store.secret import (
    SECRET_BYTES,
    keep_secret,
    new_secret,
    read_secret,
    secret_name,
    secret_path,
    state_folder,
)
from pcer.store.settings import (
    SETTINGS,
    Settings,
    require_same_settings,
    resume_folder,
    settings_digest,
)

__all__ = [
    "LOCK",
    "SECRET_BYTES",
    "SETTINGS",
    "Key",
    "Settings",
    "StoredBlock",
    "Task",
    "die_with",
    "file_digest",
    "finished_blocks",
    "is_sealed",
    "keep_secret",
    "load_block",
    "load_second",
    "new_secret",
    "owned",
    "read_secret",
    "record_digest",
    "require_same_settings",
    "resume_folder",
    "run_tasks",
    "save_array",
    "save_block",
    "sealed",
    "secret_name",
    "secret_path",
    "settings_digest",
    "state_folder",
]
