"""Which stripe a key belongs to: the same in every process, on every machine, for good.

Two keys may share a stripe, so a stripe only ever excludes more than was asked for. For the same
reason a number and the text of its digits are one key here: one program has an id as it came in a
URL, another as it came from a database, and both must meet at the same lock.
"""

from __future__ import annotations

import hashlib
import uuid

from lockfast.core.naming import checked_name
from lockfast.errors import ConfigurationError

LARGEST_INT = 2**512
"""Beyond it a number is no key, and its digits take long to count."""


def stripe_name(name: str, key: object, *, stripes: int) -> str:
    """Return the name of the lock which guards the key, as `user#17/64`."""
    return checked_name(f"{checked_name(name)}#{stripe_of(key, stripes=stripes)}/{stripes}")


def stripe_of(key: object, *, stripes: int) -> int:
    """Return the stripe: BLAKE2b of the key, 8 bytes, big-endian, modulo the number of stripes."""
    digest = hashlib.blake2b(_data(key), digest_size=8).digest()
    return int.from_bytes(digest, "big") % stripes


def _data(key: object) -> bytes:
    if isinstance(key, tuple):
        # With their lengths: else ("ab", "c") and ("a", "bc") would always meet.
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
        if abs(key) >= LARGEST_INT:
            raise ConfigurationError("a key that is an int has at most 512 bits")
        return b"%d" % key
    if isinstance(key, uuid.UUID):
        return str(key).encode()
    # Not by hash() or repr(): those differ between processes, or between versions of a class.
    raise TypeError(
        f"a key is a str, an int, bytes, a UUID or a tuple of these, not {type(key).__name__}: "
        "give what identifies it, in one of them"
    )
