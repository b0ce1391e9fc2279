# Generated from src/lockfast/backends/redis/_async/sentinel.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The transport to the current master; `sentinel_replies` decides which server that is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lockfast.backends._sync.single_flight import SingleFlight
from lockfast.backends.network.codec import read
from lockfast.backends.redis import errors
from lockfast.backends.redis.connection_threads import RedisConnection, RedisTransport
from lockfast.backends.redis.handshake import sentinel_handshake
from lockfast.backends.redis.resp import ErrorReply
from lockfast.backends.redis.routing import attempt_until, is_transient
from lockfast.backends.redis.sentinel_replies import (
    MASTERS,
    SENTINEL_POLL_SECONDS,
    SENTINEL_RETRY_SECONDS,
    SENTINEL_TIMEOUT_SECONDS,
    Named,
    SentinelReply,
    address_request,
    endpoint_in,
    is_master,
    leads_failover,
    masters_in,
    named,
    newest,
    no_master,
    not_master,
    promoted,
)
from lockfast.core.backoff import delay
from lockfast.errors import BackendUnavailable, LockError
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.network.target import Handshake
    from lockfast.backends.redis.address import Address
    from lockfast.backends.redis.resp import Reply
    from lockfast.core.descriptor import Endpoint
    from lockfast.runtime.clock import Clock

T = TypeVar("T")


class SentinelTransport(RedisTransport):
    """The transport to the server that is currently the master."""

    def __init__(self, address: Address, *, clock: Clock) -> None:
        super().__init__(address.server, clock=clock)
        self._address = address
        self._sentinels = list(address.endpoints)
        self._queries = {one: SentinelQuery(address, one, clock) for one in self._sentinels}
        self._state = runtime.StateLock()
        self._master: Endpoint | None = None
        self._epoch = 0
        self._poll_at = 0.0
        self._silent: dict[Endpoint, float] = {}
        self._polling = SingleFlight[None](clock)

    def ask(self, request: bytes, *, deadline: float) -> Reply:
        """Return the reply to one command; transient refusals are retried until the deadline."""
        self._check_master(deadline)
        attempt = 0
        while True:
            reply = super().ask(request, deadline=deadline)
            if not is_transient(reply):
                return reply
            if not self._may_retry(attempt, deadline):
                if reply.code == "READONLY":
                    raise not_master(self.where)
                return reply
            attempt += 1

    def send_all(self, requests: Sequence[bytes], *, deadline: float) -> list[Reply]:
        """Return the replies to several commands; transient refusals are retried as in `ask`."""
        self._check_master(deadline)
        attempt = 0
        replies = super().send_all(requests, deadline=deadline)
        while refused := [i for i, reply in enumerate(replies) if is_transient(reply)]:
            if not self._may_retry(attempt, deadline):
                break
            attempt += 1
            again = super().send_all([requests[i] for i in refused], deadline=deadline)
            for i, reply in zip(refused, again, strict=True):
                replies[i] = reply
        return replies

    def _may_retry(self, attempt: int, deadline: float) -> bool:
        """Leave the server, which may have been replaced, and pause; return false if time is up."""
        self._leave_master()
        return self._pause(attempt, deadline)

    def _leave_master(self) -> None:
        self._master = None
        self.leave()

    def _pause(self, attempt: int, deadline: float) -> bool:
        pause = delay(attempt, jitter=self._clock.jitter())
        if self._clock.now() + pause >= deadline:
            return False
        runtime.sleep(pause)
        return True

    # -- connecting --------------------------------------------------------------------

    def connect(self, *, deadline: float) -> RedisConnection:
        """Return a new connection to the master, which the caller has to close."""
        attempt = 0
        while True:
            until = attempt_until(now=self._clock.now(), deadline=deadline)
            try:
                return self._connect_to_master(until)
            except BackendUnavailable:
                if not self._pause(attempt, deadline):
                    raise
            attempt += 1

    def _connect_to_master(self, until: float) -> RedisConnection:
        endpoint = self._find(until)
        connection = self._connect_to(self._server.at(endpoint).target, until)
        if self._master != endpoint:
            connection.close()  # another caller has learned of a failover meanwhile
            raise not_master(self.where)
        return connection

    def _check_greeting(self, greeting: dict[Any, Any]) -> None:
        if not is_master(greeting):
            raise not_master(self.where)

    def _find(self, until: float) -> Endpoint:
        """Return the master's address, from the first Sentinel that is not behind our epoch."""
        sentinels, epoch = self._sentinels, self._epoch
        each = max(0.05, (until - self._clock.now()) / (len(sentinels) + 1))
        answers: list[SentinelReply] = []
        for sentinel in sentinels:
            answers.append(self._masters_known_to(sentinel, each))
            found = named(answers[-1], self._address.service)
            if found is not None and self._accepts(found):
                self._prefer(sentinel)
                break
        else:
            # All Sentinels are behind our epoch. They were set up again and count from the
            # beginning, so take the newest of their answers.
            found = newest(answers, self._address.service)
            if found is not None and not self._accepts(found, replacing=epoch):
                raise not_master(self.where)
        if found is None:
            raise no_master(self._address, answers) from next(
                (one for one in answers if isinstance(one, LockError)), None
            )
        self._poll_at = self._clock.now() + SENTINEL_POLL_SECONDS
        return self._address.remap(found.endpoint)

    def _accepts(self, found: Named, *, replacing: int | None = None) -> bool:
        """Use this master from now on, unless a later one is known by now.

        A master of an earlier epoch is accepted only if the known epoch is still `replacing`.
        """
        endpoint = self._address.remap(found.endpoint)
        with self._state:  # a thread with an older answer must not undo what another one learned
            if found.epoch < self._epoch and self._epoch != replacing:
                return False
            before, self._master, self._epoch = self._master, endpoint, found.epoch
        if before not in (None, endpoint):
            self.leave()  # some connections may still go to the previous master
        return True

    def _prefer(self, sentinel: Endpoint) -> None:
        # Make a new list, because another caller may be iterating over this one.
        self._sentinels = sorted(self._address.endpoints, key=lambda one: one != sentinel)

    def _masters_known_to(self, sentinel: Endpoint, patience: float) -> SentinelReply:
        # The connections to the Sentinels stay open, because connecting costs more than a request,
        # with TLS a hundred times more.
        return self._queries[sentinel].masters(deadline=self._clock.now() + patience)

    # -- checking the master -----------------------------------------------------------

    def _check_master(self, deadline: float) -> None:
        """Leave a replaced master, which may still answer as if it were the master.

        A master that is cut off from its Sentinels is the last to learn of its successor. So if the
        Sentinels' last answer is too old, ask them before the next request is sent.
        """
        now = self._clock.now()
        is_fresh = now < self._poll_at or self._master is None or not self._may_reuse()
        if is_fresh or now >= deadline:
            return
        # Concurrent callers wait for the same answer, and none of them can cancel it. Without an
        # answer, requests go to the known master.
        until = min(deadline, now + SENTINEL_TIMEOUT_SECONDS)
        self._polling.run_shared(self._poll_sentinels, deadline=until)

    def _poll_sentinels(self) -> None:
        # Ask all Sentinels, because a Sentinel that took no part in a failover learns of the
        # failover seconds later.
        now = self._clock.now()
        asked = [one for one in self._address.endpoints if self._silent.get(one, 0.0) <= now]
        polled = runtime.gather(
            [partial(self._masters_known_to, one, SENTINEL_TIMEOUT_SECONDS) for one in asked]
        )
        answers = dict(zip(asked, polled, strict=True))
        now = self._clock.now()
        for sentinel, answer in answers.items():
            if isinstance(answer, LockError):
                self._silent[sentinel] = now + SENTINEL_RETRY_SECONDS
        self._poll_at = now + SENTINEL_POLL_SECONDS
        found = newest(answers.values(), self._address.service)
        if found is not None and found.epoch > self._epoch:
            self._epoch = found.epoch
            if self._address.remap(found.endpoint) != self._master:
                self._leave_master()

    def views(self, *, deadline: float) -> dict[Endpoint, SentinelReply]:
        """Return what each Sentinel reports, for diagnostics."""
        patience = max(0.05, (deadline - self._clock.now()) / 2)
        sentinels = self._address.endpoints
        found = runtime.gather(
            [partial(self._masters_known_to, one, patience) for one in sentinels]
        )
        return dict(zip(sentinels, found, strict=True))

    @property
    def service(self) -> str:
        """The Sentinels' name for the master."""
        return self._address.service

    # -- closing -----------------------------------------------------------------------

    def close(self) -> None:
        """Close the connections."""
        runtime.run_all_steps(
            self._polling.end, *(one.close for one in self._queries.values()), super().close
        )

    def after_fork_in_child(self) -> None:
        """Abandon the parent's connections."""
        super().after_fork_in_child()
        self._state = runtime.StateLock()
        self._polling.after_fork_in_child()
        for one in self._queries.values():
            one.after_fork_in_child()


class SentinelQuery(RedisTransport):
    """The transport to one Sentinel."""

    def __init__(self, address: Address, sentinel: Endpoint, clock: Clock) -> None:
        assert address.sentinel is not None  # noqa: S101 - the address is that of Sentinels
        self._address = address
        where = f"the Sentinel {sentinel} of {address.where}"
        super().__init__(address.sentinel.at(sentinel, where=where), clock=clock)

    def _handshake(self) -> Handshake:
        credentials, login = self._credentials(), self._server.login
        return sentinel_handshake(credentials, where=self.where, has_provider=login.has_provider)

    def masters(self, *, deadline: float) -> SentinelReply:
        """Return the masters that the Sentinel knows, or why it did not answer."""
        service = self._address.service
        try:
            known = self._reply(MASTERS, masters_in, deadline)
            if leads_failover(known, service):
                endpoint = self._reply(address_request(service), endpoint_in, deadline)
                return promoted(known, service, endpoint)
        except LockError as error:
            return error
        else:
            return known

    def _reply(self, request: bytes, reading: Callable[[Any], T], deadline: float) -> T:
        reply = self.ask(request, deadline=deadline)
        if isinstance(reply, ErrorReply):
            raise errors.of_sentinel(reply, where=self.where)
        return read(reading, reply, transport=self)
