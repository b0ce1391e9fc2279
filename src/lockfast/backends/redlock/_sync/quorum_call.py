# Generated from src/lockfast/backends/redlock/_async/quorum_call.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Sends requests to the nodes, and readmits nodes that may have forgotten something."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from lockfast.backends._sync.single_flight import SingleFlight
from lockfast.backends.redlock import errors, quarantine
from lockfast.backends.redlock._sync.reconnect import Reconnect
from lockfast.backends.redlock.node import (
    SET_TERMS,
    Node,
    NodeMismatch,
    NotEnrolled,
    handshake,
    may_write,
)
from lockfast.backends.redlock.nodes_threads import Nodes, NodeTransport
from lockfast.backends.redlock.round import Round
from lockfast.core.quorum import may_ignore_node
from lockfast.errors import BackendUnavailable, LockError
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lockfast.backends.redis.address import Address
    from lockfast.backends.redlock.node import NodeTerms
    from lockfast.backends.redlock.requests import NodeRequest
    from lockfast.runtime.clock import Clock

# Readmits nodes that may have forgotten something; `quarantine` decides when.

REJOIN_FIRST_SECONDS = 0.2
"""Pause before asking about a node again if too few other nodes replied, in seconds."""

REJOIN_LONGEST_SECONDS = 5.0
"""Longest pause before asking about a node again, in seconds. The pause is limited because another
client may have readmitted the node meanwhile."""


class Readmission:
    """Asks all nodes, when due, about each node that does not count."""

    def __init__(self, nodes: Nodes, terms: NodeTerms, clock: Clock) -> None:
        self._nodes = nodes
        self._terms = terms
        self._clock = clock
        self._state = runtime.StateLock()
        self._next: dict[str, float] = {}
        self._flight = SingleFlight[None](clock)
        self._is_asking = False

    def admit(self, *, timeout: float) -> None:
        """Readmit the nodes that may count again, and learn when the other nodes may.

        One call asks on behalf of all concurrent callers.
        """
        if self._is_asking or any(map(self._is_due, self._nodes.nodes)):
            deadline = self._clock.now() + 3 * timeout
            self._flight.run_shared(partial(self._ask, timeout), deadline=deadline)

    def _ask(self, timeout: float) -> None:
        due = [one for one in self._nodes.nodes if self._is_due(one)]
        if not due:
            return
        self._is_asking = True
        try:
            self._ask_about(due, timeout)
        finally:
            self._is_asking = False

    def _ask_about(self, due: list[Node], timeout: float) -> None:
        """Ask all nodes about the nodes that are due.

        Every birth is sent to all nodes before the first node is admitted. Otherwise, when all
        nodes are new, some nodes would look as if they had been started after the others.
        """
        nodes = self._nodes.nodes
        now = self._clock.now()
        with self._state:
            kept = {
                birth: at
                for birth, at in self._next.items()
                if at > now - 10 * REJOIN_LONGEST_SECONDS
            }
            self._next = kept | {one.birth: now + REJOIN_FIRST_SECONDS for one in due}
        births = [one.birth for one in due]
        age = quarantine.age(nodes)
        may_write = self._terms.has_asked_for_a_lock  # otherwise the requests only read
        asked = [
            self._terms.questions.witness(birth, age=age, remember=may_write) for birth in births
        ]
        found = self._nodes.ask(asked, decide=Round.is_heard, timeout=timeout)
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
                self._admit(node, birth, admission, timeout)

    def _is_due(self, node: Node) -> bool:
        if node.scripts is None or node.counts:
            return False
        return self._clock.now() >= self._next.get(node.birth, 0.0)

    def _admit(
        self, node: Node, birth: str, admission: quarantine.Admission, timeout: float
    ) -> None:
        if admission.left > 0:
            with self._state:
                self._next[birth] = self._clock.now() + min(admission.left, REJOIN_LONGEST_SECONDS)
            return
        told = self._nodes.ask(
            [self._terms.questions.admit(admission.least)],
            decide=lambda one: one.replies[node.number] is not None,
            timeout=timeout,
            among=(node.number,),
        )
        if node.number in told.answers and node.birth == birth:
            node.counts, node.counts_in = True, None

    def stop(self) -> None:
        """End the admission under way."""
        self._flight.end()

    def after_fork_in_child(self) -> None:
        """Abandon the admission under way, which is the parent's."""
        self._state = runtime.StateLock()
        self._flight.after_fork_in_child()
        self._is_asking = False


T = TypeVar("T")

# Sends requests to all connected nodes, and repeats the handshake with nodes that forgot us.

FIRST_ROUND_SECONDS = 0.5
"""Longest wait for missing nodes at the beginning, in seconds, if the connected nodes are a
majority."""

FOUNDING_SECONDS = 1.0
"""While no node counts yet: how long to wait for all nodes before the first may count, in seconds.
"""

REASK_SECONDS = 0.01
"""Pause before a request is repeated because more nodes are available, in seconds."""

HANDSHAKE_SECONDS = 0.5
"""Timeout for a new handshake with a node that has forgotten us, in seconds."""


class QuorumCalls:
    """Sends the backend's requests to all nodes."""

    def __init__(self, nodes: Nodes, terms: NodeTerms, clock: Clock) -> None:
        self.nodes = nodes.nodes
        self._nodes = nodes
        self._terms = terms
        self._clock = clock
        self._reconnect = Reconnect(nodes, clock)
        self._readmission = Readmission(nodes, terms, clock)

    def ready(self, *, timeout: float, deadline: float) -> None:
        """Connect to the nodes that are missing."""
        self._reconnect.until_ready(deadline=deadline, patience=min(timeout, FIRST_ROUND_SECONDS))
        if self._mismatched() is not None and self._reconnect.stragglers():
            # Wait for nodes that are not connected yet, because with them enough nodes may agree
            # with us.
            soon = min(deadline, self._clock.now() + FOUNDING_SECONDS)
            self._reconnect.until_ready(deadline=soon, all_of_them=True)
        if self._terms.has_asked_for_a_lock and any(map(_is_to_enrol, self.nodes)):
            self._enrol(deadline=deadline)
        if not all(node.counts or node.scripts is None for node in self.nodes):
            if quarantine.are_new(self.nodes):
                # Wait for all nodes, because a node that comes late would look as if it had
                # forgotten something.
                soon = min(deadline, self._clock.now() + FOUNDING_SECONDS)
                self._reconnect.until_ready(deadline=soon, all_of_them=True)
            self._readmission.admit(timeout=timeout)

    def may_enrol(self) -> None:
        """Record that a lock was requested; until then, requests write nothing to the nodes."""
        self._terms.has_asked_for_a_lock = True

    def _enrol(self, *, deadline: float) -> None:
        """Enrol nodes by another handshake, now that the other nodes are known."""
        if not any(node.scripts is not None for node in self.nodes):
            # Wait for all nodes, because a node that comes late would look as if it had forgotten
            # something.
            soon = min(deadline, self._clock.now() + FOUNDING_SECONDS)
            self._reconnect.until_ready(deadline=soon, all_of_them=True)
        # Enrol one node after the other, because the first node's terms decide which terms the next
        # node may get.
        for node in filter(_is_to_enrol, self.nodes):
            if may_write(node, self.nodes, self._terms) == SET_TERMS:
                self._greet(node)

    def check_mismatches(self) -> None:
        """Raise if a node has other terms, and too few of the other nodes agree with our terms.

        This is checked only when a lock is requested. Existing holds were granted by nodes that
        agreed, and must not end because one of these nodes was set up again. For any other request,
        such a node counts as unreachable.
        """
        misfit = self._mismatched()
        if misfit is not None:
            raise errors.for_one_caller(misfit)

    def _mismatched(self) -> NodeMismatch | None:
        number = len(self.nodes)
        agreeing = sum(node.scripts is not None for node in self.nodes)
        for node in self.nodes:
            one = node.trouble
            if isinstance(one, NodeMismatch) and not may_ignore_node(
                of_nodes=one.of_nodes, agreeing=agreeing, nodes=number
            ):
                return one
        return None

    def is_unsettled(self) -> bool:
        """Return whether more nodes may soon become available."""
        are_to_admit = any(
            node.scripts is not None and not node.counts and not node.counts_in
            for node in self.nodes
        )
        return are_to_admit or bool(self._reconnect.stragglers())

    def is_cut_short(self, found: Round) -> bool:
        """Return whether a node that could not be asked is ready now, so asking again helps."""
        return found.is_hurried and any(
            isinstance(replies, LockError)
            and not found.asked[node.number]
            and (node.trouble is None or self._nodes.is_ready(node))
            for node, replies in zip(found.nodes, found.replies, strict=True)
        )

    def _ready(self) -> set[int]:
        return {one.number for one in self.nodes if one.counts and self._nodes.is_ready(one)}

    def retry_while_nodes_join(
        self, work: Callable[[], T], *, timeout: float, deadline: float
    ) -> T:
        """Return the result of the work, which is repeated if more nodes become available.

        The work starts as soon as a majority can be asked. If a majority was not enough, this waits
        for nodes whose state is not known yet, because a client that has just started may not have
        reached all of its nodes.
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
            self._reconnect.until_ready(deadline=deadline, all_of_them=True)
            runtime.sleep(REASK_SECONDS)
            self.ready(timeout=timeout, deadline=deadline)

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
        """Ask the nodes; return the replies received until the round was decided."""
        found = self._nodes.ask(
            questions,
            decide=decide,
            timeout=timeout,
            patience=patience,
            among=among,
            matters_for=matters_for,
        )
        self._note_who_counts(found)  # first, so that old facts cannot make strangers look new
        strangers = found.strangers()
        if strangers:
            # Skip nodes that had a new handshake since they were asked, because our facts about
            # them are current.
            unknown = [
                one for one in strangers if one.scripts in (None, found.asked_by[one.number])
            ]
            for node in unknown:
                node.scripts, node.counts = None, False
            runtime.gather([partial(self._greet, one) for one in unknown])
            if not all(node.counts for node in strangers):
                self._readmission.admit(timeout=timeout)
            numbers = [one.number for one in strangers]
            again = self._nodes.ask(
                questions,
                decide=lambda one: all(one.replies[i] is not None for i in numbers),
                timeout=timeout,
                among=numbers,
                matters_for=matters_for,
            )
            for i in numbers:
                found.put(i, again.replies[i])
            self._note_who_counts(again)
        if matters_for:
            for node in self.nodes:
                if node.has_deferred:
                    self._reconnect.connect_in_background(node)
        return found

    def _note_who_counts(self, found: Round) -> None:
        for number, replies in found.answers.items():
            self.nodes[number].counts = replies[0][1] == 1

    def _greet(self, node: Node) -> None:
        try:
            self._nodes.greet(node, deadline=self._clock.now() + HANDSHAKE_SECONDS)
        except LockError as error:
            node.trouble = error

    def stop(self) -> None:
        """Stop the background tasks."""
        self._reconnect.stop()
        self._readmission.stop()

    def after_fork_in_child(self) -> None:
        """Start afresh."""
        self._reconnect.after_fork_in_child()
        self._readmission.after_fork_in_child()


def _is_to_enrol(node: Node) -> bool:
    return node.lacks_terms or isinstance(node.trouble, NotEnrolled)


# The transport to each node, from its address.


def nodes_at(addresses: Sequence[Address], terms: NodeTerms, clock: Clock) -> Nodes:
    """Return the transports to all nodes; nothing is connected yet."""
    nodes = [Node(number, one.where) for number, one in enumerate(addresses)]
    transports = []
    for node, address in zip(nodes, addresses, strict=True):
        greet = partial(handshake, node, nodes, terms)
        transports.append(NodeTransport(address.server, node, greet=greet, clock=clock))
    return Nodes(nodes, transports, clock)
