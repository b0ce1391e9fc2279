"""Claims of one client that come to one door at the same time go through it together.

Whoever goes through a door locks its name until the commit. A crowd that went one by one would
take as many transactions as there are claims, and keep every connection of the client waiting for
the same row. So one transaction is under way at each door, and carries all who came meanwhile.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Protocol

from lockfast.backends.sql._async.carrying import AsyncCarrying
from lockfast.backends.sql.passing import Outcome, Passage
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sql._async.wire import AsyncWire
    from lockfast.backends.sql.turns import Turn
    from lockfast.runtime.clock import Clock

DOOR_BATCH = 100
"""How many claims one transaction puts in line. More would keep the row, and the event loop, busy
for longer than others should wait for either."""


class Through(Protocol):
    """How passages at one name are done, in one transaction."""

    async def __call__(
        self, passages: Sequence[Passage], *, deadline: float, turn: Turn
    ) -> list[Outcome]:
        """Return the outcome of each."""
        ...


class AsyncDoor(AsyncCarrying[Passage, Outcome]):
    """The queue of this client at one name."""

    _enough = DOOR_BATCH
    # One that waits for the row does not let a second one wait for it on another connection.
    _most = 1
    _late = float("inf")

    def __init__(self, wire: AsyncWire[Any], through: Through, *, clock: Clock) -> None:
        super().__init__(where=wire.where, clock=clock)
        self._wire = wire
        self._through = through

    @property
    def _patience(self) -> float | None:
        return self._wire.request_timeout

    async def go(self, passage: Passage, *, deadline: float, turn: Turn | None = None) -> Outcome:
        """Go through the door, alone or with others, and return the outcome."""
        [outcome] = await self._do([passage], deadline, turn)
        return outcome

    async def _plainly(
        self, deeds: Sequence[Passage], deadline: float, turn: Turn
    ) -> list[Outcome]:
        return await self._through(deeds, deadline=deadline, turn=turn)

    _in_one = _plainly


class AsyncDoors:
    """The doors at which claims of this client are asking."""

    def __init__(self, wire: AsyncWire[Any], through: Through, *, clock: Clock) -> None:
        self._wire = wire
        self._through = through
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._state = runtime.StateLock()
        # Weakly: a door is kept by those who stand at it.
        self._doors: weakref.WeakValueDictionary[str, AsyncDoor] = weakref.WeakValueDictionary()

    async def go(self, passage: Passage, *, deadline: float, turn: Turn | None = None) -> Outcome:
        """Go through the door of the claim's name."""
        name = passage.claim.name
        with self._state:
            door = self._doors.get(name)
            if door is None:
                door = self._doors[name] = AsyncDoor(self._wire, self._through, clock=self._clock)
        return await door.go(passage, deadline=deadline, turn=turn)

    async def close(self) -> None:
        """End what is under way in a task of its own; those who wait for it are told."""
        for door in list(self._doors.values()):
            await door.close()

    def after_fork_in_child(self) -> None:
        """Leave what is under way to the parent."""
        for door in list(self._doors.values()):
            door.after_fork_in_child()
        self._begin()
