"""Tools for testing code that uses Lockfast, and for testing new backends.

`BackendContract` and `AsyncBackendContract` are the laws of Lockfast as a test suite. Make a
subclass, define in it how your backend is opened, and let pytest collect the tests. `FaultyBackend`
makes any backend fail on command. `ManualClock` and `VirtualTimeLoop` control time. Only the
contracts need pytest.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from lockfast.testing._async.faulty import AsyncFaultyBackend
from lockfast.testing._sync.faulty import FaultyBackend
from lockfast.testing.clock import (
    ManualClock,
    VirtualClock,
    VirtualTimeLoop,
    run_in_virtual_time,
)

if TYPE_CHECKING:
    from lockfast.testing._async.contract import AsyncBackendContract
    from lockfast.testing._sync.contract import BackendContract

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

_CONTRACTS = {"AsyncBackendContract": "_async", "BackendContract": "_sync"}


def __getattr__(name: str) -> object:
    # The contracts are imported on demand, so that the clocks and faulty backends work without
    # pytest.
    if name not in _CONTRACTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        contract = import_module(f"lockfast.testing.{_CONTRACTS[name]}.contract")
    except ModuleNotFoundError as error:
        if error.name != "pytest":
            raise
        raise ImportError(
            f"lockfast.testing.{name} is run by pytest: pip install pytest"
        ) from error
    return getattr(contract, name)
