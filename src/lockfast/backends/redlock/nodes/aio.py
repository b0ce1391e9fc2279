"""All nodes at once, asyncio flavour: one connection to each, and one future for a round."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lockfast.backends.redis import refusals
from lockfast.backends.redis.connection.aio import Link, Wire
from lockfast.backends.redis.resp import NotRedis
from lockfast.backends.redlock.round import GRACE, PATIENCE, Answer, Dropped, Round
from lockfast.backends.wires.parsing import UNREADABLE, misbehaved
from lockfast.errors import BackendUnavailable, LockError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Sequence

    from lockfast.backends.redis.resp import Reply
    from lockfast.backends.redlock.node import Node
    from lockfast.backends.redlock.requests import Question
    from lockfast.runtime.clock import Clock

    Greeting = Generator[list[bytes], list[Reply], None]

__all__ = ["NodeWire", "Nodes"]


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

    @property
    def link(self) -> Link | None:
        """The connection, if there is one."""
        link = self._link
        return link if link is not None and link.is_open else None

    async def _connect(self, deadline: float) -> Link:
        link = await super()._connect(deadline)
        try:
            await self._exchange(link, deadline)
        except BaseException:
            link.close()
            raise
        return link

    async def greet(self, *, deadline: float) -> None:
        """Connect, or greet the node again where there is a connection."""
        link = self.link
        if link is None:
            await self._connected(deadline)
        else:
            await self._exchange(link, deadline)

    async def _exchange(self, link: Link, deadline: float) -> None:
        steps, moment = self._greet(), self._loop_time(deadline)
        requests = next(steps)
        try:
            while True:
                sent = [link.send(one, deadline=moment) for one in requests]
                # All of them: a lost one is nobody's otherwise.
                replies = await asyncio.gather(*sent, return_exceptions=True)
                for reply in replies:
                    if isinstance(reply, BaseException):
                        if isinstance(reply.__cause__, NotRedis):
                            raise refusals.not_redis(where=self.where) from reply
                        raise refusals.unreachable(reply, where=self.where) from reply
                requests = steps.send(replies)
        except StopIteration:
            return
        except LockError:
            raise  # in words of the greeting
        except UNREADABLE as error:
            link.close()
            raise misbehaved("its greeting", where=self.where) from error


class Nodes:
    """The ways to all nodes."""

    def __init__(self, nodes: Sequence[Node], wires: Sequence[NodeWire], clock: Clock) -> None:
        self.nodes = nodes
        self.wires = wires
        self._clock = clock

    def is_ready(self, node: Node) -> bool:
        """Whether it can be asked."""
        return node.scripts is not None and self.wires[node.number].link is not None

    async def greet(self, node: Node, *, deadline: float) -> None:
        """Connect to a node, and get to know it."""
        await self.wires[node.number].greet(deadline=deadline)

    async def ask(
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
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            if not done.done():
                done.set_result(None)

        found = Round(self.nodes, decide, tell)
        moment = loop.time() + max(PATIENCE, timeout, patience)
        for node in self.nodes:
            if among is None or node.number in among:
                self._send(found, node, questions, moment, owed_for)
        found.look()
        if not found.is_decided:
            timers = [loop.call_later(GRACE, found.hurry)]
            if patience > timeout:
                timers.append(loop.call_later(timeout, found.remark))
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
        questions: Sequence[Question],
        moment: float,
        owed_for: float,
    ) -> None:
        link, scripts = self.wires[node.number].link, node.scripts
        if link is None or scripts is None:
            error = node.trouble or BackendUnavailable(f"{node.where} is not connected")
            found.replies[node.number] = error
        elif not node.is_slow or link.owed <= (1 if owed_for else 0):
            now = self._clock.now()
            for errand in node.errands(now):
                drop = Dropped(node, errand)
                link.send_for(drop, errand.question.to(scripts), deadline=moment)
            owed_until = now + owed_for if owed_for else 0.0
            answer = Answer(found, node, questions, owed_until=owed_until)
            found.asked[node.number], node.asked_at = True, now
            found.asked_by[node.number] = scripts
            for one in questions:
                link.send_for(answer, one.to(scripts), deadline=moment)
            return
        if owed_for:
            for one in questions:
                node.owe(one, now=self._clock.now(), owed_for=owed_for)

    def hang_up(self) -> None:
        """Do nothing: tasks that connect are cancelled, and threads cannot be."""

    async def close(self) -> None:
        """Close every connection."""
        for wire in self.wires:
            await wire.close()

    def after_fork_in_child(self) -> None:
        """Leave the parent's connections alone."""
        for node, wire in zip(self.nodes, self.wires, strict=True):
            wire.after_fork_in_child()
            node.is_slow = False  # who could hear that it is there again is the parent's
