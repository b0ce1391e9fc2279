"""The verbs as requests to the scripts, and what the scripts answer.

Keys are `<namespace>:{<name>}:<what>`: the braces make all keys of a name share a slot of
a cluster. Braces in a name are escaped, so that nobody else chooses the slot.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from holdfast.backends.redis.resp import packed, packed_arguments
from holdfast.backends.redis.scripts import redis_script
from holdfast.core.sequencing import hold_of
from holdfast.errors import BackendMisbehaved
from holdfast.model import Closing, Crowd, Holder, Inspection, Owner, Renewal, Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.model import Claim

KEYS = ("door", "ends", "line", "gone", "kin")
VERBS = ("acquire", "acquire_all", "renew", "release", "withdraw", "break", "inspect", "beat")
SECOND = 1_000_000
PAGE = 16
"""As in door.lua: no request keeps a server busy for long."""

RENEWALS = {0: Renewal.LOST, 1: Renewal.RENEWED, 2: Renewal.BROKEN}

_ESCAPES = {ord("%"): "%25", ord("{"): "%7B", ord("}"): "%7D"}
_GLOB = {ord(one): f"\\{one}" for one in "*?[]\\^-"}
_FLAGS = (packed_arguments((b"0",)), packed_arguments((b"1",)))


class Keys:
    """The keys of one namespace: of each name these, of which the first is what it is known by."""

    def __init__(self, namespace: str, kinds: Sequence[str] = KEYS) -> None:
        self.namespace = namespace
        self._kinds = kinds
        self._first = kinds[0]
        # Names are used again and again; making and packing five keys is not free.
        self.of: Callable[[str], bytes] = lru_cache(maxsize=4096)(self._of)

    def door(self, name: str) -> bytes:
        """Return the key of the name's door."""
        return f"{self.namespace}:{{{name.translate(_ESCAPES)}}}:{self._first}".encode()

    def inbox(self, inbox: str) -> bytes:
        """Return the channel of an inbox."""
        return f"{self.namespace}:inbox:{inbox}".encode()

    def doors(self, prefix: str) -> bytes:
        """Return the pattern of the doors whose names begin so."""
        escaped = prefix.translate(_ESCAPES).translate(_GLOB)
        return f"{self.namespace}:{{{escaped}*}}:{self._first}".encode()

    def name_of(self, door: bytes) -> str:
        """Return the name behind a door's key."""
        inner = door.decode()[len(self.namespace) + 2 : -len(self._first) - 2]
        return inner.replace("%7B", "{").replace("%7D", "}").replace("%25", "%")

    def _of(self, name: str) -> bytes:
        stem = self.door(name)[: -len(self._first)]
        return packed_arguments(stem + one.encode() for one in self._kinds)


AHEAD = packed(b"TIME")
"""Sent ahead of a release that others wait for; its answer is of no use.

A server writes answers to its clients in the reverse order in which they first had one to get.
By this one the releaser had one before the client that its release lets in, which is told first
then: while there is a processor for it, and not when the releaser has taken that. It makes a
hand-over among 32 processes a quarter quicker. The scripts run TIME too, so it is allowed."""


def acquire(keys: bytes, claim: Claim, inbox: str) -> bytes:
    """Return the request; an empty inbox joins no line."""
    details = _details(claim)
    rest = b"%b$%d\r\n%b\r\n" % (_place(claim.capacity, inbox), len(details), details)
    return _FOR_CLAIM % (_head("acquire", 4), keys, len(claim.id), claim.id.encode(), rest)


@lru_cache(maxsize=64)
def _place(capacity: int, inbox: str) -> bytes:
    return packed_arguments((b"%d" % capacity, inbox.encode()))


def acquire_all(keys: Sequence[bytes], claims: Sequence[Claim]) -> bytes:
    """Return the request for several names at once, which all have the same capacity."""
    arguments = [b"%d" % claims[0].capacity]
    for claim in claims:
        arguments += (claim.id.encode(), _details(claim))
    return _called("acquire_all", b"".join(keys), arguments, names=len(claims))


def _details(claim: Claim) -> bytes:
    terms = _terms(
        claim.weight, claim.ttl, claim.lock_delay, claim.min_hold, claim.party, claim.client
    )
    return terms + claim.owner.encode()


# Few, and the same again and again. Not who asks: in asyncio that is often a task of its own for
# each request, and what is kept for it would never be of use again.
@lru_cache(maxsize=64)
def _terms(  # noqa: PLR0917 - what all claims of a lock have in common
    weight: int, ttl: float, delay: float, hold: float, party: str | None, client: str
) -> bytes:
    whose = f"{'-' if party is None else party_key(party)} {client_key(client)}"
    return f"{weight} {_us(ttl)} {_us(delay)} {_us(hold)} {whose} ".encode()


def renew(keys: bytes, claim: Claim) -> bytes:
    """Return the request."""
    rest = packed_arguments((b"%d" % _us(claim.ttl),))
    return _called_for(claim, "renew", keys, rest, count=1)


def hand_over(keys: bytes, claim: Claim) -> bytes:
    """Return the request: a renewal that brings another client and owner."""
    whose = f"{client_key(claim.client)} {claim.owner}".encode()
    rest = packed_arguments((b"%d" % _us(claim.ttl), whose))
    return _called_for(claim, "renew", keys, rest, count=2)


def release(keys: bytes, claim: Claim, *, tombstone: bool) -> bytes:
    """Return the request."""
    flag = _FLAGS[tombstone]
    return _FOR_CLAIM % (_head("release", 2), keys, len(claim.id), claim.id.encode(), flag)


def withdraw(keys: bytes, claim: Claim, *, tombstone: bool) -> bytes:
    """Return the request."""
    rest = _FLAGS[tombstone] + packed_arguments((b"%d" % _us(claim.ttl),))
    return _called_for(claim, "withdraw", keys, rest, count=2)


def break_(keys: bytes, skipped: int, *, token: int | None, owner: str | None) -> bytes:
    """Return the request for some of the holders."""
    by_token = b"" if token is None else b"%d" % token
    by_owner = b"" if owner is None else party_key(owner).encode()
    return _called("break", keys, (b"%d" % skipped, by_token, by_owner))


def inspect(keys: bytes, cursor: Cursor) -> bytes:
    """Return the request for the page that begins there."""
    return _called("inspect", keys, (cursor.arrival, cursor.ends))


def beat(names: Sequence[tuple[bytes, str]], inbox: str) -> bytes:
    """Return the request for several names: their keys, and the client that waits there."""
    arguments = (inbox.encode(), *(client_key(client).encode() for _, client in names))
    return _called("beat", b"".join(keys for keys, _ in names), arguments, names=len(names))


def read_scripts() -> None:
    """Read what all verbs need, once: later there may be no descriptor left to do so."""
    for verb in VERBS:
        redis_script(verb)


def load(verb: str) -> bytes:
    """Return the request that lets the server know the script of a verb."""
    return packed(b"SCRIPT", b"LOAD", redis_script(verb).source)


def load_for(request: bytes) -> bytes:
    """Return the request that lets the server know the script which this one calls."""
    sha = request.split(b"\r\n", 5)[4]
    return load(next(verb for verb in VERBS if redis_script(verb).sha == sha))


def _called(verb: str, keys: bytes, arguments: Sequence[bytes], *, names: int = 1) -> bytes:
    head = head_of_call(redis_script(verb).sha, names * len(KEYS), len(arguments))
    return head + keys + packed_arguments(arguments)


def _called_for(claim: Claim, verb: str, keys: bytes, rest: bytes, *, count: int) -> bytes:
    """Return the call whose first argument is the claim; the others are packed, so many."""
    return _FOR_CLAIM % (_head(verb, count + 1), keys, len(claim.id), claim.id.encode(), rest)


_FOR_CLAIM = b"%b%b$%d\r\n%b\r\n%b"


@lru_cache(maxsize=64)
def _head(verb: str, count: int) -> bytes:
    return head_of_call(redis_script(verb).sha, len(KEYS), count)


@lru_cache(maxsize=1024)
def head_of_call(sha: bytes, keys: int, count: int) -> bytes:
    """Return how the call of a script begins that has so many keys and other arguments."""
    return b"*%d\r\n" % (3 + keys + count) + packed_arguments((b"EVALSHA", sha, b"%d" % keys))


def _us(seconds: float) -> int:
    return round(seconds * SECOND)


def party_key(party: str) -> str:
    """Return the explicit owner as 32 digits: any text may name one."""
    data = party.encode(errors="surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def client_key(client: str) -> str:
    """Return the client without spaces: they part the fields of a record. Nobody is a dash."""
    return client if client.isalnum() and client.isascii() else quote(client, safe="") or "-"


# -- answers ---------------------------------------------------------------------------


class InLine(NamedTuple):
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
    closing: tuple[Closing, ...]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page of an inspection begins: in the line, and among those inside."""

    arrival: bytes = b"0"
    ends: bytes = b"-inf"


@dataclass(frozen=True, slots=True)
class Page:
    """A part of an inspection: who is inside, by claim, and some of the line."""

    capacity: int
    token: int
    inside: dict[bytes, Holder | Closing]
    line: list[Waiter]
    following: Cursor | None


@dataclass(frozen=True, slots=True)
class Beat:
    """What a heartbeat learned of one name; see beat.lua."""

    epoch: int
    ends_in: float | None
    is_unsettled: bool


class Ring(NamedTuple):
    """A message that a claim was admitted; see door.lua."""

    claim: str
    token: int


def ring(message: bytes) -> Ring:
    """Read the message that rings a claim."""
    claim, token = message.split(b" ")
    return Ring(claim.decode(), int(token))


def in_line(reply: list[Any]) -> InLine:
    """Read the answer to an acquire that was not granted."""
    now, number, epoch, token, *inside = reply
    first = min(map(int, inside[::2]), default=None)
    ends_in = None if first is None else (first - now) / SECOND
    seen = _all_seen(inside, now)
    if len(seen) == 1 and isinstance(one := seen[0], Holder):  # as most often
        return InLine(number or None, epoch, token, ends_in, (one,), ())
    closing = tuple([one for one in seen if isinstance(one, Closing)])
    return InLine(number or None, epoch, token, ends_in, _holders_of(seen), closing)


def holders(inside: list[Any], now: int) -> tuple[Holder, ...]:
    """Read deadlines and records, one after the other; the first to come is the first."""
    return _holders_of(_all_seen(inside, now))


def _holders_of(seen: Iterable[Holder | Closing]) -> tuple[Holder, ...]:
    return _in_order(one for one in seen if isinstance(one, Holder))


def _all_seen(inside: list[Any], now: int) -> list[Holder | Closing]:
    pairs = zip(inside[::2], inside[1::2], strict=True)
    return [seen for end, record in pairs if (seen := _seen(end, record, now)) is not None]


def _seen(
    end: bytes, record: bytes, now: int, *, claim: bytes | None = None
) -> Holder | Closing | None:
    """Return who holds by a record, or what it keeps closed; None if that is over.

    A hold that ended by itself may not have been seen to yet: whoever comes next closes the
    name for as long as it has to be, see door.lua.
    """
    one = _fields(record)
    ends = int(end)
    if one.standing == "H" and ends <= now:
        ends = max(ends + one.delay, min(one.since, ends) + one.hold)
        one = one._replace(standing="C")
    if ends <= now:
        return None
    remaining = (ends - now) / SECOND
    if one.standing == "C":
        return Closing(one.owner, one.weight, remaining)
    age = max(0.0, (now - one.since) / SECOND)
    hold = "" if claim is None else hold_of(claim.decode(), party=one.party)
    return Holder(one.owner, one.token, one.weight, age, remaining, hold)


def _in_order(found: Iterable[Holder]) -> tuple[Holder, ...]:
    return tuple(sorted(found, key=lambda one: (one.token or 0, -(one.age or 0.0))))


def beats(reply: list[int]) -> list[Beat]:
    """Read the answer to a heartbeat."""
    return [
        Beat(epoch, None if ends_in < 0 else ends_in / SECOND, bool(more))
        for epoch, ends_in, more in zip(reply[::3], reply[1::3], reply[2::3], strict=True)
    ]


def page(reply: list[Any]) -> Page:
    """Read a page of an inspection."""
    now, capacity, token, count, *items = reply
    inside, line = items[:count], items[count:]
    places = zip(inside[::3], inside[1::3], inside[2::3], strict=True)
    waiting = [_fields(record) for record in line[1::2] if record]
    return Page(
        capacity=capacity,
        token=token,
        inside={
            claim: seen
            for end, claim, record in places
            if (seen := _seen(end, record, now, claim=claim)) is not None
        },
        line=[
            # What it has for a token is when it came.
            Waiter(one.owner, one.weight, 0, max(0.0, (now - one.token) / SECOND))
            for one in waiting
        ],
        following=_following(ends=inside[::3], arrivals=line[::2]),
    )


def crowd(reply: list[Any]) -> Crowd:
    """Read of a page of an inspection how many are there: no more of it than that takes."""
    now, _, token, count, *items = reply
    inside = sum(int(end) > now for end in items[:count:3])
    return Crowd(inside + sum(map(bool, items[count + 1 :: 2])), token or None)


def _following(*, ends: Sequence[bytes], arrivals: Sequence[bytes]) -> Cursor | None:
    """Return where the next page begins, or None after the last one."""
    if len(ends) < PAGE and len(arrivals) < PAGE:
        return None
    return Cursor(
        arrival=arrivals[-1] if len(arrivals) == PAGE else b"+inf",
        ends=b"(" + ends[-1] if len(ends) == PAGE else b"+inf",
    )


def inspection(name: str, pages: Sequence[Page]) -> Inspection:
    """Return what all pages tell; of one who was renewed meanwhile, the last counts."""
    inside = {claim: one for page in pages for claim, one in page.inside.items()}.values()
    line = [one for page in pages for one in page.line]
    return Inspection(
        name=name,
        capacity=pages[0].capacity,
        holders=_in_order(one for one in inside if isinstance(one, Holder)),
        line=tuple(replace(one, place=number) for number, one in enumerate(line, 1)),
        last_token=pages[0].token or None,
        closing=tuple(one for one in inside if isinstance(one, Closing)),
    )


class _Record(NamedTuple):
    """A claim's record, as door.lua writes it; times in µs."""

    standing: str
    since: int
    token: int
    weight: int
    delay: int
    hold: int
    party: str | None
    owner: Owner


def _fields(record: bytes) -> _Record:
    fields = record.decode().split(" ", 9)
    if len(fields) != 10:  # noqa: PLR2004 - see door.lua
        raise BackendMisbehaved(f"a record of a claim cannot be read: {record[:80]!r}")
    standing, since, token, weight, _, delay, hold, party, _, owner = fields
    return _Record(
        standing,
        int(since),
        int(token),
        int(weight),
        int(delay),
        int(hold),
        None if party == "-" else party,
        _owner(owner),
    )


# Who waits is told who holds each time that it joins a line, most often one of a few.
_owner = lru_cache(maxsize=256)(Owner.from_text)
