"""A file of our own: there is no server, so only clients can be struck."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from lockfast.challenge.servers.leaving_nothing import run_directory
from lockfast.challenge.servers.starting import Started

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from lockfast.challenge.fault import Fault
    from lockfast.challenge.servers.proxy import Proxy


class Sqlite(Started):
    """`sqlite://`, in a directory that is gone with the block."""

    store = "sqlite"

    def __init__(self, *, ttl: float) -> None:
        del ttl
        self._directory = run_directory("lockfast-challenge-")
        self.url: str = f"sqlite://{self._directory / 'locks.db'}"

    def start(self) -> Self:
        """There is nothing to start."""
        return self

    def stop(self) -> None:
        """Delete the file."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def url_for(self, client: int) -> str:
        """See the protocol."""
        del client
        return self.url

    def ways(self, client: int) -> Sequence[Proxy]:
        """See the protocol."""
        del client
        return ()

    def faults(self) -> Sequence[Fault]:
        """See the protocol."""
        return ()

    def forgives(self, kind: str) -> str:
        """See the protocol."""
        del kind
        return ""
