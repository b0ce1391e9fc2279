"""The doorbell, a client's wakeup socket on the loopback interface.

The row of each claim has the address of its client's doorbell, and a nonce. A client that admits
the claim sends that nonce in a datagram to the doorbell. The nonce says which claim is meant, and
shows that the sender has read the row. All claims of a client share one socket, so that a thousand
waiting claims do not use up the descriptors. A wakeup is a hint and may be lost (another network
namespace, a full buffer), so the first waiter also checks on its own now and then.
"""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_HOST = "127.0.0.1"
_WAKEUPS_PER_DATAGRAM = 64
"""Maximum number of wakeups for one client in one datagram. Wakeups are combined so that many
admissions do not flood the client's buffer."""

MESSAGE_MAX_BYTES = 2048
"""Maximum size of a wakeup datagram."""


class Socket(socket.socket):
    """A socket that closes silently when it is garbage collected.

    Garbage collection closes the socket if an interrupt strikes before the socket is stored.
    """

    def __del__(self) -> None:
        self.close()


class Doorbell:
    """Receives the wakeups of one client, and sends wakeups to others."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._nonces: dict[str, str] = {}
        self._claims: dict[str, str] = {}

    @property
    def has_claims(self) -> bool:
        """Whether any claim can be woken through the doorbell."""
        return bool(self._nonces)

    def hang(self, claim_id: str) -> str:
        """Return the address that wakes this claim; empty if no socket can be opened."""
        try:
            port = self._opened().getsockname()[1]
        except OSError:
            return ""  # no descriptor is left, so the claim has to poll
        nonce = self._nonces.get(claim_id)
        if nonce is None:
            nonce = secrets.token_hex(8)
            self._claims[nonce] = claim_id
            self._nonces[claim_id] = nonce
        return f"{port}:{nonce}"

    def unregister(self, claim_id: str) -> None:
        """Stop receiving wakeups for this claim."""
        self._claims.pop(self._nonces.pop(claim_id, ""), None)

    def fileno(self) -> int:
        """Return the descriptor to poll for wakeups, -1 if there is none."""
        bell = self._socket
        return -1 if bell is None else bell.fileno()

    def received(self) -> Iterator[str]:
        """Yield the claims whose wakeups have arrived."""
        bell = self._socket
        # Closing the client closes the socket during this loop; then no more wakeups come.
        with suppress(OSError):
            while bell is not None:
                try:
                    message = bell.recv(MESSAGE_MAX_BYTES)
                except ConnectionResetError:
                    continue  # Windows: a datagram that we sent had no receiver
                yield from self.claims_in(message)

    def claims_in(self, message: bytes) -> Iterator[str]:
        """Yield the claims that a datagram wakes; unknown nonces are ignored."""
        for nonce in message.decode("ascii", "replace").split():
            claim_id = self._claims.get(nonce)
            if claim_id is not None:
                yield claim_id

    @property
    def receiving_socket(self) -> socket.socket | None:
        """The socket that receives wakeups; None if the socket is not open."""
        return self._socket

    def ring(self, addresses: Iterable[str]) -> None:
        """Send wakeups to these addresses; skip empty addresses."""
        by_port: dict[str, list[str]] = {}
        for address in addresses:
            port, _, nonce = address.partition(":")
            if nonce:
                by_port.setdefault(port, []).append(nonce)
        for port, nonces in by_port.items():
            for start in range(0, len(nonces), _WAKEUPS_PER_DATAGRAM):
                self._send(" ".join(nonces[start : start + _WAKEUPS_PER_DATAGRAM]), port)

    def wake_reader(self) -> None:
        """Wake the thread that polls this socket."""
        bell = self._socket
        with suppress(OSError):
            if bell is not None:
                self._send("", bell.getsockname()[1])

    def _send(self, message: str, port: str) -> None:
        # Ignore errors, such as a full buffer or no descriptor left, because a wakeup is only a
        # hint.
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
        """Close the socket, and forget all claims."""
        bell, self._socket = self._socket, None
        self._nonces.clear()
        self._claims.clear()
        if bell is not None:
            bell.close()
