"""How a session asks, and how the line of a name is read; what is no part of it is raised."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError, NotEmptyError

from lockfast.backends.sessions import records
from lockfast.backends.sessions.line import Line
from lockfast.backends.zookeeper import refusals, requests
from lockfast.backends.zookeeper.connection.aio import Connection
from lockfast.backends.zookeeper.nodes import in_line, is_doubtful

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.sessions.claims import CarriedClaim
    from lockfast.backends.zookeeper.answers import Answer
    from lockfast.backends.zookeeper.name_nodes import NameNode, NameNodes
    from lockfast.backends.zookeeper.nodes import Node
    from lockfast.runtime.clock import Clock

EXPECTED = (NoNodeError, NodeExistsError, NotEmptyError)
"""What others do at the same time: they create, and they delete."""

TOGETHER = 500
"""As many nodes are asked for in one flight."""


class AsyncAsking:
    """Asks by the connection of one session, and knows what the answers say of a line."""

    def __init__(
        self, doors: NameNodes, *, ttl: float, clock: Clock, changed: Callable[[], None]
    ) -> None:
        self.address = doors.address
        self._doors = doors
        self._clock = clock
        self._connection = Connection(
            self.address.options,
            ttl=ttl,
            clock=clock,
            where=self.address.where,
            changed=changed,
        )

    async def ask(self, *asked: requests.Request, deadline: float) -> list[Answer]:
        """Return the answers; what nobody expects is raised."""
        answers = await self._connection.ask(*asked, deadline=deadline)
        self._refuse(asked, answers)
        return answers

    def _refuse(self, asked: Sequence[requests.Request], answers: Sequence[Answer]) -> None:
        for request, answer in zip(asked, answers, strict=True):
            if isinstance(answer, KazooException) and not isinstance(answer, EXPECTED):
                where, users = self.address.where, self.address.users
                error = refusals.refused(answer, where=where, path=request.path, users=users)
                raise error from answer

    async def _line(
        self, door: NameNode, answer: Answer, deadline: float, *, key: str | None = None
    ) -> Line:
        """Return what a list of children says, and where in it the node at `key` is."""
        prefix = f"{door.path}/"
        if refusals.is_missing(answer):
            return Line([], 0, prefix=prefix)
        children, stat = answer
        known = door.known
        if known is None or known[1] != stat.mzxid:
            [found] = await self.ask(requests.GetData(door.path, None), deadline=deadline)
            if refusals.is_missing(found):
                return Line([], 0, prefix=prefix)
            known = door.known = (records.capacity_in(found[0], key=door.path), found[1].mzxid)
        try:
            nodes = in_line(children)
        except ValueError as error:
            raise refusals.foreign(str(error), where=self.address.where, path=door.path) from None
        if is_doubtful(nodes):
            nodes = await self._by_birth(door, nodes, deadline)
        number = None if key is None else _position(nodes, key.removeprefix(prefix))
        return Line(nodes, known[0], prefix=prefix, number=number)

    async def _by_birth(self, door: NameNode, line: list[Node], deadline: float) -> list[Node]:
        """Return the line in the order of the transactions that made it.

        They say it always, and have to be asked for node by node. Who has gone meanwhile is
        left out.
        """
        stats: list[Answer] = []
        for i in range(0, len(line), TOGETHER):
            part = line[i : i + TOGETHER]
            stats += await self.ask(
                *(requests.Exists(f"{door.path}/{one.name}", None) for one in part),
                deadline=deadline,
            )
        born = [(stat.czxid, one) for stat, one in zip(stats, line, strict=True) if stat]
        return [one for _, one in sorted(born, key=itemgetter(0))]


def is_ours(stat: Answer, one: CarriedClaim) -> bool:
    """Whether what stands at the claim's key is what was granted, and not made again since."""
    return getattr(stat, "czxid", None) == one.token


def _position(line: Sequence[Node], name: str) -> int | None:
    for number, node in enumerate(line):
        if node.name == name:
            return number
    return None
