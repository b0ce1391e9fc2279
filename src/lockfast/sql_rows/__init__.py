"""The caller's own rows: optimistic version columns, claimed rows, locks until the commit."""

from __future__ import annotations

from lockfast.sql_rows._async.claims import AsyncClaimedRow, AsyncClaimedRows
from lockfast.sql_rows._async.claims import claim_rows as async_claim_rows
from lockfast.sql_rows._async.versioned import AsyncVersioned
from lockfast.sql_rows._sync.claims import ClaimedRow, ClaimedRows, claim_rows
from lockfast.sql_rows._sync.versioned import Versioned
from lockfast.sql_rows.commit import hold_until_commit
from lockfast.sql_rows.tables import VersionedRow

__all__ = [
    "AsyncClaimedRow",
    "AsyncClaimedRows",
    "AsyncVersioned",
    "ClaimedRow",
    "ClaimedRows",
    "Versioned",
    "VersionedRow",
    "async_claim_rows",
    "claim_rows",
    "hold_until_commit",
]
