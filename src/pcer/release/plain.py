"""Records as plain objects, the way a file holds them."""

from __future__ import annotations

from typing import Any

from pcer.files import Record

LEAVES = frozenset({str, int, float, bool, type(None)})


def plain(value: Any) -> Any:
    """Plain objects, without the absent fields of records.

    A field is absent if it is null or empty; but a null ``epsilon`` says "no differential
    privacy". Only fields of records are left out, never a key of a mapping: groups, proxies and
    the trainer's own settings may be called anything, and a null in the settings is a value.
    """
    if type(value) in LEAVES:
        return value
    if isinstance(value, Record):
        return _present(value)
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list) else value


def _present(record: Record) -> dict[str, Any]:
    """A record's fields, without the absent ones; in one turn, as files hold many of them."""
    found = {}
    for name, part in record.__dict__.items():
        if name.startswith("_"):  # kept beside the fields, and not one of them
            continue
        if type(part) in LEAVES:
            if part is not None or name == "epsilon":
                found[name] = part
        elif (inside := plain(part)) not in ([], {}):
            found[name] = inside
    return found
