# Generated from src/lockfast/backends/etcd/_async/backend.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Locks in etcd: the backend's capabilities, its address, and its transport."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lockfast.backends.etcd import address
from lockfast.backends.etcd._sync.transport import EtcdTransport
from lockfast.backends.etcd.line import Orphans
from lockfast.backends.sessions._sync.backend import SessionsBackend
from lockfast.backends.sessions._sync.recipe import Inspector
from lockfast.backends.sessions._sync.session import Session
from lockfast.core.naming import checked_namespace
from lockfast.errors import LeaseLost
from lockfast.model import Capabilities, RevisionGuard, TokenQuality
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.model import Grant
    from lockfast.runtime.clock import Clock


class EtcdBackend(SessionsBackend):
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
    options = address.OPTIONS

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
        self._address = address.of_url(url, where=location, namespace=namespace, options=options)
        self._orphans = Orphans()
        self._preference = address.Preference()
        self._set_up(location=self._address.where, clock=clock)

    def guard(self, grant: Grant) -> RevisionGuard:
        """Return the claim's key, which is deleted before anybody else can hold the name.

        The key is also deleted when the session's lease ends.
        """
        claim, carrier = grant.claim, self._carriers.get(grant.claim.id)
        one = None if carrier is None else carrier.session.carried.get(claim.id)
        if one is None or one.key is None:
            raise LeaseLost(name=claim.name, token=grant.token, reason="session_ended")
        return RevisionGuard(one.key.encode(), one.token)

    def _begin(self) -> None:
        super()._begin()
        self._unopened: Inspector | None = None
        self._unclosed: set[Session] = set()

    def _inspector(self, deadline: float) -> Inspector:
        """Return the open session if there is one, otherwise a session that is never opened.

        Opening a session takes write permission and space on the server. A client that only
        inspects may lack the permission, and an operator has to be able to inspect and break locks
        on a server that is out of space.
        """
        del deadline
        reading = self._reading
        if reading is not None and reading.session.is_usable(self._clock.now()):
            return reading
        with self._state:
            if self._unopened is None:
                session = Session(
                    self._new_transport,
                    ttl=self._ttl,
                    clock=self._clock,
                    alarm=self._request_renewal,
                )
                self._unopened = Inspector(session, self._clock)
            return self._unopened

    def _leave(self, *, goodbye: bool) -> None:
        with self._state:
            visitor, self._unopened = self._unopened, None
            self._unclosed.update(
                one.session for one in (self._reading, visitor) if one is not None
            )
        try:
            super()._leave(goodbye=goodbye)
        finally:
            # A session stays in `_unclosed` until it is closed. If an interrupt prevents the
            # closing, the next call closes the session. Closing a session twice has no effect.
            runtime.run_all_steps(
                *(partial(self._close_for_good, session) for session in list(self._unclosed))
            )

    def _close_for_good(self, session: Session) -> None:
        session.close(goodbye=False)
        self._unclosed.discard(session)

    def after_fork_in_child(self) -> None:
        """Abandon the parent's sessions; the child begins without a session."""
        if self._unopened is not None:
            self._unopened.session.abandon_connection()
        super().after_fork_in_child()

    def _new_transport(self, ttl: float, changed: Callable[[], None]) -> EtcdTransport:
        return EtcdTransport(
            self._address,
            self._orphans,
            ttl=ttl,
            clock=self._clock,
            changed=changed,
            preference=self._preference,
        )
