"""The way to whichever server is the master; `sentinel/` says the rules, and decides."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from lockfast._async.single_flight import AsyncSingleFlight
from lockfast.backends.redis.connection.aio import (
    Link,
    Wire,
    client_of_sentinel,
    let_go_in_child,
)
from lockfast.backends.redis.routing import Endpoint, attempt_until, is_passing
from lockfast.backends.redis.sentinel.answers import (
    AFTER_SILENCE,
    LOOK_EVERY,
    LOOK_PATIENCE,
    Answer,
    is_master,
    leads_failover,
    named,
    newest,
    no_master,
    not_master,
    promoted,
)
from lockfast.core.backoff import delay
from lockfast.errors import BackendUnavailable
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockfast.backends.redis.addresses import Address
    from lockfast.backends.redis.resp import Reply
    from lockfast.runtime.clock import Clock


class AsyncSentinelWire(Wire):
    """The way to whichever server is the master."""

    def __init__(
        self, address: Address, *, kind: type, options: dict[str, Any], clock: Clock
    ) -> None:
        super().__init__(kind=kind, options=options, clock=clock, where=address.where)
        self._address = address
        self._sentinels = list(address.endpoints)
        self._master: Endpoint | None = None
        self._epoch = 0
        self._look_at = 0.0
        self._silent: dict[Endpoint, float] = {}
        self._watchers: dict[Endpoint, Any] = {}
        self._looking = AsyncSingleFlight[None](clock)

    async def ask(self, request: bytes, *, deadline: float, ahead: bytes = b"") -> Reply:
        """Return the reply to one command; see Wire."""
        await self._look(deadline)
        attempt = 0
        while True:
            reply = await super().ask(request, deadline=deadline, ahead=ahead)
            if not is_passing(reply):
                return reply
            if not await self._may_retry(attempt, deadline):
                if reply.code == "READONLY":
                    raise not_master(self.where)
                return reply
            attempt += 1

    async def ask_all(self, requests: Sequence[bytes], *, deadline: float) -> list[Reply]:
        """Return the replies to several commands; see Wire."""
        await self._look(deadline)
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
        self._leave_master()
        return await self._pause(attempt, deadline)

    def _leave_master(self) -> None:
        self._master = None
        self.leave()

    async def _pause(self, attempt: int, deadline: float) -> bool:
        pause = delay(attempt, jitter=self._clock.jitter())
        if self._clock.now() + pause >= deadline:
            return False
        await runtime.sleep(pause)
        return True

    # -- connecting --------------------------------------------------------------------

    async def _connect(self, deadline: float) -> Link:
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
        endpoint = await self._find(until)
        before, self._master = self._master, endpoint
        if before not in (None, endpoint):
            self.leave()  # some may still be connected to the one before
        return await self._dial({"host": endpoint.host, "port": endpoint.port}, until)

    def _greeted(self, answer: object) -> None:
        if not is_master(answer):
            raise not_master(self.where)

    async def _find(self, until: float) -> Endpoint:
        """Return the master's address, from the first Sentinel that is not behind what we know."""
        sentinels = self._sentinels
        each = max(0.05, (until - self._clock.now()) / (len(sentinels) + 1))
        answers: list[Answer] = []
        for sentinel in sentinels:
            answers.append(await self._masters_known_to(sentinel, each))
            found = named(answers[-1], self._address.service)
            if found is not None and found.epoch >= self._epoch:
                self._prefer(sentinel)
                break
        else:
            # All are behind: Sentinels that were set up anew begin to count anew.
            found = newest(answers, self._address.service)
        if found is None:
            raise no_master(self._address, answers) from next(
                (one for one in answers if isinstance(one, BaseException)), None
            )
        self._epoch, endpoint = found
        self._look_at = self._clock.now() + LOOK_EVERY
        return self._address.remap(endpoint)

    def _prefer(self, sentinel: Endpoint) -> None:
        # Another list: somebody may be going through this one.
        self._sentinels = sorted(self._address.endpoints, key=lambda one: one != sentinel)

    async def _masters_known_to(self, sentinel: Endpoint, patience: float) -> Answer:
        try:
            client = self._client_of(sentinel, patience)
        except OSError as error:
            return error  # it reads its own version from a file: nothing more may be opened
        try:
            return await _masters(client, self._address.service)
        finally:
            await client.connection_pool.disconnect()

    def _client_of(self, sentinel: Endpoint, patience: float) -> Any:  # noqa: ANN401 - the driver's
        return client_of_sentinel(
            clock=self._clock,
            host=sentinel.host,
            port=sentinel.port,
            **{
                **self._address.sentinel_options,
                "socket_timeout": patience,
                "socket_connect_timeout": patience,
            },
        )

    # -- doubting ----------------------------------------------------------------------

    async def _look(self, deadline: float) -> None:
        """Leave a master that was replaced, though it may still answer as if it were one.

        Nothing is sent before, if the last word of a Sentinel is older than it may be: a
        master that is cut off from its Sentinels learns of the other one last.
        """
        now = self._clock.now()
        is_fresh = now < self._look_at or self._master is None or not self._may_reuse()
        if is_fresh or now >= deadline:
            return
        # All who ask meanwhile wait for the same answer; none of them can cancel it. Without
        # one, the requests go where they would have gone.
        until = min(deadline, now + LOOK_PATIENCE)
        await self._looking.fly(self._look_again, deadline=until)

    async def _look_again(self) -> None:
        # All of them: the failover is news to those who took no part in it, for some seconds.
        now = self._clock.now()
        asked = [one for one in self._address.endpoints if self._silent.get(one, 0.0) <= now]
        said = await runtime.gather([partial(self._said_by, one) for one in asked])
        answers = dict(zip(asked, said, strict=True))
        now = self._clock.now()
        for sentinel, answer in answers.items():
            if isinstance(answer, BaseException):
                self._silent[sentinel] = now + AFTER_SILENCE
        self._look_at = now + LOOK_EVERY
        found = newest(answers.values(), self._address.service)
        if found is not None and found.epoch > self._epoch:
            self._epoch = found.epoch
            if self._address.remap(found.endpoint) != self._master:
                self._leave_master()

    async def _said_by(self, sentinel: Endpoint) -> Answer:
        try:
            watcher = self._watchers.get(sentinel)
            if watcher is None:
                # Kept: connecting costs more than asking, with TLS a hundred times.
                watcher = self._watchers[sentinel] = self._client_of(sentinel, LOOK_PATIENCE)
            return await _masters(watcher, self._address.service)
        except Exception as error:  # noqa: BLE001 - it is the answer
            # Whatever it is, the request that made us look must not fail by it.
            return error

    async def views(self, *, deadline: float) -> dict[Endpoint, Answer]:
        """Return what each Sentinel says, for a diagnosis."""
        patience = max(0.05, (deadline - self._clock.now()) / 2)
        sentinels = self._address.endpoints
        found = await runtime.gather(
            [partial(self._masters_known_to, one, patience) for one in sentinels]
        )
        return dict(zip(sentinels, found, strict=True))

    @property
    def service(self) -> str:
        """What the Sentinels call the master."""
        return self._address.service

    # -- closing -----------------------------------------------------------------------

    async def close(self) -> None:
        """Close the connections."""
        watchers, self._watchers = self._watchers, {}
        await runtime.each_in_turn(
            self._looking.end,
            *(one.connection_pool.disconnect for one in watchers.values()),
            super().close,
        )

    def after_fork_in_child(self) -> None:
        """Leave the parent's connection alone."""
        super().after_fork_in_child()
        self._looking.after_fork_in_child()
        let_go_in_child(self._watchers)
        self._watchers = {}


_NONSENSE = AttributeError, LookupError, TypeError, ValueError, RecursionError


async def _masters(client: Any, service: str) -> Answer:  # noqa: ANN401 - the driver's
    try:
        known: Mapping[str, Any] = await client.sentinel_masters()
        if leads_failover(known, service):
            asked = "SENTINEL GET-MASTER-ADDR-BY-NAME", service
            return promoted(known, service, await client.execute_command(*asked))
    except (RedisError, OSError, *_NONSENSE) as error:
        # The second: as above. The others are what the driver makes of bytes that are not the
        # protocol's.
        return error
    else:
        return known
