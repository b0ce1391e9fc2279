# Generated from src/lockfast/backends/memory/_async/backend.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The `memory://` backend: the reference for all others, also useful in application tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends._sync.backend import Backend
from lockfast.backends.memory.store import named_store
from lockfast.backends.waiting._sync.wakeups import Wakeups
from lockfast.model import Capabilities, Finding, Grant, TokenQuality
from lockfast.runtime import fork

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockfast.backends.memory.store import MemoryStore
    from lockfast.model import Claim, Held, Holder, Inspection, Renewal
    from lockfast.runtime.clock import Clock


class MemoryBackend(Backend):
    """A store inside this process: private as `memory://`, shared as `memory://name`."""

    capabilities: Capabilities = Capabilities(
        fair=True,
        shared=True,
        push_wakeup=True,
        explicit_owner=True,
        lock_delay=True,
        token_quality=TokenQuality.PROCESS,
        ends_by="ttl",
        hands_over=True,
        sequencers=True,
    )
    min_ttl: float = 0.01
    options: frozenset[str] = frozenset()

    def __init__(
        self,
        *,
        clock: Clock,
        store: MemoryStore | None = None,
        name: str = "",
        location: str = "memory://",
    ) -> None:
        self.location = location
        self._store = store if store is not None else named_store(name, clock)
        self._wakeups = Wakeups(clock)
        self._clients: set[str] = set()
        fork.reset_in_child(self)

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        del deadline
        if claim.client not in self._clients:
            self._clients.add(claim.client)
            self._store.listen(claim.client, self._wakeups.wake)
        if claim.queues:
            # Expect wakeups before joining the line, so that a wakeup sent right after joining is
            # not lost.
            self._wakeups.expect(claim.id)
        answer = self._store.try_acquire(claim)
        if isinstance(answer, Grant):
            self._wakeups.forget(claim.id)
        return answer

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        del deadline
        return self._store.renew(grants)

    def hand_over(self, grant: Grant, *, deadline: float) -> Renewal:
        del deadline
        return self._store.hand_over(grant.claim)

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        del deadline
        return self._store.release(grant, tombstone=tombstone)

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        del deadline
        self._wakeups.forget(claim.id)
        self._store.withdraw(claim, tombstone=tombstone)

    def wait(self, claim: Claim, *, deadline: float) -> None:
        self._wakeups.wait(claim.id, deadline=deadline)

    def wake(self, claim: Claim) -> None:
        self._wakeups.wake(claim.id)

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        del deadline
        return self._store.inspect(name)

    def survey(self, prefix: str, *, deadline: float) -> Iterator[Inspection]:
        del deadline
        for name in self._store.names(prefix):
            inspection = self._store.inspect(name)
            if inspection.is_in_use:
                yield inspection

    def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        del deadline
        return self._store.break_(name, token=token, owner=owner)

    def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        del deadline
        return (
            Finding.warning(
                "reach",
                "excludes only what runs in this very process",
                "use it in tests; several processes need sqlite:// or a server",
            ),
        )

    def disown(self, client: str, *, deadline: float) -> None:
        """Stop the wakeups of the client; its holds end with their ttl in any case."""
        del deadline
        self._store.stop_listening(client)

    def close(self) -> None:
        for client in self._clients:
            self._store.stop_listening(client)
        self._clients.clear()

    def after_fork_in_child(self) -> None:
        """Start empty, because this store serves one process and the child is another process."""
        self._clients.clear()
        self._store.after_fork_in_child()
