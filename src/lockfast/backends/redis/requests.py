"""The verbs as requests to the scripts; what these answer is read in `answers.py`.

Keys are `<namespace>:{<name>}:<what>`: the braces make all keys of a name share a slot of
a cluster. Braces in a name are escaped, so that nobody else chooses the slot.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from lockfast.backends.redis.resp import packed, packed_arguments
from lockfast.backends.redis.scripts import redis_script
from lockfast.model import Renewal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.model import Claim

KEYS = ("door", "ends", "line", "gone", "kin")
VERBS = ("acquire", "acquire_all", "renew", "release", "withdraw", "break", "inspect", "beat")
SECOND = 1_000_000
RENEWALS = {0: Renewal.LOST, 1: Renewal.RENEWED, 2: Renewal.BROKEN}

_ESCAPES = {ord("%"): "%25", ord("{"): "%7B", ord("}"): "%7D"}
_GLOB = {ord(one): f"\\{one}" for one in "*?[]\\^-"}
_FLAGS = (packed_arguments((b"0",)), packed_arguments((b"1",)))


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page of an inspection begins: in the line, and among those inside."""

    arrival: bytes = b"0"
    ends: bytes = b"-inf"


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
