"""Holdfast: locks for programs that run in several processes or on several machines.

    with holdfast.Locks().lock("nightly-report") as lease:
        write_report(token=lease.token)

A lease and a fencing token, never a bare promise of mutual exclusion; one contract on
every backend, sync and asyncio.
"""

from holdfast._async.backend import AsyncBackend
from holdfast._async.lease import AsyncLease
from holdfast._async.lock import AsyncLock
from holdfast._async.locks import AsyncLocks
from holdfast._async.many import AsyncAllOf
from holdfast._async.rwlock import AsyncRWLock
from holdfast._async.semaphore import AsyncSemaphore
from holdfast._sync.backend import Backend
from holdfast._sync.lease import Lease
from holdfast._sync.lock import Lock
from holdfast._sync.locks import Locks
from holdfast._sync.many import AllOf
from holdfast._sync.rwlock import RWLock
from holdfast._sync.semaphore import Semaphore
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
from holdfast.model import (
    Acquired,
    AtRisk,
    Capabilities,
    Claim,
    Event,
    Finding,
    Grant,
    Held,
    Holder,
    Inspection,
    Lost,
    Owner,
    Released,
    Renewal,
    Renewed,
    TokenQuality,
    Waiter,
)

__version__ = "0.1.0"

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
    "AtRisk",
    "Backend",
    "BackendError",
    "BackendMisbehaved",
    "BackendUnavailable",
    "Capabilities",
    "Claim",
    "ConfigurationError",
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
    "Released",
    "Renewal",
    "Renewed",
    "Semaphore",
    "Stale",
    "StaleRow",
    "StaleToken",
    "TokenQuality",
    "TokenUnavailable",
    "Waiter",
    "WouldDeadlock",
]
