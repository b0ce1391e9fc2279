"""What is asked of a server: kazoo's requests, and the three that it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from collections.abc import Callable

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
"""One of them; kazoo has no types."""


class _CreateContainer(Create2):  # type: ignore[misc]  # kazoo has no types
    """Create a node that the server deletes some time after its last child has gone.

    A lock per order id does not fill the store: nobody has to tidy up, nor to agree with
    others who does.
    """

    __slots__ = ()
    type = 19


CreateContainer: Callable[..., Request] = _CreateContainer


class Confirm:
    """Ask for a transaction that changes nothing: a check that a node is there.

    A majority has to agree on it like on any other, also where its answer is no. Unlike a
    write it wakes nobody who watches, and whoever may read may ask.
    """

    type: int = Transaction.type

    def __init__(self, path: str) -> None:
        self.path = path

    def serialize(self) -> bytes:
        """Return the request's bytes."""
        return bytes(Transaction([CheckVersion(self.path, -1)]).serialize())

    @classmethod
    def deserialize(cls, data: Any, offset: int) -> list[Any]:  # noqa: ANN401 - kazoo's buffer
        """Return true or why not, in a list: kazoo looks into it."""
        return list(Transaction.deserialize(data, offset))


class GetEphemerals:
    """Ask which nodes belong to our own session, below a path; since ZooKeeper 3.6."""

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
