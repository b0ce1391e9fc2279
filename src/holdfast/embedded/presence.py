"""Who is alive: OS locks on side files, which the kernel drops when a process dies.

Beside the database stands a directory. Each client holds an exclusive lock on a file of
its own in it, so that a waiter sees at once that a killed process is gone. And all hold a
shared lock on `boot`, so that a new boot's client knows that no old one is left.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_SUFFIX = ".client"


class Presence:
    """The side files of one database, as one client sees them."""

    def __init__(self, database: Path) -> None:
        self._directory = database.with_name(database.name + "-clients")
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._boot = os.open(self._directory / "boot", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._own: dict[str, int] = {}

    def share(self) -> None:
        """Say that a client of this boot is here; waits while another adopts the boot."""
        fcntl.flock(self._boot, fcntl.LOCK_SH)

    def try_alone(self) -> bool:
        """Whether no other client is here, and none can come until `share`."""
        try:
            fcntl.flock(self._boot, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def announce(self, client: str) -> None:
        """Be seen as alive under this id until `leave`, or until the process dies."""
        if client in self._own:
            return
        self._sweep()
        path = self._path(client)
        while client not in self._own:
            own = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(own, fcntl.LOCK_EX)
            if _is_same_file(own, path):
                self._own[client] = own
            else:
                # Somebody's sweep took the unlocked file for a dead client's: again.
                os.close(own)

    def is_gone(self, client: str) -> bool:
        """Whether the client's process is dead; an id without presence ends by its ttl."""
        if not client or client in self._own:
            return False
        try:
            other = os.open(self._path(client), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            # It left, or was swept after its death. What still stands under its id in the
            # database belongs to nobody.
            return True
        except OSError:
            return False
        try:
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(other)
        return True

    def leave(self) -> None:
        """Be gone: remove our own files, then let go of the locks."""
        for client, descriptor in self._own.items():
            with suppress(OSError):
                self._path(client).unlink()
            os.close(descriptor)
        self._own.clear()
        os.close(self._boot)

    def let_go(self) -> None:
        """Close the descriptors that a fork copied; the parent's locks stay with the parent."""
        for descriptor in (*self._own.values(), self._boot):
            os.close(descriptor)
        self._own.clear()

    def _path(self, client: str) -> Path:
        return self._directory / f"{client}{_SUFFIX}"

    def _sweep(self) -> None:
        for path in self._directory.glob(f"*{_SUFFIX}"):
            with suppress(FileNotFoundError):
                self._remove_if_dead(path)

    def _remove_if_dead(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.ENOENT):
                raise
        finally:
            os.close(descriptor)


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
