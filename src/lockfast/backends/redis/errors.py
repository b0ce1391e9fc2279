"""Error mapping: each error as a sentence that says what to do, never with a password."""

from __future__ import annotations

import re
import socket
import ssl
from typing import TYPE_CHECKING

from lockfast.backends.network.codec import ProtocolError
from lockfast.backends.network.errors import since_it_answered
from lockfast.backends.redis.requests import SCRIPT_VERBS
from lockfast.backends.redis.scripts import redis_script
from lockfast.errors import (
    BackendMisbehaved,
    BackendUnavailable,
    ConfigurationError,
    LockError,
)

if TYPE_CHECKING:
    from lockfast.backends.redis.resp import ErrorReply

DOOR_FORMAT = 1
SCRIPT_NAMES = (*SCRIPT_VERBS, "permissions")

# What the user should do, by the server's error code. {where} is the store, {text} is the server's
# message.
_CONFIGURATION = {
    "NOAUTH": "{where} asks for a password; give one in the URL (redis://user:password@host)",
    "WRONGPASS": "{where} does not know this user and password; correct them in the URL",
    "NOPASS": "{where} knows no password, but one was given; leave it out of the URL",
    "DENIED": "{where} is in protected mode and takes connections from its own machine only; "
    "give it a password, or bind it to the address that you use",
    "READONLY": "{where} is a replica, and locks are kept on its master; give the master's "
    "address, or let Sentinel find it (redis+sentinel://)",
    "MOVED": "{where} is a node of a cluster; use redis+cluster://",
    "CROSSSLOT": "{where} is a node of a cluster; use redis+cluster://",
    "WRONGTYPE": "{where}: a key of ours is used by another program ({text}); "
    "choose a namespace of your own",
}
_OUTAGE = {
    "OOM": "{where} is out of memory and takes no new claims; held leases are still renewed. "
    "Give it memory, or delete other data",
    "LOADING": "{where} is still loading its data; try again",
    "BUSY": "{where} is busy with somebody's long script; end it (SCRIPT KILL)",
    "MISCONF": "{where} cannot save its data and refuses to write; its log says why, "
    "and often the disk is full",
    "CLUSTERDOWN": "{where}: the cluster is down ({text}); see CLUSTER INFO",
    "MASTERDOWN": "{where} is a replica without its master ({text})",
    "TRYAGAIN": "{where}: the slot is being moved; try again",
    "NOREPLICAS": "{where} has not enough replicas to write (min-replicas-to-write); "
    "bring one back, or lower that setting",
    "UNBLOCKED": "{where}: {text}; try again",
}
_TOO_OLD = "{where} cannot run Lockfast's scripts: Redis 7.0 or newer, or Valkey, is needed"
_NOT_REDIS = (
    "{where} answers, but not as a Redis server does; "
    "is this the right port, and does it want TLS (rediss://)?"
)
_NOT_REACHED = "{where} cannot be reached: {text}; is it a Redis server{hint}?"
_FULL = "max number of clients"
_NO_DATABASE = "{where}: there is no such database; see /number in the URL"


def refused(refusal: ErrorReply, *, where: str) -> LockError:
    """Return the error for a request that the server refused and did not carry out."""
    code, text = refusal.code, refusal.text
    mistake = _mistake(code, text)
    if mistake is not None:
        return ConfigurationError(mistake.format(where=where, text=text))
    if code in _OUTAGE:
        return BackendUnavailable(_OUTAGE[code].format(where=where, text=text))
    if _FULL in text:
        return BackendUnavailable(
            f"{where} has no room for another connection; raise maxclients, or find who keeps them"
        )
    return BackendMisbehaved(f"{where}: {text}")


def _mistake(code: str, text: str) -> str | None:
    """Return the sentence for an error that a person has to correct; None for any other error."""
    if code == "NOPERM" or _IN_SCRIPT.search(text):
        lacking = _forbidden(text)
        return f"{{where}}: this user may not {lacking}; `lockfast doctor` names all that it lacks"
    if code == "LOCKFAST_FORMAT":
        return (
            "{where}: this name was written by a newer Lockfast "
            f"(format {text.partition(' ')[2]}, this one knows {DOOR_FORMAT}); upgrade this program"
        )
    lower = text.lower()
    if "compiling script" in text or "unknown command" in lower or code == "NOPROTO":
        return _TOO_OLD
    if any(one in lower for one in ("db index is out of range", "invalid db index")):
        return _NO_DATABASE
    return _CONFIGURATION.get(code)


def unreachable(error: BaseException, *, where: str, has_answered: bool = False) -> LockError:
    """Return the error for a connection that could not be made."""
    if isinstance(error, ProtocolError):
        return ConfigurationError(_NOT_REDIS.format(where=where))
    if isinstance(error, ssl.SSLError):
        return ConfigurationError(_TLS.format(where=where, text=error))
    sentence = next(
        (sentence for kind, sentence in _REASONS.items() if isinstance(error, kind)), _NOT_REACHED
    )
    said = sentence.format(where=where, text=error, hint=other_scheme(where))
    return BackendUnavailable(since_it_answered(said) if has_answered else said)


def of_sentinel(refusal: ErrorReply, *, where: str) -> LockError:
    """Return the error for a refusal by a Sentinel; Sentinels have a login of their own."""
    text = refusal.text.lower()
    login = next((code for needle, code in _LOGIN.items() if needle in text), refusal.code)
    if login in _TO_SENTINEL:
        return ConfigurationError(_TO_SENTINEL[login].format(where=where))
    if "unknown command" in text:
        # Every Sentinel knows the command SENTINEL, and no other server does.
        scheme = where.partition("://")[0].removesuffix("+sentinel")
        return ConfigurationError(
            f"{where}: the server there is no Sentinel; give the addresses of the Sentinels (their "
            f"port is 26379 by default), or use {scheme}://HOST:PORT for a single server and "
            f"{scheme}+cluster:// for a cluster"
        )
    return refused(refusal, where=f"a Sentinel of {where}")


def server_words(greeting: object, field: str) -> str:
    """Return a field of the server's reply to the handshake; "" if the field is missing."""
    facts = greeting if isinstance(greeting, dict) else {}
    value = facts.get(field.encode(), facts.get(field, ""))
    return value.decode() if isinstance(value, bytes) else str(value)


def check_mode(greeting: object, *, where: str) -> None:
    """Raise if the server is a cluster node or a Sentinel, which would refuse some or all names."""
    sentence = _MODES.get(server_words(greeting, "mode"))
    if sentence is not None:
        raise ConfigurationError(sentence.format(where=where))


_LOGIN = {
    "without any password configured": "NOPASS",
    "no password is set": "NOPASS",  # in Redis 5 and older
    "invalid username-password": "WRONGPASS",
    "invalid password": "WRONGPASS",
    "authentication required": "NOAUTH",
    "hello must be called with": "NOAUTH",
}
_TO_SENTINEL = {
    "NOAUTH": "a Sentinel of {where} asks for a password of its own; give sentinel_password",
    "WRONGPASS": "a Sentinel of {where} does not know this user and password; correct "
    "sentinel_username and sentinel_password",
    "NOPASS": "a Sentinel of {where} knows no password, but one was given; "
    "leave sentinel_password out",
}
_MODES = {
    "cluster": _CONFIGURATION["MOVED"],
    "sentinel": "{where} is a Sentinel, and locks are kept on the master that it watches; "
    "use redis+sentinel:// with that master's name",
}
_TLS = (
    "{where}: no TLS connection could be made ({text}); rediss:// is for servers that speak "
    "TLS, redis:// for the others; the certificate must be trusted here (tls_ca), and a server "
    "may ask for ours (tls_cert, tls_key)"
)
_REASONS: dict[type[BaseException], str] = {
    socket.gaierror: "{where}: this host name has no address; correct it, or see to the "
    "name service",
    FileNotFoundError: "{where}: there is no such socket; start the server, or correct the path",
    PermissionError: "{where}: this program may not open the socket ({text}); see unixsocketperm",
    ConnectionRefusedError: "nothing listens at {where}; start the server, or correct the "
    "host and the port",
    TimeoutError: "{where} did not answer in time; is the address right, is it a Redis server "
    "that can be reached from here{hint}?",
    ConnectionError: "{where} closed the connection before it had answered; is it a Redis "
    "server{hint}?",
}
# -- no permission ----------------------------------------------------------------------

_IN_SCRIPT = re.compile(r"user executing the script can't|ACL failure in script")
_NAMED = re.compile(r"run the '([^']+)' command")
_PLACE = re.compile(r"script: (?P<sha>[0-9a-f]{40}), on @user_script:(?P<line>\d+)")
_CALLED = re.compile(r"call\('(\w+)'")


def _forbidden(text: str) -> str:
    named = _NAMED.search(text)
    lower = text.lower()
    if named is None and "channel" in lower:
        return "use our channels: it needs &<namespace>:inbox:*, by default &lockfast:inbox:*"
    if named is None and re.search(r"\bkeys?\b", lower):
        return "use our keys: it needs ~<namespace>:*, by default ~lockfast:*"
    command = named[1] if named else _command_at(text)
    if command is None:
        return "do this ({text})"
    return f"run {command.upper()}: it needs +{command.lower()}"


def _command_at(text: str) -> str | None:
    """Return the command in the line of our script that the server's message points to.

    Redis 7.0 does not name the command that a script may not run, only its line.
    """
    address = _PLACE.search(text)
    if address is None:
        return None
    for script in map(redis_script, SCRIPT_NAMES):
        if script.sha.decode() == address["sha"]:
            lines = script.source.decode().splitlines()[: int(address["line"])]
            called = _CALLED.findall("\n".join(lines))
            return called[-1] if called else None
    return None


def other_scheme(where: str) -> str:
    """Return part of a question: a hint that client and server may disagree about TLS."""
    scheme = where.partition("://")[0]
    if "rediss" in scheme:
        return (
            f", and does it speak TLS (if not, {scheme.replace('rediss', 'redis')}://), "
            "or ask for our certificate (tls_cert)"
        )
    if "redis" in scheme:
        return f", and does it want TLS (then {scheme.replace('redis', 'rediss')}://)"
    return ""
