"""On disk: finished blocks of work, durable and resumable, whatever the work is."""

from __future__ import annotations

from pcer.store.blocks import (
    Key,
    StoredBlock,
    finished_blocks,
    load_block,
    save_array,
    save_block,
)
from pcer.store.lock import owned
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
    "SECRET_BYTES",
    "SETTINGS",
    "Key",
    "Settings",
    "StoredBlock",
    "file_digest",
    "finished_blocks",
    "is_sealed",
    "keep_secret",
    "load_block",
    "new_secret",
    "owned",
    "read_secret",
    "record_digest",
    "require_same_settings",
    "resume_folder",
    "save_array",
    "save_block",
    "sealed",
    "secret_name",
    "secret_path",
    "settings_digest",
    "state_folder",
]
