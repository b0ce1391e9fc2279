"""Servers that the tests of one room share: started for the first, ended when the room is left.

A group that elects its leader is busy for as long as it runs, asked or not: three members of
etcd take three hundredths of a processor, a cluster of Redis two, and five nodes of Redlock one.
Each worker has its own; those that ran to the end although all who asked are done would take a
tenth of a machine with two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from pathlib import PurePosixPath
from typing import TypeVar

from lockfast.challenge.servers.starting import Started

S = TypeVar("S", bound=Started)

_SHARED: list[Callable[[], None]] = []


def shared_in_its_room(start: Callable[[], S]) -> Callable[[], S]:
    """Let all tests of a room have the same; whoever asks after it was left gets a new one."""
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
    """End what was shared, if the next test stands in another room than the last."""
    if room_of(left) != room_of(entered):
        for end in _SHARED:
            end()


def room_of(nodeid: str) -> PurePosixPath:
    """Return the room in which a test stands: of a store's tests that of the store."""
    path = PurePosixPath(nodeid.partition("::")[0])
    return PurePosixPath(*path.parts[:3]) if "backends" in path.parts else path.parent
