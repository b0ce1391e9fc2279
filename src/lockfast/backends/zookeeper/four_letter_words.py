"""Asks each ensemble member about itself with four-letter words, on a plain connection."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kazoo.hosts import collect_hosts

from lockfast.backends.zookeeper.driver import tls_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

WORDS = ("srvr", "conf")
REPLY_MAX_BYTES = 65536


@dataclass(frozen=True, slots=True)
class EnsembleMember:
    """One member's replies, by word.

    The value None means that no reply came. A word that the member's settings do not allow is
    missing from the mapping.
    """

    address: str
    said: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def is_serving(self) -> bool:
        """Whether the member is up and part of a majority."""
        return "Mode: " in (self.said.get("srvr") or "")

    def value(self, word: str, key: str) -> str | None:
        """Return the value of a key in the reply to a word."""
        for line in (self.said.get(word) or "").splitlines():
            found, separator, value = line.partition(": " if word == "srvr" else "=")
            if separator and found == key:
                return value.strip()
        return None

    @property
    def members(self) -> int:
        """Number of members in this member's settings, itself included; 0 if unknown."""
        lines = (self.said.get("conf") or "").splitlines()
        return sum(line.startswith("server.") for line in lines)


def send_all(options: Mapping[str, Any], *, seconds: float) -> tuple[EnsembleMember, ...]:
    """Ask all members in the options at the same time, and return their replies."""
    hosts = collect_hosts(options["hosts"])[0]
    with ThreadPoolExecutor(max_workers=max(1, len(hosts))) as pool:
        return tuple(pool.map(lambda host: _member(host, options, seconds), hosts))


def _member(host: tuple[str, int], options: Mapping[str, Any], seconds: float) -> EnsembleMember:
    context = tls_context(options) if options.get("use_ssl") else None
    said: dict[str, str | None] = {}
    for word in WORDS:
        answer = _ask(host, word, context, seconds / len(WORDS))
        if answer is None:
            said[word] = None
            break  # the next word would time out as well
        if "is not executed because" not in answer:
            said[word] = answer
    return EnsembleMember(f"{host[0]}:{host[1]}", said)


def _ask(
    host: tuple[str, int], word: str, context: ssl.SSLContext | None, seconds: float
) -> str | None:
    answer = b""
    try:
        with socket.create_connection(host, timeout=seconds) as plain:
            connection = plain
            if context is not None:
                connection = context.wrap_socket(plain, server_hostname=host[0])
            with connection:
                connection.sendall(word.encode())
                while len(answer) < REPLY_MAX_BYTES and (data := connection.recv(REPLY_MAX_BYTES)):
                    answer += data
    except OSError:
        # The member is down, frozen or out of reach; the finding names it.
        return None
    return answer.decode(errors="replace")
