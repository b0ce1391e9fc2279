"""Calls on a socket end at their deadline, even while data or signals keep arriving."""

from __future__ import annotations

import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from lockfast import BackendUnavailable
from lockfast.backends.network.blocking_socket import BlockingSocket, IdleConnections, shut_down
from lockfast.backends.network.codec import NotSent
from lockfast.backends.network.connection_threads import SocketConnection, SocketTransport
from lockfast.backends.network.target import Target
from lockfast.backends.redis.resp import RespCodec
from lockfast.runtime.clock import Clock
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


# -- signals ---------------------------------------------------------------------------

SIGNALS = 6000
"""Number of signals after which a call that has not ended may do so: half a minute's worth."""


@contextmanager
def disturbed_by_signals() -> Iterator[threading.Thread]:
    """Interrupt this thread's system calls every few milliseconds; yield the thread that does."""
    disturbed, is_over = threading.get_ident(), threading.Event()

    def disturb() -> None:
        for _ in range(SIGNALS):
            if is_over.wait(0.005):
                return
            signal.pthread_kill(disturbed, signal.SIGUSR1)

    previous = signal.signal(signal.SIGUSR1, lambda *_: None)
    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield thread
    finally:
        is_over.set()
        thread.join()
        signal.signal(signal.SIGUSR1, previous)


def test_signals_do_not_prolong_a_receive():
    """A profiler or a timer signals more often than the time that a request has left."""
    ours, servers = socket.socketpair()
    with ours, servers:
        connection = BlockingSocket(ours, Clock(), 0)
        with disturbed_by_signals() as signals:
            with pytest.raises(TimeoutError):
                connection._receive(Clock.now() + 0.3)

            assert signals.is_alive()


def test_signals_do_not_prolong_a_send():
    ours, servers = socket.socketpair()
    with ours, servers:
        connection = BlockingSocket(ours, Clock(), 0)
        with disturbed_by_signals() as signals:
            with pytest.raises(TimeoutError):
                connection.send(bytes(2**24), deadline=Clock.now() + 0.3)

            assert signals.is_alive()


# -- sending ---------------------------------------------------------------------------


def test_what_does_not_fit_into_the_buffers_is_sent_as_they_empty():
    ours, servers = socket.socketpair()
    data, received = bytes(range(256)) * 2**14, bytearray()

    def read() -> None:
        while len(received) < len(data):
            received.extend(servers.recv(65536))

    with ours, servers:
        connection = BlockingSocket(ours, Clock(), 0)
        reader = threading.Thread(target=read)
        reader.start()
        connection.send(data, deadline=Clock.now() + 60.0)
        reader.join()
        servers.sendall(b"reply")

        assert received == data
        assert connection._receive(Clock.now() + 60.0) == b"reply"


def test_a_request_whose_time_is_up_before_it_is_sent_was_not_sent(clock):
    """Its connection is kept, because no reply is on its way."""
    ours, servers = socket.socketpair()
    servers.setblocking(False)
    transport = SocketTransport[SocketConnection](
        Target("redis://here", None), unreachable=lambda *_, **__: NotSent(), clock=clock
    )
    with ours, servers:
        connection = SocketConnection(ours, RespCodec(), clock, generation=0)
        transport._idle.put_back(connection)

        with pytest.raises(BackendUnavailable, match="no time left to send"):
            transport.ask(b"PING", deadline=clock.now())

        assert transport._idle.take() is connection
        with pytest.raises(BlockingIOError):
            servers.recv(1)
