# Generated from src/lockfast/backends/redlock/_async/tending.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Sees to it that all nodes are connected: in the background, while the others are asked.

A node that is down or hangs must not delay a call that the others can answer. So it is connected to
by a task or thread of its own, which is there only while there is something to do.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from lockfast.backends.redlock.node import Misfit
from lockfast.core.backoff import delay
from lockfast.core.quorum import majority
from lockfast.errors import BackendUnavailable, LockError
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from lockfast.backends.redlock.node import Node
    from lockfast.backends.redlock.nodes.threads import Nodes
    from lockfast.runtime.clock import Clock

CONNECTING = 3.0
"""As long may one attempt take; nobody waits for it who has a majority. A process that stands still
for a moment must not take all its nodes for dead."""

MOST = 1.0
"""The longest pause between two attempts."""

IDLE = 30.0
"""When nobody has asked for so long, a node that is away is left alone."""


class Tendency:
    """Who tends to one node; it exists before its task does."""

    def __init__(self) -> None:
        self.kick = runtime.Event()
        self.task: runtime.Task | None = None

    def is_alive(self) -> bool:
        """Whether somebody does."""
        return self.task is not None and self.task.is_alive()


class Tending:
    """Connects to nodes that are away, and tells them what they must still be told."""

    def __init__(self, nodes: Nodes, clock: Clock) -> None:
        self._nodes = nodes
        self._clock = clock
        self._state = runtime.StateLock()
        self._tended: dict[int, Tendency] = {}
        self._attempts = [0] * len(nodes.nodes)
        self._waiting: set[runtime.Event] = set()
        self._asked_at = 0.0
        self._is_stopping = False

    def until_ready(
        self, *, deadline: float, patience: float = 0.0, all_of_them: bool = False
    ) -> None:
        """Return when all nodes can be asked, or as many as will be.

        Where a majority can be, the others are not waited for; at the beginning they are, as long
        as for an answer, since a lease that few nodes know does not outlive the loss of one. And
        longer, if a majority has turned out not to be enough.
        """
        missing = self._missing()
        if not missing:
            return
        now = self._asked_at = self._clock.now()
        is_majority = self._is_majority(missing) and not all_of_them
        for node in missing:
            self.tend(node, at_once=not is_majority)
        if is_majority:
            return
        began, before = self._asked_at, list(self._attempts)
        changed = runtime.Event()
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
                    runtime.wait_for(changed, deadline=until, clock=self._clock)
        finally:
            with self._state:
                self._waiting.discard(changed)

    def stragglers(self) -> list[Node]:
        """Return the nodes of which nobody knows yet whether they can be asked."""
        return [one for one in self._missing() if one.trouble is None]

    def _missing(self) -> list[Node]:
        nodes = self._nodes
        return [one for one in nodes.nodes if not nodes.is_ready(one)]

    def _is_majority(self, missing: list[Node]) -> bool:
        number = len(self._nodes.nodes)
        return number - len(missing) >= majority(number)

    def tend(self, node: Node, *, at_once: bool = False) -> None:
        """See to it that somebody connects to the node."""
        with self._state:
            known = self._tended.get(node.number)
            if known is not None and known.is_alive():
                if at_once:
                    known.kick.set()
                return
            if self._is_stopping:
                return
            one = self._tended[node.number] = Tendency()
            try:
                one.task = runtime.spawn(partial(self._run, node, one), name="lockfast-redlock")
            except RuntimeError as error:
                _log.warning("no thread to connect to %s: %s", node.where, error)
                self._attempts[node.number] += 1

    def _run(self, node: Node, one: Tendency) -> None:
        attempt = 0
        try:
            while not self._is_stopping:
                one.kick.clear()
                self._try(node)
                self._tell(node)
                is_done = self._nodes.is_ready(node) and not node.has_errands
                now = self._clock.now()
                if is_done or now - self._asked_at > IDLE:
                    return
                until = now + delay(attempt, jitter=self._clock.jitter(), most=MOST)
                attempt += 1
                runtime.wait_for(one.kick, deadline=until, clock=self._clock)
        finally:
            with self._state:
                if self._tended.get(node.number) is one:
                    del self._tended[node.number]
            self._tell(node)  # those who wait for it would not be told otherwise

    def _try(self, node: Node) -> None:
        # One that can be asked still can where just one more connection could not be made.
        was_ready = self._nodes.is_ready(node)
        try:
            self._nodes.greet(node, deadline=self._clock.now() + CONNECTING)
        except LockError as error:
            if not was_ready or isinstance(error, Misfit):
                node.trouble = error
        except Exception as error:  # noqa: BLE001 - it is told where it is asked for
            # A provider of passwords, a full table of descriptors, a defect of our own.
            _log.warning("%s could not be greeted: %r", node.where, error, exc_info=True)
            node.trouble = BackendUnavailable(f"{node.where} could not be greeted: {error!r}")
        else:
            self._run_errands(node)

    def _run_errands(self, node: Node) -> None:
        errands = node.errands(self._clock.now())
        if errands:
            told = self._nodes.ask(
                [one.question for one in errands],
                decide=lambda found: found.replies[node.number] is not None,
                timeout=CONNECTING,
                among=(node.number,),
            )
            if node.number not in told.answers:
                node.keep(errands)

    def _tell(self, node: Node) -> None:
        with self._state:
            self._attempts[node.number] += 1
            waiting = list(self._waiting)
        for changed in waiting:
            changed.set()

    def stop(self) -> None:
        """End what is under way."""
        self._is_stopping = True
        with self._state:
            tended = list(self._tended.values())
        for one in tended:
            one.kick.set()
            if one.task is not None:
                one.task.cancel()
        self._nodes.hang_up()
        for one in tended:
            if one.task is not None:
                one.task.join()
        self._is_stopping = False

    def after_fork_in_child(self) -> None:
        """Start anew: the parent's are the parent's."""
        self.__init__(self._nodes, self._clock)  # type: ignore[misc]


_log = logging.getLogger("lockfast")
