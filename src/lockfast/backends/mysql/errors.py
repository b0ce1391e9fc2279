"""Error mapping for MySQL and MariaDB: each sentence says what to do, and none has a password.

Both drivers report an error as a number and a text. The numbers from 2000 to 2999 are the drivers'
own, and all other numbers are the server's.
"""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING

from lockfast.backends.network.errors import CLOSED_IN_TLS, no_tls_connection
from lockfast.backends.sql.errors import as_lock_error, no_time, unanswered
from lockfast.errors import BackendMisbehaved, BackendUnavailable, ConfigurationError

if TYPE_CHECKING:
    from lockfast.errors import LockError

__all__ = [
    "code_of",
    "is_answer",
    "is_forbidden",
    "may_repeat",
    "message_of",
    "no_time",
    "refused",
    "unreachable",
]

_REPEAT = frozenset({1020, 1205, 1213})
"""A row that changed since it was read, a row lock that timed out, a deadlock."""

_FORBIDDEN = frozenset({1044, 1142, 1227})

_DRIVERS_OWN = range(2000, 3000)

# What to do, by the server's error number. {where} is the store, {text} the server's message.
_CONFIGURATION = {
    1044: "{where}: this user may not use the database ({text})",
    1045: "{where} rejected this user name or password; correct them",
    1049: "{where}: there is no such database; create it, or correct the URL",
    1054: "{where}: a table of that name has other columns ({text}); choose another table=",
    1130: "{where} does not let this host in ({text})",
    1142: "{where}: this user may not do this ({text}); it needs SELECT, INSERT, UPDATE and "
    "DELETE on the tables, and CREATE on the database to make them",
    1146: "{where}: the tables are not there ({text}); they were dropped while in use",
    1193: "{where} lacks a setting that is needed ({text}); MySQL 8 or MariaDB 10.6 is needed",
    1227: "{where}: this user may not do this ({text})",
    1251: "{where} asks for a way to log in that the driver does not know ({text})",
    1286: "{where} has no InnoDB ({text}); the tables need its transactions",
    1290: "{where} takes no writes ({text}); give the primary's address",
    1665: "{where} writes its binary log by statements ({text}); set binlog_format to ROW or MIXED",
    1698: "{where} does not let this user in from here ({text})",
    1792: "{where} takes no writes ({text}); give the primary's address",
    1820: "{where}: the password of this user has expired; give it a new one",
    1836: "{where} takes no writes ({text}); give the primary's address",
    3159: "{where} refuses connections without TLS; add tls=true",
    4151: "{where}: this account is locked; unlock it, or give another one",
}
_OUTAGE = {
    1020: "{where}: others were in the way for too long",
    1021: "{where} has no room on its disk ({text})",
    1037: "{where} is out of memory ({text})",
    1040: "{where} has no room for another connection; raise max_connections, or give fewer "
    "connections=",
    1041: "{where} is out of memory ({text})",
    1114: "{where} has no room left ({text})",
    1129: "{where} has blocked this host after too many errors; unblock it by FLUSH HOSTS",
    1203: "{where}: this user has too many connections ({text}); give fewer connections=",
    1205: "{where}: a row stayed locked by others ({text}); look for a transaction that does not "
    "end",
    1213: "{where}: others were in the way for too long",
    1226: "{where}: this user has used up what it may ({text})",
}

# After these errors the outcome is unknown. The server is shutting down, was asked to end the
# connection, or failed in the commit itself.
_UNKNOWN = frozenset({1053, 1180, 1317, 1927, 4031})

_UNREACHABLE = (
    (
        r"Name or service not known|getaddrinfo|nodename nor servname|name resolution",
        BackendUnavailable,
        "{where}: this host name has no address; correct it, or check DNS",
    ),
    (
        r"Connection refused|Connect call failed",
        BackendUnavailable,
        "nothing listens at {where}; start the server, or correct the host and the port",
    ),
    (
        r"No such file or directory",
        BackendUnavailable,
        "{where}: there is no server at this socket ({text})",
    ),
    (
        r"(?i)certificate|ssl",
        ConfigurationError,
        (
            "{where}: no TLS connection could be made ({text}); if the server does not use TLS, "
            "leave the TLS options out"
        ),
    ),
    (
        r"[Aa]uthentication plugin|cryptography",
        ConfigurationError,
        (
            "{where} asks for a way to log in that the driver cannot do ({text}); install "
            "cryptography, or use TLS"
        ),
    ),
    (
        r"Too many open files",
        BackendUnavailable,
        (
            "{where}: this process has too many files open to connect; raise its limit "
            "(ulimit -n), or close some"
        ),
    ),
)


def code_of(error: BaseException) -> int | None:
    """Return the number of a driver's error, or None if the error has no number."""
    code = error.args[0] if error.args else None
    return code if isinstance(code, int) and code else None


def is_answer(error: BaseException) -> bool:
    """Whether the server sent this error, so that the connection is still usable."""
    code = code_of(error)
    return code is not None and code not in _DRIVERS_OWN


def may_repeat(error: BaseException) -> bool:
    return code_of(error) in _REPEAT


def is_forbidden(error: BaseException | None) -> bool:
    return error is not None and code_of(error) in _FORBIDDEN


def refused(error: BaseException, *, where: str) -> LockError:
    """Return the error to raise; as a rule the server did nothing."""
    code, text = code_of(error), message_of(error)
    if (known := as_lock_error(code, _CONFIGURATION, _OUTAGE, where=where, text=text)) is not None:
        return known
    if code in _UNKNOWN or not is_answer(error):
        return unanswered(text, where=where)
    return BackendMisbehaved(f"{where}: {text} ({code})")


def unreachable(error: BaseException, *, where: str) -> LockError:
    text = message_of(error)
    known = as_lock_error(code_of(error), _CONFIGURATION, _OUTAGE, where=where, text=text)
    if known is not None:
        return known
    failed = _of_tls(error)
    if isinstance(failed, CLOSED_IN_TLS):
        return BackendUnavailable(
            f"{where} closed the connection before it had answered; is it MySQL or MariaDB, and "
            "does it speak TLS, or ask for our certificate (tls_cert)?"
        )
    if failed is not None:
        return no_tls_connection(failed, where=where)
    for pattern, kind, sentence in _UNREACHABLE:
        if re.search(pattern, text):
            return kind(sentence.format(where=where, text=text))
    if code_of(error) is None and not isinstance(error, OSError):
        # The driver failed on data that no server of this kind would send.
        return ConfigurationError(
            f"{where} answers, but not as MySQL or MariaDB does; is this the right port?"
        )
    return BackendUnavailable(f"{where} cannot be reached: {text}")


def _of_tls(error: BaseException) -> ssl.SSLError | None:
    """Return the error of the TLS handshake that a driver's error is about, if any."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = getattr(cause, "original_exception", None) or cause.__cause__
    return cause


def message_of(error: BaseException) -> str:
    said = str(error.args[1]) if len(error.args) > 1 else str(error)
    return re.sub(r"\s+", " ", said).strip().rstrip(".") or type(error).__name__
