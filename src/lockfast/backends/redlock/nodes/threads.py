"""All nodes at once, sync flavour: the calling thread takes a connection to each, and polls them.

No thread is begun for a call, but to make several connections at once that are missing. One on
which an answer is still to come is given back all the same: whoever takes it next reads that
answer first.
"""

from __future__ import annotations

import socket
import weakref
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from lockfast.backends.redis import refusals
from lockfast.backends.redis.connection.threads import Link, Wire
from lockfast.backends.redis.resp import NotRedis, Push
from lockfast.backends.redlock.node import Misfit
from lockfast.backends.redlock.round import GRACE, PATIENCE, Answer, Dropped, Round
from lockfast.backends.wires.failures import unanswered
from lockfast.backends.wires.parsing import MORE, UNREADABLE, Misread, misbehaved
from lockfast.errors import BackendMisbehaved, BackendUnavailable, LockError
from lockfast.platforms import here
from lockfast.runtime.threads import gather

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Sequence

    from lockfast.backends.redis.resp import Reply
    from lockfast.backends.redlock.node import Node
    from lockfast.backends.redlock.requests import Question
    from lockfast.runtime.clock import Clock

    Greeting = Generator[list[bytes], list[Reply], None]

__all__ = ["NodeWire", "Nodes"]

KEPT = 64
"""As many connections to a node are kept for the next calls."""

CONNECTING = 0.25
"""As long may another connection take to a node that is known to be there."""


class Line:
    """A connection to one node, and who waits for what it still has to answer."""

    __slots__ = ("__weakref__", "is_lost", "link", "node", "pending", "sent_at")

    def __init__(self, link: Link, node: Node) -> None:
        self.link: Link = link
        self.node: Node = node
        self.is_lost: bool = False
        self.pending: deque[Answer | Dropped] = deque()
        self.sent_at: float = 0.0
        """When the first was sent that is not answered."""

    def send(self, requests: Sequence[tuple[Answer | Dropped, bytes]], *, now: float) -> None:
        """Send them all; what comes back is theirs."""
        if not self.pending:
            self.sent_at = now
        self.pending.extend(one for one, _ in requests)
        self.link.send(b"".join([data for _, data in requests]), deadline=now + PATIENCE)

    def take_in(self, *, now: float) -> None:
        """Give what has come to those who wait for it."""
        self.link.take_in()
        while (reply := self.link.buffered()) is not MORE:
            if isinstance(reply, Push):
                continue
            if not self.pending:
                raise NotRedis(repr(reply)[:40])
            self.sent_at = now
            self.pending.popleft().set_result(reply)

    def lose(self, error: BaseException) -> None:
        """Close it, and tell those who wait."""
        self.is_lost = True
        self.link.close()
        unknown = unanswered(error, where=self.node.where)
        while self.pending:
            self.pending.popleft().set_exception(unknown)


class NodeWire(Wire):
    """The way to one node; a connection begins with a greeting."""

    def __init__(
        self,
        *,
        kind: type,
        options: dict[str, Any],
        clock: Clock,
        where: str,
        greet: Callable[[], Greeting],
    ) -> None:
        super().__init__(kind=kind, options=options, clock=clock, where=where)
        self._greet = greet
        self.lines: list[Line] = []
        """Those that nobody uses."""
        self._all: weakref.WeakValueDictionary[int, Line] = weakref.WeakValueDictionary()
        self._dialed: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    def _connect(self, deadline: float) -> Link:
        link = super()._connect(deadline)
        try:
            self._exchange(link, deadline)
        except BaseException:
            link.close()
            raise
        return link

    def _dials(self, connection: Any) -> None:  # noqa: ANN401 - the driver's
        self._dialed[id(connection)] = connection

    def hang_up(self) -> None:
        """End what waits for a server that has taken a connection and says nothing."""
        for one in self._dialed.valuerefs():
            sock = getattr(one(), "_sock", None)
            if sock is not None:
                with suppress(OSError):  # it has ended by itself
                    sock.shutdown(socket.SHUT_RDWR)

    def know(self, line: Line) -> Line:
        """Know of a connection as long as somebody has it."""
        self._all[id(line)] = line
        return line

    def has_line(self) -> bool:
        """Whether there is a connection, also if another thread uses it now."""
        known = [one() for one in self._all.valuerefs()]
        return any(one is not None and not one.is_lost for one in known)

    def connect(self, *, deadline: float) -> Link:
        """Return a connection of its own."""
        return self._connect(deadline)

    def _exchange(self, link: Link, deadline: float) -> None:
        steps = self._greet()
        requests = next(steps)
        try:
            while True:
                link.send(b"".join(requests), deadline=deadline)
                requests = steps.send([link.receive(deadline=deadline) for _ in requests])
        except StopIteration:
            return
        except OSError as error:
            raise refusals.unreachable(error, where=self.where) from error
        except NotRedis as error:
            raise refusals.not_redis(where=self.where) from error
        except LockError:
            raise  # in words of the greeting
        except UNREADABLE as error:
            raise misbehaved("its greeting", where=self.where) from error

    def close(self) -> None:
        """Close every connection: now, or when its call has ended."""
        super().close()
        while self.lines:
            self.lines.pop().lose(ConnectionError("closed"))

    def after_fork_in_child(self) -> None:
        """Let go of the parent's connections: closing them here ends nothing there."""
        super().after_fork_in_child()
        self._dialed = weakref.WeakValueDictionary()  # to hang up would end the parent's
        self._all = weakref.WeakValueDictionary()
        lines, self.lines = self.lines, []
        for line in lines:
            line.link.close()

    @property
    def generation(self) -> int:
        """Grows when all connections that were made before are closed."""
        return self._idle.generation


class Nodes:
    """The ways to all nodes."""

    def __init__(self, nodes: Sequence[Node], wires: Sequence[NodeWire], clock: Clock) -> None:
        self.nodes = nodes
        self.wires = wires
        self._clock = clock

    def is_ready(self, node: Node) -> bool:
        """Whether it can be asked."""
        return node.scripts is not None and node.trouble is None

    def greet(self, node: Node, *, deadline: float) -> None:
        """Connect to a node, and get to know it."""
        wire = self.wires[node.number]
        line = wire.know(Line(wire.connect(deadline=deadline), node))
        self._give_back(node, line)

    def ask(
        self,
        questions: Sequence[Question],
        *,
        decide: Callable[[Round], bool],
        timeout: float,
        patience: float = 0.0,
        among: Collection[int] | None = None,
        owed_for: float = 0.0,
    ) -> Round:
        """Ask all nodes at once, or some; return when it is decided, or when the time is up.

        Who has not answered by the timeout is overdue; with more patience it is waited for.
        Where `owed_for` says how long it matters, a node that cannot be told is told later.
        """
        found = Round(self.nodes, decide)
        lines: dict[int, Line] = {}
        try:
            asked = [one for one in self.nodes if among is None or one.number in among]
            self._take(found, asked, lines, timeout)
            for node in asked:
                self._send(found, node, questions, lines.get(node.number), owed_for)
            found.look()
            self._listen(found, lines, timeout, patience)
        except BaseException:
            # An interrupt: nobody knows what was sent, or read in part.
            for line in lines.values():
                line.lose(ConnectionError("interrupted"))
            raise
        for line in lines.values():
            self._give_back(line.node, line)
        return found.outcome()

    def _send(
        self,
        found: Round,
        node: Node,
        questions: Sequence[Question],
        line: Line | None,
        owed_for: float,
    ) -> None:
        now, scripts = self._clock.now(), node.scripts
        is_unknown = line is None and found.replies[node.number] is None
        if is_unknown and (node.trouble is not None or scripts is None):
            trouble = node.trouble or BackendUnavailable(f"{node.where} is not connected")
            found.replies[node.number] = trouble
        most = 1 if owed_for else 0
        if line is None or scripts is None or (node.is_slow and len(line.pending) > most):
            if owed_for:
                for one in questions:
                    node.owe(one, now=now, owed_for=owed_for)
            return
        owed_until = now + owed_for if owed_for else 0.0
        answer = Answer(found, node, questions, owed_until=owed_until)
        sent: list[tuple[Answer | Dropped, bytes]] = []
        if node.has_errands:
            sent += [(Dropped(node, one), one.question.to(scripts)) for one in node.errands(now)]
        sent += [(answer, one.to(scripts)) for one in questions]
        found.asked[node.number], node.asked_at = True, now
        found.asked_by[node.number] = scripts
        try:
            line.send(sent, now=now)
        except OSError as error:
            self._lost(node, line, error)

    def _take(
        self, found: Round, asked: Sequence[Node], lines: dict[int, Line], timeout: float
    ) -> None:
        """Find a connection to each node, but for those to which none is to be had quickly."""
        for node in asked:
            line = self._kept(node, timeout)
            if line is not None:
                lines[node.number] = line
            elif node.is_slow and node.trouble is None and not self.wires[node.number].has_line():
                # Nobody is left who could hear that it is there again: it is to be greeted anew.
                node.trouble = BackendUnavailable(f"{node.where} is not connected")
        missing = [one for one in asked if one.number not in lines and _is_there(one)]
        if missing:
            # Other threads use those that are kept. At once: one that hangs would delay the rest.
            deadline = self._clock.now() + max(CONNECTING, timeout)
            gather([partial(self._connect, found, one, lines, deadline) for one in missing])

    def _kept(self, node: Node, timeout: float) -> Line | None:
        """Return a connection that nobody uses."""
        wire, now = self.wires[node.number], self._clock.now()
        while node.trouble is None:
            try:
                line = wire.lines.pop()
            except IndexError:
                break
            if line.link.generation == wire.generation and self._is_sound(node, line, timeout, now):
                return line
        return None

    def _connect(self, found: Round, node: Node, lines: dict[int, Line], deadline: float) -> None:
        wire = self.wires[node.number]
        try:
            lines[node.number] = wire.know(Line(wire.connect(deadline=deadline), node))
        except LockError as error:
            found.replies[node.number] = error
            # One connection too many says nothing of the others: who has one must not lose the
            # node, and those that are kept must not lie there while none can be made.
            if isinstance(error, Misfit) or not wire.has_line():
                node.trouble = error

    def _is_sound(self, node: Node, line: Line, timeout: float, now: float) -> bool:
        """Whether it can be used; whoever waited for what it owes is told by this."""
        if not line.pending:
            if line.link.is_sound(now):
                return True
            line.lose(ConnectionError("closed"))
            return False
        try:
            line.take_in(now=now)
        except (OSError, NotRedis) as error:
            self._lost(node, line, error)
            return False
        if not line.pending:
            return True
        waited = now - line.sent_at
        if waited > max(PATIENCE, timeout):
            self._lost(node, line, TimeoutError("no answer in time"))
            return False
        if waited > timeout:
            node.is_slow = True
        return True

    def _lost(self, node: Node, line: Line, error: Exception) -> None:
        line.lose(error)
        if isinstance(error, Misread):
            node.trouble = BackendMisbehaved(str(error))
        else:
            node.trouble = refusals.unreachable(error, where=node.where, has_answered=True)

    def _listen(
        self, found: Round, lines: dict[int, Line], timeout: float, patience: float
    ) -> None:
        """Read what comes until it is decided, or the time is up."""
        started = self._clock.now()
        deadline = started + max(timeout, patience)
        marks = sorted(
            [(started + GRACE, found.hurry), (started + timeout, found.remark)], key=_when
        )
        poll = here.Poll()
        listening = {}
        for line in lines.values():
            if line.pending and not line.is_lost:
                listening[line.link.fileno()] = line
                poll.register(line.link, here.READ)
        while not found.is_decided:
            now = self._clock.now()
            # What has come is read once more after the deadline: we may have slept, and not they.
            # Only once, because a node that keeps talking always has something to read.
            is_last = now >= deadline
            until = min(deadline, marks[0][0]) if marks else deadline
            ready = poll.poll(max(0.0, until - now) * 1000)
            now = self._clock.now()
            for number, _ in ready:
                line = listening[number]
                try:
                    line.take_in(now=now)
                except (OSError, NotRedis) as error:
                    poll.unregister(number)
                    self._lost(line.node, line, error)
            while marks and now >= marks[0][0]:
                marks.pop(0)[1]()
            if is_last:
                found.end()

    def _give_back(self, node: Node, line: Line) -> None:
        wire = self.wires[node.number]
        line.link.used_at = self._clock.now()
        if line.is_lost:
            return
        if len(wire.lines) < KEPT and line.link.generation == wire.generation:
            wire.lines.append(line)
        else:
            line.lose(ConnectionError("closed"))

    def hang_up(self) -> None:
        """Let nobody wait any longer who connects: those who do are about to be joined."""
        for wire in self.wires:
            wire.hang_up()

    def close(self) -> None:
        """Close every connection: now, or when its call has ended."""
        for wire in self.wires:
            wire.close()

    def after_fork_in_child(self) -> None:
        """Let go of the parent's connections."""
        for node, wire in zip(self.nodes, self.wires, strict=True):
            wire.after_fork_in_child()
            node.is_slow = False  # who could hear that it is there again is the parent's


def _is_there(node: Node) -> bool:
    """Whether another connection to it should not take long."""
    return node.trouble is None and node.scripts is not None and not node.is_slow


def _when(mark: tuple[float, Callable[[], None]]) -> float:
    return mark[0]
