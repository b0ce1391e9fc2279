"""The proxy between clients and servers does to their messages what a test asks for."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing

import pytest
from servers.echo import EchoServer, asked

from lockfast_challenge.servers.proxy import Message, Proxy


async def lines(stream: asyncio.StreamReader) -> AsyncGenerator[Message, None]:
    """Yield the requests of this protocol: one per line, which the reply repeats."""
    while line := await stream.readline():
        yield Message(line, number=line)


@pytest.fixture(scope="module")
def server() -> Iterator[EchoServer]:
    with EchoServer() as one:
        yield one


@pytest.fixture
def proxy(server) -> Iterator[Proxy]:
    with Proxy(server.port, scheme="echo", division=lines) as one:
        yield one


class Client:
    """A connection that stays open."""

    def __init__(self, proxy: Proxy) -> None:
        self._socket = socket.create_connection(("127.0.0.1", proxy.port), timeout=20)
        self._heard = b""

    def say(self, *words: bytes) -> None:
        self._socket.sendall(b"".join(word + b"\n" for word in words))

    def hear(self, *, within: float = 20.0) -> bytes | None:
        """Return the next reply; when the connection ends, its unfinished rest or None."""
        self._socket.settimeout(within)
        while b"\n" not in self._heard:
            try:
                data = self._socket.recv(4096)
            except ConnectionResetError:
                data = b""
            if not data:
                rest, self._heard = self._heard, b""
                return rest or None
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        return line

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def client(proxy) -> Iterator[Client]:
    one = Client(proxy)
    one.say(b"warm")
    assert one.hear() == b"warm"
    yield one
    one.close()


def test_it_lets_through_what_it_was_told_nothing_about(proxy, client):
    client.say(b"one", b"two")

    assert (client.hear(), client.hear()) == (b"one", b"two")
    assert proxy.url == f"echo://127.0.0.1:{proxy.port}"


def test_a_lost_reply_is_silence_on_its_connection_alone(proxy, client):
    lost = proxy.lose_reply_to(b"two")

    client.say(b"one")
    assert client.hear() == b"one"
    client.say(b"two")

    assert lost.wait(20)
    with pytest.raises(TimeoutError):
        client.hear(within=0.2)
    assert asked(proxy.port, b"three") == b"three"


def test_the_nth_such_request_may_be_meant(proxy, client):
    """With nth=3, the first two such requests are answered, and only the third is affected."""
    lost = proxy.cut_reply_to(b"again", nth=3)

    client.say(b"again 1", b"again 2")
    assert (client.hear(), client.hear()) == (b"again 1", b"again 2")
    assert not lost.is_set()
    client.say(b"again 3")

    assert client.hear() is None
    assert lost.is_set()


def test_a_cut_reply_ends_the_connection_after_so_many_bytes(proxy, client):
    """Replies to earlier requests are delivered whole."""
    proxy.cut_reply_to(b"second", after=3)

    client.say(b"first", b"second")

    assert client.hear() == b"first"
    assert client.hear() in (b"sec", None)  # a reset may overtake the reply


def test_a_held_request_is_delivered_when_it_is_let_through(proxy, client):
    held = proxy.hold_requests(b"two")
    client.say(b"one", b"two", b"three")
    assert client.hear() == b"one"
    assert held.wait(20)
    with pytest.raises(TimeoutError):
        client.hear(within=0.2)

    proxy.let_through()

    assert (client.hear(), client.hear()) == (b"two", b"three")


def test_what_is_held_can_be_lost_instead(proxy, client):
    held = proxy.hold_requests(b"one")
    client.say(b"one")
    assert held.wait(20)

    proxy.reset_and_let_through()

    assert client.hear() is None
    assert asked(proxy.port, b"one") == b"one"


def test_a_connection_is_reset_before_what_it_may_not_say_is_delivered(proxy, client):
    proxy.reset_on(b"secret")

    client.say(b"secret")

    assert client.hear() is None


def test_a_predicate_may_say_which_request_is_meant(proxy, client):
    met = proxy.cut_reply_to(lambda message: message.number == b"this\n")

    client.say(b"not this", b"this")

    assert client.hear() == b"not this"
    assert client.hear() is None
    assert met.is_set()


def test_after_a_request_nobody_new_is_let_in_and_those_there_go_on(proxy, client):
    proxy.refuse_after(b"last")

    client.say(b"last", b"on")

    assert (client.hear(), client.hear()) == (b"last", b"on")
    with closing(Client(proxy)) as late:
        assert late.hear() is None
    proxy.accept()
    assert asked(proxy.port, b"again") == b"again"


def test_refusing_ends_those_who_are_there(proxy, client):
    proxy.refuse()

    assert client.hear() is None
    proxy.accept()
    assert asked(proxy.port, b"again") == b"again"


def test_a_delay_is_taken_by_every_message_both_ways(proxy, client):
    proxy.delay(0.2)
    began = time.monotonic()

    client.say(b"slow")

    assert client.hear() == b"slow"
    assert time.monotonic() - began >= 0.4


def test_a_way_that_is_cut_says_nothing_and_a_mended_one_is_new(proxy, client):
    proxy.cut()

    client.say(b"lost")
    with pytest.raises(TimeoutError):
        client.hear(within=0.2)
    proxy.mend()

    assert client.hear() is None
    assert asked(proxy.port, b"again") == b"again"


def test_of_a_way_that_is_cut_the_clients_may_be_told(proxy, client):
    proxy.cut(told=True)

    assert client.hear() is None
    assert proxy.connections == 1


class TestAllConnections:
    """Requests sent before the fault are affected too, because their replies are still to come."""

    @pytest.fixture
    def proxied(self):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.settimeout(20)
            with Proxy(listening.getsockname()[1]) as proxy, closing(Client(proxy)) as client:
                client.say(b"slow")
                server, _ = listening.accept()
                with server:
                    server.settimeout(20)
                    assert server.recv(100) == b"slow\n"
                    yield proxy, client, server

    def test_an_answer_to_what_was_asked_before_is_held_too(self, proxied):
        proxy, client, server = proxied
        met = proxy.hold_all_replies()
        assert not met.is_set()

        server.sendall(b"answer\n")

        assert met.wait(20)
        with pytest.raises(TimeoutError):
            client.hear(within=0.2)
        proxy.let_through()
        assert client.hear() == b"answer"

    def test_a_later_request_is_held_on_a_connection_that_was_there(self, proxied):
        proxy, client, server = proxied
        met = proxy.hold_all_requests()

        client.say(b"next")

        assert met.wait(20)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.recv(100)
        server.settimeout(20)
        proxy.let_through()
        assert server.recv(100) == b"next\n"

    def test_those_who_connect_meanwhile_are_struck_and_those_afterwards_are_not(self, proxy):
        met = proxy.lose_all_replies()
        with closing(Client(proxy)) as client:
            client.say(b"lost")
            assert met.wait(20)
            with pytest.raises(TimeoutError):
                client.hear(within=0.2)
            proxy.reset_and_let_through()
            assert client.hear() is None

        assert asked(proxy.port, b"again") == b"again"

    def test_lost_requests_reach_nobody(self, proxy, client):
        met = proxy.lose_all_requests()

        client.say(b"lost")

        assert met.wait(20)
        with pytest.raises(TimeoutError):
            client.hear(within=0.2)

    def test_a_reply_is_cut_that_was_asked_for_before(self, proxied):
        proxy, client, server = proxied
        proxy.cut_all_replies(after=3)

        server.sendall(b"answer\n")

        assert client.hear() in (b"ans", None)  # a reset may overtake the reply

    def test_no_reply_is_cut_any_more_once_it_is_let_through(self, proxied):
        proxy, client, server = proxied
        proxy.cut_all_replies(after=3)
        asked_for = proxy.cut_reply_to(b"again", after=3)
        client.say(b"again")
        assert asked_for.wait(20)
        proxy.let_through()

        server.sendall(b"answer\n")

        assert client.hear() == b"answer"


def test_a_client_that_comes_early_is_kept_until_the_server_listens():
    server = EchoServer()
    with Proxy(server.port, listens_within=20) as proxy, closing(Client(proxy)) as early:
        early.say(b"early")

        with server:
            assert early.hear() == b"early"


def test_a_client_of_a_server_that_is_not_there_is_told_so(server):
    absent = EchoServer()
    with Proxy(absent.port) as proxy, closing(Client(proxy)) as client:
        assert client.hear() is None
    absent.stop()


def test_it_may_lead_whoever_connects_from_now_on_to_another_server(proxy, client):
    absent = EchoServer()
    proxy.forward_to(absent.port)

    with closing(Client(proxy)) as new:
        assert new.hear() is None

    client.say(b"still here")
    assert client.hear() == b"still here"
    absent.stop()
