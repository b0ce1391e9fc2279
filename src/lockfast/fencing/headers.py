"""Two HTTP headers for a name and a token, and the responses if they are missing or wrong."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from lockfast.core.lease_text import EXCLUSIVE, Sequencer
from lockfast.core.naming import checked_name
from lockfast.errors import ConfigurationError
from lockfast.fencing.presenting import Presented, shown
from lockfast.options import checked_token

if TYPE_CHECKING:
    from collections.abc import Iterable

LOCK, TOKEN = "Lockfast-Lock", "Lockfast-Token"

_DIGITS = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)


def fencing_headers(lease: Presented) -> dict[str, str]:
    """Return the headers of a request as a plain dict, for any HTTP client.

    Raises LeaseLost if the lease is known to have ended. The name is percent-encoded, since a
    header can only contain ASCII.
    """
    who = shown(lease)
    return {LOCK: quote(who.name, safe="/:@!$'()*,~"), TOKEN: str(who.token)}


class Problem(Exception):
    """A request that is refused, described as in RFC 9457."""

    def __init__(self, status: int, kind: str, title: str, detail: str, **facts: object) -> None:
        super().__init__(detail)
        self.status = status
        self._document = {
            "type": f"urn:lockfast:{kind}",
            "title": title,
            "status": status,
            "detail": detail,
            **facts,
        }

    def body(self) -> bytes:
        """Return the problem document."""
        return json.dumps(self._document).encode()


def read_headers(headers: Iterable[tuple[bytes, bytes]]) -> Sequencer:
    """Return the presented name and token; raise a Problem, 428 if missing or 400 if malformed."""
    found: dict[bytes, list[bytes]] = {LOCK.lower().encode(): [], TOKEN.lower().encode(): []}
    for header, value in headers:
        if header.lower() in found:
            found[header.lower()].append(value)
    names, tokens = found.values()
    if not names or not tokens:
        raise missing(f"send {LOCK} with the name of the lock and {TOKEN} with the lease's token")
    if len(names) > 1 or len(tokens) > 1:
        raise _malformed(f"{LOCK} and {TOKEN} may be given once each")
    try:
        name = unquote(names[0].decode("ascii"), errors="strict")
        token = tokens[0].decode("ascii").strip()
        checked_name(name)
        if not _DIGITS.fullmatch(token):
            raise _malformed(f"{TOKEN} is a whole number above 0, in decimal digits")
        checked_token(int(token))
    except (UnicodeDecodeError, ConfigurationError) as error:
        raise _malformed(str(error)) from error
    return Sequencer(name, EXCLUSIVE, int(token), "")


def missing(detail: str) -> Problem:
    """Return the response to a request without the required lock or token."""
    return Problem(428, "token-required", "A token of the lock is required", detail)


def stale_request(who: Sequencer, seen: int) -> Problem:
    """Return the response to a request whose token is smaller than a later holder's."""
    return Problem(
        412,
        "stale-token",
        "A later holder of the lock was here",
        f"token {seen} of {who.name!r} was seen, and token {who.token} came after it; that lease "
        "is over: stop, and take the lock again",
        name=who.name,
        token=who.token,
        seen=seen,
    )


def _malformed(detail: str) -> Problem:
    return Problem(400, "token-malformed", "The token of the lock cannot be read", detail)
