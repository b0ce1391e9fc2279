# Generated from src/lockfast/backends/zookeeper/_async/arriving.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How a claim comes into the line of its name: an ephemeral sequential node below it.

Its create and the list of children go out in one flight. The list is read on the same
connection after the create, so it holds every claim with a smaller sequence, and needs no
`sync`. The create is a transaction, by which a majority has confirmed the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from lockfast.backends.sessions import records
from lockfast.backends.zookeeper import refusals, requests
from lockfast.backends.zookeeper._sync.asking import Asking, is_ours
from lockfast.backends.zookeeper.nodes import prefix
from lockfast.backends.zookeeper.worn_names import must_step_back, to_outwait
from lockfast.core.door import another_capacity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sessions.claims import CarriedClaim
    from lockfast.backends.sessions.line import Line
    from lockfast.backends.zookeeper.name_nodes import NameNode
    from lockfast.backends.zookeeper.nodes import Node
    from lockfast.model import Claim

CONTAINER = 4


class Arriving(Asking):
    """Brings claims into line."""

    def arrive(self, one: CarriedClaim, *, deadline: float) -> Line:
        """See the protocol."""
        claim, door = one.claim, self._doors.of(one.claim.name)
        if not (claim.queues or one.key or one.is_unanswered):
            seen = self._look_first(claim, door, deadline)
            if seen is not None:
                return seen
        line = self._listed(one, door, deadline)
        if line.number is None:
            return line
        nodes = cast("Sequence[Node]", line.entries)
        must_leave = must_step_back(nodes, line.number)
        door.was_held = must_leave or line.number >= line.inside
        if must_leave:
            line.aside_for = to_outwait(nodes, line.number)
            if claim.queues:
                self.ask(requests.Delete(one.key, -1), deadline=deadline)
                one.key = None
        return line

    def _look_first(self, claim: Claim, door: NameNode, deadline: float) -> Line | None:
        """Return the line without joining it, where that is likely to be of no use.

        Not to stand in the way of others for a moment.
        """
        if claim.capacity == 1 and not door.was_held:
            return None
        _, answer = self.ask(
            requests.Sync(door.path), requests.GetChildren2(door.path, None), deadline=deadline
        )
        line = self._line(door, answer, deadline)
        weight = sum(node.weight for node in line.entries)
        is_in_vain = weight + claim.weight > line.capacity == claim.capacity
        return line if is_in_vain else None

    def _listed(self, one: CarriedClaim, door: NameNode, deadline: float) -> Line:
        """Return the line with the claim in it, which is brought there if it is not."""
        if one.is_unanswered and one.key is None:
            self._find(one, door, deadline)
        if one.key is not None:
            answer, stat = self.ask(
                requests.GetChildren2(door.path, None),
                requests.Exists(one.key, None),
                deadline=deadline,
            )
            key = one.key if is_ours(stat, one) else None
            return self._line(door, answer, deadline, key=key)
        while True:
            line = self._create(one, door, deadline)
            if line is not None:
                return line

    def _create(self, one: CarriedClaim, door: NameNode, deadline: float) -> Line | None:
        """Create the claim's node and list the line; None if it has to be done again."""
        claim, address = one.claim, self.address
        create = requests.Create2(
            f"{door.path}/{prefix(claim)}",
            records.of_claim(claim),
            address.acl,
            requests.EPHEMERAL_SEQUENTIAL,
        )
        asked = [create, requests.GetChildren2(door.path, None)]
        if door.known is None:
            record = records.of_door(claim.capacity)
            container = requests.CreateContainer(door.path, record, address.acl, CONTAINER)
            asked = [container, *asked]
        one.is_unanswered = True
        sent_at = self._clock.now()
        answers = self._connection.ask(*asked, deadline=deadline)
        *made, node, answer = answers
        if isinstance(node, tuple):
            one.stands_at(node[0], token=node[1].czxid)
        one.is_unanswered = False
        self._refuse(asked, answers)
        if refusals.is_missing(node):
            # The server has deleted the empty node of this name, or it was never there.
            if made and refusals.is_missing(made[0]):
                self._make_root(deadline)
            door.known = None
            return None
        if made and isinstance(made[0], tuple):
            door.known = (claim.capacity, made[0][1].mzxid)
        line = self._line(door, answer, deadline, key=one.key)
        if line.capacity != claim.capacity:
            return self._reopen(one, door, line, deadline)
        line.confirmed_at = sent_at
        return line

    def _reopen(
        self, one: CarriedClaim, door: NameNode, line: Line, deadline: float
    ) -> Line | None:
        """Give the door our capacity if nobody else is there, else refuse; leaves no node.

        A node with children cannot be deleted, so the capacity changes only while nobody
        holds or waits.
        """
        delete_own = requests.Delete(one.key, -1)
        if len(line.entries) > 1:
            self.ask(delete_own, deadline=deadline)
            one.key = None
            raise another_capacity(one.claim, in_use=line.capacity)
        self.ask(delete_own, requests.Delete(door.path, -1), deadline=deadline)
        # Not before: until then whoever withdraws it has to know of it.
        one.key = door.known = None
        return None

    def _find(self, one: CarriedClaim, door: NameNode, deadline: float) -> None:
        """Find the node of a claim whose create was not answered, if there is one."""
        keys = self._keys_of(one, door, deadline)
        if not keys:
            return
        stats = self.ask(*(requests.Exists(key, None) for key in keys), deadline=deadline)
        for key, stat in zip(keys, stats, strict=True):
            # One of an older session of ours goes by itself.
            if stat is not None and stat.ephemeralOwner == self._connection.session_id:
                one.stands_at(key, token=stat.czxid)
                return

    def _keys_of(self, one: CarriedClaim, door: NameNode, deadline: float) -> list[str]:
        """Return the nodes of a claim whose create was not answered; there will be no others.

        Requests of one connection are executed in their order. Where the connection was lost,
        the create may still be under way, by another member: the `sync` is answered when all
        is done that the leader had begun, and what reaches it later by a connection that we
        have left, it refuses. Without it a claim would not see its own node, join again, and
        wait behind itself. Should the leader be another by then, the session's sweep finds
        what came late.
        """
        _, answer = self.ask(
            requests.Sync(door.path), requests.GetChildren2(door.path, None), deadline=deadline
        )
        children = [] if refusals.is_missing(answer) else answer[0]
        return [
            f"{door.path}/{child}" for child in children if child.startswith(f"{one.claim.id}-")
        ]

    def _make_root(self, deadline: float) -> None:
        address = self.address
        [answer] = self.ask(requests.Create(address.root, b"", address.acl, 0), deadline=deadline)
        if refusals.is_missing(answer):
            raise refusals.no_chroot(address.chroot, where=address.where)
