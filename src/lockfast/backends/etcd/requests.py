"""The requests to etcd that we use, each with its message packed; pure.

The field numbers are those of etcd's `rpc.proto`, which never change. A `Request` for a range, a
put, a deletion or a transaction may also be an operation in a branch of a transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lockfast.backends.etcd import replies
from lockfast.backends.etcd.protobuf import bytes_field, message_field, number_field

if TYPE_CHECKING:
    from collections.abc import Iterable

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Request(Generic[A]):
    """One call: its path, its message, and the type of its reply."""

    path: bytes
    answer: type[A]
    body: bytes
    operation: int = 0
    """Number of the field for this request as an operation of a transaction; 0 if it cannot be an
    operation."""
    most: int = 0
    """Maximum number of keys in the reply; 0 if there is no limit."""
    then: tuple[Request[Any], ...] = ()
    otherwise: tuple[Request[Any], ...] = ()
    """The operations of a transaction if one of its conditions is false; `then` has the operations
    if all conditions are true. Each operation has its own reply."""


# -- keys ------------------------------------------------------------------------------

EVERYTHING_AFTER = b"\0"
"""As the end of a range, this means that there is no upper bound."""

_ASCENDING, _BY_CREATION = 1, 2


def prefix_end(prefix: bytes) -> bytes:
    """Return the first key after all keys that have the prefix."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else EVERYTHING_AFTER


def range_(
    key: bytes,
    end: bytes = b"",
    *,
    limit: int = 0,
    revision: int = 0,
    by_creation: bool = False,
    keys_only: bool = False,
    serializable: bool = False,
) -> Request[replies.Ranged]:
    """Return a request for a key, or for the range from `key` up to, but not including, `end`.

    A serializable read returns the state that the asked member has, without asking the leader. Any
    other read includes every change that was acknowledged before the request.
    """
    body = (
        bytes_field(1, key)
        + bytes_field(2, end)
        + number_field(3, limit)
        + number_field(4, revision)
        + (number_field(5, _ASCENDING) + number_field(6, _BY_CREATION) if by_creation else b"")
        + number_field(7, serializable)
        + number_field(8, keys_only)
    )
    most = limit or (0 if end else 1)
    return Request(b"/etcdserverpb.KV/Range", replies.Ranged, body, 1, most=most)


def put(key: bytes, value: bytes, *, lease: int = 0) -> Request[replies.Put]:
    """Return a request to put a value; with a lease, the value lives as long as the lease."""
    body = bytes_field(1, key) + bytes_field(2, value) + number_field(3, lease)
    return Request(b"/etcdserverpb.KV/Put", replies.Put, body, 2)


def delete(key: bytes, end: bytes = b"", *, tell: bool = False) -> Request[replies.Deleted]:
    """Return a request to delete a key or a range; `tell` asks for the deleted keys too."""
    body = bytes_field(1, key) + bytes_field(2, end) + number_field(3, tell)
    return Request(b"/etcdserverpb.KV/DeleteRange", replies.Deleted, body, 3)


class Is(IntEnum):
    """How the stored number must compare with the given number."""

    EQUAL = 0
    GREATER = 1
    LESS = 2


class Of(IntEnum):
    """Which number of a key is compared; all numbers of a missing key are zero."""

    VERSION = 0
    CREATED = 1
    MODIFIED = 2


def compare(key: bytes, of: Of, relation: Is, number: int, *, end: bytes = b"") -> bytes:
    """Return a condition on each key of a range; an empty range counts as a missing key."""
    return (
        number_field(1, relation)
        + number_field(2, of)
        + bytes_field(3, key)
        # The number is in a oneof, and one of its fields must be present, so a zero is written too.
        + (number_field(4 + of, number) or bytes((4 + of << 3, 0)))
        + bytes_field(64, end)
    )


def transaction(
    conditions: Iterable[bytes],
    then: Iterable[Request[Any]] = (),
    otherwise: Iterable[Request[Any]] = (),
) -> Request[replies.Transacted]:
    """Return a request to do `then` if all conditions are true, else `otherwise`, in one step."""
    then, otherwise = tuple(then), tuple(otherwise)
    parts = [message_field(1, one) for one in conditions]
    parts += [message_field(2, message_field(one.operation, one.body)) for one in then]
    parts += [message_field(3, message_field(one.operation, one.body)) for one in otherwise]
    body = b"".join(parts)
    return Request(
        b"/etcdserverpb.KV/Txn", replies.Transacted, body, 4, then=then, otherwise=otherwise
    )


# -- leases ----------------------------------------------------------------------------


def grant(seconds: int, *, lease: int = 0) -> Request[replies.Granted]:
    """Return a request for a lease; if `lease` is 0, the server chooses the id."""
    body = number_field(1, seconds) + number_field(2, lease)
    return Request(b"/etcdserverpb.Lease/LeaseGrant", replies.Granted, body)


def revoke(lease: int) -> Request[replies.Revoked]:
    """Return a request to end a lease, with all its keys."""
    return Request(b"/etcdserverpb.Lease/LeaseRevoke", replies.Revoked, number_field(1, lease))


def keep_alive(lease: int) -> Request[replies.KeptAlive]:
    """Return a request to renew a lease; etcd's call is a stream, but one message is enough."""
    return Request(b"/etcdserverpb.Lease/LeaseKeepAlive", replies.KeptAlive, number_field(1, lease))


def time_to_live(lease: int, *, with_keys: bool = False) -> Request[replies.LeaseTimeLeft]:
    """Return a request for the remaining ttl of a lease, and for its keys."""
    body = number_field(1, lease) + number_field(2, with_keys)
    return Request(b"/etcdserverpb.Lease/LeaseTimeToLive", replies.LeaseTimeLeft, body)


# -- watching --------------------------------------------------------------------------

WATCH_METHOD = b"/etcdserverpb.Watch/Watch"
"""Path of the stream on which the messages below are sent."""


def watch(watch_id: int, key: bytes, end: bytes = b"", *, since: int, deletions: bool) -> bytes:
    """Return the message that starts a watch on a key or a range, from revision `since` on.

    The caller chooses `watch_id`, which must not be in use by another watch.
    """
    body = (
        bytes_field(1, key)
        + bytes_field(2, end)
        + number_field(3, since)
        + (message_field(5, b"\0") if deletions else b"")  # a filter that excludes puts
        + number_field(7, watch_id)
    )
    return message_field(1, body)


def unwatch(watch_id: int) -> bytes:
    """Return the message that ends a watch."""
    return message_field(2, number_field(1, watch_id))


# -- the cluster -----------------------------------------------------------------------


def log_in(user: str, password: str) -> Request[replies.LoggedIn]:
    """Return a request for a token that authenticates us."""
    body = bytes_field(1, user.encode()) + bytes_field(2, password.encode())
    return Request(b"/etcdserverpb.Auth/Authenticate", replies.LoggedIn, body)


def state() -> Request[replies.State]:
    """Return a request for a member's status."""
    return Request(b"/etcdserverpb.Maintenance/Status", replies.State, b"")


def members() -> Request[replies.MemberList]:
    """Return a request for the members of the cluster."""
    return Request(b"/etcdserverpb.Cluster/MemberList", replies.MemberList, b"")


def alarms() -> Request[replies.Alarms]:
    """Return a request for the alarms of all members."""
    return Request(b"/etcdserverpb.Maintenance/Alarm", replies.Alarms, b"")
