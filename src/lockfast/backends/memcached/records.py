"""Turns the content of an item, which says who holds the name, into bytes and back.

The head is one line: format, state, claim, ttl, age, token, and the claim that was broken last. The
next line is the name, and the rest is the owner, in the same form as in other stores. The item
exists even while nobody holds the name, because only an existing item can be changed by
compare-and-swap. A late request that nobody waits for any more finds another version of the item,
and fails.
"""

from __future__ import annotations

import enum
import hashlib
import json
import math
import re
from functools import lru_cache
from json.encoder import encode_basestring_ascii as json_string
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from lockfast.errors import ConfigurationError
from lockfast.model import Closing, Held, Holder, Inspection, Owner

if TYPE_CHECKING:
    from lockfast.model import Claim

# The key of a name is the name itself if a key may contain it, otherwise a hash of the name.

KEY_MAX_BYTES = 250
"""Maximum length of a memcached key, in bytes."""

_PLAIN = re.compile(r"[!-~]+")
"""Characters that a key may contain, which excludes spaces and control characters. Names with bytes
outside ASCII are hashed, because proxies and clients of the same cache treat such bytes in
different ways."""


@lru_cache(1024)
def key_of(namespace: str, name: str) -> bytes:
    """Return the key of a name.

    No two names share a key, not even in different namespaces, because no namespace contains = or
    #.
    """
    key = f"{namespace}={name}"
    if len(key) <= KEY_MAX_BYTES and _PLAIN.fullmatch(name):
        return key.encode()
    return f"{namespace}#{hashlib.sha256(name.encode()).hexdigest()}".encode()


def listed_prefix(namespace: str) -> bytes:
    """Return the prefix of our keys as they appear, quoted, in the server's list of keys."""
    return quote(namespace, safe="").encode()


ITEM_FORMAT = 1
FREE_ITEM_SECONDS = 86_400
"""How long a FREE item is kept after its last change, in seconds. Correctness does not depend on
it."""

_NOBODY = "-"


class ItemState(enum.StrEnum):
    """The state of the name."""

    FREE = "free"
    HELD = "held"
    CLOSED = "closed"  # nobody holds the name, but its min_hold has not passed


class ItemRecord(NamedTuple):
    """The content of one item.

    `age` is how long the name had been held when the item was written, by the holder's clock. The
    record is a tuple for speed, because each lock cycle makes two records.
    """

    state: ItemState
    name: str
    claim: str = _NOBODY
    ttl: float = 0.0
    age: float = 0.0
    token: int = 0
    broken: str = _NOBODY
    owner: str = ""

    @property
    def seconds(self) -> int:
        """How long the server should keep the item, in seconds.

        A holder trusts its full ttl. The server counts whole seconds and may expire an item up to
        one second early, so one second is added.
        """
        return FREE_ITEM_SECONDS if self.state is ItemState.FREE else seconds_for(self.ttl)

    def to_bytes(self) -> bytes:
        """Return the bytes to store."""
        return (
            f"{ITEM_FORMAT} {self.state} {self.claim} {self.ttl:.3f} {self.age:.3f} {self.token} "
            f"{self.broken}\n{json_string(self.name)}\n{self.owner}"
        ).encode()

    def aged(self, seconds: float) -> ItemRecord:
        """Return the record as it will be `seconds` later."""
        return self._replace(age=self.age + max(0.0, seconds))

    def is_of(self, claim: Claim) -> bool:
        """Whether this claim holds the name."""
        return self.state is ItemState.HELD and self.claim == claim.id

    # -- changes ---------------------------------------------------------------------------

    def held_by(self, claim: Claim, *, token: int) -> ItemRecord:
        """Return the record of a name that the claim holds from now on."""
        return ItemRecord(
            ItemState.HELD, self.name, claim.id, claim.ttl, 0.0, token, self.broken, claim.owner
        )

    def freed(self, *, broken: str | None = None) -> ItemRecord:
        """Return the record of a free name; `broken` is the claim whose hold an operator broke."""
        return ItemRecord(ItemState.FREE, self.name, token=self.token, broken=broken or self.broken)

    def closed_for(self, seconds: float) -> ItemRecord:
        """Return the record that keeps the name closed for `seconds`."""
        return self._replace(state=ItemState.CLOSED, claim=_NOBODY, ttl=seconds, age=0.0)

    # -- answers ---------------------------------------------------------------------------

    def held(self, *, remaining: float) -> Held:
        """Return the record as the reply to a claim that cannot hold now."""
        return Held(self._holders(remaining), None, remaining, self._closing(remaining))

    def inspection(self, *, remaining: float) -> Inspection:
        """Return the record as the reply to an inspection."""
        token = self.token or None
        return Inspection(
            self.name, 1, self._holders(remaining), (), token, self._closing(remaining)
        )

    def _holders(self, remaining: float) -> tuple[Holder, ...]:
        if self.state is not ItemState.HELD:
            return ()
        return (self.holder(remaining),)

    def holder(self, remaining: float) -> Holder:
        """Return the holder."""
        owner = Owner.from_text(self.owner)
        return Holder(owner, self.token or None, 1, self.age, min(remaining, self.ttl))

    def _closing(self, remaining: float) -> tuple[Closing, ...]:
        if self.state is not ItemState.CLOSED:
            return ()
        return (Closing(Owner.from_text(self.owner), 1, remaining),)


def seconds_for(ttl: float) -> int:
    """Return the expiry to request, so that the server keeps an item for at least `ttl`.

    The server reads an expiry of more than thirty days as a date, but no option of ours is longer
    than a week.
    """
    return math.ceil(ttl) + 1


def unheld(name: str) -> ItemRecord:
    """Return the record for a name that has no item yet."""
    return ItemRecord(ItemState.FREE, name)


def record_of(value: bytes, *, key: bytes) -> ItemRecord:
    """Return the record in an item; ConfigurationError if the item is not ours or is too new."""
    head, _, rest = value.partition(b"\n")
    fields = head.split(b" ")
    if fields[0].isdigit() and int(fields[0]) > ITEM_FORMAT:
        raise ConfigurationError(
            f"the item {key.decode()!r} has format {int(fields[0])}, and this Lockfast knows "
            f"{ITEM_FORMAT}: a newer one uses the same namespace. Upgrade this one"
        )
    try:
        _, state, claim, ttl, age, token, broken = (one.decode() for one in fields)
        name, _, owner = rest.decode().partition("\n")
        return ItemRecord(
            ItemState(state),
            json.loads(name),
            claim,
            float(ttl),
            float(age),
            int(token),
            broken,
            owner,
        )
    except ValueError:
        raise ConfigurationError(
            f"the item {key.decode()!r} is not of Lockfast: another program uses this key. "
            "Choose a namespace of your own"
        ) from None
