"""Which claims want to know of a node: one watcher per node, however many ask.

kazoo forgets a watcher only when it has spoken. One for each waiter that came and went would
pile up at a lock that is held for days.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Watches:
    """The watchers of one session; its own lock, since kazoo's thread comes in."""

    def __init__(self, heard: Callable[[str, str], None]) -> None:
        """`heard` gets the claim and the path whenever something happened to that node."""
        self._heard = heard
        self._lock = threading.Lock()
        self._watches: dict[str, Watch] = {}
        self._watched: dict[str, set[str]] = {}

    def on(self, path: str, claim_id: str) -> Watch:
        """Return the watcher of a node, which will tell of this claim too."""
        with self._lock:
            watch = self._watches.get(path)
            if watch is None:
                watch = self._watches[path] = Watch(self, path)
            watch.claims.add(claim_id)
            self._watched.setdefault(claim_id, set()).add(path)
            return watch

    def forget(self, claim_id: str) -> None:
        """Tell this claim of nothing any more."""
        if claim_id not in self._watched:
            return
        with self._lock:
            for path in self._watched.pop(claim_id, ()):
                watch = self._watches.get(path)
                if watch is not None:
                    watch.claims.discard(claim_id)

    def drop(self, path: str) -> None:
        """Forget a node that was not there to be watched."""
        with self._lock:
            watch = self._watches.pop(path, None)
            for claim_id in watch.claims if watch is not None else ():
                self._watched.get(claim_id, set()).discard(path)

    def fire(self, watch: Watch) -> None:
        """Tell all claims of it, once; the node has to be watched anew."""
        with self._lock:
            if self._watches.get(watch.path) is watch:
                del self._watches[watch.path]
            claims, watch.claims = watch.claims, set()
            for claim_id in claims:
                self._watched.get(claim_id, set()).discard(watch.path)
        for claim_id in claims:
            self._heard(claim_id, watch.path)


class Watch:
    """What kazoo calls when something happened to a node, or to the connection."""

    __slots__ = ("_watches", "claims", "path")

    def __init__(self, watches: Watches, path: str) -> None:
        self._watches = watches
        self.path = path
        self.claims: set[str] = set()

    def __call__(self, _event: object) -> None:
        """Be called on kazoo's thread."""
        self._watches.fire(self)
