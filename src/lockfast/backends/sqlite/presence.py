"""Who is alive: OS locks on side files, which the kernel drops when a process dies.

Beside the database stands a directory. Each client holds an exclusive lock on a file of
its own in it, so that a waiter sees at once that a killed process is gone. And all hold a
shared lock on `boot`, so that a new boot's client knows that no old one is left. Both last
until the client leaves, whatever becomes of its connection to the database meanwhile.
"""

from __future__ import annotations

import io
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from lockfast.platforms import here

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_SUFFIX = ".client"

# The clients that this process has announced, by their process: a fork copies the list and not
# the locks. Module state, because they do not know each other. Whoever runs this is alive, and
# so are they; fifty clients of one process need not open each other's files all the time.
_here: dict[str, int] = {}


class Descriptor(io.FileIO):
    """An open side file, made and owned in one step: an interrupt after it loses no number.

    A number that got lost would stay open, with its lock, and our own next attempt would
    wait for it for ever.
    """

    def __init__(self, path: Path | str, *, create: bool) -> None:
        super().__init__(str(path), "a+" if create else "r+")

    def __del__(self) -> None:
        self.close()


class Presence:
    """The side files of one database, as one client sees them."""

    def __init__(self, database: Path) -> None:
        self.stand_beside(database)
        self._boot: Descriptor | None = None
        self._own: dict[str, Descriptor] = {}

    def stand_beside(self, database: Path) -> None:
        """Look, and be seen, beside this file; `come_back` moves there what was announced."""
        self._directory = database.with_name(database.name + "-clients")

    @property
    def is_here(self) -> bool:
        """Whether any client was announced, and has not left."""
        return bool(self._own)

    def come(self) -> bool:
        """Be here before the database is used; whether no other client is, until `share`."""
        if self._boot is None:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            self._boot = Descriptor(self._directory / "boot", create=True)
        elif self._own:
            return False  # back after a lost connection: whoever might adopt waits for us
        if here.try_lock_alone(self._boot):
            return True
        self.share()
        return False

    def share(self) -> None:
        """Say that a client of this boot is here; waits while another adopts the boot."""
        if self._boot is not None:
            here.lock_shared(self._boot)

    def is_announced(self, client: str) -> bool:
        """Whether this client is seen as alive; nobody is always."""
        return not client or client in self._own

    def announce(self, client: str) -> None:
        """Be seen as alive under this id until `leave`, or until the process dies."""
        if self.is_announced(client):
            return
        self._sweep()
        self._lock_file_of(client)

    def _lock_file_of(self, client: str) -> None:
        path, before = self._path(client), self._own.get(client)
        while self._own.get(client) is before:
            own = Descriptor(path, create=True)
            try:
                here.lock_alone(own)
                if _is_same_file(own, path):
                    self._own[client] = own
                    _here[client] = os.getpid()
            finally:
                if self._own.get(client) is not own:
                    # Somebody's sweep took the unlocked file for a dead client's, and we try
                    # again; or an interrupt struck, and whoever tries again must not wait for us.
                    own.close()

    def come_back(self) -> None:
        """Be seen as alive again where somebody has removed our files.

        The new ones before the old are let go: to this process we have never been away.
        """
        known = list(self._own.items())
        lost = [client for client, own in known if not _is_same_file(own, self._path(client))]
        if not lost:
            return
        self._directory.mkdir(mode=0o700, exist_ok=True)
        boot = Descriptor(self._directory / "boot", create=True)
        here.lock_shared(boot)
        self._boot = boot
        for client in lost:
            self._lock_file_of(client)

    def is_gone(self, client: str) -> bool:
        """Whether the client's process is dead; an id without presence ends by its ttl."""
        if not client or client in self._own or _here.get(client) == os.getpid():
            return False
        try:
            # As text: whoever comes into a line asks this, and a Path takes longer than the rest.
            with Descriptor(f"{self._directory}/{client}{_SUFFIX}", create=False) as other:
                return here.try_lock_shared(other)
        except FileNotFoundError:
            # It left, or was swept after its death. What still stands under its id in the
            # database belongs to nobody.
            return True
        except OSError:
            return False  # we cannot know, for want of a descriptor

    def leave(self) -> None:
        """Be gone: remove our own files, and let go of the locks."""
        paths = [self._path(client) for client in list(self._own)]
        if here.CAN_REMOVE_OPEN_FILES:
            _remove(paths)
            self.let_go()
        else:
            self.let_go()
            _remove(paths)  # whoever has one open just now keeps it, and sweeps it later

    def let_go(self) -> None:
        """Close the descriptors; locks that a fork copied stay with the parent."""
        while self._own:
            client, own = self._own.popitem()
            _here.pop(client, None)
            own.close()
        boot, self._boot = self._boot, None
        if boot is not None:
            boot.close()

    def _path(self, client: str) -> Path:
        return self._directory / f"{client}{_SUFFIX}"

    def _sweep(self) -> None:
        for path in self._directory.glob(f"*{_SUFFIX}"):
            # Where an open file cannot be removed, any program may have it open: a scanner, say.
            with suppress(FileNotFoundError if here.CAN_REMOVE_OPEN_FILES else OSError):
                here.remove_unless_locked(path)


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink()


def _is_same_file(descriptor: Descriptor, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor.fileno()), path.stat())
    except FileNotFoundError:
        return False
