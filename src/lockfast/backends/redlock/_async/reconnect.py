"""Connects to missing nodes in the background, while callers ask the others.

A node that is down or hangs must not delay a call that the other nodes can answer. So a task or
thread of its own connects to each such node, and runs only as long as that is needed.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from lockfast.backends.redlock.node import NodeMismatch
from lockfast.core.backoff import delay
from lockfast.core.quorum import majority
from lockfast.errors import BackendUnavailable, LockError
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from lockfast.backends.redlock.node import Node
    from lockfast.backends.redlock.nodes_aio import Nodes
    from lockfast.runtime.clock import Clock

CONNECT_TIMEOUT_SECONDS = 3.0
"""Timeout for one attempt, in seconds; callers that have a majority do not wait for the attempt.
The timeout is long because a process that was suspended for a moment must not take all of its nodes
for dead."""

RECONNECT_PAUSE_MAX_SECONDS = 1.0
"""Longest pause between two attempts, in seconds."""

RECONNECT_IDLE_SECONDS = 30.0
"""After this many seconds without a request, attempts to reach a missing node end."""


class AsyncReconnectRun:
    """The background task that connects to one node; this object exists before the task."""

    def __init__(self) -> None:
        self.retry_now = runtime.WakeEvent()
        self.task: runtime.Task | None = None

    def is_alive(self) -> bool:
        """Return whether the task is running."""
        return self.task is not None and self.task.is_alive()


class AsyncReconnect:
    """Connects to nodes that are not ready, and sends them their deferred requests."""

    def __init__(self, nodes: Nodes, clock: Clock) -> None:
        self._nodes = nodes
        self._clock = clock
        self._state = runtime.StateLock()
        self._runs: dict[int, AsyncReconnectRun] = {}
        self._attempts = [0] * len(nodes.nodes)
        self._waiting: set[runtime.WakeEvent] = set()
        self._asked_at = 0.0
        self._is_stopping = False

    async def until_ready(
        self, *, deadline: float, patience: float = 0.0, all_of_them: bool = False
    ) -> None:
        """Return when all nodes can be asked, or when further waiting is not worthwhile.

        If a majority can be asked already, this returns at once. Otherwise, as at the beginning, it
        waits for a majority, and for up to `patience` for the other nodes too, because a lease on a
        bare majority does not survive the loss of a node. With `all_of_them` it goes on waiting for
        all nodes, because a majority was not enough.
        """
        missing = self._missing()
        if not missing:
            return
        now = self._asked_at = self._clock.now()
        is_majority = self._is_majority(missing) and not all_of_them
        for node in missing:
            self.connect_in_background(node, at_once=not is_majority)
        if is_majority:
            return
        began, before = self._asked_at, list(self._attempts)
        changed = runtime.WakeEvent()
        with self._state:
            self._waiting.add(changed)
        try:
            while missing := self._missing():
                now = self._clock.now()
                are_tried = all(self._attempts[one.number] > before[one.number] for one in missing)
                is_enough = self._is_majority(missing) and not all_of_them
                has_waited = is_enough and now >= began + patience
                if are_tried or has_waited or now >= deadline:
                    return
                changed.clear()
                if self._missing() == missing:
                    until = began + patience if is_enough else deadline
                    await runtime.wait_for(changed, deadline=until, clock=self._clock)
        finally:
            with self._state:
                self._waiting.discard(changed)

    def stragglers(self) -> list[Node]:
        """Return the nodes whose state is not known yet."""
        return [one for one in self._missing() if one.trouble is None]

    def _missing(self) -> list[Node]:
        nodes = self._nodes
        return [one for one in nodes.nodes if not nodes.is_ready(one)]

    def _is_majority(self, missing: list[Node]) -> bool:
        number = len(self._nodes.nodes)
        return number - len(missing) >= majority(number)

    def connect_in_background(self, node: Node, *, at_once: bool = False) -> None:
        """Make sure that a task connects to the node."""
        with self._state:
            known = self._runs.get(node.number)
            if known is not None and known.is_alive():
                if at_once:
                    known.retry_now.set()
                return
            if self._is_stopping:
                return
            one = self._runs[node.number] = AsyncReconnectRun()
            try:
                one.task = runtime.spawn(partial(self._run, node, one), name="lockfast-redlock")
            except RuntimeError as error:
                _log.warning("no thread to connect to %s: %s", node.where, error)
                self._attempts[node.number] += 1

    async def _run(self, node: Node, one: AsyncReconnectRun) -> None:
        attempt = 0
        try:
            while not self._is_stopping:
                one.retry_now.clear()
                await self._try(node)
                self._report(node)
                is_done = self._nodes.is_ready(node) and not node.has_deferred
                now = self._clock.now()
                if is_done or now - self._asked_at > RECONNECT_IDLE_SECONDS:
                    return
                until = now + delay(
                    attempt, jitter=self._clock.jitter(), most=RECONNECT_PAUSE_MAX_SECONDS
                )
                attempt += 1
                await runtime.wait_for(one.retry_now, deadline=until, clock=self._clock)
        finally:
            with self._state:
                if self._runs.get(node.number) is one:
                    del self._runs[node.number]
            self._report(node)  # the callers that wait for the node get no other notice

    async def _try(self, node: Node) -> None:
        # A node that was ready stays ready even if one more connection to it cannot be made.
        was_ready = self._nodes.is_ready(node)
        try:
            await self._nodes.greet(node, deadline=self._clock.now() + CONNECT_TIMEOUT_SECONDS)
        except LockError as error:
            if not was_ready or isinstance(error, NodeMismatch):
                node.trouble = error
        except Exception as error:  # noqa: BLE001 - reported to the callers
            # For example, a credential provider failed, no descriptors are left, or this is a bug
            # of our own.
            _log.warning("%s could not be greeted: %r", node.where, error, exc_info=True)
            node.trouble = BackendUnavailable(f"{node.where} could not be greeted: {error!r}")
        else:
            await self._send_deferred(node)

    async def _send_deferred(self, node: Node) -> None:
        deferred = node.deferred(self._clock.now())
        if deferred:
            found = await self._nodes.ask(
                [one.question for one in deferred],
                decide=lambda found: found.replies[node.number] is not None,
                timeout=CONNECT_TIMEOUT_SECONDS,
                among=(node.number,),
            )
            if node.number not in found.answers:
                node.keep(deferred)

    def _report(self, node: Node) -> None:
        with self._state:
            self._attempts[node.number] += 1
            waiting = list(self._waiting)
        for changed in waiting:
            changed.set()

    async def stop(self) -> None:
        """End the attempts under way."""
        self._is_stopping = True
        with self._state:
            runs = list(self._runs.values())
        for one in runs:
            one.retry_now.set()
            if one.task is not None:
                one.task.cancel()
        self._nodes.hang_up()
        for one in runs:
            if one.task is not None:
                await one.task.join()
        self._is_stopping = False

    def after_fork_in_child(self) -> None:
        """Start afresh, because the tasks are the parent's."""
        self.__init__(self._nodes, self._clock)  # type: ignore[misc]


_log = logging.getLogger("lockfast")
