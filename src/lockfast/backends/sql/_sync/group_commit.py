# Generated from src/lockfast/backends/sql/_async/group_commit.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Requests that share one commit."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from lockfast.backends.sql._sync.batch_queue import BatchQueue
from lockfast.backends.sql.batch import Operation, OperationKind
from lockfast.backends.sql.door_rows import Outcome, Passage
from lockfast.model import FOREVER
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.sql._sync.transport import SqlTransport
    from lockfast.backends.sql.statements import StoreStatements
    from lockfast.backends.sql.turns import Turn
    from lockfast.model import Claim
    from lockfast.runtime.clock import Clock

# Requests that would otherwise wait for each other share one round trip and one commit.
#
# The commit is the expensive part of a request, and a shared commit costs hardly more. So a request
# that comes while enough batches are under way is queued. When one of those batches returns, one of
# the queued requests becomes the carrier, and sends the next batch with the other queued requests.
# A request that comes while nothing is under way is sent at once, as a plain statement, by the
# caller's own task or thread.

BATCHES_IN_FLIGHT = 2
"""Maximum number of batches under way at once. The other connections are left for transactions that
go through a door."""

BATCH_LATE_SECONDS = 0.05
"""Time after which a batch under way no longer counts towards BATCHES_IN_FLIGHT, in seconds. The
batch may be waiting for a row that another client has locked, and other requests should not have to
wait too."""


class GroupCommit(BatchQueue[Operation, int | None]):
    """One client's uncontended requests, each in one round trip that does not read the line.

    The answer to an operation is its token if the operation was done, otherwise None.
    """

    _most = BATCHES_IN_FLIGHT
    _stale_after = BATCH_LATE_SECONDS

    def __init__(
        self, transport: SqlTransport[Any], statements: StoreStatements, *, clock: Clock
    ) -> None:
        super().__init__(transport, clock=clock)
        self._statements = statements

    # -- the operations ----------------------------------------------------------------

    def take(
        self, claim: Claim, *, deadline: float, is_known: bool = True, turn: Turn | None = None
    ) -> int | None:
        """Return the token; None if the claim has to go through the door.

        With `is_known`, the result is also None if the claim is sent outside of a batch and the
        server has no row for its name.

        Like `give_back` and `renew`, this raises BackendUnavailable if nothing was done, and
        OutcomeUnknown if something may have been done.
        """
        [token] = self._do([Operation(OperationKind.TAKE, claim, is_known)], deadline, turn)
        return token

    def give_back(self, claim: Claim, *, deadline: float) -> bool:
        """Return whether the hold was ended; if false, the release has to go through the door."""
        [token] = self._do([Operation(OperationKind.RELEASE, claim)], deadline)
        return token is not None

    def renew(self, claims: Sequence[Claim], *, deadline: float) -> list[bool]:
        """Return whether each claim was renewed; if not, the claim has to go through its door."""
        if not claims:
            return []
        # Of several claims at one name, at most one is in the name's own row. We do not know which
        # one, so try only the first.
        first = {claim.name: claim for claim in reversed(claims)}
        operations = [Operation(OperationKind.RENEW, claim) for claim in first.values()]
        tokens = self._do(operations, deadline)
        done = {
            operation.claim.id for operation, token in zip(operations, tokens, strict=True) if token
        }
        return [claim.id in done for claim in claims]

    # -- how they are sent -------------------------------------------------------------

    def _do_one(
        self, operations: Sequence[Operation], deadline: float, turn: Turn
    ) -> list[int | None]:
        [(what, claim, is_known), *others] = operations
        if others or what is OperationKind.RENEW:
            return self._do_batch(operations, deadline, turn)
        if what is OperationKind.RELEASE:
            request = self._statements.release(claim)
        elif is_known:
            request = self._statements.take(claim)
        else:
            request = self._statements.take_new(claim)
        rows = self._transport.ask(request, deadline=deadline, turn=turn)
        return [self._statements.token_in(rows)]

    def _do_batch(
        self, operations: Sequence[Operation], deadline: float, turn: Turn
    ) -> list[int | None]:
        requests = self._statements.together(operations)
        answers = self._transport.send_all(requests, deadline=deadline, turn=turn)
        return self._statements.done(operations, answers)


# Names that are known to have a row, so that a claim for such a name needs no upsert.

KNOWN_NAMES_MAX = 4096
"""Maximum number of remembered names, so that a program with a lock per order id does not fill the
memory."""


class KnownNames:
    """The names that this client has used.

    If a known name has been reaped, a claim for it is refused as if the name were held. The claim
    then goes through the door, which creates the row again.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        """Record that the name has a row."""
        if len(self._names) >= KNOWN_NAMES_MAX:
            self._names = set()
        self._names.add(name)


# Claims of one client that come to one door at the same time go through it together.
#
# Going through a door locks its name until the commit. If each claim had a transaction of its own,
# every connection of the client would wait for the same row. So each door has only one transaction
# under way, and the next transaction takes all claims that came meanwhile.

DOOR_BATCH = 100
"""Maximum number of claims in one transaction. More claims would occupy the row and the event loop
for too long."""


class NameQueue(BatchQueue[Passage, Outcome]):
    """The client's queue of claims that go through the door of one name."""

    _enough = DOOR_BATCH
    # While one transaction waits for the row, a second transaction should not wait for the same row
    # on another connection.
    _most = 1
    _stale_after = FOREVER

    def __init__(
        self,
        transport: SqlTransport[Any],
        through: Callable[[Sequence[Passage], float, Turn], list[Outcome]],
        *,
        clock: Clock,
    ) -> None:
        super().__init__(transport, clock=clock)
        self._through = through

    def go(self, passage: Passage, *, deadline: float, turn: Turn | None = None) -> Outcome:
        """Go through the door, alone or in a batch, and return the outcome."""
        [outcome] = self._do([passage], deadline, turn)
        return outcome

    def _do_one(self, operations: Sequence[Passage], deadline: float, turn: Turn) -> list[Outcome]:
        return self._through(operations, deadline, turn)

    _do_batch = _do_one


class NameQueues:
    """The queues of this client's requests, one for each door."""

    def __init__(
        self,
        transport: SqlTransport[Any],
        through: Callable[[Sequence[Passage], float, Turn], list[Outcome]],
        *,
        clock: Clock,
    ) -> None:
        self._transport = transport
        self._through = through
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._state = runtime.StateLock()
        # The values are weak references; each door is kept alive by the requests in its queue.
        self._doors: weakref.WeakValueDictionary[str, NameQueue] = weakref.WeakValueDictionary()

    def go(self, passage: Passage, *, deadline: float, turn: Turn | None = None) -> Outcome:
        """Go through the door of the claim's name."""
        name = passage.claim.name
        with self._state:
            door = self._doors.get(name)
            if door is None:
                door = self._doors[name] = NameQueue(
                    self._transport, self._through, clock=self._clock
                )
        return door.go(passage, deadline=deadline, turn=turn)

    def close(self) -> None:
        """Cancel the batches that run in tasks of their own; their requests get OutcomeUnknown."""
        for door in list(self._doors.values()):
            door.close()

    def after_fork_in_child(self) -> None:
        """Leave the requests under way to the parent."""
        for door in list(self._doors.values()):
            door.after_fork_in_child()
        self._begin()
