"""`hold_until_commit`: keep a lease beyond its own block, until the transaction commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from lockfast import AsyncLease, Lease
from lockfast.sql_rows._async import commit as for_asyncio
from lockfast.sql_rows._sync import commit as for_threads

if TYPE_CHECKING:
    import sqlite3

    from lockfast.sql_rows._async.commit import AsyncCommitBlock
    from lockfast.sql_rows._sync.commit import CommitBlock


@overload
def hold_until_commit(lease: Lease, transaction: sqlite3.Connection) -> CommitBlock: ...
@overload
def hold_until_commit(lease: Lease, transaction: object) -> CommitBlock | None: ...
@overload
def hold_until_commit(lease: AsyncLease, transaction: object) -> None: ...
def hold_until_commit(
    lease: Lease | AsyncLease,
    transaction: object,
) -> CommitBlock | AsyncCommitBlock | None:
    """Release the lease after the transaction's commit or rollback.

    A lock that is released before the commit lets the next holder read the old row. After this
    call, the end of the lock's `with` block no longer releases the name while the transaction is
    open.

    `transaction` is an SQLAlchemy session or connection, or a psycopg or PyMySQL connection, of the
    same flavour as the lease. For Django it is `django.db.transaction` or a connection in an atomic
    block. If the lease is lost before the commit, the commit is refused (LeaseLost), except with
    Django, where the commit cannot be prevented.

    SQLAlchemy begins a transaction here if none is open. If a commit fails and leaves its
    transaction open, the lease is not released yet. If a commit was sent and not answered, the
    lease is never released; it is no longer renewed, and ends by its ttl.

    For a sqlite3 connection this returns a block for a `with` statement that commits on exit, as
    the connection's own `with` block does. Enter it while the lease is held, because entering ties
    the lease.

    This does not stop a commit that is under way when the lease ends, nor a commit that is sent as
    a statement ("COMMIT"), which we cannot see. A fencing token in the row stops both; see
    `lockfast.fencing`.
    """
    if isinstance(lease, AsyncLease):
        return for_asyncio.tie(lease, transaction)
    if isinstance(lease, Lease):
        return for_threads.tie(lease, transaction)
    raise TypeError(f"lease is what a lock's acquire returned, not {type(lease).__name__}")
