"""Lockfast: locks for programs that run in several processes or on several machines.

    with lockfast.Locks().lock("nightly-report") as lease:
        write_report(token=lease.token)

What you get is a lease and a fencing token, never a bare promise of mutual exclusion. The contract
is the same on every backend, sync and asyncio.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - before anything that an older Python could not read
    raise ImportError("Lockfast needs Python 3.11 or newer, this is " + sys.version.split()[0])

import importlib
from typing import TYPE_CHECKING

from lockfast.backends._sync.backend import Backend
from lockfast.client._sync.all_of import AllOf
from lockfast.client._sync.lease import Lease
from lockfast.client._sync.lock import Lock, RWLock, Semaphore
from lockfast.client._sync.locks import Locks
from lockfast.client._sync.sharded import Sharded, ShardLease
from lockfast.errors import (
    AcquireTimeout,
    BackendError,
    BackendMisbehaved,
    BackendUnavailable,
    ConfigurationError,
    LeaseLost,
    LockError,
    LocksClosed,
    NotAcquired,
    NotOwner,
    OutcomeUnknown,
    Stale,
    StaleRow,
    StaleToken,
    TokenUnavailable,
    WouldDeadlock,
)
from lockfast.events import (
    Acquired,
    AtRisk,
    Detached,
    Event,
    Lost,
    Reconnected,
    Released,
    Renewed,
    SafeAgain,
    Skipped,
    StoreError,
    TimedOut,
    Waiting,
    Withdrawn,
)
from lockfast.model import (
    Capabilities,
    Claim,
    Closing,
    Crowd,
    Finding,
    Grant,
    Held,
    Holder,
    Inspection,
    Owner,
    Renewal,
    RevisionGuard,
    TokenQuality,
    Waiter,
)

if TYPE_CHECKING:
    from lockfast import observe as observe
    from lockfast.backends._async.backend import AsyncBackend
    from lockfast.client._async.all_of import AsyncAllOf
    from lockfast.client._async.lease import AsyncLease
    from lockfast.client._async.lock import AsyncLock, AsyncRWLock, AsyncSemaphore
    from lockfast.client._async.locks import AsyncLocks
    from lockfast.client._async.sharded import AsyncSharded, AsyncShardLease

__version__ = "0.1.0"

# These are imported on first use, so that a sync program, or `lockfast run` in a crontab, need not
# pay for asyncio.
_ASYNC = {
    "AsyncBackend": "lockfast.backends._async.backend",
    "AsyncLease": "lockfast.client._async.lease",
    "AsyncLock": "lockfast.client._async.lock",
    "AsyncLocks": "lockfast.client._async.locks",
    "AsyncAllOf": "lockfast.client._async.all_of",
    "AsyncRWLock": "lockfast.client._async.lock",
    "AsyncSemaphore": "lockfast.client._async.lock",
    "AsyncSharded": "lockfast.client._async.sharded",
    "AsyncShardLease": "lockfast.client._async.sharded",
}


def __getattr__(name: str) -> object:
    if name == "observe":
        return importlib.import_module("lockfast.observe")
    if name not in _ASYNC:
        raise AttributeError(f"module 'lockfast' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_ASYNC[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "AcquireTimeout",
    "Acquired",
    "AllOf",
    "AsyncAllOf",
    "AsyncBackend",
    "AsyncLease",
    "AsyncLock",
    "AsyncLocks",
    "AsyncRWLock",
    "AsyncSemaphore",
    "AsyncShardLease",
    "AsyncSharded",
    "AtRisk",
    "Backend",
    "BackendError",
    "BackendMisbehaved",
    "BackendUnavailable",
    "Capabilities",
    "Claim",
    "Closing",
    "ConfigurationError",
    "Crowd",
    "Detached",
    "Event",
    "Finding",
    "Grant",
    "Held",
    "Holder",
    "Inspection",
    "Lease",
    "LeaseLost",
    "Lock",
    "LockError",
    "Locks",
    "LocksClosed",
    "Lost",
    "NotAcquired",
    "NotOwner",
    "OutcomeUnknown",
    "Owner",
    "RWLock",
    "Reconnected",
    "Released",
    "Renewal",
    "Renewed",
    "RevisionGuard",
    "SafeAgain",
    "Semaphore",
    "ShardLease",
    "Sharded",
    "Skipped",
    "Stale",
    "StaleRow",
    "StaleToken",
    "StoreError",
    "TimedOut",
    "TokenQuality",
    "TokenUnavailable",
    "Waiter",
    "Waiting",
    "Withdrawn",
    "WouldDeadlock",
]
