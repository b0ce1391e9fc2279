"""The way to a master that Sentinels watch, sync flavour; `aio` is its pair."""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Any

from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from redis.sentinel import Sentinel

from holdfast.core.backoff import delay
from holdfast.errors import BackendUnavailable
from holdfast.wire.sentinel.answers import is_master, no_master, not_master
from holdfast.wire.threads import Ear, Link, Wire
from holdfast.wire.topology import Address, attempt_until, is_passing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.runtime.clock import Clock
    from holdfast.wire.places import Place
    from holdfast.wire.resp import Reply


class SentinelWire(Wire):
    """The way to whichever server is the master."""

    def __init__(self, place: Place, *, kind: type, options: dict[str, Any], clock: Clock) -> None:
        super().__init__(kind=kind, options=options, clock=clock, where=place.where)
        self._place = place
        self._sentinels = list(place.addresses)
        self._master: Address | None = None
        self._ears: weakref.WeakSet[Ear] = weakref.WeakSet()

    def ask(self, request: bytes, *, deadline: float) -> Reply:
        """Return the reply to one command; see Wire."""
        attempt = 0
        while True:
            reply = super().ask(request, deadline=deadline)
            if not is_passing(reply):
                return reply
            if not self._may_retry(attempt, deadline):
                if reply.code == "READONLY":
                    raise not_master(self.where)
                return reply
            attempt += 1

    def ask_all(self, requests: Sequence[bytes], *, deadline: float) -> list[Reply]:
        """Return the replies to several commands; see Wire."""
        attempt = 0
        replies = super().ask_all(requests, deadline=deadline)
        while refused := [i for i, reply in enumerate(replies) if is_passing(reply)]:
            if not self._may_retry(attempt, deadline):
                break
            attempt += 1
            again = super().ask_all([requests[i] for i in refused], deadline=deadline)
            for i, reply in zip(refused, again, strict=True):
                replies[i] = reply
        return replies

    def _may_retry(self, attempt: int, deadline: float) -> bool:
        """Leave a server that is no master (any more), and pause; false if time is up."""
        self._leave(None)
        return self._pause(attempt, deadline)

    def _leave(self, master: Address | None) -> None:
        """Let no connection to another server be used again, nor listened to."""
        self._master = master
        super().close()
        for ear in list(self._ears):
            ear.shut()

    def _pause(self, attempt: int, deadline: float) -> bool:
        pause = delay(attempt, jitter=self._clock.jitter())
        if self._clock.now() + pause >= deadline:
            return False
        time.sleep(pause)
        return True

    # -- listening ---------------------------------------------------------------------

    def subscribe(
        self,
        channel: bytes,
        hear: Callable[[bytes], None],
        *,
        deadline: float,
        kind: type[Ear] | None = None,
    ) -> Ear:
        """Return an ear on the channel, which hears as long as the master is the same."""
        ear = super().subscribe(channel, hear, deadline=deadline, kind=kind)
        self._ears.add(ear)
        if ear.generation != self._generation:
            ear.shut()  # the master changed before it was known here
        return ear

    # -- connecting --------------------------------------------------------------------

    def _connect(self, deadline: float) -> Link:
        attempt = 0
        while True:
            until = attempt_until(now=self._clock.now(), deadline=deadline)
            try:
                return self._connect_to_master(until)
            except BackendUnavailable:
                if not self._pause(attempt, deadline):
                    raise
            attempt += 1

    def _connect_to_master(self, until: float) -> Link:
        address = self._find(until)
        if self._master not in (None, address):
            self._leave(address)
        self._master = address
        return self._dial({"host": address.host, "port": address.port}, until)

    def _greeted(self, answer: object) -> None:
        if not is_master(answer):
            raise not_master(self.where)

    def _find(self, until: float) -> Address:
        """Return the master's address, from the first Sentinel that names one."""
        sentinels = list(self._sentinels)
        each = max(0.05, (until - self._clock.now()) / (len(sentinels) + 1))
        sentinel: Any = Sentinel(  # type: ignore[no-untyped-call]
            sentinels,
            sentinel_kwargs={
                **self._place.sentinel_options,
                "socket_timeout": each,
                "socket_connect_timeout": each,
                "retry": Retry(NoBackoff(), 0),
                "protocol": 2,
            },
        )
        try:
            host, port = sentinel.discover_master(self._place.service)
        except RedisError as error:
            answers = [_masters(one) for one in sentinel.sentinels]
            raise no_master(self._place, answers) from error
        else:
            # The one that answered is asked first the next time.
            first = sentinel.sentinels[0].connection_pool.connection_kwargs
            sentinels.sort(key=lambda one: one != (first["host"], first["port"]))
            self._sentinels = sentinels
            return self._place.remap(Address(host, int(port)))
        finally:
            for one in sentinel.sentinels:
                one.close()


def _masters(sentinel: Any) -> dict[str, Any] | RedisError:  # noqa: ANN401 - the driver's
    try:
        found: dict[str, Any] = sentinel.sentinel_masters()
    except RedisError as error:
        return error
    return found
