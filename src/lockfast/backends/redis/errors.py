"""Error mapping: each error as a sentence that says what to do, never with a password."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockfast.backends.network import errors as network_errors
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
    "WRONGPASS": "{where} rejected this user name or password; correct them",
    "NOPASS": "{where} needs no password, but one was given; leave it out",
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
    "BUSY": "{where} is running a long script; end it (SCRIPT KILL) or wait",
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
_FULL = "max number of clients"
_NO_DATABASE = "{where}: there is no such database; see /number in the URL"


def refused(refusal: ErrorReply, *, where: str, has_provider: bool = False) -> LockError:
    """Return the error for a request that the server refused and did not carry out.

    With `has_provider`, the request logged in with what a credential provider returned.
    """
    code, text = refusal.code, refusal.text
    if has_provider and _login_code(refusal) in _WRONG_LOGIN:
        return BackendUnavailable(_PROVIDED.format(where=where))
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


def unreachable(
    error: BaseException, *, where: str, uses_tls: bool = False, has_answered: bool = False
) -> LockError:
    """Return the error for a connection that could not be made."""
    return network_errors.unreachable(
        error,
        where=where,
        kind="a Redis server",
        uses_tls=uses_tls,
        has_answered=has_answered,
        reasons=_SOCKET if where.startswith("unix://") else None,
    )


def _login_code(refusal: ErrorReply) -> str:
    """Return the code of the refusal of a login; old servers send only a text."""
    text = refusal.text.lower()
    return next((code for needle, code in _LOGIN.items() if needle in text), refusal.code)


def of_sentinel(refusal: ErrorReply, *, where: str, has_provider: bool = False) -> LockError:
    """Return the error for a refusal by a Sentinel; Sentinels have a login of their own."""
    login = _login_code(refusal)
    if login in _TO_SENTINEL and not (has_provider and login in _WRONG_LOGIN):
        return ConfigurationError(_TO_SENTINEL[login].format(where=where))
    if "unknown command" in refusal.text.lower():
        # Every Sentinel knows the command SENTINEL, and no other server does.
        scheme = "rediss" if "rediss+sentinel://" in where else "redis"
        return ConfigurationError(
            f"{where}: the server there is no Sentinel; give the addresses of the Sentinels (their "
            f"port is 26379 by default), or use {scheme}://HOST:PORT for a single server and "
            f"{scheme}+cluster:// for a cluster"
        )
    return refused(refusal, where=where, has_provider=has_provider)


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
_WRONG_LOGIN = frozenset({"NOAUTH", "WRONGPASS"})
# While a password is rotated, the provider may return the new one too early or the old one for too
# long. That passes, so it must not end waiting claims.
_PROVIDED = (
    "{where} rejected the user name or password that the credential_provider returned; it is asked "
    "again on the next attempt, so correct it only if this persists"
)
_TO_SENTINEL = {
    "NOAUTH": "{where} asks for a password of its own; give sentinel_password",
    "WRONGPASS": "{where} rejected this user name or password; correct sentinel_username and "
    "sentinel_password",
    "NOPASS": "{where} needs no password, but one was given; leave sentinel_password out",
}
_MODES = {
    "cluster": _CONFIGURATION["MOVED"],
    "sentinel": "{where} is a Sentinel, and locks are kept on the master that it watches; "
    "use redis+sentinel:// with that master's name",
}
_SOCKET: dict[type[BaseException], str] = {
    FileNotFoundError: "{where}: there is no such socket; start the server, or correct the path",
    PermissionError: "{where}: this program may not open the socket ({text}); see unixsocketperm",
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
