"""What etcd answers, read from its messages; pure.

The numbers of the fields are those of etcd's `rpc.proto` and `kv.proto`, which never change.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lockfast.backends.etcd.protobuf import (
    Field,
    Reading,
    Unreadable,
    Value,
    fields,
    raw,
    signed,
    text,
    truth,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable

A = TypeVar("A", bound="tuple[Any, ...]")


class Header(NamedTuple):
    """Who answered, and when: which member, at which revision and in which term."""

    cluster: int = 0
    member: int = 0
    revision: int = 0
    term: int = 0

    def confirms(self, earlier: Header) -> bool:
        """Whether what this one knows was known by the one that gave the earlier answer.

        By the same member, and no other has been elected in between.
        """
        return (self.cluster, self.member, self.term) == (
            earlier.cluster,
            earlier.member,
            earlier.term,
        )


class KeyValue(NamedTuple):
    """A key, and since when it is there."""

    key: bytes = b""
    created: int = 0
    """The revision of the put that made it; another one if it was deleted in between."""
    modified: int = 0
    version: int = 0
    value: bytes = b""
    lease: int = 0


class Ranged(NamedTuple):
    """The answer to a range: keys, in the order that was asked for."""

    header: Header = Header()
    keys: tuple[KeyValue, ...] = ()
    more: bool = False
    """Whether there are some beyond the limit."""
    total: int = 0
    """How many there are, whatever the limit."""


class Put(NamedTuple):
    """The answer to a put; inside a transaction it says nothing that the whole does not."""

    header: Header = Header()


class Deleted(NamedTuple):
    """The answer to a deletion: how many keys were there, and which, if that was asked for."""

    header: Header = Header()
    deleted: int = 0
    keys: tuple[KeyValue, ...] = ()


class Transacted(NamedTuple):
    """The answer to a transaction: which branch was taken, and what it answered."""

    header: Header = Header()
    succeeded: bool = False
    answers: tuple[Any, ...] = ()
    """One for each operation of that branch: Ranged, Put, Deleted or Transacted; no headers."""


class Granted(NamedTuple):
    """The answer to a request for a lease; the server may give it a longer time than asked for."""

    header: Header = Header()
    lease: int = 0
    ttl: int = 0


class Revoked(NamedTuple):
    """The answer to a revocation."""

    header: Header = Header()


class Kept(NamedTuple):
    """The answer to a keep-alive; no time is left of a lease that is over."""

    header: Header = Header()
    lease: int = 0
    ttl: int = 0


class Left(NamedTuple):
    """What is left of a lease, -1 if it is over; and its keys, if that was asked for."""

    header: Header = Header()
    lease: int = 0
    ttl: int = 0
    granted: int = 0
    keys: tuple[bytes, ...] = ()


class Change(NamedTuple):
    """What happened to a key; of a deleted one its key and its last revision are known."""

    is_deletion: bool = False
    key: KeyValue = KeyValue()


class Watched(NamedTuple):
    """What a watch has to say: that it began, that it ended, or what happened."""

    header: Header = Header()
    watch: int = 0
    is_created: bool = False
    is_canceled: bool = False
    compacted: int = 0
    """Where the beginning was forgotten already: the oldest revision that is still known."""
    reason: str = ""
    """Why it was cancelled; empty also where `compacted` says it."""
    changes: tuple[Change, ...] = ()


class LoggedIn(NamedTuple):
    """The answer to a user and a password."""

    header: Header = Header()
    token: str = ""


class State(NamedTuple):
    """What a member says of itself."""

    header: Header = Header()
    version: str = ""
    size: int = 0
    leader: int = 0
    """Zero where it knows of none."""
    errors: tuple[str, ...] = ()
    is_learner: bool = False


class Member(NamedTuple):
    """A member of the cluster; without a name it has never been there."""

    id: int = 0
    name: str = ""
    peers: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    is_learner: bool = False


class Members(NamedTuple):
    """Who belongs to the cluster."""

    header: Header = Header()
    members: tuple[Member, ...] = ()


NOSPACE = 1
CORRUPT = 2


class Alarm(NamedTuple):
    """Something that an operator has to see to, and at which member."""

    member: int = 0
    kind: int = 0


class Alarms(NamedTuple):
    """What is raised."""

    header: Header = Header()
    alarms: tuple[Alarm, ...] = ()


def answer(kind: type[A], data: bytes) -> A:
    """Return the message, or raise Unreadable."""
    reading: Reading[A] = _READINGS[kind]
    return reading(data)


# -- what answers are made of ----------------------------------------------------------

_HEADER = Field(
    "header",
    Reading(
        Header,
        {
            1: Field("cluster", whole),
            2: Field("member", whole),
            3: Field("revision", signed),
            4: Field("term", whole),
        },
    ),
)
_KEY_VALUE = Reading(
    KeyValue,
    {
        1: Field("key", raw),
        2: Field("created", signed),
        3: Field("modified", signed),
        4: Field("version", signed),
        5: Field("value", raw),
        6: Field("lease", signed),
    },
)
_CHANGE = Reading(Change, {1: Field("is_deletion", truth), 2: Field("key", _KEY_VALUE)})
_MEMBER = Reading(
    Member,
    {
        1: Field("id", whole),
        2: Field("name", text),
        3: Field("peers", text, is_repeated=True),
        4: Field("clients", text, is_repeated=True),
        5: Field("is_learner", truth),
    },
)
_ALARM = Reading(Alarm, {1: Field("member", whole), 2: Field("kind", whole)})

_KEYS = Field("keys", _KEY_VALUE, is_repeated=True)
_RANGED = {2: _KEYS, 3: Field("more", truth), 4: Field("total", signed)}
_DELETED = {2: Field("deleted", signed), 3: _KEYS}

# -- transactions ----------------------------------------------------------------------

NESTED = 4
"""So deep a transaction may stand in others; ours are two deep."""


def _transacted(depth: int) -> dict[int, Field]:
    """Return the fields of a transaction's answer, in which others may stand, so deep.

    The headers of answers inside of it say nothing that its own does not, and to read all of
    them took half of the time that an answer takes.
    """
    inner = Reading(Transacted, _transacted(depth - 1)) if depth else _too_deep
    operations: dict[int, Callable[[Value], object]] = {
        1: Reading(Ranged, _RANGED),
        2: lambda _: Put(),
        3: Reading(Deleted, _DELETED),
        4: inner,
    }
    return {
        2: Field("succeeded", truth),
        3: Field("answers", partial(_operation, operations), is_repeated=True),
    }


def _operation(known: dict[int, Callable[[Value], object]], value: Value) -> object:
    """Return what one operation of a transaction has answered."""
    for number, content in fields(raw(value)):
        read = known.get(number)
        if read is not None:
            return read(content)
    return None


def _too_deep(_: Value) -> Transacted:
    raise Unreadable("a transaction in another, deeper than any of ours")


# -- answers ---------------------------------------------------------------------------

_LEASE = {1: _HEADER, 2: Field("lease", signed), 3: Field("ttl", signed)}

_FIELDS: dict[type, dict[int, Field]] = {
    Ranged: {1: _HEADER, **_RANGED},
    Put: {1: _HEADER},
    Deleted: {1: _HEADER, **_DELETED},
    Transacted: {1: _HEADER, **_transacted(NESTED)},
    Granted: _LEASE,
    Revoked: {1: _HEADER},
    Kept: _LEASE,
    Left: {
        **_LEASE,
        4: Field("granted", signed),
        5: Field("keys", raw, is_repeated=True),
    },
    Watched: {
        1: _HEADER,
        2: Field("watch", signed),
        3: Field("is_created", truth),
        4: Field("is_canceled", truth),
        5: Field("compacted", signed),
        6: Field("reason", text),
        11: Field("changes", _CHANGE, is_repeated=True),
    },
    LoggedIn: {1: _HEADER, 2: Field("token", text)},
    State: {
        1: _HEADER,
        2: Field("version", text),
        3: Field("size", signed),
        4: Field("leader", whole),
        8: Field("errors", text, is_repeated=True),
        10: Field("is_learner", truth),
    },
    Members: {1: _HEADER, 2: Field("members", _MEMBER, is_repeated=True)},
    Alarms: {1: _HEADER, 2: Field("alarms", _ALARM, is_repeated=True)},
}
_READINGS: dict[type, Reading[Any]] = {kind: Reading(kind, one) for kind, one in _FIELDS.items()}
