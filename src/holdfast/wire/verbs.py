"""The verbs as requests to the scripts, and what the scripts answer.

Keys are `<namespace>:{<name>}:<what>`: the braces make all keys of a name share a slot of
a cluster. Braces in a name are escaped, so that nobody else chooses the slot.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from holdfast.errors import BackendMisbehaved
from holdfast.model import Holder, Inspection, Owner, Renewal, Waiter
from holdfast.scripts import redis_script
from holdfast.wire.resp import packed, packed_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.model import Claim

KEYS = ("door", "ends", "line", "gone", "kin")
VERBS = ("acquire", "acquire_all", "renew", "release", "withdraw", "break", "inspect", "beat")
SECOND = 1_000_000

RENEWALS = {0: Renewal.LOST, 1: Renewal.RENEWED, 2: Renewal.BROKEN}

_ESCAPES = {ord("%"): "%25", ord("{"): "%7B", ord("}"): "%7D"}
_GLOB = {ord(one): f"\\{one}" for one in "*?[]\\^-"}
_FLAGS = (b"0", b"1")


class Keys:
    """The keys of one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        # Names are used again and again; making and packing five keys is not free.
        self.of = lru_cache(maxsize=4096)(self._of)

    def door(self, name: str) -> bytes:
        """Return the key of the name's door."""
        return f"{self.namespace}:{{{name.translate(_ESCAPES)}}}:door".encode()

    def inbox(self, inbox: str) -> bytes:
        """Return the channel of an inbox."""
        return f"{self.namespace}:inbox:{inbox}".encode()

    def doors(self, prefix: str) -> bytes:
        """Return the pattern of the doors whose names begin so."""
        escaped = prefix.translate(_ESCAPES).translate(_GLOB)
        return f"{self.namespace}:{{{escaped}*}}:door".encode()

    def name_of(self, door: bytes) -> str:
        """Return the name behind a door's key."""
        inner = door.decode()[len(self.namespace) + 2 : -len("}:door")]
        return inner.replace("%7B", "{").replace("%7D", "}").replace("%25", "%")

    def _of(self, name: str) -> bytes:
        stem = self.door(name)[: -len("door")]
        return packed_arguments(stem + one.encode() for one in KEYS)


AHEAD = packed(b"TIME")
"""Sent ahead of a release that others wait for; its answer is of no use.

A server writes answers to its clients in the reverse order in which they first had one to get.
By this one the releaser had one before the client that its release lets in, which is told first
then: while there is a processor for it, and not when the releaser has taken that. It makes a
hand-over among 32 processes a quarter quicker. The scripts run TIME too, so it is allowed."""


def acquire(keys: bytes, claim: Claim, inbox: str) -> bytes:
    """Return the request; an empty inbox joins no line."""
    return _called(
        "acquire",
        keys,
        (claim.id.encode(), b"%d" % claim.capacity, inbox.encode(), _details(claim)),
    )


def acquire_all(keys: Sequence[bytes], claims: Sequence[Claim]) -> bytes:
    """Return the request for several names at once, which all have the same capacity."""
    arguments = [b"%d" % claims[0].capacity]
    for claim in claims:
        arguments += (claim.id.encode(), _details(claim))
    return _called("acquire_all", b"".join(keys), arguments, names=len(claims))


def _details(claim: Claim) -> bytes:
    return (
        f"{claim.weight} {_us(claim.ttl)} {_us(claim.lock_delay)} {_us(claim.min_hold)} "
        f"{'-' if claim.party is None else party_key(claim.party)} "
        f"{client_key(claim.client)} {claim.owner}"
    ).encode()


def renew(keys: bytes, claim: Claim) -> bytes:
    """Return the request."""
    return _called("renew", keys, (claim.id.encode(), b"%d" % _us(claim.ttl)))


def release(keys: bytes, claim: Claim, *, tombstone: bool) -> bytes:
    """Return the request."""
    return _called("release", keys, (claim.id.encode(), _FLAGS[tombstone]))


def withdraw(keys: bytes, claim: Claim, *, tombstone: bool) -> bytes:
    """Return the request."""
    arguments = (claim.id.encode(), _FLAGS[tombstone], b"%d" % _us(claim.ttl))
    return _called("withdraw", keys, arguments)


def break_(keys: bytes, skipped: int) -> bytes:
    """Return the request for some of the holders."""
    return _called("break", keys, (b"%d" % skipped,))


def inspect(keys: bytes, arrival: bytes) -> bytes:
    """Return the request for the page of the line that begins after an arrival."""
    return _called("inspect", keys, (arrival,))


def beat(names: Sequence[tuple[bytes, str]], inbox: str) -> bytes:
    """Return the request for several names: their keys, and the client that waits there."""
    arguments = (inbox.encode(), *(client_key(client).encode() for _, client in names))
    return _called("beat", b"".join(keys for keys, _ in names), arguments, names=len(names))


def load(verb: str) -> bytes:
    """Return the request that lets the server know the script of a verb."""
    return packed(b"SCRIPT", b"LOAD", redis_script(verb).source)


def load_for(request: bytes) -> bytes:
    """Return the request that lets the server know the script which this one calls."""
    sha = request.split(b"\r\n", 5)[4]
    return load(next(verb for verb in VERBS if redis_script(verb).sha == sha))


def _called(verb: str, keys: bytes, arguments: Sequence[bytes], *, names: int = 1) -> bytes:
    return _head(verb, names, len(arguments)) + keys + packed_arguments(arguments)


@lru_cache(maxsize=256)
def _head(verb: str, names: int, count: int) -> bytes:
    keys = b"%d" % (names * len(KEYS))
    total = 3 + names * len(KEYS) + count
    return b"*%d\r\n" % total + packed_arguments((b"EVALSHA", redis_script(verb).sha, keys))


def _us(seconds: float) -> int:
    return round(seconds * SECOND)


def party_key(party: str) -> str:
    """Return the explicit owner as 32 digits: any text may name one."""
    data = party.encode(errors="surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def client_key(client: str) -> str:
    """Return the client without spaces: they part the fields of a record."""
    return client if client.isalnum() and client.isascii() else quote(client, safe="")


# -- answers ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """Where a claim stands that was not granted.

    `epoch` is its client's: another epoch later says that the place is lost. `last_token` is
    the last that was given for the name. `ends_in` is when the first of those inside would
    end by itself.
    """

    number: int | None
    epoch: int
    last_token: int
    ends_in: float | None
    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class Beat:
    """What a heartbeat learned of one name; see beat.lua."""

    epoch: int
    ends_in: float | None
    is_unsettled: bool


@dataclass(frozen=True, slots=True)
class Ring:
    """A message that a claim was admitted; see door.lua."""

    claim: str
    token: int


def ring(message: bytes) -> Ring:
    """Read the message that rings a claim."""
    claim, token = message.split(b" ")
    return Ring(claim.decode(), int(token))


def place(reply: list[Any]) -> Place:
    """Read the answer to an acquire that was not granted."""
    now, number, epoch, token, *inside = reply
    ends = [(int(end) - now) / SECOND for end in inside[::2]]
    return Place(number or None, epoch, token, min(ends, default=None), holders(inside, now))


def holders(inside: list[Any], now: int) -> tuple[Holder, ...]:
    """Read deadlines and records, one after the other; the first to come is the first."""
    found = []
    for end, record in zip(inside[::2], inside[1::2], strict=True):
        remaining = (int(end) - now) / SECOND
        standing, since, token, weight, owner = _fields(record)
        if standing in "HA" and remaining > 0:
            age = max(0.0, (now - since) / SECOND)
            found.append(Holder(Owner.from_text(owner), token, weight, age, remaining))
    return tuple(sorted(found, key=lambda one: (one.token or 0, -one.age)))


def beats(reply: list[int]) -> list[Beat]:
    """Read the answer to a heartbeat."""
    return [
        Beat(epoch, None if ends_in < 0 else ends_in / SECOND, bool(more))
        for epoch, ends_in, more in zip(reply[::3], reply[1::3], reply[2::3], strict=True)
    ]


def page(name: str, reply: list[Any]) -> tuple[Inspection, bytes | None]:
    """Read a page of an inspection, and the arrival after which the next one begins."""
    now, capacity, token, count, *items = reply
    line = items[count:]
    waiting = [_fields(record) for record in line[1::2] if record]
    inspection = Inspection(
        name=name,
        capacity=capacity,
        holders=holders(items[:count], now),
        line=tuple(
            Waiter(Owner.from_text(owner), weight, number)
            for number, (_, _, _, weight, owner) in enumerate(waiting, 1)
        ),
        last_token=token or None,
    )
    return inspection, line[-2] if line else None


def whole(first: Inspection, line: Sequence[Waiter]) -> Inspection:
    """Return an inspection with all pages of its line."""
    numbered = (replace(one, place=number) for number, one in enumerate(line, 1))
    return replace(first, line=tuple(numbered))


def _fields(record: bytes) -> tuple[str, int, int, int, str]:
    fields = record.decode().split(" ", 9)
    if len(fields) != 10:  # noqa: PLR2004 - see door.lua
        raise BackendMisbehaved(f"a record of a claim cannot be read: {record[:80]!r}")
    return fields[0], int(fields[1]), int(fields[2]), int(fields[3]), fields[9]
