# Generated from src/lockfast/sql_rows/_async/row_leases.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The port to claimed rows: a client's watchdog renews them as it does the locks of any store.

Rows are claimed many at once, and which is up to the database. So it is not asked for a name, as
other stores are, and a grant is made of what it gave.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, TypeVar

from lockfast._sync.backend import Backend
from lockfast.connections.dialects import SQLITE
from lockfast.core.naming import LONGEST
from lockfast.errors import BackendError, LockError, OutcomeUnknown
from lockfast.model import Capabilities, Grant, Renewal, TokenQuality
from lockfast.sql_rows._sync.patience import Patience
from lockfast.sql_rows.claiming import NOW, RowClaim
from lockfast.sql_rows.conflicts import is_conflict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.connections._sync.callers import CallersConnection
    from lockfast.model import Claim
    from lockfast.runtime.clock import Clock
    from lockfast.sql_rows._sync.own_connections import OwnConnections
    from lockfast.sql_rows.claiming import Claimable, Key

T = TypeVar("T")


class RowLeases(Backend):
    """Claims, renews and gives back rows of one table.

    Nobody gets a lock of it or looks into it, so the verbs for that are the port's own.
    """

    capabilities = Capabilities(
        fair=False,
        shared=False,
        push_wakeup=False,
        explicit_owner=False,
        lock_delay=False,
        token_quality=TokenQuality.DURABLE,
        ends_by="ttl",
    )
    min_ttl = 0.1

    def __init__(self, claimable: Claimable, connections: OwnConnections, clock: Clock) -> None:
        self.location = f"rows of {claimable.keyed}"
        self._claimable = claimable
        self._connections = connections
        self._clock = clock

    # -- claiming ----------------------------------------------------------------------

    def claim(self, limit: int, ttl: float) -> tuple[int, list[dict[str, Any]]] | None:
        """Return a token and the rows that are ours by it; None if others were in the way.

        No row is there that may be claimed, if the list is empty.
        """

        def work(
            callers: CallersConnection,
        ) -> tuple[int, list[dict[str, Any]]] | None:
            claimable, dialect = self._claimable, callers.dialect
            glance = claimable.look(dialect, limit=1, locks=False)
            if dialect is SQLITE:
                # Whoever writes locks all of the file, so not in order to find nothing.
                if not callers.run(glance).rows:
                    return 0, []
                callers.run(claimable.lock_all(dialect))
            rows = callers.run(claimable.look(dialect, limit=limit, locks=True)).named()
            if not rows:
                is_empty = dialect is SQLITE or not callers.run(glance).rows
                return (0, []) if is_empty else None
            claimable.refuse_shared_keys(rows, changed=0)
            token = claimable.next_token(rows)
            claimed = callers.run(claimable.claim(dialect, rows, token=token, ttl=ttl))
            claimable.refuse_shared_keys(rows, changed=claimed.changed)
            if claimed.changed != len(rows):
                raise _Overtaken
            written = callers.run(claimable.read_back(dialect, rows))
            since = float(rows[0][NOW])
            claimable.refuse_inexact(written.rows, token=token, since=since, ttl=ttl)
            for one in rows:
                one.pop(NOW)
            return token, rows

        try:
            return self._connections.use(work)
        except (LockError, TypeError):
            raise
        except Exception as error:  # of whichever driver the caller has
            if isinstance(error, _Overtaken) or is_conflict(error):
                return None
            raise BackendError(f"no row of {self.location} could be claimed: {error}") from error

    def name_of(self, key: Key) -> str:
        """Return what the lease on a row is called."""
        name = f"{self._claimable.keyed}:{':'.join(map(str, key))}"
        size = len(name.encode(errors="replace"))
        if size <= LONGEST and name.isprintable():
            return name
        digest = hashlib.sha256(repr(key).encode()).hexdigest()
        return f"{str(self._claimable.keyed)[:100]}:{digest}"

    # -- what the watchdog and a lease ask ---------------------------------------------

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        """Renew those that nobody locks; the others are asked for again, while they are ours."""
        claims = [_of(one) for one in grants]

        def work(callers: CallersConnection) -> list[Renewal]:
            return self._renew(callers, claims, ttl=grants[0].ttl)

        return self._asked(work, "renewal", deadline=deadline)

    def _renew(
        self, callers: CallersConnection, claims: Sequence[tuple[Key, int]], *, ttl: float
    ) -> list[Renewal]:
        claimable, dialect = self._claimable, callers.dialect
        if dialect is SQLITE:
            callers.run(claimable.lock_all(dialect))
        found = callers.run(claimable.still_claimed(dialect, claims, locks=True))
        locked = set(found.rows)
        if ours := [one for one in claims if one[0] in locked]:
            callers.run(claimable.renew(dialect, ours, ttl=ttl))
        if len(ours) == len(claims):
            return [Renewal.RENEWED] * len(claims)
        found = callers.run(claimable.still_claimed(dialect, claims, locks=False))
        left = set(found.rows)
        return [
            Renewal.RENEWED if key in locked else Renewal.UNKNOWN if key in left else Renewal.LOST
            for key, _ in claims
        ]

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """Let others claim the row at once."""
        del tombstone  # a claim is never asked for again, so none can come late
        key, token = _of(grant)

        def work(callers: CallersConnection) -> bool:
            statement = self._claimable.give_back(callers.dialect, key, token)
            return callers.run(statement).changed == 1

        return self._asked(work, "release", deadline=deadline)

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """Give the row back, if it is still ours."""
        if isinstance(claim, RowClaim):
            self.release(
                Grant(claim, claim.token, claim.ttl), deadline=deadline, tombstone=tombstone
            )

    def _asked(
        self,
        work: Callable[[CallersConnection], T],
        what: str,
        *,
        deadline: float,
    ) -> T:
        def patiently(callers: CallersConnection) -> T:
            with Patience(callers, deadline - self._clock.now()):
                return work(callers)

        try:
            return self._connections.use(patiently)
        except LockError:
            raise
        except Exception as error:  # of whichever driver the caller has
            raise OutcomeUnknown(f"the {what} of {self.location} failed: {error}") from error

    def close(self) -> None:
        """Close what was kept."""
        self._connections.close()


def _of(grant: Grant) -> tuple[Key, int]:
    claim = grant.claim
    assert isinstance(claim, RowClaim)  # noqa: S101 - this port grants no other
    return claim.key, claim.token


class _Overtaken(Exception):
    """Another claimed one of the rows between the look and the claim: roll back."""
