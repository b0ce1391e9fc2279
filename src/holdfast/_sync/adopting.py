# Generated from src/holdfast/_async/adopting.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How a lease that somebody detached becomes one of ours."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast._sync.acquiring import Acquisition
from holdfast._sync.lock import Lock
from holdfast.core.handing_over import from_text
from holdfast.errors import LeaseLost, OutcomeUnknown
from holdfast.model import Renewal
from holdfast.runtime import threads as runtime

if TYPE_CHECKING:
    from holdfast._sync.client import Client
    from holdfast._sync.lease import Lease
    from holdfast.options import LockOptions


class Adoption(Acquisition):
    """An acquire whose claim holds already, if it has not ended meanwhile.

    Unless it returns a lease, what was detached is as before, and ends by its ttl.
    """

    def __init__(self, client: Client, text: str, options: LockOptions) -> None:
        self._grant = grant = from_text(
            text, client=client.id, owner=client.stored_owner(runtime.context())
        )
        claim = grant.claim
        options = replace(options, ttl=claim.ttl, owner=claim.party)
        lock = Lock(client, claim.name, options)
        lock.weight, lock.capacity = claim.weight, claim.capacity
        super().__init__(client, lock, timeout=0.0, claim=claim)

    def adopt(self) -> Lease:
        """Return the lease, or raise LeaseLost."""
        client, grant = self._client, self._grant
        client.enter()
        sent_at = client.clock.now()
        outcome = client.backend.hand_over(grant, deadline=client.request_deadline())
        if outcome is Renewal.UNKNOWN:
            raise OutcomeUnknown(
                f"the store did not answer for {grant.claim.name!r}; adopt it again within its ttl",
                name=grant.claim.name,
                claim=grant.claim.id,
            )
        hold = self.believe(grant, sent_at) if outcome is Renewal.RENEWED else None
        if hold is None:
            reason = "broken" if outcome is Renewal.BROKEN else "taken"
            raise LeaseLost(name=grant.claim.name, token=grant.token, reason=reason)
        return self.lease_on(hold)
