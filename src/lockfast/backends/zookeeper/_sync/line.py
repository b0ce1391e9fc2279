# Generated from src/lockfast/backends/zookeeper/_async/line.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Reads the line of a name in ZooKeeper, and adds claims to it."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, cast

from lockfast.backends.sessions import records
from lockfast.backends.sessions._sync.transport import SessionLines
from lockfast.backends.sessions.line import LineView
from lockfast.backends.zookeeper import errors, requests
from lockfast.backends.zookeeper.nodes import (
    claim_to_wait_for,
    component,
    in_line,
    is_doubtful,
    must_step_back,
    prefix,
    text_of,
)
from lockfast.backends.zookeeper.requests import checked
from lockfast.core.door import capacity_conflict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sessions.records import SessionClaim
    from lockfast.backends.zookeeper._sync.connection import ZooKeeperConnection
    from lockfast.backends.zookeeper.nodes import ClaimNode, NameNode, NameNodes
    from lockfast.backends.zookeeper.requests import KazooReply
    from lockfast.model import Claim
    from lockfast.runtime.clock import Clock

# A claim joins the line of its name as an ephemeral sequential node below the name's node.
#
# The request that creates the node and the request for the list of children are sent together. The
# list is read on the same connection after the create, so it contains every claim with a smaller
# sequence number, and needs no `sync`. The create is a transaction, so its success means that a
# majority has confirmed the session.

CONTAINER = 4


class ZooKeeperLines(SessionLines):
    """Reads the lines of names, and adds claims to them."""

    def __init__(self, connection: ZooKeeperConnection, doors: NameNodes, *, clock: Clock) -> None:
        self._connection = connection
        self._doors = doors
        self._address = doors.address
        self._clock = clock

    # -- reading -----------------------------------------------------------------------

    def look(self, name: str, *, confirm: bool, deadline: float) -> LineView:
        """Return the line after a `sync`, so that it includes every earlier change.

        With `confirm`, the line is read after a transaction instead of a `sync`. When our member
        executes the read, it has applied the transaction and every change before it.
        """
        door = self._doors.of(name)
        first = requests.Confirm(self._address.root) if confirm else requests.Sync(door.path)
        before, answer = self._connection.ask(
            first, requests.GetChildren2(door.path, None), deadline=deadline
        )
        if isinstance(before, list):
            checked(before, where=self._address.where)
        return self._line(door, answer, deadline)

    def names(self, *, deadline: float) -> Sequence[str]:
        """Return the names that have a node."""
        root = self._address.root
        _, answer = self._connection.ask(
            requests.Sync(root), requests.GetChildren2(root, None), deadline=deadline
        )
        children = [] if errors.is_missing(answer) else answer[0]
        return [name for child in children if (name := _name(child))]

    def _line(
        self, door: NameNode, answer: KazooReply, deadline: float, *, key: str | None = None
    ) -> LineView:
        """Return the line in a list of children, and the position of the node at `key` in it."""
        prefix = f"{door.path}/"
        if errors.is_missing(answer):
            return LineView([], 0, prefix=prefix)
        children, stat = answer
        known = door.known
        if known is None or known[1] != stat.mzxid:
            [found] = self._connection.ask(requests.GetData(door.path, None), deadline=deadline)
            if errors.is_missing(found):
                return LineView([], 0, prefix=prefix)
            known = door.known = (records.capacity_in(found[0], key=door.path), found[1].mzxid)
        try:
            nodes = in_line(children)
        except ValueError as error:
            raise errors.foreign(str(error), where=self._address.where, path=door.path) from None
        if is_doubtful(nodes):
            nodes = self._by_creation(door, nodes, deadline)
        name = None if key is None else key.removeprefix(prefix)
        number = next((at for at, node in enumerate(nodes) if node.name == name), None)
        return LineView(nodes, known[0], prefix=prefix, number=number)

    def _by_creation(
        self, door: NameNode, line: list[ClaimNode], deadline: float
    ) -> list[ClaimNode]:
        """Return the line in the order of the transactions that created its nodes.

        Transaction numbers always show the order, but have to be read node by node. Nodes that were
        deleted meanwhile are left out.
        """
        stats = self._connection.ask_each(
            [requests.Exists(f"{door.path}/{one.name}", None) for one in line], deadline=deadline
        )
        created = [(stat.czxid, one) for stat, one in zip(stats, line, strict=True) if stat]
        return [one for _, one in sorted(created, key=itemgetter(0))]

    # -- joining -----------------------------------------------------------------------

    def arrive(self, one: SessionClaim, *, deadline: float) -> LineView:
        claim, door = one.claim, self._doors.of(one.claim.name)
        if not (claim.queues or one.key or one.is_unanswered):
            seen = self._look_first(claim, door, deadline)
            if seen is not None:
                return seen
        line = self._listed(one, door, deadline)
        if line.number is None:
            return line
        nodes = cast("Sequence[ClaimNode]", line.entries)
        must_leave = must_step_back(nodes, line.number)
        door.was_held = must_leave or line.number >= line.inside
        if must_leave:
            line.stepped_back_for = claim_to_wait_for(nodes, line.number)
            if claim.queues:
                self._connection.ask(requests.Delete(one.key, -1), deadline=deadline)
                one.key = None
        return line

    def _look_first(self, claim: Claim, door: NameNode, deadline: float) -> LineView | None:
        """Return the line without joining it, if joining is probably useless; otherwise None.

        So a claim that has no chance does not join and block other claims for a moment.
        """
        if claim.capacity == 1 and not door.was_held:
            return None
        _, answer = self._connection.ask(
            requests.Sync(door.path), requests.GetChildren2(door.path, None), deadline=deadline
        )
        line = self._line(door, answer, deadline)
        weight = sum(node.weight for node in line.entries)
        is_useless = weight + claim.weight > line.capacity == claim.capacity
        return line if is_useless else None

    def _listed(self, one: SessionClaim, door: NameNode, deadline: float) -> LineView:
        """Return the line with the claim in it; the claim joins the line if it has no node yet."""
        if one.is_unanswered and one.key is None:
            self._find(one, door, deadline)
        if one.key is not None:
            answer, stat = self._connection.ask(
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

    def _create(self, one: SessionClaim, door: NameNode, deadline: float) -> LineView | None:
        """Create the claim's node and list the line; None if the request has to be repeated."""
        claim, address = one.claim, self._address
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
        answers = self._connection.exchange(*asked, deadline=deadline)
        *made, node, answer = answers
        if isinstance(node, tuple):
            one.record_entry(node[0], token=node[1].czxid)
        one.is_unanswered = False
        self._connection.refuse(asked, answers)
        if errors.is_missing(node):
            # There is no node for this name: the server has deleted the empty node, or it never
            # existed.
            if made and errors.is_missing(made[0]):
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
        self, one: SessionClaim, door: NameNode, line: LineView, deadline: float
    ) -> LineView | None:
        """Give the door our capacity, or raise if other claims are there; delete the claim's node.

        A node with children cannot be deleted, so the capacity changes only while nobody holds or
        waits.
        """
        delete_own = requests.Delete(one.key, -1)
        if len(line.entries) > 1:
            self._connection.ask(delete_own, deadline=deadline)
            one.key = None
            raise capacity_conflict(one.claim, in_use=line.capacity)
        self._connection.ask(delete_own, requests.Delete(door.path, -1), deadline=deadline)
        # Clear the key only now, because a withdrawal needs the key as long as the node may exist.
        one.key = door.known = None
        return None

    def _find(self, one: SessionClaim, door: NameNode, deadline: float) -> None:
        """Find the node of a claim whose create was not answered, if there is one."""
        keys = self.keys_of(one, door, deadline=deadline)
        if not keys:
            return
        stats = self._connection.ask(
            *(requests.Exists(key, None) for key in keys), deadline=deadline
        )
        for key, stat in zip(keys, stats, strict=True):
            # Skip a node of an older session of ours, because the server deletes it with that
            # session.
            if stat is not None and stat.ephemeralOwner == self._connection.greeting.session_id:
                one.record_entry(key, token=stat.czxid)
                return

    def keys_of(self, one: SessionClaim, door: NameNode, *, deadline: float) -> list[str]:
        """Return the nodes of a claim whose create was not answered; no more will be created.

        Requests on one connection are executed in order. If the connection was lost, the create may
        still be under way through another member. The reply to the `sync` comes after everything
        that the leader had begun, and the leader refuses requests that arrive later through a
        connection that we have left. Without the `sync`, a claim might miss its own node, join
        again, and wait behind itself. If the leader has changed meanwhile, a node may still be
        created late; the session's check for stray entries finds that node.
        """
        _, answer = self._connection.ask(
            requests.Sync(door.path), requests.GetChildren2(door.path, None), deadline=deadline
        )
        children = [] if errors.is_missing(answer) else answer[0]
        return [
            f"{door.path}/{child}" for child in children if child.startswith(f"{one.claim.id}-")
        ]

    def _make_root(self, deadline: float) -> None:
        address = self._address
        [answer] = self._connection.ask(
            requests.Create(address.root, b"", address.acl, 0), deadline=deadline
        )
        if errors.is_missing(answer):
            raise errors.no_chroot(address.chroot, where=address.where)


def is_ours(stat: KazooReply, one: SessionClaim) -> bool:
    """Return whether the node at the claim's key is still the recorded one, not a new node."""
    return getattr(stat, "czxid", None) == one.token


def _name(child: str) -> str | None:
    """Return the lock's name that a node stands for; None if the node is not ours."""
    try:
        name = text_of(child)
    except ValueError:
        return None
    return name if component(name) == child else None
