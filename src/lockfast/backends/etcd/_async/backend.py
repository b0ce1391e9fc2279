"""Locks in etcd: what it is able to, how it is found, and its wire."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lockfast.backends.etcd import addresses
from lockfast.backends.etcd._async.wire import AsyncEtcdWire
from lockfast.backends.etcd.orphans import Orphans
from lockfast.backends.sessions._async.backend import AsyncSessionsBackend
from lockfast.backends.sessions._async.inspecting import AsyncInspecting
from lockfast.backends.sessions._async.session import AsyncSession
from lockfast.core.naming import checked_namespace
from lockfast.errors import LeaseLost
from lockfast.model import Capabilities, RevisionGuard, TokenQuality
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.model import Grant
    from lockfast.runtime.clock import Clock


class AsyncEtcdBackend(AsyncSessionsBackend):
    """Locks in an etcd cluster: one session for all claims of a client."""

    capabilities = Capabilities(
        fair=True,
        shared=True,
        push_wakeup=True,
        explicit_owner=False,
        lock_delay=True,
        token_quality=TokenQuality.CONSENSUS,
        ends_by="session",
        sequencers=True,
        proves_at_once=True,
    )
    min_ttl = 1.0
    options = addresses.OPTIONS

    def __init__(
        self,
        *,
        url: str,
        location: str,
        clock: Clock,
        namespace: str = "lockfast",
        **options: object,
    ) -> None:
        checked_namespace(namespace)
        self._address = addresses.of_url(url, where=location, namespace=namespace, options=options)
        self._orphans = Orphans()
        self._preference = addresses.Preference()
        self._set_up(location=self._address.where, clock=clock)

    def guard(self, grant: Grant) -> RevisionGuard:
        """See the protocol: the claim goes before anybody else can hold, and with the lease."""
        claim, carrier = grant.claim, self._carriers.get(grant.claim.id)
        one = None if carrier is None else carrier.session.carried.get(claim.id)
        if one is None or one.key is None:
            raise LeaseLost(name=claim.name, token=grant.token, reason="session_ended")
        return RevisionGuard(one.key.encode(), one.token)

    def _begin(self) -> None:
        super()._begin()
        self._visitor: AsyncInspecting | None = None
        self._unclosed: set[AsyncSession] = set()

    async def _onlooker(self, deadline: float) -> AsyncInspecting:
        """Return the session where there is one, else one that is never opened.

        To open one takes the right to write, and space. Who only looks has perhaps neither, and an
        operator has to see and to break locks on a server that is full.
        """
        del deadline
        reading = self._reading
        if reading is not None and reading.session.is_usable(self._clock.now()):
            return reading
        with self._state:
            if self._visitor is None:
                session = AsyncSession(
                    self._new_wire, ttl=self._ttl, clock=self._clock, alarm=self._raise_alarm
                )
                self._visitor = AsyncInspecting(session, self._clock)
            return self._visitor

    async def _leave(self, *, goodbye: bool) -> None:
        with self._state:
            visitor, self._visitor = self._visitor, None
            self._unclosed.update(
                one.session for one in (self._reading, visitor) if one is not None
            )
        try:
            await super()._leave(goodbye=goodbye)
        finally:
            # Known until it is done: what an interrupt kept from being closed is closed by the
            # next call. To close one again does no more.
            await runtime.each_in_turn(
                *(partial(self._close_for_good, session) for session in list(self._unclosed))
            )

    async def _close_for_good(self, session: AsyncSession) -> None:
        await session.close(goodbye=False)
        self._unclosed.discard(session)

    def after_fork_in_child(self) -> None:
        """Let the child begin with nothing of the parent's."""
        if self._visitor is not None:
            self._visitor.session.leak()
        super().after_fork_in_child()

    def _new_wire(self, ttl: float, changed: Callable[[], None]) -> AsyncEtcdWire:
        return AsyncEtcdWire(
            self._address,
            self._orphans,
            ttl=ttl,
            clock=self._clock,
            changed=changed,
            preference=self._preference,
        )
