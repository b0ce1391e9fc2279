"""What went wrong, as a sentence that says what to do; no password in any of them."""

from __future__ import annotations

import re
import ssl

from holdfast.errors import (
    BackendMisbehaved,
    BackendUnavailable,
    ConfigurationError,
    LockError,
)
from holdfast.wire.resp import Refusal

FORMAT = 1

# What to do, by the code of the server's error. {where} is the store, {text} its words.
_CONFIGURATION = {
    "NOAUTH": "{where} asks for a password; give one in the URL (redis://user:password@host)",
    "WRONGPASS": "{where} does not know this user and password; correct them in the URL",
    "NOPERM": "{where}: {text}. Give the user what the page on Redis lists as the smallest ACL",
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
    "MISCONF": "{where} cannot save its data and refuses to write ({text}); see its log",
    "CLUSTERDOWN": "{where} is a node of a cluster that is down ({text}); see CLUSTER INFO",
    "MASTERDOWN": "{where} is a replica without its master ({text})",
    "TRYAGAIN": "{where}: the slot is being moved; try again",
    "NOREPLICAS": "{where} has not enough replicas to write (min-replicas-to-write); "
    "bring one back, or lower that setting",
    "UNBLOCKED": "{where}: {text}; try again",
}


def refused(refusal: Refusal, *, where: str) -> LockError:
    """Return the error behind a reply that says no: the server did nothing."""
    code, text = refusal.code, refusal.text
    if code in _CONFIGURATION:
        return ConfigurationError(_CONFIGURATION[code].format(where=where, text=text))
    if code in _OUTAGE:
        return BackendUnavailable(_OUTAGE[code].format(where=where, text=text))
    if code == "HOLDFAST_FORMAT":
        return ConfigurationError(
            f"{where}: this name was written by a newer Holdfast (format {text.split()[-1]}, "
            f"this one knows {FORMAT}); upgrade this program"
        )
    if "compiling script" in text or "unknown command" in text.lower():
        return ConfigurationError(
            f"{where} cannot run Holdfast's scripts: Redis 7.0 or newer, or Valkey, is needed"
        )
    if "max number of clients" in text:
        return BackendUnavailable(f"{where} has no room for another connection (maxclients)")
    return BackendMisbehaved(f"{where}: {text}")


def unreachable(error: BaseException, *, where: str) -> LockError:
    """Return the error behind a connection that could not be made."""
    text = _words(error)
    if _is_tls(error):
        return ConfigurationError(_TLS.format(where=where, text=text))
    code = _CODE.search(text)
    if code is not None:
        return refused(Refusal(text[code.start() :]), where=where)
    lower = text.lower()
    for needle, sentence in _WORDS.items():
        if needle in lower:
            return ConfigurationError(sentence.format(where=where, text=text))
    return BackendUnavailable(f"{where} cannot be reached: {text}")


_NOT_REDIS = (
    "{where} answers, but not as a Redis server does; "
    "is this the right port, and does it want TLS (rediss://)?"
)

# The driver does not always keep the server's code, but it keeps the words.
_CODE = re.compile(rf"\b(?:{'|'.join((*_CONFIGURATION, *_OUTAGE))})\b")
_WORDS = {
    "without any password configured": "{where} knows no password, but one was given; "
    "leave it out of the URL",
    "invalid username-password": _CONFIGURATION["WRONGPASS"],
    "invalid password": _CONFIGURATION["WRONGPASS"],
    "authentication required": _CONFIGURATION["NOAUTH"],
    "hello must be called with": _CONFIGURATION["NOAUTH"],
    "protocol error": _NOT_REDIS,
    "no permissions": _CONFIGURATION["NOPERM"],
    "db index is out of range": "{where}: there is no such database; see /number in the URL",
    "invalid database": "{where}: there is no such database; see /number in the URL",
}
_TLS = (
    "{where}: no TLS connection could be made ({text}); rediss:// is for servers that speak "
    "TLS, redis:// for the others, and the certificate must be trusted here"
)


def not_redis(*, where: str) -> LockError:
    """Return the error of a server that speaks another protocol."""
    return ConfigurationError(_NOT_REDIS.format(where=where))


def _words(error: BaseException) -> str:
    words = " ".join(str(one) for one in (error.args or (error,)))
    return words or type(error).__name__


def _is_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False
