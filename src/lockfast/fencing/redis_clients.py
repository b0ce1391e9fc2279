"""Whose client of Redis it is, and what it can be asked: told without importing its library."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lockfast.core.declaring import is_of_asyncio
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

_PACKAGES = ("redis", "valkey")


def check_client(client: object, *, is_asyncio: bool) -> None:
    """Refuse a stranger, a pipeline, and a client of the other flavour, in a sentence."""
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
    if is_of_asyncio(kind) is not is_asyncio:
        other = "RedisGuard" if is_asyncio else "AsyncRedisGuard"
        raise ConfigurationError(f"{said} is of the other flavour: give it to {other}")


def check_slots(client: object, keys: Sequence[str | bytes]) -> None:
    """Refuse keys that no one node of a cluster has together with the mark."""
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
    """Whether the server does not have the script yet; a failover may make it forget."""
    return type(error).__name__ == "NoScriptError"


def checked_reply(reply: Any) -> Any:  # noqa: ANN401 - whatever the caller's script answers
    """Return it, or raise: an error that a script returns stands inside ours as a value."""
    if isinstance(reply, Exception):
        raise reply
    return reply


def _package(kind: type) -> str | None:
    roots = [one.__module__.partition(".")[0] for one in kind.__mro__]
    return next((one for one in _PACKAGES if one in roots), None)
