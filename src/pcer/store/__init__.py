"""On disk: finished blocks of work, durable and resumable, whatever the work is."""

from __future__ import annotations

from pcer.store.blocks import Key, StoredBlock, finished_blocks, load_block, save_array, save_block
from pcer.store.lock import owned
from pcer.store.settings import Settings, keep_settings, require_same_settings

__all__ = [
    "Key",
    "Settings",
    "StoredBlock",
    "finished_blocks",
    "keep_settings",
    "load_block",
    "owned",
    "require_same_settings",
    "save_array",
    "save_block",
]
