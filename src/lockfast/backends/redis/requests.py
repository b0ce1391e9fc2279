"""Requests to the scripts, one function per script; `replies.py` reads the replies.

Keys are `<namespace>:{<name>}:<what>`, where the braces put all keys of a name into the same
cluster slot. Braces in a name are escaped, so that the whole name determines the slot.
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

DOOR_KEYS = ("door", "ends", "line", "gone", "kin")
SCRIPT_VERBS = (
    "acquire",
    "acquire_all",
    "renew",
    "release",
    "withdraw",
    "break",
    "inspect",
    "beat",
)
SECOND = 1_000_000
RENEWAL_REPLIES = {0: Renewal.LOST, 1: Renewal.RENEWED, 2: Renewal.BROKEN}

_ESCAPES = {ord("%"): "%25", ord("{"): "%7B", ord("}"): "%7D"}
_GLOB = {ord(one): f"\\{one}" for one in "*?[]\\^-"}
_FLAGS = (packed_arguments((b"0",)), packed_arguments((b"1",)))


@dataclass(frozen=True, slots=True)
class Cursor:
    """The start of a page of an inspection, both in the line and among the claims inside."""

    arrival: bytes = b"0"
    ends: bytes = b"-inf"


class RedisKeys:
    """The keys of one namespace; a name has a key of each kind, and the first identifies it."""

    def __init__(self, namespace: str, kinds: Sequence[str] = DOOR_KEYS) -> None:
        self.namespace = namespace
        self._kinds = kinds
        self._first = kinds[0]
        # Cache the packed keys, because names are used again and again.
        self.of: Callable[[str], bytes] = lru_cache(maxsize=4096)(self._of)

    def door(self, name: str) -> bytes:
        """Return the key of the name's door."""
        return f"{self.namespace}:{{{name.translate(_ESCAPES)}}}:{self._first}".encode()

    def inbox(self, inbox: str) -> bytes:
        """Return the channel of an inbox."""
        return f"{self.namespace}:inbox:{inbox}".encode()

    def doors(self, prefix: str) -> bytes:
        """Return the pattern of the doors whose names begin with the prefix."""
        escaped = prefix.translate(_ESCAPES).translate(_GLOB)
        return f"{self.namespace}:{{{escaped}*}}:{self._first}".encode()

    def name_of(self, door: bytes) -> str:
        """Return the name that a door's key belongs to."""
        inner = door.decode()[len(self.namespace) + 2 : -len(self._first) - 2]
        return inner.replace("%7B", "{").replace("%7D", "}").replace("%25", "%")

    def _of(self, name: str) -> bytes:
        stem = self.door(name)[: -len(self._first)]
        return packed_arguments(stem + one.encode() for one in self._kinds)


def acquire(keys: bytes, claim: Claim, inbox: str) -> bytes:
    """Return the request to acquire; with an empty inbox the claim does not join the line."""
    details = _details(claim)
    rest = b"%b$%d\r\n%b\r\n" % (_place(claim.capacity, inbox), len(details), details)
    return _FOR_CLAIM % (_head("acquire", 4), keys, len(claim.id), claim.id.encode(), rest)


@lru_cache(maxsize=64)
def _place(capacity: int, inbox: str) -> bytes:
    return packed_arguments((b"%d" % capacity, inbox.encode()))


def acquire_all(keys: Sequence[bytes], claims: Sequence[Claim]) -> bytes:
    """Return the request to acquire several names at once; all must have the same capacity."""
    arguments = [b"%d" % claims[0].capacity]
    for claim in claims:
        arguments += (claim.id.encode(), _details(claim))
    return _called("acquire_all", b"".join(keys), arguments, names=len(claims))


def _details(claim: Claim) -> bytes:
    terms = _terms(
        claim.weight, claim.ttl, claim.lock_delay, claim.min_hold, claim.party, claim.client
    )
    return terms + claim.owner.encode()


# Cache the terms, because the same few combinations are used again and again. The owner is not
# among them, because in asyncio each request often has a new task as its owner, and a cache entry
# for that owner would never be used again.
@lru_cache(maxsize=64)
def _terms(  # noqa: PLR0917 - what all claims of a lock have in common
    weight: int, ttl: float, delay: float, hold: float, party: str | None, client: str
) -> bytes:
    identity = f"{'-' if party is None else owner_key(party)} {client_key(client)}"
    return f"{weight} {_us(ttl)} {_us(delay)} {_us(hold)} {identity} ".encode()


def renew(keys: bytes, claim: Claim) -> bytes:
    """Return the request for a renewal."""
    rest = packed_arguments((b"%d" % _us(claim.ttl),))
    return _called_for(claim, "renew", keys, rest, count=1)


def hand_over(keys: bytes, claim: Claim) -> bytes:
    """Return the request for a renewal that also sets a new client and owner."""
    identity = f"{client_key(claim.client)} {claim.owner}".encode()
    rest = packed_arguments((b"%d" % _us(claim.ttl), identity))
    return _called_for(claim, "renew", keys, rest, count=2)


def release(keys: bytes, claim: Claim, *, tombstone: bool) -> bytes:
    """Return the request; the tombstone refuses late copies of the claim's other requests."""
    flag = _FLAGS[tombstone]
    return _FOR_CLAIM % (_head("release", 2), keys, len(claim.id), claim.id.encode(), flag)


def withdraw(keys: bytes, claim: Claim, *, tombstone: bool) -> bytes:
    """Return the request; the tombstone refuses late copies of the claim's other requests."""
    rest = _FLAGS[tombstone] + packed_arguments((b"%d" % _us(claim.ttl),))
    return _called_for(claim, "withdraw", keys, rest, count=2)


def break_(keys: bytes, skipped: int, *, token: int | None, owner: str | None) -> bytes:
    """Return the request to break some of the holders, after passing over `skipped` claims."""
    by_token = b"" if token is None else b"%d" % token
    by_owner = b"" if owner is None else owner_key(owner).encode()
    return _called("break", keys, (b"%d" % skipped, by_token, by_owner))


def inspect(keys: bytes, cursor: Cursor) -> bytes:
    """Return the request for the page at the cursor."""
    return _called("inspect", keys, (cursor.arrival, cursor.ends))


def heartbeat(names: Sequence[tuple[bytes, str]], inbox: str) -> bytes:
    """Return the request for several names, each given as its keys and the client that waits."""
    arguments = (inbox.encode(), *(client_key(client).encode() for _, client in names))
    return _called("beat", b"".join(keys for keys, _ in names), arguments, names=len(names))


def read_scripts() -> None:
    """Read all scripts now, because later there may be no file descriptor left."""
    for verb in SCRIPT_VERBS:
        redis_script(verb)


def load(verb: str) -> bytes:
    """Return the request that loads a script into the server."""
    return packed(b"SCRIPT", b"LOAD", redis_script(verb).source)


def load_for(request: bytes) -> bytes:
    """Return the request that loads the script which this request calls."""
    sha = request.split(b"\r\n", 5)[4]
    return load(next(verb for verb in SCRIPT_VERBS if redis_script(verb).sha == sha))


def _called(verb: str, keys: bytes, arguments: Sequence[bytes], *, names: int = 1) -> bytes:
    head = head_of_call(redis_script(verb).sha, names * len(DOOR_KEYS), len(arguments))
    return head + keys + packed_arguments(arguments)


def _called_for(claim: Claim, verb: str, keys: bytes, rest: bytes, *, count: int) -> bytes:
    """Return the call whose first argument is the claim; `rest` has `count` more, packed."""
    return _FOR_CLAIM % (_head(verb, count + 1), keys, len(claim.id), claim.id.encode(), rest)


_FOR_CLAIM = b"%b%b$%d\r\n%b\r\n%b"


@lru_cache(maxsize=64)
def _head(verb: str, count: int) -> bytes:
    return head_of_call(redis_script(verb).sha, len(DOOR_KEYS), count)


@lru_cache(maxsize=1024)
def head_of_call(sha: bytes, keys: int, count: int) -> bytes:
    """Return the start of a script call with this many keys and other arguments."""
    return b"*%d\r\n" % (3 + keys + count) + packed_arguments((b"EVALSHA", sha, b"%d" % keys))


def _us(seconds: float) -> int:
    return round(seconds * SECOND)


def owner_key(party: str) -> str:
    """Return the explicit owner as a hash of 32 digits, because an owner may be any text."""
    data = party.encode(errors="surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def client_key(client: str) -> str:
    """Return the client without spaces, which separate a record's fields; a dash for no client."""
    return client if client.isalnum() and client.isascii() else quote(client, safe="") or "-"
