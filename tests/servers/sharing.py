"""Servers that the tests of one folder share: started on first use, ended after the last test.

A group that elects its leader is busy while it runs, even without requests: three etcd members use
three hundredths of a processor, a Redis cluster two, and five Redlock nodes one. Each worker has
its own groups; if all of them ran until the end of the run, they would use a tenth of a machine
with two processors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from pathlib import PurePosixPath
from typing import TypeVar

from lockfast_challenge.servers.server import Started

S = TypeVar("S", bound=Started)

_SHARED: list[Callable[[], None]] = []


def shared_in_its_room(start: Callable[[], S]) -> Callable[[], S]:
    """Share one server among all tests of a folder; after the folder is left, start a new one."""
    started = cache(start)

    @wraps(start)
    def share() -> S:
        return started()

    def end() -> None:
        if started.cache_info().currsize:
            started().stop()
            started.cache_clear()

    _SHARED.append(end)
    return share


def leave_room(left: str, entered: str) -> None:
    """End the shared servers, if the next test is in another folder than the last."""
    if room_of(left) != room_of(entered):
        for end in _SHARED:
            end()


def room_of(nodeid: str) -> PurePosixPath:
    """Return the folder of a test; for the tests of a store, the store's folder."""
    path = PurePosixPath(nodeid.partition("::")[0])
    return PurePosixPath(*path.parts[:3]) if "backends" in path.parts else path.parent
