"""Error mapping: errors as sentences that say what to do, without any password.

etcd describes a refusal with a gRPC code and a text. The texts are constants in etcd and the same
in all versions that we know, so both the code and the text are checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.network import errors as network_errors
from lockfast.errors import (
    BackendMisbehaved,
    BackendUnavailable,
    ConfigurationError,
    LockError,
    OutcomeUnknown,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.etcd.http2.grpc import BrokenCall, GrpcError
    from lockfast.backends.network.target import Target


LATE = "no answer in time"
"""The reason given for a call that timed out."""

SHOWN_CHARACTERS = 300
"""Maximum number of characters of a server's text that an error shows."""


class OutOfSpace(BackendUnavailable):
    """The server is out of space; it stores nothing new, but deletes keys and renews leases."""


class LeaseGone(BackendUnavailable):
    """The lease ended before anything was put under it; the caller may request another lease."""


_FULL = "database space exceeded"

# Errors that an operator has to fix, by the server's text. {where} is the cluster.
_CONFIGURATION = {
    "user name is empty": "{where} asks for a user and a password; give them in the URL "
    "(etcd://user:password@host), or a certificate with the user's name",
    "authentication failed": "{where} rejected this user name or password; correct them",
    "authentication is not enabled": "{where} needs no user name, but one was given; leave it "
    "out, or let the cluster ask for one (etcdctl auth enable)",
    "permission denied": "{where}: this user may not use our keys; grant its role the right to "
    "read and write all that begins with {root}",
    "request is too large": "{where}: a request is larger than the server takes; raise "
    "--max-request-bytes, or choose shorter labels",
    "too many operations in txn": "{where}: a transaction has more operations than the server "
    "takes; raise --max-txn-ops",
}
# Errors that pass by themselves, or once an operator acts. The request had no effect.
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


def is_lease_gone(refusal: GrpcError) -> bool:
    """Whether the lease named in the request has ended."""
    return _LEASE_GONE in refusal.text


def is_forbidden(refusal: GrpcError) -> bool:
    """Whether this user lacks the permission for these keys."""
    return "permission denied" in refusal.text


def is_out_of_service(refusal: GrpcError) -> bool:
    """Whether this member cannot serve requests now, although another member may."""
    return any(one in refusal.text for one in _NOT_IN_SERVICE)


def is_stale_token(text: str) -> bool:
    """Whether a new token is needed, because the old token expired or a member has restarted."""
    return any(one in text for one in _STALE)


def is_stale_watch(reason: str) -> bool:
    """Whether a watch stream may have been opened with a token that has expired.

    A stream keeps the token with which it was opened. If that token has expired, etcd 3.4 reports
    only that permission is denied.
    """
    return is_stale_token(reason) or "permission denied" in reason


def refused(refusal: GrpcError, *, where: str, root: bytes = b"") -> LockError:
    """Return the error for a refusal."""
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
        # The request may already have been proposed, and perhaps only its reply took too long.
        return OutcomeUnknown(f"{where} did not answer in time: {text}")
    return BackendMisbehaved(f"{where}: {code} {text}")


def _shown(text: str) -> str:
    """Return a server's text, made safe for an error message and for a terminal."""
    return "".join(one if one.isprintable() else " " for one in text[:SHOWN_CHARACTERS])


def unanswered(broken: BrokenCall, *, where: str) -> LockError:
    """Return the error for a request whose connection ended before its reply."""
    kind = BackendUnavailable if broken.is_undone else OutcomeUnknown
    if broken.reason == LATE:
        return kind(f"{where} did not answer in time")
    return kind(f"{where} did not answer: the connection ended ({broken.reason})")


def none_left(failures: Sequence[LockError], *, has_answered: bool) -> LockError:
    """Return the error to raise when every member has failed; `failures` has the members' errors.

    A configuration error takes precedence. But once a member has answered, the configuration is
    right in general, and a configuration error concerns one member only. If other members cannot be
    reached, the failure is then an outage, which may pass.
    """
    wrong = [one for one in failures if isinstance(one, ConfigurationError)]
    away = [one for one in failures if not isinstance(one, ConfigurationError)]
    if wrong and away and has_answered:
        return BackendUnavailable(f"{away[-1]} (another member: {wrong[0]})")
    return (wrong or away)[0]


def unreachable(error: BaseException, *, target: Target, has_answered: bool = False) -> LockError:
    """Return the error for a connection that could not be made."""
    return network_errors.unreachable(
        error,
        where=f"{target.where} (member {target.endpoint})",
        kind="an etcd member",
        uses_tls=target.tls is not None,
        has_answered=has_answered,
    )
