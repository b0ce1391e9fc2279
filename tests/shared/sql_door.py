"""A name of a SQL store, clients that want it, and a stranger who locks its row."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from both_flavours import Flavour
from fault_scene import WatchedName


@dataclass(frozen=True)
class Where:
    """A store that has a URL and nothing else."""

    url: str


class Door(WatchedName):
    """The name, and clients that want it."""

    def __init__(self, flavour: Flavour, url: str, name: str) -> None:
        super().__init__(flavour, Where(url), name)
        self.url = url

    def locks(self, **options: Any) -> Any:
        """Return a client."""
        return self._flavour.locks(self.url, **options)

    def wait_behind(self) -> Future[Any]:
        """Let another client wait for it."""
        return self._flavour.start(self.elsewhere().acquire, timeout=30)


class Stranger(Protocol):
    """Somebody else's transaction, which begins with its first lock."""

    def lock(self, name: str) -> None:
        """Lock the row of a name; waits if another has."""

    def is_waited_for(self) -> bool:
        """Whether somebody waits for what it has locked."""

    def end_who_waits(self) -> None:
        """Let the server end the sessions that wait so."""

    def let_go(self) -> None:
        """End the transaction."""
