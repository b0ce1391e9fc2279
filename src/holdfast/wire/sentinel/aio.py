"""The way to a master that Sentinels watch, asyncio flavour; `threads` is its pair."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from holdfast.core.backoff import delay
from holdfast.errors import BackendUnavailable
from holdfast.wire.aio import Link, Wire
from holdfast.wire.sentinel.answers import is_master, no_master, not_master
from holdfast.wire.topology import Address, attempt_until, is_passing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.runtime.clock import Clock
    from holdfast.wire.places import Place
    from holdfast.wire.resp import Reply


class SentinelWire(Wire):
    """The way to whichever server is the master."""

    def __init__(self, place: Place, *, kind: type, options: dict[str, Any], clock: Clock) -> None:
        super().__init__(kind=kind, options=options, clock=clock, where=place.where)
        self._place = place
        self._sentinels = list(place.addresses)

    async def ask(self, request: bytes, *, deadline: float) -> Reply:
        """Return the reply to one command; see Wire."""
        attempt = 0
        while True:
            reply = await super().ask(request, deadline=deadline)
            if not is_passing(reply):
                return reply
            if not await self._may_retry(attempt, deadline):
                if reply.code == "READONLY":
                    raise not_master(self.where)
                return reply
            attempt += 1

    async def ask_all(self, requests: Sequence[bytes], *, deadline: float) -> list[Reply]:
        """Return the replies to several commands; see Wire."""
        attempt = 0
        replies = await super().ask_all(requests, deadline=deadline)
        while refused := [i for i, reply in enumerate(replies) if is_passing(reply)]:
            if not await self._may_retry(attempt, deadline):
                break
            attempt += 1
            again = await super().ask_all([requests[i] for i in refused], deadline=deadline)
            for i, reply in zip(refused, again, strict=True):
                replies[i] = reply
        return replies

    async def _may_retry(self, attempt: int, deadline: float) -> bool:
        """Leave a server that is no master (any more), and pause; false if time is up."""
        link, self._link = self._link, None
        if link is not None:
            link.close()
        return await self._pause(attempt, deadline)

    async def _pause(self, attempt: int, deadline: float) -> bool:
        pause = delay(attempt, jitter=self._clock.jitter())
        if self._clock.now() + pause >= deadline:
            return False
        await asyncio.sleep(pause)
        return True

    # -- connecting --------------------------------------------------------------------

    async def _connect(self, left: float) -> Link:
        deadline = self._clock.now() + left
        attempt = 0
        while True:
            until = attempt_until(now=self._clock.now(), deadline=deadline)
            try:
                return await self._connect_to_master(until)
            except BackendUnavailable:
                if not await self._pause(attempt, deadline):
                    raise
            attempt += 1

    async def _connect_to_master(self, until: float) -> Link:
        host, port = await self._find(until)
        left = max(0.001, until - self._clock.now())
        return await self._dial({"host": host, "port": port}, left)

    def _greeted(self, answer: object) -> None:
        if not is_master(answer):
            raise not_master(self.where)

    async def _find(self, until: float) -> Address:
        """Return the master's address, from the first Sentinel that names one."""
        each = max(0.05, (until - self._clock.now()) / (len(self._sentinels) + 1))
        sentinel: Any = Sentinel(  # type: ignore[no-untyped-call]
            self._sentinels,
            sentinel_kwargs={
                **self._place.sentinel_options,
                "socket_timeout": each,
                "socket_connect_timeout": each,
                "retry": Retry(NoBackoff(), 0),
                "protocol": 2,
            },
        )
        try:
            host, port = await sentinel.discover_master(self._place.service)
        except RedisError as error:
            answers = await asyncio.gather(
                *(one.sentinel_masters() for one in sentinel.sentinels), return_exceptions=True
            )
            raise no_master(self._place, answers) from error
        else:
            # The one that answered is asked first the next time.
            first = sentinel.sentinels[0].connection_pool.connection_kwargs
            self._sentinels.sort(key=lambda one: one != (first["host"], first["port"]))
            return self._place.remap(Address(host, int(port)))
        finally:
            for one in sentinel.sentinels:
                await one.connection_pool.disconnect()
