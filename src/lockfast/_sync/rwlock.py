# Generated from src/lockfast/_async/rwlock.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""A read-write lock: many readers or one writer, in order of arrival."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast._sync.lock import Lock
from lockfast.core.naming import checked_name
from lockfast.core.staying import StaysHere
from lockfast.errors import ConfigurationError
from lockfast.model import ALL

if TYPE_CHECKING:
    from lockfast._sync.client import Client
    from lockfast.options import LockOptions


class _OfTwo(Lock):
    capacity = ALL
    made_by = ""

    def __repr__(self) -> str:
        where = self._client.backend.location
        return f"<{RWLock.__name__}.{self.made_by} {self.name!r} at {where}>"


class _ReadLock(_OfTwo):
    weight = 1
    made_by = "read"


class _WriteLock(_OfTwo):
    weight = ALL
    made_by = "write"


class RWLock(StaysHere):
    """Readers share, a writer is alone; neither can starve the other.

    A writer may read (it re-enters its own hold). A reader that asks to write would wait
    for itself, and is refused with WouldDeadlock.
    """

    _goes_instead = "pass on its name, and make the lock there"

    def __init__(self, client: Client, name: str, options: LockOptions) -> None:
        self.name: str = checked_name(name)
        if not client.backend.capabilities.shared:
            raise ConfigurationError(
                "this backend has no shared holds: it offers lock(), not rwlock()"
            )
        if options.owner is not None:
            raise ConfigurationError("owner= belongs to lock(); a read-write lock has none")
        self._read = _ReadLock(client, name, options)
        self._write = _WriteLock(client, name, options)

    def read(self) -> Lock:
        """Return the lock that readers share. Its token numbers readers, and fences nothing."""
        return self._read

    def write(self) -> Lock:
        """Return the lock of the one writer."""
        return self._write

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"
