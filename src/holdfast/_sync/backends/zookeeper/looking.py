# Generated from src/holdfast/_async/backends/zookeeper/looking.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How the line of a name is read, on one session; what is no part of the recipe is raised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError, NotEmptyError

from holdfast.ensemble import records, refusals, requests
from holdfast.ensemble.doors import Listing
from holdfast.ensemble.nodes import in_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast._sync.backends.zookeeper.session import Session
    from holdfast.ensemble.answers import Answer
    from holdfast.ensemble.doors import Door, Doors
    from holdfast.runtime.clock import Clock

EXPECTED = (NoNodeError, NodeExistsError, NotEmptyError)
"""What others do at the same time: they create, and they delete."""


class Looking:
    """Asks one session, and knows what its answers say of a line."""

    def __init__(self, session: Session, doors: Doors, clock: Clock) -> None:
        self.session = session
        self._doors = doors
        self._address = doors.address
        self._clock = clock

    def _listing(self, door: Door, answer: Answer, deadline: float) -> Listing:
        children, stat = answer
        known = door.known
        if known is None or known[1] != stat.mzxid:
            [found] = self._ask(requests.GetData(door.path, None), deadline=deadline)
            if refusals.is_missing(found):
                return Listing([], 1)
            known = door.known = (
                records.capacity_in(found[0], path=door.path),
                found[1].mzxid,
            )
        try:
            line = in_line(children)
        except ValueError as error:
            raise refusals.foreign(str(error), where=self._address.where, path=door.path) from None
        return Listing(line, known[0])

    def _ask(self, *asked: requests.Request, deadline: float) -> list[Answer]:
        """Return the answers; what is no part of the recipe is raised."""
        answers = self.session.link.ask(*asked, deadline=deadline)
        self._refuse(asked, answers)
        return answers

    def _refuse(self, asked: Sequence[requests.Request], answers: Sequence[Answer]) -> None:
        for request, answer in zip(asked, answers, strict=True):
            if isinstance(answer, KazooException) and not isinstance(answer, EXPECTED):
                where, users = self._address.where, self._address.users
                error = refusals.refused(answer, where=where, path=request.path, users=users)
                raise error from answer
