"""On disk: finished blocks of work, durable and resumable, whatever the work is."""

from __future__ import annotations

from pcer.store.blocks import Key, StoredBlock, finished_blocks, load_block, save_array, save_block
from pcer.store.lock import owned
from pcer.store.secret import (
    SECRET_BYTES,
    keep_secret,
    new_secret,
    read_secret,
    secret_name,
    secret_path,
    state_folder,
)
from pcer.store.settings import SETTINGS, Settings, keep_settings, require_same_settings

__all__ = [
    "SECRET_BYTES",
    "SETTINGS",
    "Key",
    "Settings",
    "StoredBlock",
    "finished_blocks",
    "keep_secret",
    "keep_settings",
    "load_block",
    "new_secret",
    "owned",
    "read_secret",
    "require_same_settings",
    "save_array",
    "save_block",
    "secret_name",
    "secret_path",
    "state_folder",
]
