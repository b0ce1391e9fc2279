"""The messages for failures on our own connections.

A message says what happened, and suggests only possible reasons. If the server closed the
connection, the message does not say that the server was late. If the server has answered before,
the message does not question the server's address.
"""

from __future__ import annotations

import re
import socket
import ssl
from typing import TYPE_CHECKING

from lockfast.backends.network.codec import ProtocolError
from lockfast.backends.network.tls import scheme_with_tls, scheme_without_tls
from lockfast.errors import BackendUnavailable, ConfigurationError, LockError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Mapping


def unreachable(
    error: BaseException,
    *,
    where: str,
    kind: str,
    uses_tls: bool,
    has_answered: bool = False,
    reasons: Mapping[type[BaseException], str] | None = None,
) -> LockError:
    """Return the error for a connection that could not be made.

    `kind` is the server in words, such as "a Redis server". `reasons` are a store's own sentences
    for some types of errors.
    """
    if isinstance(error, ssl.SSLError) and not isinstance(error, CLOSED_IN_TLS):
        return no_tls_connection(error, where=where)
    if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
        return BackendUnavailable(_NO_NAME_SERVICE.format(where=where))
    hint = _tls_hint(where, uses_tls=uses_tls)
    if isinstance(error, ProtocolError):
        return ConfigurationError(
            f"{where} answers, but not as {kind} does; is this the right port{hint}?"
        )
    if uses_tls and "handshake" in str(error):  # both flavours' error when its time is up
        sentence = "{where} did not answer the TLS handshake; if it does not use TLS, {without}"
    else:
        known = {**(reasons or {}), **_REASONS}
        sentence = next(
            (sentence for one, sentence in known.items() if isinstance(error, one)), _NOT_REACHED
        )
    said = sentence.format(
        where=where, kind=kind, hint=hint, text=_reason(error), without=_without_tls(where)
    )
    return BackendUnavailable(since_it_answered(said) if has_answered else said)


def no_tls_connection(error: ssl.SSLError, *, where: str) -> ConfigurationError:
    """Return the error for a TLS handshake that failed."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return ConfigurationError(
            f"{where}: no TLS connection could be made ({error}); if the server does not use TLS, "
            f"{_without_tls(where)}; if it asks for our certificate, give tls_cert and tls_key"
        )
    reason = error.verify_message.rstrip(".")
    if error.verify_code in _UNTRUSTED:
        sentence = (
            f"is not trusted here ({reason}); give the certificate of its authority as tls_ca"
        )
    elif error.verify_code in _OTHER_NAME:
        sentence = (
            f"is not valid for this host name ({reason}); use the name in the certificate, or "
            "tls_verify=ca"
        )
    else:
        sentence = f"is not accepted ({reason}); replace it, or correct the clock of this machine"
    return ConfigurationError(f"{where}: the server's certificate {sentence}")


# OpenSSL's codes (X509_V_ERR_…). The first are for an issuer that is unknown, or signed itself.
_UNTRUSTED = frozenset({2, 18, 19, 20, 21, 27})
_OTHER_NAME = frozenset({62, 63, 64})

_SILENT = (
    "{where} did not answer in time; is the address right, is it {kind} that can be reached from "
    "here{hint}?"
)
_NOT_REACHED = "{where} cannot be reached: {text}; is it {kind}{hint}?"
# It also concerns a server that has answered before, so it is not adapted to that.
_NO_NAME_SERVICE = (
    "{where}: the name service did not answer, so the address of the host is unknown; check DNS on "
    "this machine, or give the address itself"
)
_CLOSED = "{where} closed the connection before it had answered; is it {kind}{hint}?"
# OpenSSL's errors for a connection that ended during the TLS handshake. asyncio reports most of
# them as a ConnectionError. Other TLS errors mean that an option is wrong, but a server that is
# full or restarting closes connections too.
CLOSED_IN_TLS = ssl.SSLEOFError, ssl.SSLZeroReturnError
_REASONS: dict[type[BaseException], str] = {
    socket.gaierror: "{where}: this host name has no address; correct it, or check DNS",
    ConnectionRefusedError: "nothing listens at {where}; start the server, or correct the host and "
    "the port",
    TimeoutError: _SILENT,
    BlockingIOError: _SILENT,  # the kernel's error for a socket whose time is up
    ConnectionError: _CLOSED,
    **dict.fromkeys(CLOSED_IN_TLS, _CLOSED),
}

_SCHEME = re.compile(r"([\w+]+)://")


def _scheme_in(where: str) -> str:
    # The name of a server in messages may begin with other words, as for a Sentinel.
    found = _SCHEME.search(where)
    return found[1] if found else ""


def _without_tls(where: str) -> str:
    scheme = scheme_without_tls(_scheme_in(where))
    return f"write {scheme}://" if scheme else "leave the TLS options out"


def _tls_hint(where: str, *, uses_tls: bool) -> str:
    """Return part of a question: a hint that client and server may disagree about TLS."""
    scheme = _scheme_in(where)
    if uses_tls:
        return (
            f", and does it speak TLS (if not, {_without_tls(where)}), or ask for our certificate "
            "(tls_cert)"
        )
    if scheme == "unix":
        return ""
    secure = scheme_with_tls(scheme)
    return f", and does it want TLS (then {f'{secure}://' if secure else 'tls=true'})"


def not_connected(*, where: str) -> BackendUnavailable:
    """Return the error for a request that came too late to connect."""
    return BackendUnavailable(f"{where}: there was no time left to connect")


def too_late(*, where: str) -> BackendUnavailable:
    """Return the error for a request whose time was up before it was sent."""
    return BackendUnavailable(f"{where}: there was no time left to send the request")


def not_sent(error: BaseException, *, where: str) -> BackendUnavailable:
    """Return the error for a request that was not sent, because the connection ended before."""
    away = BackendUnavailable(f"{where}: the connection ended ({_reason(error)})")
    away.__cause__ = error
    return away


def unanswered(error: BaseException, *, where: str) -> OutcomeUnknown:
    """Return the error for a request that was sent and not answered."""
    if isinstance(error, TimeoutError):
        unknown = OutcomeUnknown(f"{where} did not answer in time")
    else:
        unknown = OutcomeUnknown(f"{where} did not answer: the connection ended ({_reason(error)})")
    unknown.__cause__ = error
    return unknown


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def since_it_answered(sentence: str) -> str:
    """Return the message about an unreachable server, adapted if that server answered before.

    The part after the first semicolon is replaced, because it asks whether the address was ever
    right.
    """
    fact, _, _ = sentence.partition(";")
    return f"{fact}; it answered before, so the server or the network has failed since"
