"""The replies of etcd, and the check that a message is the reply to a request; pure.

A readable message may still not be a reply to the request, if it comes from a proxy or from a
server that is not quite etcd. Code that unpacks a reply relies on its shape, and would fail on
another shape with an error that says nothing about the store.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lockfast.backends.etcd.protobuf import (
    Field,
    Reading,
    UnreadableMessage,
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

    from lockfast.backends.etcd.requests import Request

ReplyT = TypeVar("ReplyT", bound="tuple[Any, ...]")


# The replies of etcd, read from its messages; pure.
#
# The field numbers are those of etcd's `rpc.proto` and `kv.proto`, which never change.


class Header(NamedTuple):
    """Which member answered, at which revision and in which term."""

    cluster: int = 0
    member: int = 0
    revision: int = 0
    term: int = 0

    def confirms(self, earlier: Header) -> bool:
        """Whether this reply confirms the earlier one.

        It does if both replies are from the same member, with no election in between.
        """
        return (self.cluster, self.member, self.term) == (
            earlier.cluster,
            earlier.member,
            earlier.term,
        )


class KeyValue(NamedTuple):
    """A key with its value, its revisions and its lease."""

    key: bytes = b""
    created: int = 0
    """The revision of the put that created the key. If the key is deleted and put again, this
    number changes."""
    modified: int = 0
    version: int = 0
    value: bytes = b""
    lease: int = 0


class Ranged(NamedTuple):
    """The reply to a range request: the keys, in the requested order."""

    header: Header = Header()
    keys: tuple[KeyValue, ...] = ()
    more: bool = False
    """Whether there are more keys beyond the limit."""
    total: int = 0
    """Number of keys in the range, including those beyond the limit."""


class Put(NamedTuple):
    """The reply to a put; inside a transaction it adds nothing to the transaction's reply."""

    header: Header = Header()


class Deleted(NamedTuple):
    """The reply to a deletion: the number of deleted keys, and the keys if they were requested."""

    header: Header = Header()
    deleted: int = 0
    keys: tuple[KeyValue, ...] = ()


class Transacted(NamedTuple):
    """The reply to a transaction: which branch was taken, and the replies to its operations."""

    header: Header = Header()
    succeeded: bool = False
    answers: tuple[Any, ...] = ()
    """One reply for each operation of the branch that was taken, without headers: Ranged, Put,
    Deleted or Transacted."""


class Granted(NamedTuple):
    """The reply to a request for a lease; the server may grant a longer ttl than requested."""

    header: Header = Header()
    lease: int = 0
    ttl: int = 0


class Revoked(NamedTuple):
    """The reply to a revocation."""

    header: Header = Header()


class KeptAlive(NamedTuple):
    """The reply to a keep-alive; the ttl is 0 if the lease has ended."""

    header: Header = Header()
    lease: int = 0
    ttl: int = 0


class LeaseTimeLeft(NamedTuple):
    """The remaining ttl of a lease (-1 if it has ended), and its keys if they were requested."""

    header: Header = Header()
    lease: int = 0
    ttl: int = 0
    granted: int = 0
    keys: tuple[bytes, ...] = ()


class KeyChange(NamedTuple):
    """A change of a key; for a deleted key, only the key and its last revision are known."""

    is_deletion: bool = False
    key: KeyValue = KeyValue()


class Watched(NamedTuple):
    """A message from a watch, which says that the watch began or ended, or which keys changed."""

    header: Header = Header()
    watch: int = 0
    is_created: bool = False
    is_canceled: bool = False
    compacted: int = 0
    """The oldest revision that is still known, if the start of the watch is already compacted."""
    reason: str = ""
    """Why the watch was cancelled; empty if it was not, or if `compacted` gives the reason."""
    changes: tuple[KeyChange, ...] = ()


class LoggedIn(NamedTuple):
    """The reply to a login."""

    header: Header = Header()
    token: str = ""


class State(NamedTuple):
    """What a member reports about itself."""

    header: Header = Header()
    version: str = ""
    size: int = 0
    leader: int = 0
    """The leader's id; 0 if the member does not know a leader."""
    errors: tuple[str, ...] = ()
    is_learner: bool = False


class Member(NamedTuple):
    """A member of the cluster; a member without a name has never been up."""

    id: int = 0
    name: str = ""
    peers: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    is_learner: bool = False


class MemberList(NamedTuple):
    """The members of the cluster."""

    header: Header = Header()
    members: tuple[Member, ...] = ()


NOSPACE = 1
CORRUPT = 2


class Alarm(NamedTuple):
    """A problem that an operator has to solve, and the member that has it."""

    member: int = 0
    kind: int = 0


class Alarms(NamedTuple):
    """The raised alarms."""

    header: Header = Header()
    alarms: tuple[Alarm, ...] = ()


def read_reply(kind: type[ReplyT], data: bytes) -> ReplyT:
    """Return the message, or raise UnreadableMessage."""
    reading: Reading[ReplyT] = _READINGS[kind]
    return reading(data)


# -- parts of replies ------------------------------------------------------------------

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
_CHANGE = Reading(KeyChange, {1: Field("is_deletion", truth), 2: Field("key", _KEY_VALUE)})
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

NESTED_TRANSACTIONS_MAX = 4
"""Maximum depth of nested transactions; ours are two deep."""


def _transacted(depth: int) -> dict[int, Field]:
    """Return the fields of a transaction's reply, with transactions nested up to `depth`.

    The headers of nested replies are skipped, because they add nothing to the header of the whole
    reply, and parsing them took half of the time for the whole reply.
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
    """Return the reply to one operation of a transaction."""
    for number, content in fields(raw(value)):
        read = known.get(number)
        if read is not None:
            return read(content)
    return None


def _too_deep(_: Value) -> Transacted:
    raise UnreadableMessage("a transaction in another, deeper than any of ours")


# -- replies ---------------------------------------------------------------------------

_LEASE = {1: _HEADER, 2: Field("lease", signed), 3: Field("ttl", signed)}

_FIELDS: dict[type, dict[int, Field]] = {
    Ranged: {1: _HEADER, **_RANGED},
    Put: {1: _HEADER},
    Deleted: {1: _HEADER, **_DELETED},
    Transacted: {1: _HEADER, **_transacted(NESTED_TRANSACTIONS_MAX)},
    Granted: _LEASE,
    Revoked: {1: _HEADER},
    KeptAlive: _LEASE,
    LeaseTimeLeft: {
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
    MemberList: {1: _HEADER, 2: Field("members", _MEMBER, is_repeated=True)},
    Alarms: {1: _HEADER, 2: Field("alarms", _ALARM, is_repeated=True)},
}
_READINGS: dict[type, Reading[Any]] = {kind: Reading(kind, one) for kind, one in _FIELDS.items()}

AnswerT = TypeVar("AnswerT")


def checked_reply(request: Request[AnswerT], data: bytes) -> AnswerT:
    """Return the reply to a request, or raise UnreadableMessage."""
    found = read_reply(request.answer, data)  # type: ignore[type-var]  # all are tuples
    _check(request, found)
    return found


def _check(request: Request[Any], found: object) -> None:
    if isinstance(found, Transacted):
        _check_branch(request.then if found.succeeded else request.otherwise, found)
    elif isinstance(found, Ranged):
        if request.most and len(found.keys) > request.most:
            raise UnreadableMessage(f"{len(found.keys)} keys where {request.most} can be")
        if found.more and not found.keys:
            raise UnreadableMessage("no keys, and more of them")
    elif isinstance(found, Granted) and (not found.lease or found.ttl <= 0):
        raise UnreadableMessage("a lease without a number or without a time")


def _check_branch(asked: tuple[Request[Any], ...], found: Transacted) -> None:
    if len(found.answers) != len(asked):
        raise UnreadableMessage(f"{len(found.answers)} answers to {len(asked)} operations")
    for request, one in zip(asked, found.answers, strict=True):
        if not isinstance(one, request.answer):
            raise UnreadableMessage(
                f"not the answer to an operation: {request.answer.__name__} is missing"
            )
        _check(request, one)
