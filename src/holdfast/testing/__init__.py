"""For those who test with Holdfast, and for those who write a backend.

`BackendContract` and `AsyncBackendContract` are the laws as a test suite: subclass one,
say how to open your backend, and let pytest collect it. `FaultyBackend` breaks any
backend on command; `ManualClock` and `VirtualTimeLoop` own the time.
"""

from holdfast.testing._async.contract import AsyncBackendContract
from holdfast.testing._async.faulty import AsyncFaultyBackend
from holdfast.testing._sync.contract import BackendContract
from holdfast.testing._sync.faulty import FaultyBackend
from holdfast.testing.clock import (
    ManualClock,
    VirtualClock,
    VirtualTimeLoop,
    run_in_virtual_time,
)

__all__ = [
    "AsyncBackendContract",
    "AsyncFaultyBackend",
    "BackendContract",
    "FaultyBackend",
    "ManualClock",
    "VirtualClock",
    "VirtualTimeLoop",
    "run_in_virtual_time",
]
