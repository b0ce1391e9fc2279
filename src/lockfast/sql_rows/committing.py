"""`hold_until_commit`: a lease that outlives the block it was acquired for, until the commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from lockfast import AsyncLease, Lease
from lockfast.sql_rows._async import committing as for_asyncio
from lockfast.sql_rows._sync import committing as for_threads

if TYPE_CHECKING:
    import sqlite3

    from lockfast.sql_rows._async.commit_blocks import AsyncCommitBlock
    from lockfast.sql_rows._sync.commit_blocks import CommitBlock


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
    """Release the lease after the transaction's commit or rollback, whichever comes.

    A lock that is released before the commit lets the next holder read the old row. So whoever
    leaves a `with` block of the lock earlier than the transaction still holds the name. Of
    SQLAlchemy a session or a connection, of psycopg and PyMySQL a connection, each of either
    flavour as the lease is, and of Django `django.db.transaction` or a connection in an atomic
    block. The commit is refused (LeaseLost) if the lease is lost by then; not by Django, which
    asks nobody.

    SQLAlchemy begins a transaction here if it is in none. A commit that fails and leaves its
    transaction open releases nothing yet. One that was sent and not answered releases nothing at
    all: the lease is no longer renewed, and ends by its ttl.

    For a connection of sqlite3 it returns a block for a `with` statement, which commits when it is
    left, as the connection's own does. Enter it while the lease is held: that is what ties it.

    It does not stop a commit that is under way when the lease ends, nor one that is written as a
    statement ("COMMIT"), which nobody tells of. A token in the row does: `lockfast.fencing`.
    """
    if isinstance(lease, AsyncLease):
        return for_asyncio.tie(lease, transaction)
    if isinstance(lease, Lease):
        return for_threads.tie(lease, transaction)
    raise TypeError(f"lease is what a lock's acquire returned, not {type(lease).__name__}")
