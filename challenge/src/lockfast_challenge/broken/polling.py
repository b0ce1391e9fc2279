"""The parts that the broken locks share and do correctly: polling, and a lease that ends.

Each broken lock differs from the `SingleServer` lock only by its flaw. A lease ends by the local
clock, a little before it ends at the server, and only its owner deletes it. Where a lock does
not do this, that is its flaw.
"""

from __future__ import annotations

import random
import time
import uuid
from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from lockfast_challenge.contender import NotGranted

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from lockfast_challenge.contender import HeldLock

PAUSE_RANGE_SECONDS = (0.005, 0.025)
"""Shortest and longest pause before the next attempt, in seconds."""

MARGIN_FRACTION = 0.01
"""How much earlier a lease ends here than at the server, as a fraction of the ttl, because clocks
count in milliseconds."""

DELETE_IF_MINE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


def connect(address: str, *, patience: float) -> Any:  # noqa: ANN401 - it says: or an awaitable
    """Return a redis-py client that never retries; without a reply, the outcome is unknown."""
    return redis.Redis.from_url(
        f"redis://{address}",
        socket_timeout=patience,
        socket_connect_timeout=patience,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        decode_responses=True,
    )


def milliseconds(seconds: float) -> int:
    """Return the time as whole milliseconds, as Redis counts it."""
    return round(seconds * 1000)


def unique_value() -> str:
    """Return a value that nobody else will store."""
    return uuid.uuid4().hex


class PolledLease:
    """A lease acquired with one request, which was sent at the local time `sent`."""

    token: int | None = None

    def __init__(self, lock: Polling, name: str, value: str, *, sent: float) -> None:
        self.lock = lock
        self.redis: Any = lock.redis
        self.name = name
        self.value = value
        self.trusted_until: float = sent + lock.ttl * (1 - MARGIN_FRACTION)

    def check(self) -> None:
        if time.monotonic() >= self.trusted_until:
            raise NotGranted(f"the lease of {self.name} is over")

    def release(self) -> None:
        if not self.redis.eval(DELETE_IF_MINE, 1, self.name, self.value):
            raise NotGranted(f"{self.name} was no longer ours")


class Polling:
    """A contender that retries until it gets the lock or its timeout passes."""

    patience: float = 5.0
    """Timeout for connecting to a server, and for its reply, in seconds."""

    def __init__(self, url: str, *, ttl: float, clock_ahead: float = 0.0) -> None:
        addresses = url.partition("://")[2].split(",")
        self.servers: list[Any] = [connect(one, patience=self.patience) for one in addresses]
        self.redis: Any = self.servers[0]
        self.ttl = ttl
        self.clock_ahead = clock_ahead

    def try_acquire(self, name: str) -> HeldLock | None:
        """Try once; return None if another client holds the lock."""
        raise NotImplementedError

    def acquire(self, name: str, *, timeout: float) -> HeldLock:
        ends = time.monotonic() + timeout
        while (held := self.try_acquire(name)) is None:
            if time.monotonic() >= ends:
                raise NotGranted(f"{name} was held for all of {timeout:g} s")
            time.sleep(random.uniform(*PAUSE_RANGE_SECONDS))  # noqa: S311 - nothing to guess
        return held

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for one in self.servers:
            one.close()
