"""A member that clients cannot connect to does not keep them from a healthy member."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from servers.etcd import shared_tls_server

from lockfast import BackendUnavailable, ConfigurationError, OutcomeUnknown
from lockfast.backends.etcd import errors, requests
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.proxy import Proxy

PATIENCE = 20.0

HTTP1 = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
ALERT = b"\x15\x03\x01\x00\x02\x02\x50" * 2
"""The reply of a port that expects TLS."""


@pytest.fixture(params=["HTTP/1.1", "TLS alert", "refuses"])
def bad_member(request, talker, outliving) -> str:
    """An address where a client notices at once that no etcd is listening."""
    if request.param == "refuses":
        # Kept open so that no other program gets the port; without listen(), connections are
        # refused.
        bound = outliving.enter_context(socket.socket())
        bound.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{bound.getsockname()[1]}"
    said = HTTP1 if request.param == "HTTP/1.1" else ALERT
    return str(talker(answer=lambda _: said).url.rpartition("/")[2])


def test_a_bad_member_that_is_named_first_hides_no_healthy_one(flavour, bad_member, server, name):
    locks = flavour.locks(f"etcd://{bad_member},{server.address}", request_timeout=PATIENCE)

    lease = locks.lock(name).acquire(timeout=PATIENCE)
    assert locks.inspect(name).holders

    lease.release()


def test_a_watch_passes_a_bad_member_by(wire_to, bad_member, server, key):
    transport = wire_to(f"etcd://{bad_member},{server.address}")

    stream = transport.watch()
    stream.send(requests.watch(1, key, since=0, deletions=True))

    assert stream.until(lambda heard: heard)[0].header.member == server.id
    stream.close()


def test_a_member_whose_certificate_is_not_trusted_hides_no_healthy_one(flavour, name):
    """The member's certificate is valid for 127.0.0.1, and for no host name."""
    server = shared_tls_server()
    url = f"etcds://localhost:{server.port},{server.address}"
    locks = flavour.locks(url, request_timeout=PATIENCE, **server.client_options)

    locks.lock(name).acquire(timeout=PATIENCE).release()


def test_where_no_member_is_left_what_is_to_be_set_right_is_told(wire_to, talker, key):
    bad = [talker(answer=lambda _: HTTP1).url.rpartition("/")[2] for _ in range(2)]

    with pytest.raises(ConfigurationError, match="not as an etcd member does"):
        wire_to(f"etcd://{','.join(bad)}").ask(requests.put(key, b""))


def test_also_if_the_others_are_away_and_none_has_ever_answered(wire_to, talker, key):
    bad = talker(answer=lambda _: HTTP1).url

    with pytest.raises(ConfigurationError, match="not as an etcd member does"):
        wire_to(f"{bad},127.0.0.1:1").ask(requests.put(key, b""))


def test_once_a_member_has_answered_a_bad_one_beside_it_is_an_outage(wire_to, talker, outage, key):
    """A bad member beside one that has stopped answering is an outage, which waiters survive."""
    server, stop = outage
    transport = wire_to(f"{server},{talker(answer=lambda _: HTTP1).url.rpartition('/')[2]}")
    transport.ask(requests.put(key, b""))

    stop()

    with pytest.raises(BackendUnavailable, match="not as an etcd member does"):
        eventually(
            lambda: transport.ask(requests.put(key, b"")) is None,
            what="it is told",
            despite=(OutcomeUnknown,),
        )


@pytest.fixture
def outage(server, outliving) -> tuple[str, Callable[[], None]]:
    """The URL of a proxy to the server, and a function that makes it refuse connections."""
    proxy = outliving.enter_context(Proxy(server.port, scheme="etcd"))
    return proxy.url, proxy.refuse


@pytest.mark.parametrize("has_answered", [True, False])
def test_which_error_is_told_where_none_is_left(has_answered):
    wrong, away = ConfigurationError("wrong"), BackendUnavailable("away")

    assert errors.none_left([away, wrong][:1], has_answered=has_answered) is away
    assert errors.none_left([wrong, wrong], has_answered=has_answered) is wrong
    mixed = errors.none_left([wrong, away], has_answered=has_answered)
    assert isinstance(mixed, BackendUnavailable if has_answered else ConfigurationError)
    assert "wrong" in str(mixed)


# -- silence ---------------------------------------------------------------------------------


@pytest.mark.parametrize("flavour", ["async"], indirect=True)
def test_who_joins_an_attempt_to_connect_to_a_silent_member_asks_the_next_in_time(
    wire_to, talker, server, key
):
    """A call does not wait for another task's connection attempt with a later deadline."""
    transport = wire_to(f"{talker().url},{server.address}")
    patient = transport.begin(requests.put(key, b"1"), within=20 * PATIENCE)
    [silent, _] = transport.transport._members
    eventually(lambda: silent._connecting._flight, what="it is connected to")

    # From here on, a call gives the silent member one second, and the other member the rest.
    now = transport.flavour.clock.now
    transport.transport._share = lambda deadline, left: deadline if left == 1 else now() + 1.0
    assert transport.ask(requests.put(key, b"2")).header.member == server.id

    assert not patient.done()
    transport.close()
    with pytest.raises(BackendUnavailable):
        patient.result(20 * PATIENCE)


def test_the_member_that_answered_is_asked_first_by_the_next_session(flavour, talker, server, name):
    """A silent member costs its share of the time once, and not again in each later session."""
    locks = flavour.locks(f"{talker().url},{server.address}", request_timeout=4.0)
    eventually(
        lambda: locks.lock(name).acquire(timeout=PATIENCE).release() is None,
        what="the healthy one answers",
        despite=(BackendUnavailable, OutcomeUnknown),
    )
    flavour.give_up_after(PATIENCE)
    backend = getattr(locks, "_inner", locks)._client.backend

    transport = flavour.call(backend._new_transport, 30.0, lambda: None)

    assert transport._members._at == 1
    flavour.call(transport.close, goodbye=False, deadline=0.0)
