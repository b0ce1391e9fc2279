# Generated from src/lockfast/backends/redlock/_async/asking.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Asks the nodes, after seeing to it that they can be asked; greets those that are strangers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from lockfast.backends.redlock import outages, quarantine
from lockfast.backends.redlock._sync.rejoining import Rejoining
from lockfast.backends.redlock._sync.tending import Tending
from lockfast.backends.redlock.greeting import SET_TERMS, may_write
from lockfast.backends.redlock.node import Misfit, NotEnrolled
from lockfast.core.quorum import may_pass_over
from lockfast.errors import BackendUnavailable, LockError
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lockfast.backends.redlock.greeting import Terms
    from lockfast.backends.redlock.node import Node
    from lockfast.backends.redlock.nodes.threads import Nodes
    from lockfast.backends.redlock.requests import Question
    from lockfast.backends.redlock.round import Round
    from lockfast.runtime.clock import Clock

T = TypeVar("T")

AT_FIRST = 0.5
"""The longest that nodes are waited for at the beginning, where others are a majority."""

FOUNDING = 1.0
"""Where no node counts yet, all of them are waited for so long before the first does."""

AGAIN = 0.01
"""Before the same is asked again, because more nodes are there."""

GREETING = 0.5
"""As long may it take to greet a node again that has forgotten us."""


class Asking:
    """All nodes, as the verbs use them."""

    def __init__(self, nodes: Nodes, terms: Terms, clock: Clock) -> None:
        self.nodes = nodes.nodes
        self._nodes = nodes
        self._terms = terms
        self._clock = clock
        self._tending = Tending(nodes, clock)
        self._rejoining = Rejoining(nodes, terms, clock)

    def ready(self, *, timeout: float, deadline: float) -> None:
        """Connect to the nodes that are missing."""
        self._tending.until_ready(deadline=deadline, patience=min(timeout, AT_FIRST))
        if self._misfit() is not None and self._tending.stragglers():
            # Those that are yet to come may agree with us, and be enough of them.
            soon = min(deadline, self._clock.now() + FOUNDING)
            self._tending.until_ready(deadline=soon, all_of_them=True)
        if self._terms.has_asked_for_a_lock and any(map(_is_to_enrol, self.nodes)):
            self._enrol(deadline=deadline)
        if not all(node.counts or node.scripts is None for node in self.nodes):
            if quarantine.are_new(self.nodes):
                # Together, or those that come a moment later would look as if they had forgotten.
                soon = min(deadline, self._clock.now() + FOUNDING)
                self._tending.until_ready(deadline=soon, all_of_them=True)
            self._rejoining.admit(timeout=timeout)

    def may_enrol(self) -> None:
        """Know that a lock is asked for: before that, nothing is written to a node."""
        self._terms.has_asked_for_a_lock = True

    def _enrol(self, *, deadline: float) -> None:
        """Greet those again that may be enrolled now that it is known what the others say."""
        if not any(node.scripts is not None for node in self.nodes):
            # Together, or those that come a moment later would look as if they had forgotten.
            soon = min(deadline, self._clock.now() + FOUNDING)
            self._tending.until_ready(deadline=soon, all_of_them=True)
        # One after the other: what the first has then says what the next may have.
        for node in filter(_is_to_enrol, self.nodes):
            if may_write(node, self.nodes, self._terms) == SET_TERMS:
                self._greet(node)

    def refuse_misfits(self) -> None:
        """Raise if one of the nodes must not be among them, and too few of the others agree.

        Only where a lock is asked for: what is held was granted by nodes that belonged together,
        and must not end because one of them was set up anew. To all else it is one that is away.
        """
        misfit = self._misfit()
        if misfit is not None:
            raise outages.for_one_caller(misfit)

    def _misfit(self) -> Misfit | None:
        number = len(self.nodes)
        agreeing = sum(node.scripts is not None for node in self.nodes)
        for node in self.nodes:
            one = node.trouble
            if isinstance(one, Misfit) and not may_pass_over(
                of_nodes=one.of_nodes, agreeing=agreeing, nodes=number
            ):
                return one
        return None

    def is_unsettled(self) -> bool:
        """Whether more nodes may be there soon than there were."""
        are_to_admit = any(
            node.scripts is not None and not node.counts and not node.counts_in
            for node in self.nodes
        )
        return are_to_admit or bool(self._tending.stragglers())

    def is_cut_short(self, found: Round) -> bool:
        """Whether to begin anew: who was asked does not answer, and others have come meanwhile."""
        return found.is_hurried and any(
            isinstance(replies, LockError)
            and not found.asked[node.number]
            and (node.trouble is None or self._nodes.is_ready(node))
            for node, replies in zip(found.nodes, found.replies, strict=True)
        )

    def _ready(self) -> set[int]:
        return {one.number for one in self.nodes if one.counts and self._nodes.is_ready(one)}

    def insist(self, work: Callable[[], T], *, timeout: float, deadline: float) -> T:
        """Return what the work returns; it is done again where more nodes have come meanwhile.

        A majority is asked as soon as there is one. If that was not enough, those are waited for
        of which nobody knows yet: at the beginning one client may be quicker than its nodes.
        """
        self.ready(timeout=timeout, deadline=deadline)
        while True:
            before = self._ready()
            try:
                return work()
            except BackendUnavailable:
                have_come = not self._ready() <= before
                is_late = self._clock.now() >= deadline
                if is_late or not (have_come or self.is_unsettled()):
                    raise
            self._tending.until_ready(deadline=deadline, all_of_them=True)
            runtime.sleep(AGAIN)
            self.ready(timeout=timeout, deadline=deadline)

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
        """Return what they answered by the time that it is decided."""
        found = self._nodes.ask(
            questions,
            decide=decide,
            timeout=timeout,
            patience=patience,
            among=among,
            owed_for=owed_for,
        )
        self._note_who_counts(found)  # first: by what is outdated, strangers could pass for new
        strangers = found.strangers()
        if strangers:
            # Not one that somebody has greeted since it was asked: what is known of it is new.
            unknown = [
                one for one in strangers if one.scripts in (None, found.asked_by[one.number])
            ]
            for node in unknown:
                node.scripts, node.counts = None, False
            runtime.gather([partial(self._greet, one) for one in unknown])
            if not all(node.counts for node in strangers):
                self._rejoining.admit(timeout=timeout)
            numbers = [one.number for one in strangers]
            again = self._nodes.ask(
                questions,
                decide=lambda one: all(one.replies[i] is not None for i in numbers),
                timeout=timeout,
                among=numbers,
                owed_for=owed_for,
            )
            for i in numbers:
                found.put(i, again.replies[i])
            self._note_who_counts(again)
        if owed_for:
            for node in self.nodes:
                if node.has_errands:
                    self._tending.tend(node)
        return found

    def _note_who_counts(self, found: Round) -> None:
        for number, replies in found.answers.items():
            self.nodes[number].counts = replies[0][1] == 1

    def _greet(self, node: Node) -> None:
        try:
            self._nodes.greet(node, deadline=self._clock.now() + GREETING)
        except LockError as error:
            node.trouble = error

    def stop(self) -> None:
        """End the background."""
        self._tending.stop()
        self._rejoining.stop()

    def after_fork_in_child(self) -> None:
        """Start anew."""
        self._tending.after_fork_in_child()
        self._rejoining.after_fork_in_child()


def _is_to_enrol(node: Node) -> bool:
    return node.lacks_terms or isinstance(node.trouble, NotEnrolled)
