"""The requests to a server: kazoo's own requests, and three requests that kazoo lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

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


class ReplyCollector(Protocol):
    """Collects the replies to several requests."""

    def keep_reply(self, number: int, answer: KazooReply) -> None:
        """Keep the reply to one of the requests."""
        ...


class Slot:
    """Receives the reply to one of several requests."""

    __slots__ = ("_flight", "_number")

    def __init__(self, flight: ReplyCollector, number: int) -> None:
        self._flight = flight
        self._number = number

    def set(self, value: KazooReply) -> None:
        """Keep the reply."""
        self._flight.keep_reply(self._number, value)

    def set_exception(self, error: KazooReply) -> None:
        """Keep a refusal, or the error that says that there will be no reply."""
        self._flight.keep_reply(self._number, error)


class ReplyOrError:
    """Receives a reply that nobody waits for."""

    __slots__ = ("_heard",)

    def __init__(self, heard: Callable[[KazooReply], None]) -> None:
        self._heard = heard

    def set(self, value: KazooReply) -> None:
        """Pass the reply on."""
        self._heard(value)

    def set_exception(self, error: KazooReply) -> None:
        """Pass on a refusal, or the error that says that there will be no reply."""
        self._heard(error)


def checked(answers: list[KazooReply], *, is_complete: bool, where: str) -> list[KazooReply]:
    """Return the replies; if any reply is missing, raise the error for that."""
    for answer in answers:
        if isinstance(answer, SessionExpiredError):
            raise records.ended(where=where) from answer
        if isinstance(answer, ConnectionLoss | SessionMovedError):
            raise OutcomeUnknown(f"{where} did not answer: the connection was lost") from answer
    if not is_complete:
        raise OutcomeUnknown(f"{where} did not answer in time")
    return answers


# Hands requests to kazoo's thread: either all requests of one call together, or none of them.

REFUSALS: dict[Any, Any] = {
    KeeperState.AUTH_FAILED: AuthFailedError,
    KeeperState.CLOSED: ConnectionClosedError,
    KeeperState.EXPIRED_SESSION: SessionExpiredError,
}


def send(client: Any, asked: Sequence[tuple[Any, Slot | ReplyOrError]]) -> None:  # noqa: ANN401
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

Request = Any
"""Any of these requests; kazoo has no types."""


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
