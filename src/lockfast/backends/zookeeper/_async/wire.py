"""The wire of ZooKeeper: what a session asks for, said by nodes; `sessions` has the reason.

A claim is a node, and the line is the list of children of its name's node. Who is first in it
is admitted by that alone.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kazoo.exceptions import KazooException, NoAuthError, NoNodeError

from lockfast.backends.sessions import records
from lockfast.backends.sessions.answers import Beat, Opening, Own, Seen
from lockfast.backends.zookeeper import refusals, requests
from lockfast.backends.zookeeper._async.arriving import AsyncArriving
from lockfast.backends.zookeeper._async.asking import TOGETHER, is_ours
from lockfast.backends.zookeeper._async.diagnosis import diagnosed
from lockfast.backends.zookeeper.answers import checked
from lockfast.backends.zookeeper.nodes import component, node_of, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.sessions.answers import Greeting
    from lockfast.backends.sessions.claims import CarriedClaim
    from lockfast.backends.sessions.line import Line
    from lockfast.backends.sessions.watches import Watch
    from lockfast.backends.zookeeper.answers import Answer
    from lockfast.model import Finding

A_NO = (NoNodeError, NoAuthError)


class AsyncZooKeeperWire(AsyncArriving):
    """One session with an ensemble; see the protocol for each method."""

    @property
    def where(self) -> str:
        """See the protocol."""
        return self._connection.where

    @property
    def is_over(self) -> bool:
        """See the protocol."""
        return self._connection.is_over

    @property
    def is_connected(self) -> bool:
        """See the protocol."""
        return self._connection.is_connected

    @property
    def greeting(self) -> Greeting:
        """See the protocol; the leader was asked for it."""
        return self._connection.greeting

    # -- the session -------------------------------------------------------------------

    async def open(self, *, deadline: float) -> Opening:
        """See the protocol."""
        await self._connection.connect(deadline=deadline)
        greeting = self._connection.greeting
        return Opening(greeting.granted, greeting.opened_at)

    async def beat(self, *, confirm: bool, deadline: float) -> Beat:
        """See the protocol: a transaction, or a `sync`, which the next transaction confirms."""
        root, where = self.address.root, self.where
        request = requests.Confirm(root) if confirm else requests.Sync(root)
        sent_at = self._clock.now()
        [answer] = await self._connection.ask(request, deadline=deadline)
        if isinstance(answer, list):
            [answer] = checked(answer, is_complete=True, where=where)
        # Where somebody deleted our top node, or closed it to us, the no was a transaction too.
        if isinstance(answer, KazooException) and not (confirm and isinstance(answer, A_NO)):
            raise refusals.refused(answer, where=where, path=root) from answer
        return Beat(sent_at, self._clock.now(), is_confirmed=confirm)

    async def own(self, *, deadline: float) -> Sequence[Own]:
        """See the protocol."""
        [paths] = await self._connection.ask(
            requests.GetEphemerals(self.address.root), deadline=deadline
        )
        if isinstance(paths, KazooException):
            return []  # before ZooKeeper 3.6; a withdrawal looks for its own node in any case
        return [own for path in paths if (own := _own(path)) is not None]

    def hang_up(self) -> None:
        """See the protocol."""
        self._connection.hang_up()

    async def close(self, *, goodbye: bool, deadline: float) -> None:
        """See the protocol."""
        await self._connection.close(goodbye=goodbye, deadline=deadline)

    def leak(self) -> None:
        """See the protocol."""
        self._connection.leak()

    # -- the line ----------------------------------------------------------------------

    async def admit(self, one: CarriedClaim, line: Line, *, deadline: float) -> bool:
        """See the protocol: in front of a node nobody is ever added, so its place is enough."""
        del one, line, deadline
        return True

    async def read(
        self,
        asked: Sequence[tuple[str, Watch | None]],
        *,
        line: Line | None = None,
        deadline: float,
    ) -> Sequence[Seen | None]:
        """See the protocol.

        A watch that is asked for together with a node's data is not kept if the node is gone,
        and the answer says so.
        """
        del line
        answers: list[Answer] = []
        for i in range(0, len(asked), TOGETHER):
            answers += await self.ask(
                *(requests.GetData(key, watch) for key, watch in asked[i : i + TOGETHER]),
                deadline=deadline,
            )
        return list(map(_seen, answers))

    async def leave(
        self, one: CarriedClaim, asked: Sequence[str], *, line: Line, deadline: float
    ) -> Sequence[Seen | None]:
        """See the protocol."""
        if one.key is None:
            return await self.read([(key, None) for key in asked], line=line, deadline=deadline)
        _, *answers = await self.ask(
            requests.Delete(one.key, -1),
            *(requests.GetData(key, None) for key in asked),
            deadline=deadline,
        )
        return list(map(_seen, answers))

    async def delete(self, one: CarriedClaim, *, deadline: float) -> bool:
        """See the protocol."""
        door = self._doors.of(one.claim.name)
        if one.is_unanswered:
            keys = await self._keys_of(one, door, deadline)
            return any(await self.remove([(key, None) for key in keys], deadline=deadline))
        if one.key is None:
            return False
        # In one flight, in this order: a node cannot be deleted by its czxid.
        asked = [requests.Exists(one.key, None), requests.Delete(one.key, -1)]
        if node_of(one.key.rpartition("/")[2]).is_late:
            # In the same flight: nobody else has come in between, or the server says so.
            asked.append(requests.Delete(door.path, -1))
        stat, is_deleted, *_ = await self.ask(*asked, deadline=deadline)
        return is_deleted is True and is_ours(stat, one)

    async def close_for(self, one: CarriedClaim, seconds: float, *, deadline: float) -> bool:
        """See the protocol."""
        record = records.of_closing(one.claim, seconds=seconds)
        [answer] = await self.ask(requests.SetData(one.key, record, -1), deadline=deadline)
        return is_ours(answer, one)

    def touch(self, key: str, one: CarriedClaim, heard: Callable[[bool], None]) -> None:
        """See the protocol: what is written is what is there."""

        def told(answer: Answer) -> None:
            heard(not isinstance(answer, KazooException) or isinstance(answer, NoNodeError))

        self._connection.tell(requests.SetData(key, records.of_claim(one.claim), -1), told)

    async def remove(
        self, asked: Sequence[tuple[str, int | None]], *, deadline: float
    ) -> Sequence[bool]:
        """See the protocol: no two claims ever stand at the same key."""
        if not asked:
            return []
        answers = await self.ask(*(requests.Delete(key, -1) for key, _ in asked), deadline=deadline)
        return [answer is True for answer in answers]

    # -- for people --------------------------------------------------------------------

    async def look(self, name: str, *, confirm: bool, deadline: float) -> Line:
        """See the protocol: after a `sync`, so that what was done before is seen.

        After a transaction where it has to be confirmed: our member has that applied, and all
        before it, when it reads what comes next.
        """
        door = self._doors.of(name)
        first = requests.Confirm(self.address.root) if confirm else requests.Sync(door.path)
        before, answer = await self.ask(
            first, requests.GetChildren2(door.path, None), deadline=deadline
        )
        if isinstance(before, list):
            checked(before, is_complete=True, where=self.where)
        return await self._line(door, answer, deadline)

    async def names(self, *, deadline: float) -> Sequence[str]:
        """See the protocol: those that have a node."""
        root = self.address.root
        _, answer = await self.ask(
            requests.Sync(root), requests.GetChildren2(root, None), deadline=deadline
        )
        children = [] if refusals.is_missing(answer) else answer[0]
        return [name for child in children if (name := _name(child))]

    async def diagnose(
        self, *, asked: float, granted: float, seconds: float, deadline: float
    ) -> Sequence[Finding]:
        """See the protocol."""
        [answer] = await self._connection.ask(requests.GetACL(self.address.root), deadline=deadline)
        acl = None if isinstance(answer, KazooException) else answer[0]
        if refusals.is_missing(answer):
            acl = self.address.acl
        return await diagnosed(self.address, acl, asked=asked, granted=granted, seconds=seconds)


def _seen(answer: Answer) -> Seen | None:
    if refusals.is_missing(answer):
        return None
    data, stat = answer
    return Seen(
        data=data,
        token=stat.czxid,
        age=_age(stat.ctime),
        unchanged_for=_age(stat.mtime),
        was_touched=stat.version > 0,
    )


def _age(milliseconds: int) -> float:
    """Return the seconds since then: by the server's clock, against ours."""
    return max(0.0, time.time() - milliseconds / 1000)


def _own(path: str) -> Own | None:
    try:
        return Own(path, node_of(path.rpartition("/")[2]).claim_id)
    except ValueError:
        return None


def _name(child: str) -> str | None:
    """Return the name behind a node, or None if it is none of ours."""
    try:
        name = text_of(child)
    except ValueError:
        return None
    return name if component(name) == child else None
