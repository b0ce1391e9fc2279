"""All nodes at once, for asyncio: one connection to each, and one future for a round."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lockfast.backends.redis.connection_aio import RedisConnection, RedisTransport
from lockfast.backends.redlock.round import (
    GRACE_SECONDS,
    REPLY_TIMEOUT_SECONDS,
    DroppedReply,
    NodeReply,
    Round,
)
from lockfast.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lockfast.backends.network.target import Handshake
    from lockfast.backends.redis.address import ServerSettings
    from lockfast.backends.redlock.node import Node
    from lockfast.backends.redlock.requests import NodeRequest
    from lockfast.runtime.clock import Clock

__all__ = ["NodeTransport", "Nodes"]


class NodeTransport(RedisTransport):
    """The transport to one node; a connection begins with a handshake."""

    def __init__(
        self, server: ServerSettings, node: Node, *, greet: Callable[[], Handshake], clock: Clock
    ) -> None:
        super().__init__(server, clock=clock)
        self.node = node
        self._identify = greet

    @property
    def connection(self) -> RedisConnection | None:
        """The connection, if there is one."""
        connection = self._connection
        return connection if connection is not None and connection.is_open else None

    async def _greet(self, connection: RedisConnection, until: float) -> None:
        await super()._greet(connection, until)
        await connection.run_handshake(self._identify(), until=until)

    async def greet(self, *, deadline: float) -> None:
        """Connect, or repeat the handshake on an existing connection."""
        connection = self.connection
        if connection is None:
            await self._connected(deadline)
            return
        try:
            await connection.run_handshake(self._identify(), until=self._loop_time(deadline))
        except Exception as error:
            if (failure := self._failure(error)) is None:
                raise
            connection.close()
            raise failure from error


class Nodes:
    """The transports to all nodes."""

    def __init__(
        self, nodes: Sequence[Node], transports: Sequence[NodeTransport], clock: Clock
    ) -> None:
        self.nodes = nodes
        self.transports = transports
        self._clock = clock

    def is_ready(self, node: Node) -> bool:
        """Whether the node can be asked."""
        return node.scripts is not None and self.transports[node.number].connection is not None

    async def greet(self, node: Node, *, deadline: float) -> None:
        """Connect to a node, and complete the handshake."""
        await self.transports[node.number].greet(deadline=deadline)

    async def ask(
        self,
        questions: Sequence[NodeRequest],
        *,
        decide: Callable[[Round], bool],
        timeout: float,
        patience: float = 0.0,
        among: Collection[int] | None = None,
        matters_for: float = 0.0,
    ) -> Round:
        """Ask all nodes, or those in `among`, at once, until the round is decided or time is up.

        A node that has not replied by the timeout is overdue. If `patience` is longer than the
        timeout, the call waits for replies that long. `matters_for` is the time for which the
        request matters; if it is given, a node that cannot receive the request now gets it later.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            if not done.done():
                done.set_result(None)

        found = Round(self.nodes, decide, tell)
        moment = loop.time() + max(REPLY_TIMEOUT_SECONDS, timeout, patience)
        for node in self.nodes:
            if among is None or node.number in among:
                self._send(found, node, questions, moment, matters_for)
        found.look()
        if not found.is_decided:
            timers = [loop.call_later(GRACE_SECONDS, found.hurry)]
            if patience > timeout:
                timers.append(loop.call_later(timeout, found.mark_overdue))
            timers.append(loop.call_later(max(timeout, patience), found.end))
            try:
                await done
            finally:
                for timer in timers:
                    timer.cancel()
        return found.outcome()

    def _send(
        self,
        found: Round,
        node: Node,
        questions: Sequence[NodeRequest],
        moment: float,
        matters_for: float,
    ) -> None:
        connection, scripts = self.transports[node.number].connection, node.scripts
        if connection is None or scripts is None:
            error = node.trouble or BackendUnavailable(f"{node.where} is not connected")
            found.replies[node.number] = error
        elif not node.is_slow or connection.owed <= (1 if matters_for else 0):
            now = self._clock.now()
            for deferred_request in node.deferred(now):
                drop = DroppedReply(node, deferred_request)
                connection.send_for(drop, deferred_request.question.to(scripts), deadline=moment)
            matters_until = now + matters_for if matters_for else 0.0
            answer = NodeReply(found, node, questions, matters_until=matters_until)
            found.asked[node.number], node.asked_at = True, now
            found.asked_by[node.number] = scripts
            for one in questions:
                connection.send_for(answer, one.to(scripts), deadline=moment)
            return
        if matters_for:
            for one in questions:
                node.defer(one, now=self._clock.now(), matters_for=matters_for)

    def hang_up(self) -> None:
        """Do nothing, because a task that is connecting can be cancelled, unlike a thread."""

    async def close(self) -> None:
        """Close every connection."""
        for transport in self.transports:
            await transport.close()

    def after_fork_in_child(self) -> None:
        """Abandon the parent's connections."""
        for node, transport in zip(self.nodes, self.transports, strict=True):
            transport.after_fork_in_child()
            node.is_slow = False  # a reply to the parent cannot clear the child's mark
