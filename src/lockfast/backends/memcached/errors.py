"""Error mapping for memcached: each sentence says what to do, and none contains a password."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.memcached.meta import MetaError, MetaReply
from lockfast.backends.network import errors as network_errors
from lockfast.errors import (
    BackendMisbehaved,
    BackendUnavailable,
    ConfigurationError,
    LockError,
)

if TYPE_CHECKING:
    from lockfast.backends.network.target import Target

_UNAUTHENTICATED = "unauthenticated"

# Sentences by a part of the server's message, in lower case. {where} is the store, {text} the
# message.
_CONFIGURATION = {
    _UNAUTHENTICATED: "{where} asks for a user and a password; "
    "give them in the URL (memcached://user:password@host)",
    "authentication failure": "{where} rejected this user name or password; correct them",
    "metadump not allowed": "{where} does not list its keys (-X); one name can still be looked "
    "at with `lockfast show`",
    "lru crawler disabled": "{where} does not list its keys (no_lru_crawler); one name can still "
    "be looked at with `lockfast show`",
}
_OUTAGE = {
    "out of memory": "{where} is out of memory and evicts nothing (-M); such a refusal also frees "
    "the name, whoever holds it. Give it memory (-m), or let it evict",
    "too many open connections": "{where} has no room for another connection; raise -c, or find "
    "who keeps them",
    "busy": "{where} is listing its keys for another client; try again",
}
_TOO_OLD = (
    "{where} does not know the meta commands: memcached 1.6 or newer is needed, and none that "
    "speaks the binary protocol alone (-B binary, -S)"
)


def asks_for_login(answer: MetaReply) -> bool:
    """Whether the server requires a login before anything else."""
    return isinstance(answer, MetaError) and _UNAUTHENTICATED in answer.text


def refused(refusal: MetaError, *, where: str) -> LockError:
    """Return the error for an error reply, which means that the server did nothing."""
    text = refusal.text
    said = text.lower()
    for words, sentence in _CONFIGURATION.items():
        if words in said:
            return ConfigurationError(sentence.format(where=where, text=text))
    for words, sentence in _OUTAGE.items():
        if words in said:
            return BackendUnavailable(sentence.format(where=where, text=text))
    if text == "ERROR":
        return ConfigurationError(_TOO_OLD.format(where=where))
    return BackendMisbehaved(f"{where}: {text}")


def unreachable(error: BaseException, *, target: Target, has_answered: bool = False) -> LockError:
    """Return the error for a connection that could not be made."""
    return network_errors.unreachable(
        error,
        where=target.where,
        kind="a memcached server",
        uses_tls=target.tls is not None,
        has_answered=has_answered,
    )
