"""What went wrong, as a sentence that says what to do; no password in any of them.

etcd says what it refuses by a code of gRPC and a text. The texts are its own constants and the same
in all versions that we know, so both are looked at.
"""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

from lockfast.backends.etcd.http2.frames import NotHttp2
from lockfast.backends.wires.failures import since_it_answered
from lockfast.errors import (
    BackendMisbehaved,
    BackendUnavailable,
    ConfigurationError,
    LockError,
    OutcomeUnknown,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.etcd.http2.calls import Broken, Refusal


LATE = "no answer in time"
"""The reason of a call that is broken because its time is up."""

WORDS = 300
"""So much of what a server says is told to people."""


class OutOfSpace(BackendUnavailable):
    """The server takes nothing new; it still deletes, and renews leases."""


class LeaseGone(BackendUnavailable):
    """A lease was over before anything could be put under it; another one may be asked for."""


_FULL = "database space exceeded"

# What somebody has to set right, by the server's words. {where} is the cluster.
_CONFIGURATION = {
    "user name is empty": "{where} asks for a user and a password; give them in the URL "
    "(etcd://user:password@host), or a certificate with the user's name",
    "authentication failed": "{where} does not know this user and password; correct them in "
    "the URL",
    "authentication is not enabled": "{where} knows no users, but one was given; leave it out "
    "of the URL, or let it know users (etcdctl auth enable)",
    "permission denied": "{where}: this user may not use our keys; grant its role the right to "
    "read and write all that begins with {root}",
    "request is too large": "{where}: a request is larger than the server takes; raise "
    "--max-request-bytes, or choose shorter labels",
    "too many operations in txn": "{where}: a transaction has more operations than the server "
    "takes; raise --max-txn-ops",
}
# What passes by itself or by an operator's act, and nothing was done.
_OUTAGE = {
    _FULL: "{where} is out of space and takes no new claims (NOSPACE); held "
    "leases are still renewed. Compact and defragment it, raise --quota-backend-bytes, then "
    "disarm the alarm (etcdctl alarm disarm)",
    "too many requests": "{where} has too many requests to do; try again",
    "no leader": "{where} has no leader just now; see that most of its members are up",
    "rpc not supported for learner": "{where} is a learner, which serves nobody yet; name "
    "another member",
    "corrupt cluster": "{where} has found that its members disagree (CORRUPT), and takes no new "
    "claims; its log says which",
}
_NOT_IN_SERVICE = ("no leader", "rpc not supported for learner")
_LEASE_GONE = "requested lease not found"
_STALE = ("invalid auth token", "revision of auth store is old")
_UNKNOWN = {"CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "ABORTED"}


def is_lease_gone(refusal: Refusal) -> bool:
    """Whether the lease that was named is over."""
    return _LEASE_GONE in refusal.text


def is_forbidden(refusal: Refusal) -> bool:
    """Whether this user may not use these keys in this way."""
    return "permission denied" in refusal.text


def is_out_of_service(refusal: Refusal) -> bool:
    """Whether this member can do nothing for anybody just now, while another one may."""
    return any(one in refusal.text for one in _NOT_IN_SERVICE)


def is_stale_token(text: str) -> bool:
    """Whether a token has to be asked for again: it ran out, or its member has begun anew."""
    return any(one in text for one in _STALE)


def is_stale_watch(reason: str) -> bool:
    """Whether a stream of watches may have been opened by a token that has run out.

    A stream keeps the token that it was opened with, and etcd 3.4 says of one that ran out only
    that it permits nothing.
    """
    return is_stale_token(reason) or "permission denied" in reason


def refused(refusal: Refusal, *, where: str, root: bytes = b"") -> LockError:
    """Return the error behind an answer that says no."""
    code, text = refusal.code, _shown(refusal.text)
    said = {"where": where, "text": text, "root": root.decode() or "the prefix in the URL"}
    for needle, sentence in _CONFIGURATION.items():
        if needle in text:
            return ConfigurationError(sentence.format(**said))
    for needle, sentence in _OUTAGE.items():
        if needle in text:
            kind = OutOfSpace if needle == _FULL else BackendUnavailable
            return kind(sentence.format(**said))
    if is_lease_gone(refusal):
        return LeaseGone(f"{where}: a lease was over before it was used; try again")
    if code == "UNIMPLEMENTED":
        return ConfigurationError(
            f"{where} does not know this request ({text}); etcd 3.4 or newer is needed"
        )
    if code in _UNKNOWN or "deadline exceeded" in text:
        # Also where it had been proposed, and only the answer took too long.
        return OutcomeUnknown(f"{where} did not answer in time: {text}")
    return BackendMisbehaved(f"{where}: {code} {text}")


def _shown(text: str) -> str:
    """Return a server's words as they may stand in a sentence, and on somebody's terminal."""
    return "".join(one if one.isprintable() else " " for one in text[:WORDS])


def unanswered(broken: Broken, *, where: str) -> LockError:
    """Return the error of a request whose connection ended before its answer."""
    kind = BackendUnavailable if broken.is_undone else OutcomeUnknown
    if broken.reason == LATE:
        return kind(f"{where} did not answer in time")
    return kind(f"{where} did not answer: the connection ended ({broken.reason})")


def none_left(failures: Sequence[LockError], *, has_answered: bool) -> LockError:
    """Return the error where no member is left to be asked, by why each could not be.

    What somebody has to set right is said first. But once a member has answered, what is wrong
    with another is its own trouble: while the rest is away that is an outage, and passes.
    """
    wrong = [one for one in failures if isinstance(one, ConfigurationError)]
    away = [one for one in failures if not isinstance(one, ConfigurationError)]
    if wrong and away and has_answered:
        return BackendUnavailable(f"{away[-1]} (another member: {wrong[0]})")
    return (wrong or away)[0]


def unreachable(
    error: BaseException, *, where: str, endpoint: object, has_answered: bool = False
) -> LockError:
    """Return the error behind a connection that could not be made."""
    hint = _other_scheme(where)
    if isinstance(error, ssl.SSLError):
        return ConfigurationError(
            f"{where}: no TLS connection could be made with {endpoint} ({error}); etcds:// is for "
            "members that speak TLS, etcd:// for the others; the certificate must be trusted here "
            "(ssl_ca_certs), and a member may ask for ours (ssl_certfile, ssl_keyfile)"
        )
    if isinstance(error, NotHttp2):
        return ConfigurationError(
            f"{where}: {endpoint} answers, but not as etcd does ({error}); is this the right "
            f"port{hint}?"
        )
    for kind, sentence in _REASONS.items():
        if isinstance(error, kind):
            said = sentence.format(endpoint=endpoint, hint=hint)
            said = since_it_answered(said) if has_answered else said
            return BackendUnavailable(f"{where}: {said}")
    return BackendUnavailable(f"{where}: {endpoint} cannot be reached: {error}")


_REASONS: dict[type[BaseException], str] = {
    socket.gaierror: "{endpoint} has no address; correct the name, or see to the name service",
    ConnectionRefusedError: "nothing listens at {endpoint}; start the server, or correct the "
    "host and the port",
    TimeoutError: "{endpoint} did not answer in time; is the address right, is it an etcd that can "
    "be reached from here{hint}?",
    ConnectionError: "{endpoint} closed the connection before it had answered; is it an "
    "etcd{hint}?",
}


def _other_scheme(where: str) -> str:
    """Return the question whether TLS is what the two do not agree about."""
    if where.startswith("etcds:"):
        return (
            ", and does it speak TLS (if not, etcd://), or ask for our certificate (ssl_certfile)"
        )
    return ", and does it want TLS (then etcds://)"
