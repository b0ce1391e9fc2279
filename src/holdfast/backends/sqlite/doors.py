"""Through the door and back into the file: one transaction, which reads only what can decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from holdfast.backends.sqlite.partial import FRONT, GROWTH, PartialDoor
from holdfast.backends.sqlite.rows import DROP, LOAD, SAVE, places_in, record_in, record_of, row_of
from holdfast.core.door import Door
from holdfast.core.naming import name_of, storage_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.backends.sqlite.connection import Connection
    from holdfast.backends.sqlite.doorbell import Doorbell
    from holdfast.backends.sqlite.waiters import Waiters
    from holdfast.model import Claim, Inspection
    from holdfast.runtime.afterwards import Afterwards

T = TypeVar("T")

EVERYBODY = 2**31
"""As a front: the whole line."""


class Doors:
    """The doors of one namespace in one file."""

    def __init__(
        self,
        connection: Connection,
        bell: Doorbell,
        waiters: Waiters,
        *,
        namespace: str,
        afterwards: Afterwards,
    ) -> None:
        self._connection = connection
        self._bell = bell
        self._waiters = waiters
        self._namespace = namespace
        self._afterwards = afterwards

    def verb(
        self,
        name: str,
        deadline: float,
        act: Callable[[Door], T],
        *,
        claim: Claim | None = None,
    ) -> T:
        """Let the act change one door, in a transaction; the place of the claim is read too."""
        return self.transact(lambda rings: self.through(name, act, rings, claim=claim), deadline)

    def transact(self, work: Callable[[list[str]], T], deadline: float) -> T:
        """Do the work in a transaction, then ring the addresses that it has put down."""
        rings: list[str] = []
        try:
            answer = self._connection.transact(lambda: work(rings), deadline)
        finally:
            # After the commit: whoever is rung must find its place. Also after an interrupt,
            # when nobody knows whether there was one: a ring for nothing does no harm.
            self._bell.ring(rings)
            self._afterwards.do()
        return answer

    def through(
        self,
        name: str,
        act: Callable[[Door], T],
        rings: list[str],
        *,
        claim: Claim | None = None,
        front: int = FRONT,
    ) -> T:
        """Load the door, let the act change it, write back what changed."""
        while True:
            door = self.load(name, claim, front=front)
            record = (door.token, door.capacity)
            answer = act(door)
            if not door.fell_short:
                break
            front *= GROWTH
        self._save(storage_key(self._namespace, name), door, record)
        rings.extend(place.bell for place in door.woken)
        return answer

    def load(self, name: str, claim: Claim | None, *, front: int = FRONT) -> PartialDoor:
        """Return the door with so many of its line, and the claim's own place."""
        return PartialDoor(
            self._connection,
            storage_key(self._namespace, name),
            claim_id="" if claim is None else claim.id,
            arrived=None if claim is None else self._waiters.arrival_of(claim),
            front=front,
        )

    def look(self, name: str) -> Inspection:
        """Return what the file says of the name, with the whole line; writes nothing."""
        key = storage_key(self._namespace, name)
        rows = self._connection.execute(LOAD, (key,)).fetchall()
        capacity, token = record_in(rows)
        places = places_in(key, rows, capacity=capacity)
        door, now = Door(capacity=capacity, token=token, places=places), self._connection.now()
        door.settle(now=now)
        return door.inspect(name, now=now)

    def forget(self, clients: Sequence[str], deadline: float) -> None:
        """Treat the clients as dead, at every door."""
        marks = ", ".join("?" * len(clients))

        def work(rings: list[str]) -> None:
            rows = self._connection.execute(
                f"SELECT DISTINCT key FROM places WHERE client IN ({marks})",  # noqa: S608
                clients,
            )
            for (key,) in rows.fetchall():
                self.through(
                    name_of(key),
                    lambda door: door.forget(clients, now=self._connection.now()),
                    rings,
                    front=EVERYBODY,
                )

        self.transact(work, deadline)

    def _save(self, key: bytes, door: Door, record: tuple[int, int]) -> None:
        standing = {place.arrived: place for place in door.places}
        left = [(key, place.arrived) for place in door.dropped if place.arrived not in standing]
        self._connection.execute_many(DROP, left)
        changed = {place.arrived: place for place in door.changed}
        rows = [row_of(key, place, door) for place in standing.values() if place.arrived in changed]
        if (door.token, door.capacity) != record or (key, 0) in left:
            first = standing.get(0)
            rows.append(record_of(key, door) if first is None else row_of(key, first, door))
        self._connection.execute_many(SAVE, rows)
