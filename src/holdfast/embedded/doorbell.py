"""Doorbells: a waiter's loopback socket, whose address stands in its row.

Whoever admits the waiter rings by one datagram. A ring is a hint and may be lost (another
network namespace); the waiter also looks by itself now and then.
"""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_HOST = "127.0.0.1"


class Doorbells:
    """The bells of one client's waiting claims."""

    def __init__(self) -> None:
        self._bells: dict[str, tuple[socket.socket, bytes]] = {}
        self._ringer: socket.socket | None = None

    def hang(self, claim_id: str) -> str:
        """Return the address of the claim's bell, hanging one up if there is none."""
        if claim_id not in self._bells:
            bell = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            bell.setblocking(False)
            bell.bind((_HOST, 0))
            self._bells[claim_id] = (bell, secrets.token_hex(8).encode())
        bell, nonce = self._bells[claim_id]
        return f"{bell.getsockname()[1]}:{nonce.decode()}"

    def socket_of(self, claim_id: str) -> socket.socket | None:
        """Return what to wait on."""
        bell = self._bells.get(claim_id)
        return None if bell is None else bell[0]

    def was_rung(self, claim_id: str) -> bool:
        """Whether one of the datagrams that came is from somebody who read our row."""
        sock, nonce = self._bells[claim_id]
        rung = False
        with suppress(BlockingIOError):
            while True:
                rung |= secrets.compare_digest(sock.recv(64), nonce)
        return rung

    def take_down(self, claim_id: str) -> None:
        """Close the claim's bell, if it has one."""
        bell = self._bells.pop(claim_id, None)
        if bell is not None:
            bell[0].close()

    def ring(self, addresses: Iterable[str]) -> None:
        """Ring the bells at these addresses; an empty one has none."""
        for address in addresses:
            port, _, nonce = address.partition(":")
            if not nonce:
                continue
            if self._ringer is None:
                self._ringer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                self._ringer.setblocking(False)
            # Nobody there, a full buffer: it is only a hint.
            with suppress(OSError, ValueError):
                self._ringer.sendto(nonce.encode(), (_HOST, int(port)))

    def ring_own(self, claim_id: str) -> None:
        """Ring the bell of a claim of our own."""
        if claim_id in self._bells:
            self.ring([self.hang(claim_id)])

    def close(self) -> None:
        """Close every bell."""
        for claim_id in list(self._bells):
            self.take_down(claim_id)
        if self._ringer is not None:
            self._ringer.close()
            self._ringer = None
