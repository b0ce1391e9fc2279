"""Which claims want to know of a key: one watch per key, however many ask.

A store's client forgets a watch only when it has spoken. One for each waiter that came and went
would pile up at a lock that is held for days.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Watches:
    """The watches of one session; its own lock, since the store's news may come by any thread."""

    def __init__(self, heard: Callable[[str, str], None]) -> None:
        """`heard` gets the claim and the key whenever something happened there."""
        self._heard = heard
        self._lock = threading.Lock()
        self._watches: dict[str, Watch] = {}
        self._watched: dict[str, set[str]] = {}

    def on(self, key: str, claim_id: str) -> Watch:
        """Return the watch of a key, which will tell of this claim too."""
        with self._lock:
            watch = self._watches.get(key)
            if watch is None:
                watch = self._watches[key] = Watch(self, key)
            watch.claims.add(claim_id)
            self._watched.setdefault(claim_id, set()).add(key)
            return watch

    def forget(self, claim_id: str) -> None:
        """Tell this claim of nothing any more."""
        if claim_id not in self._watched:
            return
        with self._lock:
            for key in self._watched.pop(claim_id, ()):
                watch = self._watches.get(key)
                if watch is not None:
                    watch.claims.discard(claim_id)

    def drop(self, key: str) -> None:
        """Forget a key at which there was nothing to be watched."""
        with self._lock:
            watch = self._watches.pop(key, None)
            for claim_id in watch.claims if watch is not None else ():
                self._watched.get(claim_id, set()).discard(key)

    def fire(self, watch: Watch) -> None:
        """Tell all claims of it, once; the key has to be watched anew."""
        with self._lock:
            if self._watches.get(watch.key) is watch:
                del self._watches[watch.key]
            claims, watch.claims = watch.claims, set()
            for claim_id in claims:
                self._watched.get(claim_id, set()).discard(watch.key)
        for claim_id in claims:
            self._heard(claim_id, watch.key)


class Watch:
    """What is called when something happened at a key, or to the connection."""

    __slots__ = ("_watches", "claims", "key")

    def __init__(self, watches: Watches, key: str) -> None:
        self._watches = watches
        self.key: str = key
        self.claims: set[str] = set()

    def __call__(self, _event: object = None) -> None:
        """Be called by the wire, on any thread."""
        self._watches.fire(self)
