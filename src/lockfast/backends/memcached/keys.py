"""Under which key a name is kept: as it is where a key may say that, else by its hash."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from urllib.parse import quote

LONGEST = 250
"""A key of memcached has at most so many bytes."""

_PLAIN = re.compile(r"[!-~]+")
"""What a key may hold: no space, no control character. Bytes above those of ASCII are left to
the hash: proxies and clients of the same cache treat them in different ways."""


@lru_cache(1024)
def key_of(namespace: str, name: str) -> bytes:
    """Return the key. No namespace holds = or #, so no two names share one."""
    key = f"{namespace}={name}"
    if len(key) <= LONGEST and _PLAIN.fullmatch(name):
        return key.encode()
    return f"{namespace}#{hashlib.sha256(name.encode()).hexdigest()}".encode()


def listed_as(namespace: str) -> bytes:
    """Return with what the server begins our keys where it lists all: it quotes them."""
    return quote(namespace, safe="").encode()
