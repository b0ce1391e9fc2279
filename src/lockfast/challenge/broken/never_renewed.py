"""Broken: the work may take longer than the lock lasts, and nobody tells the worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.exceptions import LockError

from lockfast.challenge.broken.polling import PAUSE, Polling
from lockfast.challenge.contender import Refused

if TYPE_CHECKING:
    from lockfast.challenge.contender import Held


class NeverRenewed(Polling):
    """The lock that comes with redis-py, with a timeout that seemed long enough."""

    def acquire(self, name: str, *, timeout: float) -> Held:
        """See the protocol."""
        lock = self.redis.lock(name, timeout=self.ttl, sleep=PAUSE[1])
        if not lock.acquire(blocking_timeout=timeout):
            raise Refused(f"{name} was held for all of {timeout:g} s")
        return UnwatchedLease(lock)


class UnwatchedLease:
    """What was acquired, and is thought to be held until it is released."""

    token = None

    def __init__(self, lock: Any) -> None:  # noqa: ANN401 - as redis-py types it
        self.lock = lock

    def check(self) -> None:
        """See the protocol."""

    def release(self) -> None:
        """See the protocol."""
        try:
            self.lock.release()
        except LockError as error:
            raise Refused(str(error)) from error
