# Generated from src/lockfast/_async/semaphore.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""A semaphore: at most `capacity` permits out at a time, in order of arrival."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast._sync.lock import Lock
from lockfast.errors import ConfigurationError
from lockfast.options import LockOptions, checked_capacity, checked_permits

if TYPE_CHECKING:
    from lockfast._sync.acquiring import Acquisition
    from lockfast._sync.client import Client
    from lockfast._sync.lease import Lease


class Semaphore(Lock):
    """Each acquire takes `permits` of the capacity; it is never re-entrant.

    All users of one name must say the same capacity; another one is refused while the
    name is in use.
    """

    def __init__(
        self, client: Client, name: str, options: LockOptions, *, capacity: int, permits: int
    ) -> None:
        self.capacity: int = checked_capacity(capacity)
        self.weight: int = checked_permits(permits, capacity=capacity)
        if not client.backend.capabilities.shared:
            raise ConfigurationError(
                "this backend has no shared holds: it offers lock(), not semaphore()"
            )
        if options.owner is not None:
            raise ConfigurationError("owner= belongs to lock(); a semaphore has none")
        super().__init__(client, name, options)

    def reentered(self, attempt: Acquisition) -> Lease | None:
        del attempt
        return None
