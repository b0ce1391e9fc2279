"""The script around a fenced write, and checks of the caller's Redis client."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lockfast.core.descriptor import is_asyncio_class
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

# Which library a Redis client comes from, and what the client supports, without importing the
# library.

_PACKAGES = ("redis", "valkey")


def check_client(client: object, *, is_asyncio: bool) -> None:
    """Refuse an unknown client, a pipeline, and a client of the other flavour."""
    kind = type(client)
    said = f"{kind.__module__}.{kind.__qualname__}"
    if _package(kind) is None or not hasattr(client, "evalsha"):
        raise ConfigurationError(
            f"{said} is no client of Redis that is known here: give a Redis or a RedisCluster of "
            "redis-py's or valkey-py's, or what Sentinel.master_for returns"
        )
    if any(one.__name__.endswith("Pipeline") for one in kind.__mro__):
        raise ConfigurationError(
            f"{said} answers when it is executed, too late to know whether the write was refused; "
            "give the client that it came from"
        )
    if is_asyncio_class(kind) is not is_asyncio:
        other = "RedisGuard" if is_asyncio else "AsyncRedisGuard"
        raise ConfigurationError(f"{said} is of the other flavour: give it to {other}")


def check_slots(client: object, keys: Sequence[str | bytes]) -> None:
    """Refuse keys that are not in the same cluster slot as the mark."""
    kind = type(client)
    if not any(one.__name__ in {"RedisCluster", "ValkeyCluster"} for one in kind.__mro__):
        return
    key_slot = import_module(f"{_package(kind)}.crc").key_slot
    mark, *others = [one.encode() if isinstance(one, str) else bytes(one) for one in keys]
    for one in others:
        if key_slot(one) != key_slot(mark):
            raise ConfigurationError(
                f"the mark {mark!r} and the key {one!r} are in different slots of the cluster, and "
                "no script sees both; give them the same part in braces, as in 'mark:{order:7}' "
                "and '{order:7}'"
            )


def is_unknown_script(error: Exception) -> bool:
    """Return whether the server lacks the script, because it is new or after a failover."""
    return type(error).__name__ == "NoScriptError"


def checked_reply(reply: Any) -> Any:  # noqa: ANN401 - the reply of the caller's script
    """Return the reply; if the caller's script returned an error, raise that error.

    For our script around it, such an error is only a value.
    """
    if isinstance(reply, Exception):
        raise reply
    return reply


def _package(kind: type) -> str | None:
    roots = [one.__module__.partition(".")[0] for one in kind.__mro__]
    return next((one for one in _PACKAGES if one in roots), None)


# The script around a write to Redis.
#
# KEYS[1] is the mark, ARGV[1] the token; the rest belongs to the caller. The mark is raised before
# the write, because Redis does not undo a script that fails halfway, and the writes that it made
# belong to our token.

# `tonumber` is exact below 2^53, and all tokens are below that limit. A larger mark does not come
# from us, but still compares as larger.
_CHECK = """\
local seen, token = redis.call('GET', KEYS[1]), ARGV[1]
if seen and not string.find(seen, '^%d+$') then
  return {'foreign', seen}
end
if seen and tonumber(seen) > tonumber(token) then
  return {'stale', seen}
end
if seen ~= token then
  redis.call('SET', KEYS[1], token)
end
local keys, args = {}, {}
for place = 2, #KEYS do keys[place - 1] = KEYS[place] end
for place = 2, #ARGV do args[place - 1] = ARGV[place] end
local function write(KEYS, ARGV)
"""
_RUN = """
end
return {'done', write(keys, args)}
"""

COMMAND = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))"
"""A script that runs a single command on the key KEYS[1]."""

EMPTY_SCRIPT = "return 1"


@dataclass(frozen=True, slots=True)
class GuardScript:
    """A complete script, and the hash by which a server identifies it."""

    text: str
    sha: str


@lru_cache(128)
def around(write: str) -> GuardScript:
    """Return the script that checks the token, raises the mark and runs `write`.

    `write` sees only its own KEYS and ARGV.
    """
    if write.lstrip().startswith("#!"):
        raise ConfigurationError(
            "a script that is put into another cannot begin with #! and flags; leave that line out"
        )
    text = _CHECK + write + _RUN
    return GuardScript(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
