"""Sessions as the server sees them: their owners, and how to end a session from outside."""

from __future__ import annotations

import struct

from lockfast_challenge.servers.zookeeper import ZooKeeperServer, connected

_SECRET = 0xB3415C00
_MULTIPLIER = 0x5DEECE66D
_MASK = 2**48 - 1


def session_of(server: ZooKeeperServer, name: str) -> int:
    """Return the session that has a claim on a name; exactly one session must have a claim."""
    [only] = sessions_of(server, name)
    return only


def sessions_of(server: ZooKeeperServer, name: str) -> set[int]:
    """Return the sessions with claims on a name; only a leader or a lone server reports them."""
    found: set[int] = set()
    session = 0
    for line in server.ask("dump").partition("Sessions with Ephemerals")[2].splitlines():
        if line.startswith("0x"):
            session = int(line.rstrip(":"), 16)
        elif f"{name}/" in line:
            found.add(session)
    return found


def end_session(server: ZooKeeperServer, session: int) -> None:
    """End a session as if it had expired; from then on the server does not know the session.

    Any client with the session's id and password may close the session. The server derives the
    password from the id with Java's random numbers, and so does this module. The session's own
    client may reconnect in between and take the session back, so close it until it is gone.
    """
    assert _close(server, session), "the session was over already"
    while _close(server, session):
        pass


def _close(server: ZooKeeperServer, session: int) -> bool:
    """Close a session; return false if the session did not exist."""
    with connected(server.address, client_id=(session, _password(session))) as client:
        return bool(client.client_id[0] == session)


def _password(session: int) -> bytes:
    state = ((session ^ _SECRET) ^ _MULTIPLIER) & _MASK
    password = b""
    for _ in range(4):
        state = (state * _MULTIPLIER + 0xB) & _MASK
        password += struct.pack("<i", _signed(state >> 16))
    return password


def _signed(number: int) -> int:
    return number - 2**32 if number >= 2**31 else number
