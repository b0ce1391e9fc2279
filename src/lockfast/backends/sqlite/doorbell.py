"""The doorbell: a client's loopback socket, whose address stands in the rows of its claims.

Whoever admits a claim rings by a datagram with the nonce from its row, which says who is
meant and that the sender has read it. One socket for all claims of a client: a thousand who
wait must not use up the descriptors. A ring is a hint and may be lost (another network
namespace, a full buffer); the first of those who wait also looks by itself now and then.
"""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_HOST = "127.0.0.1"
_TOGETHER = 64
"""So many rings of one client go in one datagram: admitting a crowd must not flood its buffer."""

LARGEST = 2048
"""No ring is longer."""


class Socket(socket.socket):
    """Closes in silence when nobody has it: an interrupt may strike before it is kept."""

    def __del__(self) -> None:
        self.close()


class Doorbell:
    """The bell of one client, and how it rings those of others."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._nonces: dict[str, str] = {}
        self._claims: dict[str, str] = {}

    @property
    def is_hung(self) -> bool:
        """Whether it rings for any claim."""
        return bool(self._nonces)

    def hang(self, claim_id: str) -> str:
        """Return the address that rings for this claim; empty if no socket is to be had."""
        try:
            port = self._opened().getsockname()[1]
        except OSError:
            return ""  # no descriptor is left: then this claim has only its own looking
        nonce = self._nonces.get(claim_id)
        if nonce is None:
            nonce = secrets.token_hex(8)
            self._claims[nonce] = claim_id
            self._nonces[claim_id] = nonce
        return f"{port}:{nonce}"

    def take_down(self, claim_id: str) -> None:
        """Hear no more rings for this claim."""
        self._claims.pop(self._nonces.pop(claim_id, ""), None)

    def fileno(self) -> int:
        """Return what can be polled for rings, -1 if there is nothing."""
        bell = self._socket
        return -1 if bell is None else bell.fileno()

    def heard(self) -> Iterator[str]:
        """Yield the claims that were rung for, as far as rings have come."""
        bell = self._socket
        # Closed under us, when the client is: nothing is heard any more.
        with suppress(OSError):
            while bell is not None:
                try:
                    message = bell.recv(LARGEST)
                except ConnectionResetError:
                    continue  # how Windows tells that a ring of ours found nobody; more may come
                yield from self.understood(message)

    def understood(self, message: bytes) -> Iterator[str]:
        """Yield the claims that it rings for; what strangers send is for nobody."""
        for nonce in message.decode("ascii", "replace").split():
            claim_id = self._claims.get(nonce)
            if claim_id is not None:
                yield claim_id

    @property
    def ear(self) -> socket.socket | None:
        """What rings come by, None if there is nothing."""
        return self._socket

    def ring(self, addresses: Iterable[str]) -> None:
        """Ring the bells at these addresses; an empty one has none."""
        by_port: dict[str, list[str]] = {}
        for address in addresses:
            port, _, nonce = address.partition(":")
            if nonce:
                by_port.setdefault(port, []).append(nonce)
        for port, nonces in by_port.items():
            for start in range(0, len(nonces), _TOGETHER):
                self._send(" ".join(nonces[start : start + _TOGETHER]), port)

    def poke(self) -> None:
        """Let whoever polls this bell look up."""
        bell = self._socket
        with suppress(OSError):
            if bell is not None:
                self._send("", bell.getsockname()[1])

    def _send(self, message: str, port: str) -> None:
        # Nobody there, a full buffer, no descriptor: it is only a hint.
        with suppress(OSError, ValueError, OverflowError):
            self._opened().sendto(message.encode(), (_HOST, int(port)))

    def _opened(self) -> socket.socket:
        if self._socket is None:
            bell = Socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                bell.setblocking(False)
                bell.bind((_HOST, 0))
            except BaseException:
                bell.close()
                raise
            self._socket = bell
        return self._socket

    def close(self) -> None:
        """Take everything down."""
        bell, self._socket = self._socket, None
        self._nonces.clear()
        self._claims.clear()
        if bell is not None:
            bell.close()
