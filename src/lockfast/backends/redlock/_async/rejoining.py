"""Lets nodes count again that may have forgotten something; `quarantine` says when."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lockfast._async.single_flight import AsyncSingleFlight
from lockfast.backends.redlock import quarantine
from lockfast.backends.redlock.round import Round
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from lockfast.backends.redlock.greeting import Terms
    from lockfast.backends.redlock.node import Node
    from lockfast.backends.redlock.nodes.aio import Nodes
    from lockfast.runtime.clock import Clock

SOON = 0.2
"""Where too few nodes answered to tell, they are asked again after so long."""

LATEST = 5.0
"""They are asked again at least so often, since another client may have let the node count."""


class AsyncRejoining:
    """Asks the others about a node that does not count, when it is time to."""

    def __init__(self, nodes: Nodes, terms: Terms, clock: Clock) -> None:
        self._nodes = nodes
        self._terms = terms
        self._clock = clock
        self._state = runtime.StateLock()
        self._next: dict[str, float] = {}
        self._flight = AsyncSingleFlight[None](clock)
        self._is_asking = False

    async def admit(self, *, timeout: float) -> None:
        """Let those nodes count that may; of the others it is known when they do.

        One asks for all who come by meanwhile.
        """
        if self._is_asking or any(map(self._is_due, self._nodes.nodes)):
            deadline = self._clock.now() + 3 * timeout
            await self._flight.fly(partial(self._ask, timeout), deadline=deadline)

    async def _ask(self, timeout: float) -> None:
        due = [one for one in self._nodes.nodes if self._is_due(one)]
        if not due:
            return
        self._is_asking = True
        try:
            await self._ask_about(due, timeout)
        finally:
            self._is_asking = False

    async def _ask_about(self, due: list[Node], timeout: float) -> None:
        """Ask all nodes about those.

        All births are told to all nodes before the first is admitted: when nodes are new, none
        may look to others as if it had come after the rest.
        """
        nodes = self._nodes.nodes
        now = self._clock.now()
        with self._state:
            kept = {birth: at for birth, at in self._next.items() if at > now - 10 * LATEST}
            self._next = kept | {one.birth: now + SOON for one in due}
        births = [one.birth for one in due]
        age = quarantine.age(nodes)
        may_write = self._terms.has_asked_for_a_lock  # or it only looks
        asked = [
            self._terms.questions.witness(birth, age=age, remember=may_write) for birth in births
        ]
        found = await self._nodes.ask(asked, decide=Round.is_heard, timeout=timeout)
        heard = found.answers
        for which, (node, birth) in enumerate(zip(due, births, strict=True)):
            witnesses = {
                number: quarantine.witness(replies[which]) for number, replies in heard.items()
            }
            admission = quarantine.admission(
                node.number, witnesses, nodes=len(nodes), max_ttl=self._terms.max_ttl
            )
            node.counts_in = None if admission is None else admission.left
            if admission is not None and may_write:
                await self._admit(node, birth, admission, timeout)

    def _is_due(self, node: Node) -> bool:
        if node.scripts is None or node.counts:
            return False
        return self._clock.now() >= self._next.get(node.birth, 0.0)

    async def _admit(
        self, node: Node, birth: str, admission: quarantine.Admission, timeout: float
    ) -> None:
        if admission.left > 0:
            with self._state:
                self._next[birth] = self._clock.now() + min(admission.left, LATEST)
            return
        told = await self._nodes.ask(
            [self._terms.questions.admit(admission.least)],
            decide=lambda one: one.replies[node.number] is not None,
            timeout=timeout,
            among=(node.number,),
        )
        if node.number in told.answers and node.birth == birth:
            node.counts, node.counts_in = True, None

    async def stop(self) -> None:
        """End what is under way."""
        await self._flight.end()

    def after_fork_in_child(self) -> None:
        """Leave what is under way to the parent."""
        self._state = runtime.StateLock()
        self._flight.after_fork_in_child()
        self._is_asking = False
