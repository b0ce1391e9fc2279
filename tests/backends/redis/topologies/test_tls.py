"""TLS in every topology, to servers that ask for the client's certificate."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from both_flavours import number_waiting
from servers.hostile import Hostile, Hostility
from servers.redis import shared_tls_server
from servers.redis_cluster import shared_tls_cluster
from servers.redis_sentinels import shared_closed_sentinels

from lockfast import AsyncLocks, BackendUnavailable, ConfigurationError, OutcomeUnknown
from lockfast_challenge.servers.certificates import certificates
from lockfast_challenge.servers.redis import RedisServer, until
from lockfast_challenge.servers.redis_sentinel import Sentinels

PLACES = {
    "single": shared_tls_server,
    "sentinel": shared_closed_sentinels,
    "cluster": shared_tls_cluster,
}
PUSHED = 1.5
"""Seconds; a waiter that was not woken by a push would ask again only after two seconds."""


@pytest.fixture(params=PLACES)
def servers(request):
    return PLACES[request.param]()


def options_of(servers) -> dict[str, Any]:
    """Return client options with a long timeout: many handshakes are slow on a busy machine."""
    return {**servers.client_options, "request_timeout": 15.0}


def test_a_waiter_is_woken_by_the_release(servers, drivers):
    for one in drivers(servers.url, **options_of(servers)):
        [other, _] = drivers(servers.url, **options_of(servers))
        lease = one.acquire("door")
        waiting = other.begin_acquire("door")
        until(lambda one=one: one.waiting("door") == 1, what="a waiter")

        one.release(lease)
        successor = waiting.result(PUSHED)

        assert successor.token > lease.token
        other.release(successor)


@pytest.mark.parametrize("servers", ["sentinel", "cluster"], indirect=True)
def test_a_failover_is_followed(servers, drivers):
    """With TLS too, holders and waiters carry on at the new master after a failover."""
    options = {**options_of(servers), "ttl": 30.0}
    holders, waiters = drivers(servers.url, **options), drivers(servers.url, **options)
    leases = [one.acquire(f"door {one.flavour}") for one in holders]
    waiting = [one.begin_acquire(f"door {one.flavour}") for one in waiters]
    for one, future in zip(holders, waiting, strict=True):
        until(lambda one=one, future=future: _stands_in_line(one, future), what="a waiter")

    _fail_over(servers, holders)
    for holder, lease, future in zip(holders, leases, waiting, strict=True):
        holder.call(lease.renew)  # at the new master
        holder.release(lease)
        assert future.result(45.0).token > lease.token


def _stands_in_line(holder, waiting) -> bool:
    if waiting.done():
        waiting.result()  # raises the error that ended the wait
    return holder.waiting(f"door {holder.flavour}") == 1


def _fail_over(servers, clients) -> None:
    """Fail over; return once clients use the new master or will learn of it by MOVED."""
    if isinstance(servers, Sentinels):
        servers.until_replicated(2)
        old = servers.master
        servers.fail_over()
        new = servers.until_failed_over(old)
        until(lambda: all(one.is_at(new) for one in clients), what="clients of the new master")
    else:
        for master in servers.masters():
            servers.fail_over(master)


def test_a_waiting_claim_outlasts_tls_handshakes_that_are_cut_off(drivers):
    """A balancer, or a server that restarts, may cut them off for a while."""
    server = shared_tls_server()
    [holder, _] = drivers(server.url, **options_of(server))
    with Hostile(server.port, scheme="rediss") as hostile:
        for one in drivers(hostile.url, **options_of(server)):
            name = f"door {one.flavour}"
            lease = holder.acquire(name)
            waiting = one.begin_acquire(name, timeout=150.0)
            until(lambda one=one: number_waiting(one.locks) == 1, what="a waiter")

            hostile.turn(Hostility("close"))
            hostile.reset()  # from now on, only new connections are left to be cut off
            for _ in range(3):
                hostile.has_struck.clear()
                assert hostile.has_struck.wait(60.0)
            hostile.heal()
            holder.release(lease)

            assert waiting.result(120.0).token > lease.token


def test_an_outage_of_a_server_that_answered_does_not_question_its_address(drivers):
    """In the TLS handshake too: the address and the options were right before."""
    server = shared_tls_server()
    with Hostile(server.port, scheme="rediss") as hostile:
        for one in drivers(hostile.url, **options_of(server)):
            one.release(one.acquire("door"))
            hostile.turn(Hostility("close"))
            hostile.reset()

            # The first request may still go out on the connection of before.
            until(lambda one=one: _is_said_to_have_answered(one), what="a new connection")
            hostile.heal()


def _is_said_to_have_answered(client) -> bool:
    with pytest.raises((BackendUnavailable, OutcomeUnknown)) as told:
        client.acquire("door")
    return "; it answered before, so the server or the network has failed" in str(told.value)


def test_who_shows_no_certificate_is_refused_in_a_sentence(servers, drivers):
    options = {**servers.client_options, "request_timeout": 4.0}
    del options["ssl_certfile"], options["ssl_keyfile"]

    for one in drivers(servers.url, **options):
        # It is a race whether the client reads the reason, or only sees the connection close.
        with pytest.raises((ConfigurationError, BackendUnavailable), match="tls_cert") as told:
            one.acquire("door", timeout=4)
        assert "\n" not in str(told.value)


def test_a_server_that_does_not_ask_needs_no_certificate(drivers):
    with RedisServer("--tls-auth-clients", "no", tls=certificates()) as server:
        for one in drivers(server.url, ssl_ca_certs=certificates().authority):
            one.release(one.acquire("door"))


def test_a_certificate_of_another_host_is_refused_unless_it_is_not_looked_at(drivers):
    """The test certificate is valid for 127.0.0.1 only, so it does not match `localhost`."""
    server = shared_tls_server()
    url = server.url.replace("127.0.0.1", "localhost")

    for one in drivers(url, **server.client_options):
        with pytest.raises(ConfigurationError, match="certificate"):
            one.acquire("door", timeout=1)
    for one in drivers(url, ssl_check_hostname=False, **server.client_options):
        one.release(one.acquire("door"))


@pytest.fixture
def without_a_goodbye() -> Iterator[str]:
    """A TLS server that refuses every login and never closes a connection."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates().certificate, certificates().key)
    kept = []

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            kept.append(connection := context.wrap_socket(connection, server_side=True))
            connection.recv(65536)
            connection.sendall(b"-WRONGPASS invalid username-password pair\r\n" * 4)

    def serve_until_it_ends() -> None:
        try:
            serve()
        except OSError:
            return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve_until_it_ends)
        thread.start()
        yield f"rediss://:wrong@127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    for one in kept:
        one.close()


def test_a_refusal_is_told_at_once_and_leaves_no_connection(without_a_goodbye):
    """The client aborts the connection: asyncio would wait for the server to close TLS as well."""

    async def ask() -> None:
        options = {"ssl_ca_certs": certificates().authority, "request_timeout": 300.0}
        async with AsyncLocks(without_a_goodbye, **options) as locks, asyncio.timeout(60):
            await locks.lock("door").acquire(timeout=0)

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        with pytest.raises(ConfigurationError, match="password"):
            asyncio.run(ask())
        gc.collect()

    assert not [one for one in warned if "transport" in str(one.message)]
