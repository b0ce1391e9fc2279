"""What these locks share, and what is right with it: asking again, and a lease that ends.

Each of them differs from the lock in `single_server.py` by its flaw alone. So a lease ends by the
local clock, a little before it ends at the server, and only its owner deletes it. Where it is not
so, that is the flaw.
"""

from __future__ import annotations

import random
import time
import uuid
from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from lockfast.challenge.contender import Refused

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from lockfast.challenge.contender import Held

PAUSE = (0.005, 0.025)
"""How long one waits before one asks again."""

MARGIN = 0.01
"""By what part of the ttl a lease ends here before it ends there: clocks count in milliseconds."""

DELETE_IF_MINE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


def connect(address: str, *, patience: float) -> Any:  # noqa: ANN401 - it says: or an awaitable
    """Return a client of redis-py that asks once: what was done and not answered is unknown."""
    return redis.Redis.from_url(
        f"redis://{address}",
        socket_timeout=patience,
        socket_connect_timeout=patience,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        decode_responses=True,
    )


def milliseconds(seconds: float) -> int:
    """As Redis counts."""
    return round(seconds * 1000)


def a_value_of_its_own() -> str:
    """Return what nobody else will store."""
    return uuid.uuid4().hex


class Lease:
    """What was acquired by one request, which was sent at that time of the local clock."""

    token: int | None = None

    def __init__(self, lock: Polling, name: str, value: str, *, sent: float) -> None:
        self.lock = lock
        self.redis: Any = lock.redis
        self.name = name
        self.value = value
        self.trusted_until: float = sent + lock.ttl * (1 - MARGIN)

    def check(self) -> None:
        """See the protocol."""
        if time.monotonic() >= self.trusted_until:
            raise Refused(f"the lease of {self.name} is over")

    def release(self) -> None:
        """See the protocol."""
        if not self.redis.eval(DELETE_IF_MINE, 1, self.name, self.value):
            raise Refused(f"{self.name} was no longer ours")


class Polling:
    """A contender that asks again and again, until it is let in or its time is up."""

    patience: float = 5.0
    """How long a server is waited for."""

    def __init__(self, url: str, *, ttl: float, clock_ahead: float = 0.0) -> None:
        addresses = url.partition("://")[2].split(",")
        self.servers: list[Any] = [connect(one, patience=self.patience) for one in addresses]
        self.redis: Any = self.servers[0]
        self.ttl = ttl
        self.clock_ahead = clock_ahead

    def try_acquire(self, name: str) -> Held | None:
        """Ask once; None if somebody else holds it."""
        raise NotImplementedError

    def acquire(self, name: str, *, timeout: float) -> Held:
        """See the protocol."""
        ends = time.monotonic() + timeout
        while (held := self.try_acquire(name)) is None:
            if time.monotonic() >= ends:
                raise Refused(f"{name} was held for all of {timeout:g} s")
            time.sleep(random.uniform(*PAUSE))  # noqa: S311 - nothing to guess
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
