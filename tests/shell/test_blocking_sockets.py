"""A receive ends at its deadline, even while the other side keeps sending."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress

import pytest

from lockfast.backends.network.connection_threads import BlockingSocket, IdleConnections, shut_down
from lockfast.testing import ManualClock

DEADLINE = 2.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(0.0)


@pytest.fixture
def ends(clock: ManualClock) -> Iterator[tuple[BlockingSocket, socket.socket]]:
    """Yield our end of a connection, and the server's."""
    ours, servers = socket.socketpair()
    with ours, servers:
        yield BlockingSocket(ours, clock, 0), servers


def test_a_reply_that_arrived_while_this_process_was_stopped_is_taken(ends, clock):
    ours, server = ends
    server.sendall(b"reply")
    clock.advance(DEADLINE + 1)

    assert ours._receive(DEADLINE) == b"reply"


def test_only_one_receive_takes_data_after_the_deadline(ends, clock):
    """A server that keeps sending always has some."""
    ours, server = ends
    clock.advance(DEADLINE)
    server.sendall(b"first")
    ours._receive(DEADLINE)
    server.sendall(b"second")

    with pytest.raises(TimeoutError):
        ours._receive(DEADLINE)


def test_a_receive_after_the_deadline_does_not_wait(ends, clock):
    ours, _ = ends
    clock.advance(DEADLINE)

    with pytest.raises(TimeoutError):
        ours._receive(DEADLINE)


def test_the_next_call_on_the_connection_has_its_own_late_receive(ends, clock):
    ours, server = ends
    clock.advance(DEADLINE)
    server.sendall(b"first")
    ours._receive(DEADLINE)
    server.sendall(b"second")
    clock.advance(DEADLINE)

    assert ours._receive(DEADLINE + 1) == b"second"


def test_a_tls_connection_that_is_shut_down_sends_nothing_in_clear_text(monkeypatch):
    """Another thread may be sending a password in the middle of the shutdown."""
    ours, servers = socket.socketpair()
    ours.setblocking(False)
    with (
        servers,
        ssl.create_default_context().wrap_socket(
            ours, server_hostname="there", do_handshake_on_connect=False
        ) as encrypted,
    ):

        def meanwhile(sock: socket.socket, _: int) -> None:
            with suppress(OSError):
                sock.send(b"password")

        monkeypatch.setattr(socket.socket, "shutdown", meanwhile, raising=False)
        shut_down(encrypted)

        assert encrypted.fileno() >= 0
        servers.setblocking(False)
        with suppress(BlockingIOError):
            assert b"password" not in servers.recv(65536)


def test_a_connection_that_is_put_back_while_the_pool_is_closed_is_closed(ends, clock):
    """Another thread may close the pool just before the connection is appended to it."""
    connection, _ = ends
    pool = IdleConnections[BlockingSocket](clock)

    class ClosedMeanwhile(list[BlockingSocket]):
        def append(self, one: BlockingSocket) -> None:
            pool.close()
            super().append(one)

    pool._idle = ClosedMeanwhile()
    pool.put_back(connection)

    assert connection.fileno() == -1
    assert pool.take() is None
