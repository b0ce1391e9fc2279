"""Four-letter words: what each member of an ensemble says of itself, over a plain connection."""

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
LONGEST = 65536


@dataclass(frozen=True, slots=True)
class Member:
    """What one member answered; a word that it may not answer is missing, None is no answer."""

    address: str
    said: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def is_serving(self) -> bool:
        """Whether it is there and part of a majority."""
        return "Mode: " in (self.said.get("srvr") or "")

    def value(self, word: str, key: str) -> str | None:
        """Return what stands behind a key in the answer to a word."""
        for line in (self.said.get(word) or "").splitlines():
            found, separator, value = line.partition(": " if word == "srvr" else "=")
            if separator and found == key:
                return value.strip()
        return None

    @property
    def members(self) -> int:
        """How many members it knows, itself included; 0 if it does not say so."""
        lines = (self.said.get("conf") or "").splitlines()
        return sum(line.startswith("server.") for line in lines)


def ask_all(options: Mapping[str, Any], *, seconds: float) -> tuple[Member, ...]:
    """Return what all members say that were named to us, asked at the same time."""
    hosts = collect_hosts(options["hosts"])[0]
    with ThreadPoolExecutor(max_workers=max(1, len(hosts))) as pool:
        return tuple(pool.map(lambda host: _member(host, options, seconds), hosts))


def _member(host: tuple[str, int], options: Mapping[str, Any], seconds: float) -> Member:
    context = tls_context(options) if options.get("use_ssl") else None
    said: dict[str, str | None] = {}
    for word in WORDS:
        answer = _ask(host, word, context, seconds / len(WORDS))
        if answer is None:
            said[word] = None
            break  # the next one would only take as long
        if "is not executed because" not in answer:
            said[word] = answer
    return Member(f"{host[0]}:{host[1]}", said)


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
                while len(answer) < LONGEST and (data := connection.recv(LONGEST)):
                    answer += data
    except OSError:
        # Down, frozen, or out of reach: the finding names it.
        return None
    return answer.decode(errors="replace")
