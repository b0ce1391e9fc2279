"""What the rows of one worker share: the client that renews them, and its connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast._async.acquiring import AsyncAcquisition
from lockfast._async.client import AsyncClient, new_id
from lockfast._async.lock import AsyncLock
from lockfast.model import Grant
from lockfast.options import ClientOptions, LockOptions
from lockfast.runtime.clock import Clock
from lockfast.sql_rows._async.claimed_row import AsyncClaimedRow
from lockfast.sql_rows._async.row_leases import AsyncRowLeases
from lockfast.sql_rows.claiming import RowClaim

if TYPE_CHECKING:
    from lockfast.sql_rows._async.own_connections import AsyncOwnConnections
    from lockfast.sql_rows.claiming import Claimable

Claimed = tuple[AsyncAcquisition, AsyncClaimedRow]
"""A row, and what gives it back should nobody be handed it."""


class AsyncWorker:
    """Claims rows, and lives until its loop is over and the last row is done with."""

    def __init__(
        self, claimable: Claimable, connections: AsyncOwnConnections, *, ttl: float
    ) -> None:
        self.claimable = claimable
        self.connections = connections
        self.clock: Clock = Clock()
        self._options = LockOptions(ttl=ttl, reentrant=False)
        self._rows = AsyncRowLeases(  # type: ignore[abstract]
            claimable, connections, self.clock
        )
        self._client = AsyncClient(self._rows, ClientOptions(ttl=ttl, clock=self.clock))
        self._is_over = False

    async def claim(self, limit: int) -> list[Claimed] | None:
        """Return rows that are ours now; None if others were in the way."""
        sent_at = self.clock.now()
        found = await self._rows.claim(limit, self._options.ttl)
        if found is None:
            return None
        token, rows = found
        claimed = [await self._believed(one, token, sent_at) for one in rows]
        return [one for one in claimed if one is not None]

    async def _believed(self, row: dict[str, Any], token: int, sent_at: float) -> Claimed | None:
        key, client = self.claimable.of_row(row), self._client
        lock = AsyncLock(client, self._rows.name_of(key), self._options)
        claim = RowClaim(
            id=new_id(),
            name=lock.name,
            client=client.id,
            owner=client.owner_text,
            weight=1,
            capacity=1,
            ttl=self._options.ttl,
            key=key,
            token=token,
        )
        attempt = AsyncAcquisition(client, lock, timeout=0.0, claim=claim)
        attempt.owes = True
        hold = await attempt.believe(Grant(claim, token, claim.ttl), sent_at)
        if hold is None:
            return None  # it took so long that the row may be another's: it was given back
        lease = attempt.lease_on(hold)
        return attempt, AsyncClaimedRow(row, lease=lease, lock=lock, claim=claim, worker=self)

    async def end_when_done(self, *, is_over: bool = False, waits: bool = True) -> None:
        """Close the client, once the loop is over and no row is held any more.

        It waits for a renewal that is under way. Without waiting only what is kept is closed, and
        the client's background ends by itself, with nothing left to do.
        """
        self._is_over = self._is_over or is_over
        if self._is_over and not self._client.holds:
            await (self._client.aclose() if waits else self.connections.aclose())

    async def aclose(self) -> None:
        """Close it now: rows that are held are told that they are lost."""
        await self._client.aclose()
