"""A holder that stops right after a successful check of its lock.

late_writer.py ADDRESS STORE NAME RESOURCE WHERE
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from fencing.resources import KINDS
from puppets import serve

from lockfast import LeaseLost, Locks

TTL = 2.0


class StopsAfterTheCheck:
    """A lease whose process stops right after the first successful check."""

    def __init__(self, lease: Any) -> None:
        self._lease = lease
        self.has_stopped = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lease, name)

    def check(self) -> None:
        if self.has_stopped:
            return
        self._lease.check()
        self.has_stopped = True
        os.kill(os.getpid(), signal.SIGSTOP)


class LateWriter:
    def __init__(self, store: str, name: str, resource: str, where: str) -> None:
        self._lock = Locks(store, ttl=TTL, request_timeout=30).lock(name)
        self._resource = KINDS[resource](where)

    def write(self, words: str) -> tuple[bool, Exception | None]:
        """Write both ways under one lease; return whether the lease is over, and any refusal."""
        lease = self._stopped_lease()
        self._resource.plain(lease, words)
        try:
            self._resource.fenced(lease, words)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            return not lease.is_trusted, error
        return not lease.is_trusted, None

    def _stopped_lease(self) -> StopsAfterTheCheck:
        """Return a lease for both writes, which was still valid when this process was stopped."""
        while True:
            lease = StopsAfterTheCheck(self._lock.acquire(timeout=60))
            try:
                lease.check()
            except LeaseLost:
                continue  # a busy machine stalled for longer than the ttl
            return lease


if __name__ == "__main__":
    address, *rest = sys.argv[1:]
    serve(LateWriter(*rest), address)
