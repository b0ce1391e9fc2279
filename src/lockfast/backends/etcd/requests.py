"""What is asked of etcd: the calls that we use, each with its message packed; pure.

The numbers of the fields are those of etcd's `rpc.proto`, which never change. A `Request` for a
range, a put, a deletion or a transaction may also stand in a branch of a transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lockfast.backends.etcd import answers
from lockfast.backends.etcd.protobuf import bytes_field, message_field, number_field

if TYPE_CHECKING:
    from collections.abc import Iterable

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Request(Generic[A]):
    """One call: where it goes, what is said, and what the answer is read as."""

    path: bytes
    answer: type[A]
    body: bytes
    operation: int = 0
    """Which of the operations of a transaction it is; 0 if it cannot be one."""
    most: int = 0
    """So many keys it can find at most; 0 where there is no bound."""
    then: tuple[Request[Any], ...] = ()
    otherwise: tuple[Request[Any], ...] = ()
    """What a transaction does in either case, and is answered one by one."""


# -- keys ------------------------------------------------------------------------------

EVERYTHING_AFTER = b"\0"
"""As the end of a range: there is none."""

_ASCENDING, _BY_CREATION = 1, 2


def prefix_end(prefix: bytes) -> bytes:
    """Return the first key after all that begin with the prefix."""
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
) -> Request[answers.Ranged]:
    """Ask for a key, or for all from `key` to before `end`.

    Serializable is what this member knows, without asking its leader; all else is as new as
    anything that was ever answered.
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
    return Request(b"/etcdserverpb.KV/Range", answers.Ranged, body, 1, most=most)


def put(key: bytes, value: bytes, *, lease: int = 0) -> Request[answers.Put]:
    """Ask to keep a value, for as long as the lease lives if one is given."""
    body = bytes_field(1, key) + bytes_field(2, value) + number_field(3, lease)
    return Request(b"/etcdserverpb.KV/Put", answers.Put, body, 2)


def delete(key: bytes, end: bytes = b"", *, tell: bool = False) -> Request[answers.Deleted]:
    """Ask to delete a key, or all from `key` to before `end`, and to tell what there was."""
    body = bytes_field(1, key) + bytes_field(2, end) + number_field(3, tell)
    return Request(b"/etcdserverpb.KV/DeleteRange", answers.Deleted, body, 3)


class Is(IntEnum):
    """How what is there must compare with what is said."""

    EQUAL = 0
    GREATER = 1
    LESS = 2
    UNEQUAL = 3


class Of(IntEnum):
    """Which number of a key is compared; of a key that is not there all are zero."""

    VERSION = 0
    CREATED = 1
    MODIFIED = 2


def compare(key: bytes, of: Of, relation: Is, number: int, *, end: bytes = b"") -> bytes:
    """Return a condition on a key, or on each of a range; an empty one is as a key not there."""
    return (
        number_field(1, relation)
        + number_field(2, of)
        + bytes_field(3, key)
        # One of several of which exactly one is there: zero has to be said.
        + (number_field(4 + of, number) or bytes((4 + of << 3, 0)))
        + bytes_field(64, end)
    )


def transaction(
    conditions: Iterable[bytes],
    then: Iterable[Request[Any]] = (),
    otherwise: Iterable[Request[Any]] = (),
) -> Request[answers.Transacted]:
    """Ask to do this if all conditions are true, and that if not; in one step."""
    then, otherwise = tuple(then), tuple(otherwise)
    parts = [message_field(1, one) for one in conditions]
    parts += [message_field(2, message_field(one.operation, one.body)) for one in then]
    parts += [message_field(3, message_field(one.operation, one.body)) for one in otherwise]
    body = b"".join(parts)
    return Request(
        b"/etcdserverpb.KV/Txn", answers.Transacted, body, 4, then=then, otherwise=otherwise
    )


# -- leases ----------------------------------------------------------------------------


def grant(seconds: int, *, lease: int = 0) -> Request[answers.Granted]:
    """Ask for a lease; 0 lets the server choose its number."""
    body = number_field(1, seconds) + number_field(2, lease)
    return Request(b"/etcdserverpb.Lease/LeaseGrant", answers.Granted, body)


def revoke(lease: int) -> Request[answers.Revoked]:
    """Ask to end a lease, with all its keys."""
    return Request(b"/etcdserverpb.Lease/LeaseRevoke", answers.Revoked, number_field(1, lease))


def keep_alive(lease: int) -> Request[answers.Kept]:
    """Ask for the lease's full time anew. The server has a stream for it; one message will do."""
    return Request(b"/etcdserverpb.Lease/LeaseKeepAlive", answers.Kept, number_field(1, lease))


def time_to_live(lease: int, *, with_keys: bool = False) -> Request[answers.Left]:
    """Ask how much is left of a lease, and which keys it has."""
    body = number_field(1, lease) + number_field(2, with_keys)
    return Request(b"/etcdserverpb.Lease/LeaseTimeToLive", answers.Left, body)


# -- watching --------------------------------------------------------------------------

WATCH = b"/etcdserverpb.Watch/Watch"
"""Where the stream goes on which the messages below are sent."""


def watch(watch_id: int, key: bytes, end: bytes = b"", *, since: int, deletions: bool) -> bytes:
    """Return the message that asks for what happens to a key, or a range, from a revision on.

    The number is the caller's own, and must not be one that is watched under already.
    """
    body = (
        bytes_field(1, key)
        + bytes_field(2, end)
        + number_field(3, since)
        + (message_field(5, b"\0") if deletions else b"")  # one filter: no puts
        + number_field(7, watch_id)
    )
    return message_field(1, body)


def unwatch(watch_id: int) -> bytes:
    """Return the message that ends a watch."""
    return message_field(2, number_field(1, watch_id))


# -- the cluster -----------------------------------------------------------------------


def log_in(user: str, password: str) -> Request[answers.LoggedIn]:
    """Ask for a token that says who we are."""
    body = bytes_field(1, user.encode()) + bytes_field(2, password.encode())
    return Request(b"/etcdserverpb.Auth/Authenticate", answers.LoggedIn, body)


def state() -> Request[answers.State]:
    """Ask a member how it is."""
    return Request(b"/etcdserverpb.Maintenance/Status", answers.State, b"")


def members() -> Request[answers.Members]:
    """Ask who belongs to the cluster."""
    return Request(b"/etcdserverpb.Cluster/MemberList", answers.Members, b"")


def alarms() -> Request[answers.Alarms]:
    """Ask what is raised, anywhere."""
    return Request(b"/etcdserverpb.Maintenance/Alarm", answers.Alarms, b"")
