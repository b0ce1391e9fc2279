"""The recipe: how a claim comes into line, is admitted, and goes; on one session.

A claim is an ephemeral sequential node below its name's node. Its create and the list of
children go out in one flight. The list is read on the same connection after the create, so
it holds every claim with a smaller sequence, and needs no `sync`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.zookeeper import line as lines
from holdfast.backends.zookeeper import records, refusals, requests, telling
from holdfast.backends.zookeeper._async.looking import AsyncLooking
from holdfast.backends.zookeeper.claim_node import NEVER, ClaimNode
from holdfast.backends.zookeeper.name_nodes import Listing
from holdfast.backends.zookeeper.nodes import node_of, prefix
from holdfast.core.door import another_capacity
from holdfast.errors import BackendUnavailable, OutcomeUnknown
from holdfast.model import Grant, Held

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.backends.zookeeper.name_nodes import NameNode
    from holdfast.backends.zookeeper.nodes import Node
    from holdfast.model import Claim

CONTAINER = 4

NAMED = 8
"""So many holders are named to somebody who waits; `inspect` names them all."""


class AsyncRecipe(AsyncLooking):
    """Brings claims into line on one session."""

    # -- verbs -------------------------------------------------------------------------

    async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """Grant, or say who holds it, and watch whoever has to go first."""
        session, door = self.session, self._doors.of(claim.name)
        place = session.places.get(claim.id)
        if place is None:
            held = await self._look_first(claim, door, deadline)
            if held is not None:
                return held
            place = ClaimNode(claim, door.path)
            session.carry(place)
            if claim.queues:
                session.wakeups.expect(claim.id)
        while True:
            listing = await self._listed(place, door, deadline)
            number = _position(listing.line, place.node)
            if number is None:
                # An operator broke it while nobody looked: it begins anew, at the end.
                place = ClaimNode(claim, door.path)
                session.carry(place)
                continue
            must_leave = lines.must_step_back(listing.line, number)
            door.was_held = must_leave or number >= listing.inside
            if not door.was_held:
                await session.prove_for_grant(deadline=deadline)
                return self._granted(place, listing, number)
            if not claim.queues:
                return await self._refused(place, listing, deadline)
            if must_leave:
                await self._ask(requests.Delete(place.path, -1), deadline=deadline)
                place.node = None
            held = await self._watching(place, listing, number, deadline)
            if held is not None:
                return held

    async def release(self, claim: Claim, *, deadline: float) -> bool:
        """Delete the claim's node; true if it was there."""
        place = self.session.places.get(claim.id)
        if place is None or place.node is None:
            return False
        stays_until = place.granted_at + claim.min_hold
        left = stays_until - self._clock.now()
        if claim.min_hold and left > 0:
            # Others see that nobody holds it. Kept by this session alone: should it end
            # before, so does the name's closure.
            self.session.touching.pop(place.path, None)
            record = records.of_closing(claim, seconds=left)
            [answer] = await self._ask(requests.SetData(place.path, record, -1), deadline=deadline)
            is_there = not refusals.is_missing(answer)
            if is_there:
                self.session.closing[place.path] = stays_until
            self.session.forget(claim.id)
            self.session.kick()
            return is_there
        was_there = await self._delete(place, place.node, deadline)
        self.session.forget(claim.id)
        return was_there

    async def withdraw(self, claim: Claim, *, deadline: float) -> None:
        """Make sure that the claim has no node."""
        place = self.session.places.get(claim.id)
        if place is None:
            return
        nodes = [place.node] if place.node is not None else []
        if place.is_unanswered:
            nodes = await self._nodes_of(place, deadline)
        if nodes:
            await self._ask(
                *(requests.Delete(f"{place.door}/{one}", -1) for one in nodes), deadline=deadline
            )
        self.session.forget(claim.id)

    async def _delete(self, place: ClaimNode, node: str, deadline: float) -> bool:
        """Delete a node, asking another member if this one does not answer in half the time."""
        half = (self._clock.now() + deadline) / 2
        asked = [requests.Delete(place.path, -1)]
        if node_of(node).is_late:
            # In the same flight: nobody else has come in between, or the server says so.
            asked.append(requests.Delete(place.door, -1))
        try:
            answers = await self._ask(*asked, deadline=half)
        except OutcomeUnknown:
            if self._clock.now() >= half:
                self.session.wire.hang_up()
            try:
                await self._ask(*asked, deadline=deadline)
            except BackendUnavailable as error:
                # The first request went out, so nobody can say that nothing was done.
                raise OutcomeUnknown(str(error)) from error
            return True  # if it is gone now, it was by the first request
        return answers[0] is True

    # -- the line ----------------------------------------------------------------------

    async def _listed(self, place: ClaimNode, door: NameNode, deadline: float) -> Listing:
        """Return the line with the claim in it, which is brought there if it is not."""
        if place.node is not None:
            [answer] = await self._ask(requests.GetChildren2(door.path, None), deadline=deadline)
            if refusals.is_missing(answer):
                return Listing([], 1)
            return await self._listing(door, answer, deadline)
        if place.is_unanswered:
            await self._find(place, deadline)
            if place.node is not None:
                return await self._listed(place, door, deadline)
        while True:
            listing = await self._arrive(place, door, deadline)
            if listing is not None:
                return listing

    async def _arrive(self, place: ClaimNode, door: NameNode, deadline: float) -> Listing | None:
        """Create the claim's node and list the line; None if it has to be done again."""
        claim, address = place.claim, self._address
        create = requests.Create2(
            f"{door.path}/{prefix(claim)}",
            records.of_claim(claim),
            address.acl,
            requests.EPHEMERAL_SEQUENTIAL,
        )
        listing = requests.GetChildren2(door.path, None)
        asked = [create, listing]
        if door.known is None:
            record = records.of_door(claim.capacity)
            container = requests.CreateContainer(door.path, record, address.acl, CONTAINER)
            asked = [container, *asked]
        place.is_unanswered = True
        sent_at = self._clock.now()
        answers = await self.session.wire.ask(*asked, deadline=deadline)
        *made, node, answer = answers
        if isinstance(node, tuple):
            name, token = node[0].rpartition("/")[2], node[1].czxid
            # Answered and known in one: an interrupt in between would leave a node to nobody.
            place.node, place.token, place.is_unanswered = name, token, False
            self.session.confirmed(sent_at=sent_at)
        place.is_unanswered = False
        self._refuse(asked, answers)
        if refusals.is_missing(node):
            # The server has deleted the empty node of this name, or it was never there.
            if made and refusals.is_missing(made[0]):
                await self._make_root(deadline)
            door.known = None
            return None
        if made and isinstance(made[0], tuple):
            door.known = (claim.capacity, made[0][1].mzxid)
        found = await self._listing(door, answer, deadline)
        if found.capacity != claim.capacity:
            return await self._reopen(place, door, found, deadline)
        return found

    async def _reopen(
        self, place: ClaimNode, door: NameNode, found: Listing, deadline: float
    ) -> Listing | None:
        """Give the door our capacity if nobody else is there, else refuse; leaves no node.

        A node with children cannot be deleted, so the capacity changes only while nobody
        holds or waits.
        """
        delete_own = requests.Delete(place.path, -1)
        if len(found.line) > 1:
            await self._ask(delete_own, deadline=deadline)
            self.session.forget(place.claim.id)
            raise another_capacity(place.claim, in_use=found.capacity)
        await self._ask(delete_own, requests.Delete(door.path, -1), deadline=deadline)
        # Not before: until then whoever withdraws it has to know of it.
        place.node = door.known = None
        return None

    async def _find(self, place: ClaimNode, deadline: float) -> None:
        """Find the node of a claim whose create was not answered, if there is one."""
        nodes = await self._nodes_of(place, deadline)
        if not nodes:
            return
        stats = await self._ask(
            *(requests.Exists(f"{place.door}/{one}", None) for one in nodes), deadline=deadline
        )
        for node, stat in zip(nodes, stats, strict=True):
            # One of an older session of ours goes by itself.
            if stat is not None and stat.ephemeralOwner == self.session.wire.session_id:
                place.node, place.token, place.is_unanswered = node, stat.czxid, False
                return

    async def _nodes_of(self, place: ClaimNode, deadline: float) -> list[str]:
        """Return the nodes of a claim whose create was not answered; there will be no others.

        Requests of one connection are executed in their order. Where the connection was lost,
        the create may still be under way, by another member: the `sync` is answered when all
        is done that the leader had begun, and what reaches it later by a connection that we
        have left, it refuses. Without it a claim would not see its own node, join again, and
        wait behind itself. Should the leader be another by then, the session's sweep finds
        what came late.
        """
        _, answer = await self._ask(
            requests.Sync(place.door), requests.GetChildren2(place.door, None), deadline=deadline
        )
        children = [] if refusals.is_missing(answer) else answer[0]
        return [one for one in children if one.startswith(f"{place.claim.id}-")]

    async def _make_root(self, deadline: float) -> None:
        address = self._address
        [answer] = await self._ask(
            requests.Create(address.root, b"", address.acl, 0), deadline=deadline
        )
        if refusals.is_missing(answer):
            raise refusals.no_chroot(address.chroot, where=address.where)

    # -- answers -----------------------------------------------------------------------

    def _granted(self, place: ClaimNode, listing: Listing, number: int) -> Grant:
        session, claim = self.session, place.claim
        if place.granted_at == NEVER:
            place.granted_at = self._clock.now()
        session.held.add(claim.id)
        if lines.must_touch(listing.line, number, capacity=listing.capacity):
            session.touch(place.path, records.of_claim(claim))
        if claim.queues:
            session.wakeups.forget(claim.id)
            session.watches.forget(claim.id)
        return Grant(claim, place.token, session.ttl)

    async def _look_first(self, claim: Claim, door: NameNode, deadline: float) -> Held | None:
        """Say who holds it without joining, where that is likely and the claim does not queue.

        Not to stand in the way of others for a moment when it is of no use.
        """
        if claim.queues or not (claim.capacity > 1 or door.was_held):
            return None
        _, answer = await self._ask(
            requests.Sync(door.path), requests.GetChildren2(door.path, None), deadline=deadline
        )
        if refusals.is_missing(answer):
            return None
        listing = await self._listing(door, answer, deadline)
        weight = sum(one.weight for one in listing.line)
        if weight + claim.weight <= listing.capacity or listing.capacity != claim.capacity:
            return None
        return await self._held(listing.line[: listing.inside][:NAMED], door, deadline)

    async def _refused(self, place: ClaimNode, listing: Listing, deadline: float) -> Held:
        """Leave again, since the claim does not queue."""
        named = listing.line[: listing.inside][:NAMED]
        _, *answers = await self._ask(
            requests.Delete(place.path, -1),
            *(requests.GetData(f"{place.door}/{one.name}", None) for one in named),
            deadline=deadline,
        )
        self.session.forget(place.claim.id)
        return telling.held(named, answers)

    async def _watching(
        self, place: ClaimNode, listing: Listing, number: int, deadline: float
    ) -> Held | None:
        """Watch whoever has to go first; None if the line has moved meanwhile.

        By reading the node: a watch that is asked for together with a node's data is not kept
        if the node is gone, and the answer says so.
        """
        session, line = self.session, listing.line
        if place.node is None:
            targets = lines.to_outwait(line, number)
        else:
            targets = lines.to_watch(line, number, inside=listing.inside, capacity=listing.capacity)
        named = [one for one in line[: listing.inside][:NAMED] if one not in targets]
        claim_id, door = place.claim.id, place.door
        paths = [f"{door}/{one.name}" for one in targets]
        answers = await self._ask(
            *(requests.GetData(path, session.watches.on(path, claim_id)) for path in paths),
            *(requests.GetData(f"{door}/{one.name}", None) for one in named),
            deadline=deadline,
        )
        has_moved = False
        for path, target, answer in zip(paths, targets, answers, strict=False):
            if refusals.is_missing(answer):
                session.watches.drop(path)
                has_moved = True
            elif answer[1].version and target not in line[: listing.inside]:
                has_moved = True  # it was admitted, and has said so before we watched it
        if has_moved:
            return None
        read = [*targets, *named]
        seen = [
            (one, answer)
            for one, answer in zip(read, answers, strict=True)
            if one in line[: listing.inside]
        ]
        nodes, told = [one for one, _ in seen], [answer for _, answer in seen]
        return telling.held(nodes, told, place=max(1, number - listing.inside + 1))

    async def _held(self, nodes: Sequence[Node], door: NameNode, deadline: float) -> Held:
        if not nodes:
            return Held(())
        answers = await self._ask(
            *(requests.GetData(f"{door.path}/{one.name}", None) for one in nodes),
            deadline=deadline,
        )
        return telling.held(nodes, answers)


def _position(line: Sequence[Node], name: str | None) -> int | None:
    for number, node in enumerate(line):
        if node.name == name:
            return number
    return None
