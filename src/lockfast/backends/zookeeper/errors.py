"""Error mapping: errors as sentences that say what to do, without any password."""

from __future__ import annotations

import errno
import socket
import ssl
from typing import TYPE_CHECKING

from kazoo.exceptions import (
    AuthFailedError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NoNodeError,
    NotReadOnlyCallError,
    QuotaExceededError,
    SASLException,
    SessionClosedRequireSaslError,
    ThrottledOpError,
    UnimplementedError,
)

from lockfast.backends.sessions.records import UnreadableRecord
from lockfast.errors import (
    BackendMisbehaved,
    BackendUnavailable,
    ConfigurationError,
    LockError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class UnusableCertificate(OSError):
    """Our own certificate could not be loaded."""


_LOGIN = (
    "{where} does not accept these credentials; correct user and password in the URL, or what "
    "auth_data or sasl_options say"
)
_MISTAKES: dict[type[BaseException], str] = {
    AuthFailedError: _LOGIN,
    SASLException: "{where}: SASL is not possible here ({text}); "
    "pip install 'kazoo[sasl]', and see sasl_options",
    SessionClosedRequireSaslError: "{where} takes nobody without SASL; give sasl_options",
    InvalidACLError: "{where} does not accept the ACL for {path}; correct acl=, and note that an "
    "ACL of the creator alone needs credentials (zookeeper://user:password@host)",
    NotReadOnlyCallError: "{where} is read-only; give the address of a voting member",
    QuotaExceededError: "{where}: the quota of {path} is used up; raise it (setquota)",
    UnimplementedError: "{where} is too old: ZooKeeper 3.5.3 or newer is needed",
}


def _is_any(*kinds: type[BaseException]) -> Callable[[BaseException], bool]:
    return lambda error: isinstance(error, kinds)


def _is_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


_OUTAGES: tuple[tuple[Callable[[BaseException], bool], type[LockError], str], ...] = (
    (
        _is_any(FileNotFoundError, PermissionError),
        ConfigurationError,
        "{where}: a file of certificates cannot be read ({text}); see ca, certfile, keyfile",
    ),
    (
        _is_any(UnusableCertificate),
        ConfigurationError,
        (
            "{where}: our own certificate cannot be used ({text}); its private key has to be in "
            "certfile too, or in keyfile"
        ),
    ),
    (
        _is_full,
        BackendUnavailable,
        (
            "{where}: this process has too many files open to connect; raise its limit "
            "(ulimit -n), or close some"
        ),
    ),
    (
        _is_any(ssl.SSLError),
        ConfigurationError,
        (
            "{where}: no TLS connection could be made ({text}); use_ssl is for a "
            "secureClientPort, and the certificate must be trusted here (ca=)"
        ),
    ),
    (
        _is_any(socket.gaierror),
        BackendUnavailable,
        "{where}: a host name has no address ({text}); correct it, or see to the name service",
    ),
    (
        _is_any(ConnectionRefusedError),
        BackendUnavailable,
        "nothing listens at {where}; start the server, or correct the host and the port",
    ),
)
"""The recognised causes of a failed connection; the most certain cause comes first."""


def refused(
    error: KazooException, *, where: str, path: str, users: Sequence[str] = ()
) -> LockError:
    """Return the error for a refusal, which means that the server did nothing."""
    text = _words(error)
    if isinstance(error, NoAuthError):
        return ConfigurationError(
            f"{where}: no permission for {path}{' as ' if users else ''}{' or '.join(users)}; let "
            "its ACL allow to create, delete, read and write there, or correct the credentials "
            "(zookeeper://user:password@host)"
        )
    for kind, sentence in _MISTAKES.items():
        if isinstance(error, kind):
            return ConfigurationError(sentence.format(where=where, path=path, text=text))
    if isinstance(error, ThrottledOpError):
        return BackendUnavailable(f"{where} has too much to do and refused the request; try again")
    return BackendMisbehaved(f"{where}: {text} at {path}")


def no_chroot(chroot: str, *, where: str) -> LockError:
    """Return the error for a path in the URL that does not exist."""
    return ConfigurationError(
        f"{where}: there is no {chroot}; create it (zkCli.sh create {chroot}), or correct the "
        "path in the URL"
    )


def foreign(child: str, *, where: str, path: str) -> LockError:
    """Return the error for a node of another program that is among our nodes."""
    return UnreadableRecord(
        f"{where}: {path}/{child} is a node of another program; choose a namespace of your own"
    )


def unreachable(error: BaseException | None, *, where: str) -> LockError:
    """Return the error for a failed connection; `error` is the last error that kazoo met."""
    chain = list(_chain(error))
    text = _words(error) if error is not None else "no answer"
    for one in chain:
        for kind, sentence in _MISTAKES.items():
            if isinstance(one, kind):
                return ConfigurationError(sentence.format(where=where, path="", text=text))
    for matches, answer, sentence in _OUTAGES:
        if any(map(matches, chain)):
            return answer(sentence.format(where=where, text=text))
    return BackendUnavailable(
        f"{where} did not answer in time ({text}); is it a ZooKeeper that can be reached from here "
        "and has a majority of its members, and does it want TLS (use_ssl=True)?"
    )


def is_missing(answer: object) -> bool:
    """Return whether the reply says that there is no such node."""
    return isinstance(answer, NoNodeError)


def _words(error: BaseException) -> str:
    words = " ".join(str(one) for one in error.args)
    return words or type(error).__name__


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
