"""Holdfast: locks for programs that run in several processes or on several machines.

    with holdfast.Locks().lock("nightly-report") as lease:
        write_report(token=lease.token)

A lease and a fencing token, never a bare promise of mutual exclusion; one contract on
every backend, sync and asyncio.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - before anything that an older Python could not read
    raise ImportError("Holdfast needs Python 3.11 or newer, this is " + sys.version.split()[0])

import importlib
from typing import TYPE_CHECKING

from holdfast._sync.backend import Backend
from holdfast._sync.lease import Lease
from holdfast._sync.lock import Lock
from holdfast._sync.locks import Locks
from holdfast._sync.many import AllOf
from holdfast._sync.rwlock import RWLock
from holdfast._sync.semaphore import Semaphore
from holdfast._sync.sharded import Sharded, ShardLease
from holdfast.errors import (
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
from holdfast.events import (
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
from holdfast.model import (
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
    from holdfast import observe as observe
    from holdfast._async.backend import AsyncBackend
    from holdfast._async.lease import AsyncLease
    from holdfast._async.lock import AsyncLock
    from holdfast._async.locks import AsyncLocks
    from holdfast._async.many import AsyncAllOf
    from holdfast._async.rwlock import AsyncRWLock
    from holdfast._async.semaphore import AsyncSemaphore
    from holdfast._async.sharded import AsyncSharded, AsyncShardLease

__version__ = "0.1.0"

# Imported when they are first asked for: a sync program, and `holdfast run` in a crontab,
# need not pay for asyncio.
_ASYNC = {
    "AsyncBackend": "holdfast._async.backend",
    "AsyncLease": "holdfast._async.lease",
    "AsyncLock": "holdfast._async.lock",
    "AsyncLocks": "holdfast._async.locks",
    "AsyncAllOf": "holdfast._async.many",
    "AsyncRWLock": "holdfast._async.rwlock",
    "AsyncSemaphore": "holdfast._async.semaphore",
    "AsyncSharded": "holdfast._async.sharded",
    "AsyncShardLease": "holdfast._async.sharded",
}


def __getattr__(name: str) -> object:
    if name == "observe":
        return importlib.import_module("holdfast.observe")
    if name not in _ASYNC:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
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
