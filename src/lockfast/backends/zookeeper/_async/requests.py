"""Sends the requests of a ZooKeeper session, and raises unexpected replies as errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError, NotEmptyError

from lockfast.backends.zookeeper import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.zookeeper._async.connection import AsyncZooKeeperConnection
    from lockfast.backends.zookeeper.address import Address
    from lockfast.backends.zookeeper.requests import KazooReply, Request

EXPECTED = (NoNodeError, NodeExistsError, NotEmptyError)
"""Errors that are expected, because other clients create and delete nodes at the same time."""

REQUESTS_AT_ONCE = 500
"""Maximum number of requests that `ask_each` sends together."""


class AsyncZooKeeperRequests:
    """Sends requests on the connection of one session, and raises unexpected replies."""

    def __init__(self, connection: AsyncZooKeeperConnection, address: Address) -> None:
        self._connection = connection
        self._address = address

    async def ask(self, *asked: Request, deadline: float) -> list[KazooReply]:
        """Return the replies; an error that is not in EXPECTED is raised."""
        answers = await self._connection.ask(*asked, deadline=deadline)
        self.refuse(asked, answers)
        return answers

    async def ask_each(self, asked: Sequence[Request], *, deadline: float) -> list[KazooReply]:
        """Return the replies to any number of requests, as `ask` does."""
        answers: list[KazooReply] = []
        for i in range(0, len(asked), REQUESTS_AT_ONCE):
            answers += await self.ask(*asked[i : i + REQUESTS_AT_ONCE], deadline=deadline)
        return answers

    def refuse(self, asked: Sequence[Request], answers: Sequence[KazooReply]) -> None:
        """Raise the first error that is not in EXPECTED, if there is one."""
        for request, answer in zip(asked, answers, strict=True):
            if isinstance(answer, KazooException) and not isinstance(answer, EXPECTED):
                where, users = self._address.where, self._address.users
                error = errors.refused(answer, where=where, path=request.path, users=users)
                raise error from answer
