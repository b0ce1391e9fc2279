"""Error mapping for PostgreSQL: each sentence says what to do, and none contains a password."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockfast.backends.sql.errors import as_lock_error, unanswered
from lockfast.errors import BackendMisbehaved, BackendUnavailable, ConfigurationError

if TYPE_CHECKING:
    from lockfast.errors import LockError

_REPEAT = frozenset({"40001", "40P01", "55P03"})
"""A serialization failure, a deadlock, or a row that stayed locked for too long."""

PREPARED_MISMATCH = frozenset({"26000", "42P05"})
"""A prepared statement does not exist, or exists already, because there is a pooler in between."""

READ_ONLY = "25006"
"""The server is a standby, perhaps one that is being promoted, or was set to read-only."""

MISSING = frozenset({"42P01", "3F000"})
"""No such table, or no such schema."""

# What to do, by the server's code. {where} is the store, {text} the server's message.
_CONFIGURATION = {
    "28000": "{where} does not let this user in ({text}); see pg_hba.conf",
    "28P01": "{where} does not know this user and password; correct them in the URL",
    "3D000": "{where}: there is no such database; create it, or correct the URL",
    "3F000": "{where}: there is no such schema ({text}); create it, or correct schema=",
    "42501": "{where}: this user may not do this ({text}); it needs SELECT, INSERT, UPDATE and "
    "DELETE on the tables, and CREATE on their schema to make them",
    "42P01": "{where}: the tables are not there ({text}); run `lockfast init`",
    "42703": "{where}: a table of that name has other columns ({text}); choose another table=",
    "42804": "{where}: a table of that name has other columns ({text}); choose another table=",
    "0A000": "{where} cannot do this ({text}); PostgreSQL 12 or newer is needed",
    "22021": "{where}: the database's encoding cannot hold this text ({text}); it must be UTF8",
    "22P05": "{where}: the database's encoding cannot hold this text ({text}); it must be UTF8",
}
_OUTAGE = {
    "25006": "{where} takes no writes: it is a standby, or default_transaction_read_only is set; "
    "while another server takes over, that passes by itself; otherwise give the primary's "
    "address, or all of them (postgresql://host1,host2/database)",
    "40001": "{where}: others were in the way for too long",
    "40P01": "{where}: others were in the way for too long",
    "53100": "{where} has no room on its disk ({text})",
    "53200": "{where} is out of memory ({text})",
    "53300": "{where} has no room for another connection ({text}); raise max_connections, use a "
    "pooler, or give fewer connections=",
    "55P03": "{where}: a row stayed locked by others ({text}); see pg_stat_activity for a "
    "transaction that does not end",
    "57014": "{where} ended the statement ({text}); see statement_timeout",
    "25P03": "{where} ended our transaction, because this process stood still in it",
    "57P05": "{where} ended an idle connection ({text}); try again",
    "57P03": "{where} is starting up or shutting down ({text}); try again",
}

# The server is shutting down, or failed internally. It may have committed before that.
_UNKNOWN = ("57P0", "08", "58", "XX")

# While connecting, libpq reports the server's message but not its code. The message may be in
# another language; then it is passed on unchanged.
_CONNECTING = (
    (r"password authentication failed|no password supplied|SCRAM", "28P01"),
    (r"pg_hba\.conf|peer authentication|Ident auth|role .* does not exist", "28000"),
    (r"database .* does not exist|no such database", "3D000"),
    (r"too many (clients|connections)|remaining connection slots", "53300"),
    (r"the database system is (starting|shutting|in recovery|not yet)", "57P03"),
    (r"session is read-only|server is in hot standby|server is not in hot standby", "25006"),
    (r"no more connections allowed|max_client_conn|pooler is full", "53300"),
)
_UNREACHABLE = (
    (
        r"statement pooling mode",
        ConfigurationError,
        (
            "{where} is a pooler in statement mode, which does not allow transactions, and locks "
            "need them; set pool_mode to transaction or session, or give the server's own address"
        ),
    ),
    (
        r"could not translate host name|failed to resolve|Name or service not known",
        BackendUnavailable,
        "{where}: the host name has no address; correct it, or see to the name service",
    ),
    (
        r"Connection refused",
        BackendUnavailable,
        "nothing listens at {where}; start the server, or correct the host and the port",
    ),
    (
        r"No such file or directory.*|Permission denied.*socket",
        BackendUnavailable,
        "{where}: there is no server at this socket ({text})",
    ),
    (
        r"server does not support SSL",
        ConfigurationError,
        "{where} does not speak TLS; leave sslmode out, or let the server have a certificate",
    ),
    (
        r"certificate|SSL error|sslmode|root\.crt",
        ConfigurationError,
        "{where}: no TLS connection could be made ({text}); see sslmode, sslrootcert, sslcert",
    ),
    (
        r"definition of service|service file",
        ConfigurationError,
        "{where}: the service is not defined ({text}); see PGSERVICEFILE",
    ),
    (
        r"received invalid response|expected authentication request|unexpected message",
        ConfigurationError,
        "{where} answers, but not as a PostgreSQL server does; is this the right port?",
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


def code_of(error: BaseException | None) -> str | None:
    """Return the server's error code, None if the error is not from the server."""
    code = getattr(error, "sqlstate", None)
    return code if isinstance(code, str) else None


def may_repeat(error: BaseException) -> bool:
    return code_of(error) in _REPEAT


def is_forbidden(error: BaseException | None) -> bool:
    return code_of(error) == "42501"


def refused(error: BaseException, *, where: str) -> LockError:
    """Return the error to raise; as a rule the server did nothing."""
    code, text = code_of(error), message_of(error)
    if (known := as_lock_error(code, _CONFIGURATION, _OUTAGE, where=where, text=text)) is not None:
        return known
    if code is None or code.startswith(_UNKNOWN):
        return unanswered(text, where=where)
    return BackendMisbehaved(f"{where}: {text} ({code})")


def unreachable(error: BaseException, *, where: str) -> LockError:
    whole, text = str(error), message_of(error)
    for pattern, code in _CONNECTING:
        if re.search(pattern, whole):
            known = as_lock_error(code, _CONFIGURATION, _OUTAGE, where=where, text=text)
            if known is not None:
                return known
    for pattern, kind, sentence in _UNREACHABLE:
        if re.search(pattern, whole):
            return kind(sentence.format(where=where, text=text))
    return BackendUnavailable(f"{where} cannot be reached: {text}")


def unsupported_loop(*, where: str) -> ConfigurationError:
    """Return the error for an event loop that cannot watch the driver's socket."""
    return ConfigurationError(
        f"{where}: this event loop cannot wait for libpq's socket, and that of Windows is one; use "
        "asyncio.Runner(loop_factory=asyncio.SelectorEventLoop), or the sync flavour"
    )


def message_of(error: BaseException) -> str:
    """Return the first line of the message, without libpq's account of the connection attempt."""
    said = str(error).strip() or type(error).__name__
    # "connection to server at "127.0.0.1", port 5432 failed: FATAL:  …"
    first = re.split(r"\n(?:LINE|DETAIL|HINT|CONTEXT|Multiple)", said)[0].replace("\n", " ")
    tail = re.sub(r"^.*?connection to server (?:at|on) .*? failed: ", "", first)
    return re.sub(r"\s+", " ", re.sub(r"^(?:FATAL|ERROR|PANIC):\s*", "", tail)).rstrip(".")
