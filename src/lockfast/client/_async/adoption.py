"""How a client adopts a detached lease."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockfast.client._async.acquisition import AsyncAcquisition
from lockfast.client._async.lock import AsyncLock
from lockfast.core.lease_text import detached_from_text
from lockfast.errors import LeaseLost, OutcomeUnknown
from lockfast.model import Renewal
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from lockfast.client._async.client import AsyncClient
    from lockfast.client._async.hold import AsyncHold
    from lockfast.client._async.lease import AsyncLease
    from lockfast.options import LockOptions


NOT_THERE = "it was adopted before or is over, or it belongs to another store or another namespace"


class AsyncAdoption(AsyncAcquisition):
    """An acquire whose claim already holds the name, unless the hold has ended meanwhile.

    If the adoption returns no lease, the detached lease stays as it was, and its ttl ends it.
    """

    def __init__(self, client: AsyncClient, text: str, options: LockOptions) -> None:
        self._grant = grant = detached_from_text(
            text, client=client.id, owner=client.stored_owner(runtime.context())
        )
        claim = grant.claim
        options = replace(options, ttl=claim.ttl, owner=claim.party)
        lock = AsyncLock(client, claim.name, options)
        lock.weight, lock.capacity = claim.weight, claim.capacity
        super().__init__(client, lock, timeout=0.0, claim=claim)

    async def adopt(self) -> AsyncLease:
        """Return the lease, or raise LeaseLost."""
        client = self._client
        client.enter()
        # The store would hand over the lease to the same client twice, because a client may repeat
        # an unanswered request. So the client itself has to notice if a job is delivered to it
        # twice.
        if client.cleanup_queue.is_pending(self.claim) or not client.holds.begin_adopting(self):
            raise self._lost("taken")
        try:
            return self.lease_on(await self._adopted())
        finally:
            client.holds.end_adopting(self)

    async def _adopted(self) -> AsyncHold:
        client, grant = self._client, self._grant
        sent_at = client.clock.now()
        outcome = await client.backend.hand_over(grant, deadline=client.request_deadline())
        if outcome is Renewal.UNKNOWN:
            raise OutcomeUnknown(
                f"the store did not answer for {grant.claim.name!r}; adopt it again within its ttl",
                name=grant.claim.name,
                claim=grant.claim.id,
            )
        hold = await self.accept_grant(grant, sent_at) if outcome is Renewal.RENEWED else None
        if hold is None:
            raise self._lost("broken" if outcome is Renewal.BROKEN else "taken")
        return hold

    def _lost(self, reason: str) -> LeaseLost:
        grant, hint = self._grant, NOT_THERE if reason == "taken" else ""
        return LeaseLost(name=grant.claim.name, token=grant.token, reason=reason, hint=hint)
