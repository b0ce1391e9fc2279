"""The requests to a server: kazoo's own requests, and three requests that kazoo lacks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.protocol.serialization import (
    CheckVersion,
    Create,
    Create2,
    Delete,
    Exists,
    GetACL,
    GetChildren2,
    GetData,
    SetData,
    Sync,
    Transaction,
    int_struct,
    read_string,
    write_string,
)
from kazoo.protocol.states import KeeperState

from lockfast.backends.sessions import records
from lockfast.errors import OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The objects that receive a server's replies from kazoo, for both flavours.

KazooReply = Any
"""The server's reply to one request, or kazoo's error for a refusal."""


Request = Any
"""Any of the requests below; kazoo has no types."""


class ReplyReceiver:
    """Passes on what kazoo has for a request: the reply, or the error that says why there is none.

    kazoo calls one of the two methods, on its own thread, or on the sender's if it refuses at once.
    """

    __slots__ = ("set", "set_exception")

    def __init__(self, heard: Callable[[KazooReply], None]) -> None:
        self.set: Callable[[KazooReply], None] = heard
        self.set_exception: Callable[[KazooReply], None] = heard


class PendingReplies:
    """The replies to requests that were sent together; `complete` is called after the last one."""

    __slots__ = ("_answers", "_arrived", "_complete")

    def __init__(self, size: int, complete: Callable[[], None]) -> None:
        self._answers: list[KazooReply] = [None] * size
        self._arrived: set[int] = set()
        self._complete = complete

    def receivers(self, requests: Sequence[Request]) -> list[tuple[Request, ReplyReceiver]]:
        """Return each request with the receiver of its reply."""
        return [
            (request, ReplyReceiver(partial(self._keep, number)))
            for number, request in enumerate(requests)
        ]

    def _keep(self, number: int, answer: KazooReply) -> None:
        if number in self._arrived:
            return
        self._answers[number] = answer
        self._arrived.add(number)
        if len(self._arrived) == len(self._answers):
            self._complete()

    def checked(self, *, where: str) -> list[KazooReply]:
        """Return the replies; if any reply is missing, raise the error for that."""
        checked(self._answers, where=where)
        if len(self._arrived) < len(self._answers):
            raise OutcomeUnknown(f"{where} did not answer in time")
        return self._answers


def checked(answers: list[KazooReply], *, where: str) -> list[KazooReply]:
    """Return the replies; if one says that the session or the connection was lost, raise that."""
    for answer in answers:
        if isinstance(answer, SessionExpiredError):
            raise records.ended(where=where) from answer
        if isinstance(answer, ConnectionLoss | SessionMovedError):
            raise OutcomeUnknown(f"{where} did not answer: the connection was lost") from answer
    return answers


# Hands requests to kazoo's thread: either all requests of one call together, or none of them.

REFUSALS: dict[Any, Any] = {
    KeeperState.AUTH_FAILED: AuthFailedError,
    KeeperState.CLOSED: ConnectionClosedError,
    KeeperState.EXPIRED_SESSION: SessionExpiredError,
}


def send(client: Any, asked: Sequence[tuple[Request, ReplyReceiver]]) -> None:  # noqa: ANN401
    """Hand the requests to kazoo's thread, in their order.

    This replaces kazoo's own method. At its end that method takes any exception for a closed
    connection, even an interrupt, which is then lost. An interrupt in its middle leaves a request
    in the queue without waking kazoo's thread.
    """
    refusal = REFUSALS.get(client.client_state)
    if refusal is not None:
        for _, answer in asked:
            answer.set_exception(refusal())
        return
    doorbell, wakeups = client.handler.doorbell, b"\0" * len(asked)
    try:
        client._queue.extend(asked)  # noqa: SLF001
    finally:
        # Send at once: no Python function is called between `extend` and this call, so no interrupt
        # can strike in between.
        try:
            doorbell.send(wakeups)
        except OSError:  # the socket is closed
            for _, answer in asked:
                answer.set_exception(ConnectionClosedError())


__all__ = [
    "EPHEMERAL_SEQUENTIAL",
    "Confirm",
    "Create",
    "Create2",
    "CreateContainer",
    "Delete",
    "Exists",
    "GetACL",
    "GetChildren2",
    "GetData",
    "GetEphemerals",
    "Request",
    "SetData",
    "Sync",
]

EPHEMERAL_SEQUENTIAL = 3


class _CreateContainer(Create2):  # type: ignore[misc]  # kazoo has no types
    """Create a node that the server deletes some time after its last child has gone.

    So a program with a lock per order id does not fill the store, and no client has to clean up.
    """

    __slots__ = ()
    type = 19


CreateContainer: Callable[..., Request] = _CreateContainer


class Confirm:
    """Ask for a transaction that changes nothing: a check that a node exists.

    A majority has to agree on the check as on any other transaction, even if the node does not
    exist. Unlike a write, the check wakes no watchers and needs only the permission to read.
    """

    type: int = Transaction.type

    def __init__(self, path: str) -> None:
        self.path = path

    def serialize(self) -> bytes:
        """Return the request's bytes."""
        return bytes(Transaction([CheckVersion(self.path, -1)]).serialize())

    @classmethod
    def deserialize(cls, data: Any, offset: int) -> list[Any]:  # noqa: ANN401 - kazoo's buffer
        """Return true or the error in a list, because kazoo iterates over the reply."""
        return list(Transaction.deserialize(data, offset))


class GetEphemerals:
    """Ask which nodes below a path belong to our session; needs ZooKeeper 3.6 or newer."""

    type = 103

    def __init__(self, path: str) -> None:
        self.path = path

    def serialize(self) -> bytes:
        """Return the request's bytes."""
        return bytes(write_string(self.path))

    @classmethod
    def deserialize(cls, data: Any, offset: int) -> list[str]:  # noqa: ANN401 - kazoo's buffer
        """Return the paths."""
        [count] = int_struct.unpack_from(data, offset)
        offset += int_struct.size
        found = []
        for _ in range(count):
            path, offset = read_string(data, offset)
            found.append(path)
        return found
