# Generated from src/lockfast/backends/zookeeper/_async/transport.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The requests of a ZooKeeper session, how a claim leaves the line, and the doctor's checks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kazoo.exceptions import KazooException, NoAuthError, NoNodeError

from lockfast.backends.sessions import records
from lockfast.backends.sessions._sync.transport import SessionTransport
from lockfast.backends.sessions.records import KeepAliveReply, Opening, OwnEntry, SeenEntry
from lockfast.backends.zookeeper import errors, four_letter_words, requests
from lockfast.backends.zookeeper._sync.connection import ZooKeeperConnection
from lockfast.backends.zookeeper._sync.line import ZooKeeperLines, is_ours
from lockfast.backends.zookeeper.diagnostics import EnsembleFacts, findings
from lockfast.backends.zookeeper.nodes import node_of
from lockfast.backends.zookeeper.requests import checked
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.sessions.line import LineView, Watch
    from lockfast.backends.sessions.records import SessionClaim, SessionHandshake
    from lockfast.backends.zookeeper.nodes import NameNodes
    from lockfast.backends.zookeeper.requests import KazooReply
    from lockfast.model import Finding
    from lockfast.runtime.clock import Clock

DIAGNOSE_TIMEOUT_SECONDS = 1.0
"""Timeout for a member's reply, in seconds; a member that does not reply is reported as silent."""

# The ZooKeeper transport implements the requests of a session with nodes; `sessions` explains the
# requests.
#
# A claim is a node, and the line is the list of children of its name's node. A claim is admitted
# once it is at the front of the line; nothing else records the admission.

REFUSED_CHECKS = (NoNodeError, NoAuthError)


class ZooKeeperTransport(SessionTransport):
    """One session with an ensemble."""

    def __init__(
        self, doors: NameNodes, *, ttl: float, clock: Clock, changed: Callable[[], None]
    ) -> None:
        self._address = address = doors.address
        self.where = address.where
        self._doors = doors
        self._clock = clock
        self._connection = ZooKeeperConnection(address, ttl=ttl, clock=clock, changed=changed)
        self.lines: ZooKeeperLines = ZooKeeperLines(self._connection, doors, clock=clock)

    @property
    def is_over(self) -> bool:
        return self._connection.is_over

    @property
    def is_connected(self) -> bool:
        return self._connection.is_connected

    @property
    def greeting(self) -> SessionHandshake:
        """The last connection's handshake; the member asked the leader before it replied."""
        return self._connection.greeting

    # -- the session -------------------------------------------------------------------

    def open(self, *, deadline: float) -> Opening:
        self._connection.connect(deadline=deadline)
        greeting = self._connection.greeting
        return Opening(greeting.granted, greeting.opened_at)

    def beat(self, *, confirm: bool, deadline: float) -> KeepAliveReply:
        """Send a transaction, or without `confirm` a `sync`; the next transaction confirms it."""
        root, where = self._address.root, self.where
        request = requests.Confirm(root) if confirm else requests.Sync(root)
        sent_at = self._clock.now()
        [answer] = self._connection.exchange(request, deadline=deadline)
        if isinstance(answer, list):
            [answer] = checked(answer, where=where)
        # A refusal because our top node is missing or access is denied was a transaction too, so it
        # confirms the session.
        if isinstance(answer, KazooException) and not (
            confirm and isinstance(answer, REFUSED_CHECKS)
        ):
            raise errors.refused(answer, where=where, path=root) from answer
        return KeepAliveReply(sent_at, self._clock.now(), is_confirmed=confirm)

    def own(self, *, deadline: float) -> Sequence[OwnEntry]:
        [paths] = self._connection.exchange(
            requests.GetEphemerals(self._address.root), deadline=deadline
        )
        if isinstance(paths, KazooException):
            # ZooKeeper before 3.6 cannot list a session's nodes. That is tolerable, because a
            # withdrawal always looks for the claim's own node.
            return []
        return [own for path in paths if (own := _own(path)) is not None]

    def hang_up(self) -> None:
        self._connection.hang_up()

    def close(self, *, goodbye: bool, deadline: float) -> None:
        self._connection.close(goodbye=goodbye, deadline=deadline)

    def abandon_connection(self) -> None:
        self._connection.abandon_connection()

    # -- the line ----------------------------------------------------------------------

    def read(
        self,
        asked: Sequence[tuple[str, Watch | None]],
        *,
        line: LineView | None = None,
        deadline: float,
    ) -> Sequence[SeenEntry | None]:
        """Return the entry at each key; None where there is none.

        ZooKeeper keeps no watch on a node that does not exist; the reply shows that the node is
        missing.
        """
        del line
        answers = self._connection.ask_each(
            [requests.GetData(key, watch) for key, watch in asked], deadline=deadline
        )
        return list(map(_seen, answers))

    # -- leaving the line --------------------------------------------------------------

    def leave(
        self, one: SessionClaim, asked: Sequence[str], *, line: LineView, deadline: float
    ) -> Sequence[SeenEntry | None]:
        if one.key is None:
            return self.read([(key, None) for key in asked], line=line, deadline=deadline)
        _, *answers = self._connection.ask(
            requests.Delete(one.key, -1),
            *(requests.GetData(key, None) for key in asked),
            deadline=deadline,
        )
        return list(map(_seen, answers))

    def delete(self, one: SessionClaim, *, deadline: float) -> bool:
        door = self._doors.of(one.claim.name)
        if one.is_unanswered:
            keys = self.lines.keys_of(one, door, deadline=deadline)
            return any(self.remove([(key, None) for key in keys], deadline=deadline))
        if one.key is None:
            return False
        # Send both requests together, in this order, because a delete cannot check the czxid of the
        # node.
        asked = [requests.Exists(one.key, None), requests.Delete(one.key, -1)]
        if node_of(one.key.rpartition("/")[2]).is_late:
            # Delete the name's node too, in the same round trip. The server refuses this delete if
            # another claim has joined in between.
            asked.append(requests.Delete(door.path, -1))
        stat, is_deleted, *_ = self._connection.ask(*asked, deadline=deadline)
        return is_deleted is True and is_ours(stat, one)

    def close_for(self, one: SessionClaim, seconds: float, *, deadline: float) -> bool:
        record = records.of_closing(one.claim, seconds=seconds)
        [answer] = self._connection.ask(requests.SetData(one.key, record, -1), deadline=deadline)
        return is_ours(answer, one)

    def touch(self, key: str, one: SessionClaim, heard: Callable[[bool], None]) -> None:
        """Touch the node: write the same data again."""

        def replied(answer: KazooReply) -> None:
            heard(not isinstance(answer, KazooException) or isinstance(answer, NoNodeError))

        self._connection.tell(requests.SetData(key, records.of_claim(one.claim), -1), replied)

    def remove(self, asked: Sequence[tuple[str, int | None]], *, deadline: float) -> Sequence[bool]:
        """Delete by key without comparing tokens, because no two claims ever have the same key."""
        if not asked:
            return []
        answers = self._connection.ask(
            *(requests.Delete(key, -1) for key, _ in asked), deadline=deadline
        )
        return [answer is True for answer in answers]

    # -- inspection --------------------------------------------------------------------

    def diagnose(
        self, *, asked: float, granted: float, seconds: float, deadline: float
    ) -> Sequence[Finding]:
        [answer] = self._connection.exchange(requests.GetACL(self._address.root), deadline=deadline)
        acl = None if isinstance(answer, KazooException) else answer[0]
        if errors.is_missing(answer):
            acl = self._address.acl
        # Ask the members outside of the session, and on a thread, because these requests are rare
        # and block.
        worker = runtime.Worker("lockfast-doctor")
        try:
            members = worker.run(
                four_letter_words.send_all,
                self._address.options,
                seconds=min(seconds, DIAGNOSE_TIMEOUT_SECONDS),
            )
        finally:
            worker.stop()
        return findings(
            EnsembleFacts(
                where=self.where,
                root=self._address.root,
                members=members,
                asked=asked,
                granted=granted,
                acl=acl,
            )
        )


def _seen(answer: KazooReply) -> SeenEntry | None:
    if errors.is_missing(answer):
        return None
    data, stat = answer
    return SeenEntry(
        data=data,
        token=stat.czxid,
        age=_age(stat.ctime),
        unchanged_for=_age(stat.mtime),
        was_touched=stat.version > 0,
    )


def _age(milliseconds: int) -> float:
    """Return the seconds, by our clock, since a time that the server's clock reported."""
    return max(0.0, time.time() - milliseconds / 1000)


def _own(path: str) -> OwnEntry | None:
    try:
        return OwnEntry(path, node_of(path.rpartition("/")[2]).claim_id)
    except ValueError:
        return None
