# Generated from src/holdfast/backends/zookeeper/_async/looking.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How the line of a name is read, on one session; what is no part of the recipe is raised."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError, NotEmptyError

from holdfast.backends.zookeeper import records, refusals, requests
from holdfast.backends.zookeeper.name_nodes import Listing
from holdfast.backends.zookeeper.nodes import in_line, is_doubtful

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.backends.zookeeper._sync.session import Session
    from holdfast.backends.zookeeper.answers import Answer
    from holdfast.backends.zookeeper.name_nodes import NameNode, NameNodes
    from holdfast.backends.zookeeper.nodes import Node
    from holdfast.runtime.clock import Clock

EXPECTED = (NoNodeError, NodeExistsError, NotEmptyError)
"""What others do at the same time: they create, and they delete."""


TOGETHER = 500
"""As many nodes are asked for in one flight."""


class Looking:
    """Asks one session, and knows what its answers say of a line."""

    def __init__(self, session: Session, doors: NameNodes, clock: Clock) -> None:
        self.session = session
        self._doors = doors
        self._address = doors.address
        self._clock = clock

    def _listing(self, door: NameNode, answer: Answer, deadline: float) -> Listing:
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
        if is_doubtful(line):
            line = self._by_birth(door, line, deadline)
        return Listing(line, known[0])

    def _by_birth(self, door: NameNode, line: list[Node], deadline: float) -> list[Node]:
        """Return the line in the order of the transactions that made it.

        They say it always, and have to be asked for node by node. Who has gone meanwhile is
        left out.
        """
        stats: list[Answer] = []
        for i in range(0, len(line), TOGETHER):
            part = line[i : i + TOGETHER]
            stats += self._ask(
                *(requests.Exists(f"{door.path}/{one.name}", None) for one in part),
                deadline=deadline,
            )
        born = [(stat.czxid, one) for stat, one in zip(stats, line, strict=True) if stat]
        return [one for _, one in sorted(born, key=itemgetter(0))]

    def _ask(self, *asked: requests.Request, deadline: float) -> list[Answer]:
        """Return the answers; what is no part of the recipe is raised."""
        answers = self.session.wire.ask(*asked, deadline=deadline)
        self._refuse(asked, answers)
        return answers

    def _refuse(self, asked: Sequence[requests.Request], answers: Sequence[Answer]) -> None:
        for request, answer in zip(asked, answers, strict=True):
            if isinstance(answer, KazooException) and not isinstance(answer, EXPECTED):
                where, users = self._address.where, self._address.users
                error = refusals.refused(answer, where=where, path=request.path, users=users)
                raise error from answer
