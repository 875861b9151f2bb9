"""What an error below the SQLite store becomes: the rule that the store's file breaks, and no text of others."""

from __future__ import annotations

import sqlite3
from typing import Final

from forbear.errors import StoreError

__all__ = ["store_error"]

_RULES: Final = {
    sqlite3.SQLITE_NOTADB: "must be a database of forbear",
    sqlite3.SQLITE_CORRUPT: "must not be damaged",
    sqlite3.SQLITE_FULL: "must have free space",
    sqlite3.SQLITE_READONLY: "must be writable",
    sqlite3.SQLITE_PERM: "must be readable and writable",
    sqlite3.SQLITE_CANTOPEN: "must be readable and writable",
    sqlite3.SQLITE_BUSY: "must not be held by another program",
    sqlite3.SQLITE_CONSTRAINT: "must keep its schema's rules",
    sqlite3.SQLITE_LOCKED: "must not be held by another program",
}


def store_error(error: Exception) -> StoreError:
    """Return the error to raise from a failure of SQLite, of the operating system, or of a value that does not fit."""
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(code, int):
        # The low byte is the primary code.
        rule = _RULES.get(code & 0xFF, "must be readable and writable")
        return StoreError(f"the store's file {rule} ({getattr(error, 'sqlite_errorname', 'SQLITE_ERROR')})")
    if isinstance(error, FileNotFoundError):
        return StoreError("the store's file must stay where it was opened: it was moved, deleted or replaced")
    if isinstance(error, OSError):
        return StoreError("the store's file and folder must be readable and writable")
    if isinstance(error, (UnicodeError, OverflowError)):
        return StoreError("texts that are stored must be valid Unicode, and integers have 64 bits")
    return StoreError("the store cannot be used")
