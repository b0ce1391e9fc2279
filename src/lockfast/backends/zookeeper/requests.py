"""The requests to a server: those of kazoo, and the three that kazoo lacks."""

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

# Where kazoo puts the replies of a server, and what they mean, for both flavours.

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
    """Return the replies, or raise the error for a missing reply."""
    for answer in answers:
        if isinstance(answer, SessionExpiredError):
            raise records.ended(where=where) from answer
        if isinstance(answer, ConnectionLoss | SessionMovedError):
            raise OutcomeUnknown(f"{where} did not answer: the connection was lost") from answer
    if not is_complete:
        raise OutcomeUnknown(f"{where} did not answer in time")
    return answers


# How requests are handed to kazoo's thread: all requests of one call together, or none of them.

REFUSALS: dict[Any, Any] = {
    KeeperState.AUTH_FAILED: AuthFailedError,
    KeeperState.CLOSED: ConnectionClosedError,
    KeeperState.EXPIRED_SESSION: SessionExpiredError,
}


def send(client: Any, asked: Sequence[tuple[Any, Slot | ReplyOrError]]) -> None:  # noqa: ANN401
    """Hand the requests to kazoo's thread, in their order.

    kazoo's own method treats any exception at its end as a closed connection, even an interrupt,
    which is then lost. An interrupt in the middle of it leaves a request in the queue of a thread
    that was not woken.
    """
    refusal = REFUSALS.get(client._state)  # noqa: SLF001
    if refusal is not None:
        for _, answer in asked:
            answer.set_exception(refusal())
        return
    bell, wakeups = client._connection._write_sock, b"\0" * len(asked)  # noqa: SLF001
    try:
        client._queue.extend(asked)  # noqa: SLF001
    finally:
        # This is the first call after the one above, and not a function of ours, so no interrupt
        # can come before it.
        try:
            bell.send(wakeups)
        except (OSError, AttributeError):  # the socket was closed meanwhile
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

    So one lock per order id does not fill the store. No client has to clean up, and clients need
    not agree on who does.
    """

    __slots__ = ()
    type = 19


CreateContainer: Callable[..., Request] = _CreateContainer


class Confirm:
    """Ask for a transaction that changes nothing, namely a check that a node exists.

    A majority has to agree on it as on any other transaction, even if the node does not exist.
    Unlike a write it wakes no watchers, and the permission to read is enough.
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
    """Ask which nodes below a path belong to our own session; since ZooKeeper 3.6."""

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
