"""The transport to a cluster: the choice of a member, and the outcome without a reply."""

from __future__ import annotations

import signal
import threading

import pytest
from servers.etcd import shared_cluster, shared_tls_server

from lockfast import BackendUnavailable, ConfigurationError, OutcomeUnknown
from lockfast.backends.etcd import requests
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.certificates import certificates
from lockfast_challenge.servers.etcd import EtcdServer
from lockfast_challenge.servers.proxy import Proxy
from lockfast_challenge.servers.server import free_ports

SOON = 1.0
"""A timeout in seconds that is shorter than the default, but longer than any answered request."""


@pytest.fixture
def proxy(server):
    with Proxy(server.port, scheme="etcd") as proxy:
        yield proxy


@pytest.fixture
def own_server():
    """A server that may be stopped."""
    with EtcdServer() as server:
        yield server


def test_many_calls_at_once(wire_to, server, key):
    """Each of many concurrent calls gets its own reply."""
    transport = wire_to(server.url)
    for number in range(40):
        transport.ask(requests.put(key + b"/%d" % number, b"%d" % number))

    asked = [transport.begin(requests.range_(key + b"/%d" % number)) for number in range(40)]

    found = [one.result(20).keys[0].value for one in asked]
    assert found == [b"%d" % number for number in range(40)]


def test_large_questions_and_large_answers(wire_to, server, key):
    """Requests and replies may be larger than the flow-control window."""
    transport = wire_to(server.url)
    large = b"x" * 1_400_000

    transport.ask(requests.put(key, large))
    transport.ask(requests.put(key + b"/2", large))
    found = transport.ask(requests.range_(key, requests.prefix_end(key)))

    assert [one.value for one in found.keys] == [large, large]


def test_a_thousand_calls_on_one_connection(wire_to, server, key):
    """A thousand calls exceed one window, so the server has to open the window again."""
    transport = wire_to(server.url)

    for _ in range(1000):
        transport.ask(requests.put(key, b"x" * 200))

    assert transport.ask(requests.range_(key)).keys[0].version == 1000


def test_tls_on_both_sides(wire_to, key):
    server = shared_tls_server()
    transport = wire_to(server.url, **server.client_options)

    asked = [transport.begin(requests.put(key + b"/%d" % number, b"")) for number in range(20)]
    for one in asked:
        one.result(20)

    assert transport.ask(requests.range_(key, requests.prefix_end(key))).total == 20
    watcher = transport.watch()
    watcher.send(requests.watch(1, key + b"/1", since=0, deletions=True))
    watcher.until(lambda heard: heard)
    transport.ask(requests.delete(key + b"/1"))
    watcher.until(lambda heard: any(one.changes for one in heard))
    watcher.close()


# -- no answer -----------------------------------------------------------------------------


def test_a_server_that_stands_still(wire_to, own_server, key):
    """At the deadline the outcome is unknown; after the freeze, the transport works again."""
    transport = wire_to(own_server.url)
    transport.ask(requests.put(key, b"1"))

    own_server.pause()
    with pytest.raises(OutcomeUnknown):
        transport.ask(requests.put(key, b"2"), within=SOON)
    own_server.resume()

    assert transport.ask(requests.range_(key)).keys[0].value in (b"1", b"2")


def test_nobody_listens(wire_to, key):
    """If nothing listens at the address, nothing was sent, so nothing was done."""
    [port] = free_ports(1)
    transport = wire_to(f"etcd://127.0.0.1:{port}")

    with pytest.raises(BackendUnavailable, match="nothing listens"):
        transport.ask(requests.put(key, b""), within=SOON)


def test_a_connection_that_breaks_before_the_answer(wire_to, proxy, server, key):
    transport = wire_to(proxy.url)
    transport.ask(requests.range_(key))
    cut = proxy.cut_reply_to(key)

    with pytest.raises(OutcomeUnknown):
        transport.ask(requests.put(key, b"1"))

    assert cut.is_set()
    assert transport.ask(requests.range_(key)).keys[0].value == b"1"


def test_a_connection_that_is_gone_before_the_question(wire_to, proxy, key):
    """A lost connection is noticed and replaced; if that is impossible, nothing was sent."""
    transport = wire_to(proxy.url)
    transport.ask(requests.put(key, b"1"))

    def is_noticed() -> bool:
        try:
            return transport.ask(requests.range_(key), within=SOON).keys[0].value == b"1"
        except BackendUnavailable:
            return True

    # The first request may still fail, if the kernel has yet to report that the connection is gone.
    proxy.reset()
    eventually(is_noticed, despite=(OutcomeUnknown,))
    assert transport.ask(requests.range_(key)).keys[0].value == b"1"

    proxy.refuse()
    eventually(is_noticed, despite=(OutcomeUnknown,))
    with pytest.raises(BackendUnavailable):
        transport.ask(requests.put(key, b"2"), within=SOON)


def test_a_way_that_is_cut_without_a_word(wire_to, proxy, key):
    """A cut connection is given up; otherwise it would stay open while the kernel retransmits."""
    transport = wire_to(proxy.url)
    transport.ask(requests.put(key, b"1"))

    proxy.cut()
    with pytest.raises(OutcomeUnknown):
        transport.ask(requests.put(key, b"2"), within=SOON)
    proxy.mend()

    assert transport.ask(requests.range_(key)).keys[0].value == b"1"


def test_a_late_call_does_not_harm_the_others(flavour, wire_to, own_server, key):
    """Only the call whose time is up fails; the connection goes on serving the other calls."""
    transport = wire_to(own_server.url)
    transport.ask(requests.put(key, b"1"))
    own_server.pause()
    patient = transport.begin(requests.range_(key))
    with pytest.raises((OutcomeUnknown, BackendUnavailable)):
        transport.ask(requests.range_(key), within=0.05)
    own_server.resume()

    assert patient.result(20).keys[0].value == b"1"


def test_a_server_that_is_started_anew(wire_to, own_server, key):
    transport = wire_to(own_server.url)
    transport.ask(requests.put(key, b"1"))

    own_server.kill()
    own_server.start()

    assert transport.ask(requests.range_(key)).keys[0].value == b"1"


def test_what_is_not_etcd(wire_to, talker, key):
    for greeting in (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n"):
        transport = wire_to(talker(greeting=greeting).url)

        with pytest.raises(ConfigurationError, match="not as an etcd member does"):
            transport.ask(requests.range_(key), within=5.0)


def test_a_port_that_says_nothing(wire_to, talker, key):
    """A silent port gets no request, because the handshake comes first."""
    transport = wire_to(talker().url)

    with pytest.raises(BackendUnavailable, match="in time"):
        transport.ask(requests.put(key, b""), within=0.3)


# -- several members -----------------------------------------------------------------------


@pytest.fixture
def cluster():
    return shared_cluster().heal()


def test_the_first_member_that_answers_is_asked(wire_to, cluster, key):
    [port] = free_ports(1)
    transport = wire_to(f"etcd://127.0.0.1:{port},{cluster.address}")

    assert transport.ask(requests.put(key, b"1")).header.member == cluster.members[0].id
    assert transport.ask(requests.range_(key)).header.member == cluster.members[0].id


def test_a_member_that_dies(wire_to, cluster, key):
    """Requests to a dead member fail or have an unknown outcome; later requests go elsewhere."""
    transport = wire_to(cluster.url)
    first = transport.ask(requests.put(key, b"1")).header.member

    cluster.members[0].kill()

    eventually(
        lambda: transport.ask(requests.range_(key, serializable=True)).header.member != first,
        despite=(OutcomeUnknown, BackendUnavailable),
    )


def test_a_member_that_stands_still(wire_to, cluster, key):
    """The request waits until its deadline; the next request goes to another member."""
    transport = wire_to(cluster.url)
    first = transport.ask(requests.put(key, b"1")).header.member
    [frozen] = [one for one in cluster.members if one.id == first]

    frozen.pause()
    with pytest.raises(OutcomeUnknown):
        transport.ask(requests.put(key, b"2"), within=SOON)

    def answered() -> int:
        return transport.ask(requests.range_(key, serializable=True), within=5.0).header.member

    assert answered() != first
    frozen.resume()


def test_a_member_that_stands_still_before_it_is_connected_to(wire_to, cluster, key):
    """A frozen member's kernel accepts connections, but the handshake never completes."""
    cluster.members[0].pause()
    transport = wire_to(cluster.url)

    found = transport.ask(requests.range_(key, serializable=True), within=6.0)

    cluster.members[0].resume()
    assert found.header.member == cluster.members[1].id


def test_a_member_that_is_hung_up_on(flavour, wire_to, cluster, key):
    transport = wire_to(cluster.url)
    first = transport.ask(requests.put(key, b"1")).header.member

    flavour.call(transport.transport.hang_up)

    assert transport.ask(requests.range_(key)).header.member != first


def test_no_call_is_lost_while_a_member_is_stopped_as_it_should_be(wire_to, cluster, key):
    """A member announces that it stops, so requests that it has not begun go to another one."""
    transport = wire_to(cluster.url)
    transport.ask(requests.put(key, b"1"))
    stop = threading.Event()
    errors: list[BaseException] = []

    def keep_asking() -> None:
        while not stop.is_set():
            try:
                transport.ask(requests.range_(key, serializable=True), within=10.0)
            except OutcomeUnknown as error:
                errors.append(error)

    asking = [transport.flavour.start(keep_asking) for _ in range(4)]
    try:
        cluster.members[0].process.send_signal(signal.SIGTERM)
        eventually(lambda: not cluster.members[0].is_running, what="it has ended")
        eventually(
            lambda: transport.ask(requests.range_(key, serializable=True)),
            what="another one answers",
            despite=(OutcomeUnknown,),
        )
    finally:
        stop.set()

    for one in asking:
        one.result(30)
    # At most one error for each request that was under way when the member ended.
    assert len(errors) <= 4


def test_a_stream_ends_with_its_member(wire_to, cluster, key):
    transport = wire_to(cluster.url)
    watcher = transport.watch()
    watcher.send(requests.watch(1, key, since=0, deletions=True))
    watcher.until(lambda heard: heard)

    cluster.members[0].kill()

    eventually(lambda: not watcher.listens(), what="it is told")
    assert not watcher.send(requests.unwatch(1))
    watcher.close()
    again = transport.watch()
    again.send(requests.watch(1, key, since=0, deletions=True))
    again.until(lambda heard: heard)
    again.close()


# -- authentication ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded():
    """A server that admits only the user clerk, and only to keys that begin with `ours/`."""
    with EtcdServer() as server:
        yield server.let_in("clerk", "sesame", prefix="ours/")


@pytest.fixture
def clerk(wire_to, guarded):
    return wire_to(guarded.url.replace("://", "://clerk:sesame@"))


def test_a_user_is_known_by_name_and_password(clerk):
    clerk.ask(requests.put(b"ours/a", b"1"))

    assert clerk.ask(requests.range_(b"ours/a")).keys[0].value == b"1"


def test_a_token_that_is_not_known_any_more_is_asked_for_again(flavour, clerk, guarded):
    """Setting a user's password ends the user's tokens, even if the password stays the same."""
    clerk.ask(requests.put(b"ours/a", b"1"))
    token = clerk.transport._token

    guarded.ask("auth/user/changepw", name="clerk", password="sesame")

    asked = [clerk.begin(requests.range_(b"ours/a")) for _ in range(10)]
    assert {one.result(20).keys[0].value for one in asked} == {b"1"}
    assert clerk.transport._token != token


def test_a_watch_by_somebody_who_may(clerk):
    watcher = clerk.watch()
    watcher.send(requests.watch(1, b"ours/a", since=0, deletions=True))

    [created] = watcher.until(lambda heard: heard)

    assert created.is_created
    assert not created.is_canceled
    watcher.close()


def test_a_user_may_come_by_a_certificate_alone(wire_to):
    """The certificate's common name is the user name."""
    with EtcdServer(tls=certificates()) as server:
        server.let_in("server", "sesame", prefix="ours/")
        transport = wire_to(server.url, **server.tls.client_options())

        transport.ask(requests.put(b"ours/a", b"1"))

        assert transport.ask(requests.range_(b"ours/a")).keys[0].value == b"1"
        assert transport.ask(requests.range_(b"theirs")).code == "PERMISSION_DENIED"
