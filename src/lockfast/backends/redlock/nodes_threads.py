"""All nodes at once, for threads: the caller takes a connection to each, and polls them.

A call starts no thread, except to make several missing connections at once. A connection is put
back even while a reply on it is outstanding; the next thread that takes the connection reads that
reply first.
"""

from __future__ import annotations

import weakref
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, cast

from lockfast.backends.network.codec import NEED_MORE, Misread
from lockfast.backends.network.errors import unanswered
from lockfast.backends.redis import errors
from lockfast.backends.redis.connection_threads import RedisConnection, RedisTransport
from lockfast.backends.redis.resp import Push, RespError
from lockfast.backends.redlock.node import NodeMismatch
from lockfast.backends.redlock.round import (
    GRACE_SECONDS,
    REPLY_TIMEOUT_SECONDS,
    DroppedReply,
    NodeReply,
    Round,
)
from lockfast.errors import BackendMisbehaved, BackendUnavailable, LockError
from lockfast.platforms import here
from lockfast.runtime.threads import gather

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Collection, Sequence

    from lockfast.backends.network.target import Handshake
    from lockfast.backends.redis.address import ServerSettings
    from lockfast.backends.redlock.node import Node
    from lockfast.backends.redlock.requests import NodeRequest
    from lockfast.runtime.clock import Clock

__all__ = ["NodeTransport", "Nodes"]

EXTRA_CONNECT_SECONDS = 0.25
"""Timeout for one more connection to a node that is known to be reachable, in seconds."""


class NodeConnection(RedisConnection):
    """A connection to one node, and the recipients of its outstanding replies."""

    __slots__ = ("__weakref__", "is_lost", "node", "pending", "sent_at")

    def __init__(self, sock: socket.socket, clock: Clock, generation: int, node: Node) -> None:
        super().__init__(sock, clock, generation)
        self.node: Node = node
        self.is_lost: bool = False
        self.pending: deque[NodeReply | DroppedReply] = deque()
        self.sent_at: float = 0.0
        """When the oldest unanswered request was sent or, if later, when the last reply came."""

    def send_for(
        self, requests: Sequence[tuple[NodeReply | DroppedReply, bytes]], *, now: float
    ) -> None:
        """Send all requests, and record the recipients of the replies."""
        if not self.pending:
            self.sent_at = now
        self.pending.extend(one for one, _ in requests)
        self.send(b"".join([data for _, data in requests]), deadline=now + REPLY_TIMEOUT_SECONDS)

    def deliver(self, *, now: float) -> None:
        """Deliver the replies that have arrived to their recipients."""
        self.take_in()
        while (reply := self.buffered()) is not NEED_MORE:
            if isinstance(reply, Push):
                continue
            if not self.pending:
                raise RespError(repr(reply)[:40])
            self.sent_at = now
            self.pending.popleft().set_result(reply)

    def is_sound(self, now: float) -> bool:
        """Whether the connection seems usable; an outstanding reply would be taken for the next."""
        return not self.pending and super().is_sound(now)

    def lose(self, error: BaseException) -> None:
        """Close the connection, and notify the recipients of outstanding replies."""
        self.is_lost = True
        super().close()
        unknown = unanswered(error, where=self.node.where)
        while self.pending:
            self.pending.popleft().set_exception(unknown)

    def close(self) -> None:
        """Close the connection; replies that are still outstanding are lost."""
        self.lose(ConnectionError("closed"))


class NodeTransport(RedisTransport):
    """The transport to one node; a connection begins with a handshake."""

    def __init__(
        self, server: ServerSettings, node: Node, *, greet: Callable[[], Handshake], clock: Clock
    ) -> None:
        super().__init__(server, clock=clock)
        self.node = node
        self._identify = greet
        self._all: weakref.WeakValueDictionary[int, NodeConnection] = weakref.WeakValueDictionary()

    def _new_connection(self, sock: socket.socket, generation: int) -> NodeConnection:
        return NodeConnection(sock, self._clock, generation, self.node)

    def _greet(self, connection: RedisConnection, until: float) -> None:
        super()._greet(connection, until)
        connection.run_handshake(self._identify(), until=until)

    def open(self, *, deadline: float) -> NodeConnection:
        """Return a new connection."""
        return self.register(cast("NodeConnection", self.connect(deadline=deadline)))

    def register(self, connection: NodeConnection) -> NodeConnection:
        """Register a connection for as long as something refers to it."""
        self._all[id(connection)] = connection
        return connection

    def take(self) -> NodeConnection | None:
        """Return an idle connection, which the caller has to check; None if there is none."""
        return cast("NodeConnection | None", self._idle.take_unchecked())

    def put_back(self, connection: NodeConnection) -> None:
        """Keep the connection for the next call."""
        if not connection.is_lost:
            self._idle.put_back(connection)

    def has_connection(self) -> bool:
        """Return whether there is a connection, even if another thread is using it."""
        known = [one() for one in self._all.valuerefs()]
        return any(one is not None and not one.is_lost for one in known)

    def after_fork_in_child(self) -> None:
        """Close our copies of the parent's connections, which does not affect the parent."""
        for one in self._all.valuerefs():
            if (connection := one()) is not None:
                connection.pending.clear()  # the replies are the parent's
        self._all = weakref.WeakValueDictionary()
        super().after_fork_in_child()


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
        return node.scripts is not None and node.trouble is None

    def greet(self, node: Node, *, deadline: float) -> None:
        """Connect to a node, and complete the handshake."""
        transport = self.transports[node.number]
        transport.put_back(transport.open(deadline=deadline))

    def ask(
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
        found = Round(self.nodes, decide)
        connections: dict[int, NodeConnection] = {}
        try:
            asked = [one for one in self.nodes if among is None or one.number in among]
            self._take(found, asked, connections, timeout)
            for node in asked:
                self._send(found, node, questions, connections.get(node.number), matters_for)
            found.look()
            self._listen(found, connections, timeout, patience)
        except BaseException:
            # After an interrupt, it is unknown which requests were sent, and whether a reply was
            # read in part.
            for connection in connections.values():
                connection.lose(ConnectionError("interrupted"))
            raise
        for connection in connections.values():
            self.transports[connection.node.number].put_back(connection)
        return found.outcome()

    def _send(
        self,
        found: Round,
        node: Node,
        questions: Sequence[NodeRequest],
        connection: NodeConnection | None,
        matters_for: float,
    ) -> None:
        now, scripts = self._clock.now(), node.scripts
        is_unknown = connection is None and found.replies[node.number] is None
        if is_unknown and (node.trouble is not None or scripts is None):
            trouble = node.trouble or BackendUnavailable(f"{node.where} is not connected")
            found.replies[node.number] = trouble
        most = 1 if matters_for else 0
        if (
            connection is None
            or scripts is None
            or (node.is_slow and len(connection.pending) > most)
        ):
            if matters_for:
                for one in questions:
                    node.defer(one, now=now, matters_for=matters_for)
            return
        matters_until = now + matters_for if matters_for else 0.0
        answer = NodeReply(found, node, questions, matters_until=matters_until)
        sent: list[tuple[NodeReply | DroppedReply, bytes]] = []
        if node.has_deferred:
            sent += [
                (DroppedReply(node, one), one.question.to(scripts)) for one in node.deferred(now)
            ]
        sent += [(answer, one.to(scripts)) for one in questions]
        found.asked[node.number], node.asked_at = True, now
        found.asked_by[node.number] = scripts
        try:
            connection.send_for(sent, now=now)
        except OSError as error:
            self._lost(node, connection, error)

    def _take(
        self,
        found: Round,
        asked: Sequence[Node],
        connections: dict[int, NodeConnection],
        timeout: float,
    ) -> None:
        """Take a connection to each node, except to nodes where none is quickly available."""
        for node in asked:
            connection = self._kept(node, timeout)
            if connection is not None:
                connections[node.number] = connection
            elif (
                node.is_slow
                and node.trouble is None
                and not self.transports[node.number].has_connection()
            ):
                # No connection is left on which a late reply could show that the node is back, so
                # the node needs a new handshake.
                node.trouble = BackendUnavailable(f"{node.where} is not connected")
        missing = [one for one in asked if one.number not in connections and _is_there(one)]
        if missing:
            # Other threads use the existing connections. Make all missing connections at once,
            # because otherwise a node that hangs would delay the others.
            deadline = self._clock.now() + max(EXTRA_CONNECT_SECONDS, timeout)
            gather([partial(self._connect, found, one, connections, deadline) for one in missing])

    def _kept(self, node: Node, timeout: float) -> NodeConnection | None:
        """Return an idle connection that is sound; None if there is none."""
        transport, now = self.transports[node.number], self._clock.now()
        while node.trouble is None:
            connection = transport.take()
            if connection is None or self._is_sound(node, connection, timeout, now):
                return connection
        return None

    def _connect(
        self, found: Round, node: Node, connections: dict[int, NodeConnection], deadline: float
    ) -> None:
        transport = self.transports[node.number]
        try:
            connections[node.number] = transport.open(deadline=deadline)
        except LockError as error:
            found.replies[node.number] = error
            # A failure to make one more connection says nothing about the existing connections.
            # Threads that have a connection to the node, or find an idle one, go on using it.
            if isinstance(error, NodeMismatch) or not transport.has_connection():
                node.trouble = error

    def _is_sound(self, node: Node, connection: NodeConnection, timeout: float, now: float) -> bool:
        """Return whether the connection can be used; deliver outstanding replies that have come."""
        if not connection.pending:
            if connection.is_sound(now):
                return True
            connection.close()
            return False
        try:
            connection.deliver(now=now)
        except (OSError, RespError) as error:
            self._lost(node, connection, error)
            return False
        if not connection.pending:
            return True
        waited = now - connection.sent_at
        if waited > max(REPLY_TIMEOUT_SECONDS, timeout):
            self._lost(node, connection, TimeoutError("no answer in time"))
            return False
        if waited > timeout:
            node.is_slow = True
        return True

    def _lost(self, node: Node, connection: NodeConnection, error: Exception) -> None:
        connection.lose(error)
        if isinstance(error, Misread):
            node.trouble = BackendMisbehaved(str(error))
        else:
            node.trouble = errors.unreachable(error, where=node.where, has_answered=True)

    def _listen(
        self, found: Round, connections: dict[int, NodeConnection], timeout: float, patience: float
    ) -> None:
        """Read replies until the round is decided, or the time is up."""
        started = self._clock.now()
        deadline = started + max(timeout, patience)
        marks = sorted(
            [(started + GRACE_SECONDS, found.hurry), (started + timeout, found.mark_overdue)],
            key=_when,
        )
        poll = here.Poll()
        listening = {}
        for connection in connections.values():
            if connection.pending and not connection.is_lost:
                listening[connection.fileno()] = connection
                poll.register(connection, here.READ)
        while not found.is_decided:
            now = self._clock.now()
            # After the deadline, read once more what has come, because our process may have been
            # suspended while the nodes were not. Read only once, because a node that keeps sending
            # always has something to read.
            is_last = now >= deadline
            until = min(deadline, marks[0][0]) if marks else deadline
            ready = poll.poll(max(0.0, until - now) * 1000)
            now = self._clock.now()
            for number, _ in ready:
                connection = listening[number]
                try:
                    connection.deliver(now=now)
                except (OSError, RespError) as error:
                    poll.unregister(number)
                    self._lost(connection.node, connection, error)
            while marks and now >= marks[0][0]:
                marks.pop(0)[1]()
            if is_last:
                found.end()

    def hang_up(self) -> None:
        """Interrupt threads that are connecting, because they are about to be joined."""
        for transport in self.transports:
            transport.hang_up()

    def close(self) -> None:
        """Close idle connections now, and those in use when their calls end."""
        for transport in self.transports:
            transport.close()

    def after_fork_in_child(self) -> None:
        """Abandon the parent's connections."""
        for node, transport in zip(self.nodes, self.transports, strict=True):
            transport.after_fork_in_child()
            node.is_slow = False  # a reply to the parent cannot clear the child's mark


def _is_there(node: Node) -> bool:
    """Return whether one more connection to the node can probably be made quickly."""
    return node.trouble is None and node.scripts is not None and not node.is_slow


def _when(mark: tuple[float, Callable[[], None]]) -> float:
    return mark[0]
