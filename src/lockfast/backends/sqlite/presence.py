"""Client liveness: OS locks on side files, which the kernel drops when a process dies.

The side files are in a directory beside the database. Each client holds an exclusive lock on a file
of its own, so that a waiter sees at once that a killed process is gone. All clients hold a shared
lock on the file `boot`, so that a client of a new boot can see that no client of the old boot is
left. A client keeps both locks until it leaves, even if its connection to the database is lost
meanwhile.
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

# The clients that this process has announced, each with the id of the process, because a fork
# copies the dict but not the locks. This is module state, because the clients have no references to
# each other. All clients in the dict are alive while this process runs, so fifty clients of one
# process need not keep opening each other's files.
_clients_of_process: dict[str, int] = {}


class Descriptor(io.FileIO):
    """An open side file, opened and owned in one step, so that an interrupt leaks no descriptor.

    A leaked descriptor would stay open and keep its lock, and our own next attempt would wait for
    that lock for ever.
    """

    def __init__(self, path: Path | str, *, create: bool) -> None:
        super().__init__(str(path), "a+" if create else "r+")

    def __del__(self) -> None:
        self.close()


class Presence:
    """The side files of one database, as one client sees them."""

    def __init__(self, database: Path) -> None:
        self.use_database(database)
        self._boot: Descriptor | None = None
        self._own: dict[str, Descriptor] = {}

    def use_database(self, database: Path) -> None:
        """Use the side files of this database; `announce_again` announces our clients there."""
        self._directory = database.with_name(database.name + "-clients")

    @property
    def is_here(self) -> bool:
        """Whether any client is announced and has not left."""
        return bool(self._own)

    def lock_boot(self) -> bool:
        """Lock `boot` before the database is used; return true if there is no other client.

        If there is no other client, the lock is exclusive until `share` is called.
        """
        if self._boot is None:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            self._boot = Descriptor(self._directory / "boot", create=True)
        elif self._own:
            # We are reconnecting after a lost connection, and still have the lock that keeps other
            # clients from adopting the boot.
            return False
        if here.try_lock_exclusive(self._boot):
            return True
        self.share()
        return False

    def share(self) -> None:
        """Show that this boot has a client; wait while another client adopts the boot."""
        if self._boot is not None:
            here.lock_shared(self._boot)

    def is_announced(self, client: str) -> bool:
        """Return whether the client is announced as alive; always true for an empty id."""
        return not client or client in self._own

    def announce(self, client: str) -> None:
        """Show others that the client is alive, until `leave` or until the process dies."""
        if self.is_announced(client):
            return
        self._sweep()
        self._lock_file_of(client)

    def _lock_file_of(self, client: str) -> None:
        path, before = self._path(client), self._own.get(client)
        while self._own.get(client) is before:
            own = Descriptor(path, create=True)
            try:
                here.lock_exclusive(own)
                if _is_same_file(own, path):
                    self._own[client] = own
                    _clients_of_process[client] = os.getpid()
            finally:
                if self._own.get(client) is not own:
                    # Another client's cleanup took the file, not locked yet, for a dead client's
                    # file, and we try again; or an interrupt struck, and the next attempt must not
                    # wait for this lock.
                    own.close()

    def announce_again(self) -> None:
        """Announce our clients again if their files were removed.

        The new files are locked before the old files are closed, so this process never sees its own
        clients as gone.
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
        """Return whether the client's process is dead; always false for an empty client id."""
        if not client or client in self._own or _clients_of_process.get(client) == os.getpid():
            return False
        try:
            # Build the path as text, because every claim that joins a line makes this check, and
            # building a Path would take longer than the rest of the check.
            with Descriptor(f"{self._directory}/{client}{_SUFFIX}", create=False) as other:
                return here.try_lock_shared(other)
        except FileNotFoundError:
            # The client left, or its file was removed after its process died. Its entries in the
            # database belong to nobody.
            return True
        except OSError:
            return False  # unknown, because no descriptor is left

    def leave(self) -> None:
        """Remove our own files, and release the locks."""
        paths = [self._path(client) for client in list(self._own)]
        if here.CAN_REMOVE_OPEN_FILES:
            _remove(paths)
            self.close_files()
        else:
            self.close_files()
            _remove(paths)  # a file that another client has open is removed later

    def close_files(self) -> None:
        """Close the descriptors; in a forked child, the parent keeps its locks."""
        while self._own:
            client, own = self._own.popitem()
            _clients_of_process.pop(client, None)
            own.close()
        boot, self._boot = self._boot, None
        if boot is not None:
            boot.close()

    def _path(self, client: str) -> Path:
        return self._directory / f"{client}{_SUFFIX}"

    def _sweep(self) -> None:
        for path in self._directory.glob(f"*{_SUFFIX}"):
            # On systems where an open file cannot be removed, any program, such as a scanner, may
            # have the file open.
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
