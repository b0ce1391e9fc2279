"""Error mapping for memcached: each sentence says what to do, and none contains a password."""

from __future__ import annotations

import socket
import ssl

from lockfast.backends.memcached.meta import MetaError, MetaReply
from lockfast.backends.network.codec import ProtocolError
from lockfast.backends.network.errors import since_it_answered
from lockfast.errors import (
    BackendMisbehaved,
    BackendUnavailable,
    ConfigurationError,
    LockError,
)

_UNAUTHENTICATED = "unauthenticated"

# Sentences by a part of the server's message, in lower case. {where} is the store, {text} the
# message.
_CONFIGURATION = {
    _UNAUTHENTICATED: "{where} asks for a user and a password; "
    "give them in the URL (memcached://user:password@host)",
    "authentication failure": "{where} does not know this user and password; "
    "correct them in the URL",
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
    "busy": "{where} is listing its keys for somebody else; try again",
}
_TOO_OLD = (
    "{where} does not know the meta commands: memcached 1.6 or newer is needed, and none that "
    "speaks the binary protocol alone (-B binary, -S)"
)
_NOT_MEMCACHED = (
    "{where} answers, but not as a memcached server does; "
    "is this the right port, and does it want TLS (tls=true)?"
)
_TLS = (
    "{where}: no TLS connection could be made ({text}); tls=true is for servers that speak TLS; "
    "the certificate must be trusted here (tls_ca), and a server may ask for ours (tls_cert, "
    "tls_key)"
)
_SILENT = (
    "{where} did not answer in time; is the address right, and is it a memcached server that can "
    "be reached from here?"
)
_REASONS: dict[type[BaseException], str] = {
    socket.gaierror: "{where}: this host name has no address; correct it, or see to the "
    "name service",
    ConnectionRefusedError: "nothing listens at {where}; start the server, or correct the "
    "host and the port",
    TimeoutError: _SILENT,
    BlockingIOError: _SILENT,  # the kernel's error for a socket whose time is up
    ConnectionError: "{where} closed the connection before it had answered; is it a memcached "
    "server, and does it want TLS (tls=true)?",
}


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


def unreachable(error: BaseException, *, where: str, has_answered: bool = False) -> LockError:
    """Return the error for a connection that could not be made."""
    if isinstance(error, ProtocolError):
        return ConfigurationError(_NOT_MEMCACHED.format(where=where))
    text = " ".join(str(one) for one in error.args) or type(error).__name__
    if isinstance(error, ssl.SSLError):
        return ConfigurationError(_TLS.format(where=where, text=text))
    for kind, sentence in _REASONS.items():
        if isinstance(error, kind):
            said = sentence.format(where=where)
            return BackendUnavailable(since_it_answered(said) if has_answered else said)
    return BackendUnavailable(f"{where} cannot be reached: {text}")
