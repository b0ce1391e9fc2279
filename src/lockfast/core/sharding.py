"""Which shard to try, when to look at the others, and when to change to another line.

A caller whose shard is held joins the line of that shard. It looks at the other shards at once, and
then less and less often. The first look is delayed if the latest look of any caller found every
shard occupied, or if the latest caller was admitted before its next look was due, because a look
then costs more than it gains.

If another shard is vacant, the caller tries it while keeping its place in line. If the caller's
line does not move while another line moves at every look, the caller changes to that line, because
the holder of its own shard may hang.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.core.naming import checked_name
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.model import Crowd

FIRST_SHARD_LOOK_SECONDS = 0.05
"""First pause between two looks at the other shards, in seconds; it doubles with each look."""

SHARD_LOOK_SECONDS = 1.0
"""Longest pause between two looks, in seconds. A free shard may go unnoticed for this long."""

SHARD_LOOKS_BEFORE_SWITCH = 5
"""A caller changes to another line after this number of looks in a row at which the other line had
moved and its own had not.
"""


class MoveToShard(Exception):
    """The caller moves to another shard, which was granted or has a faster line; internal only."""


def shard_name(name: str, shard: int) -> str:
    """Return the name of a shard's lock, such as `stock#3`."""
    return checked_name(f"{name}#{shard}")


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a caller in line at the shard `own` has seen of all shards."""

    own: int
    crowds: tuple[Crowd, ...] = ()
    looks: int = 0
    streaks: tuple[int, ...] = ()
    """For each shard, the number of looks in a row at which its line had moved and ours had not."""
    is_delayed: bool = False
    """Whether the first look is delayed; the module docstring says when."""

    @property
    def next_in(self) -> float:
        """The pause before the next look, in seconds."""
        if not self.looks:
            return FIRST_SHARD_LOOK_SECONDS if self.is_delayed else 0.0
        return min(FIRST_SHARD_LOOK_SECONDS * 2.0 ** min(self.looks - 1, 10), SHARD_LOOK_SECONDS)

    def after(self, crowds: Sequence[Crowd]) -> Outlook:
        """Return the outlook after a look that found these crowds."""
        streaks = [0] * len(crowds)
        if self.crowds and not self._has_moved(self.own, crowds):
            streaks = [
                self.streaks[one] + 1 if self._has_moved(one, crowds) else 0
                for one in range(len(crowds))
            ]
        return Outlook(self.own, tuple(crowds), self.looks + 1, tuple(streaks), self.is_delayed)

    def _has_moved(self, shard: int, now: Sequence[Crowd]) -> bool:
        return self.crowds[shard].last_token != now[shard].last_token

    def vacant(self) -> list[int]:
        """Return the vacant shards, starting after our own, so that each shard gets its turn."""
        count = len(self.crowds)
        order = [(self.own + step) % count for step in range(1, count)]
        return [one for one in order if not self.crowds[one].number]

    def is_crowded(self) -> bool:
        """Whether every shard was occupied at the last look."""
        return all(one.number for one in self.crowds)

    def faster_shard(self) -> int | None:
        """Return the shard whose line the caller should change to, if any."""
        lively = [
            one for one, streak in enumerate(self.streaks) if streak >= SHARD_LOOKS_BEFORE_SWITCH
        ]
        return min(lively, key=lambda one: self.crowds[one].number, default=None)


# The stripe of a key is the same in every process and on every machine, and never changes.
#
# Two keys may share a stripe, so a stripe excludes at least as much as was requested. So a number
# and the text of its digits may be the same key, which they must be: one program may have an id as
# text from a URL, another as a number from a database, and both must use the same lock.

KEY_INT_LIMIT = 2**512
"""Limit for an int key. A larger int is not a sensible key, and its conversion to digits takes too
long.
"""


def stripe_name(name: str, key: object, *, stripes: int) -> str:
    """Return the name of the lock that guards the key, such as `user#17/64`."""
    return checked_name(f"{checked_name(name)}#{stripe_of(key, stripes=stripes)}/{stripes}")


def stripe_of(key: object, *, stripes: int) -> int:
    """Return the stripe: BLAKE2b of the key, 8 bytes, big-endian, modulo the number of stripes."""
    digest = hashlib.blake2b(_data(key), digest_size=8).digest()
    return int.from_bytes(digest, "big") % stripes


def _data(key: object) -> bytes:
    if isinstance(key, tuple):
        # Include the lengths, because otherwise ("ab", "c") and ("a", "bc") would always share a
        # stripe.
        parts = [_data(one) for one in key]
        return b"".join(b"%d:%b" % (len(one), one) for one in parts)
    if isinstance(key, str):
        try:
            return str.encode(key)
        except UnicodeEncodeError as error:
            message = f"the key {key!r} holds a lone surrogate and has no UTF-8 form"
            raise ConfigurationError(message) from error
    if isinstance(key, bytes):
        return bytes(key)
    if isinstance(key, int) and not isinstance(key, bool):
        if abs(key) >= KEY_INT_LIMIT:
            raise ConfigurationError("a key that is an int has at most 512 bits")
        return b"%d" % key
    if isinstance(key, uuid.UUID):
        return str(key).encode()
    # Do not fall back on hash() or repr(), whose results differ between processes or between
    # versions of a class.
    raise TypeError(
        f"a key is a str, an int, bytes, a UUID or a tuple of these, not {type(key).__name__}: "
        "give what identifies it, in one of them"
    )
