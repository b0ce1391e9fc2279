"""Which nodes a URL or a list of clients means, and what is refused."""

from __future__ import annotations

import fakeredis
import pytest
import redis
import redis.asyncio
from servers.redlock import shared_nodes

from lockfast import AsyncLocks, BackendUnavailable, ConfigurationError, Locks
from lockfast.backends.redlock.address import addresses_of_url
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.certificates import certificates
from lockfast_challenge.servers.redlock import url_of

URL = "redlock://h1:7001,[::1]:7002,h3"


def addresses(url=URL, nodes=None, **options: str):
    return addresses_of_url(url, where="somewhere", nodes=nodes, options=options)


def test_each_host_is_a_node():
    found = addresses()

    assert [one.where for one in found] == [
        "redlock://h1:7001",
        "redlock://[::1]:7002",
        "redlock://h3:6379",
    ]
    assert not any(one.server.target.tls for one in found)


def test_what_is_said_of_all_is_said_of_each():
    found = addresses("redlocks://me:se%2Ccret@h1,h2,h3/2", tls_ca=certificates().authority)

    for one in found:
        assert one.server.login.fixed == (b"me", b"se,cret")
        assert one.server.target.tls.ca == certificates().authority
        assert one.server.db == 2


def test_what_is_said_of_one_wins():
    own = [{"password": "a"}, {"tls": True, "tls_ca": certificates().authority}, {}]
    found = addresses(nodes=own, password="shared")

    assert [one.server.login.password for one in found] == ["a", "shared", "shared"]
    assert [one.server.target.tls is not None for one in found] == [False, True, False]
    assert found[1].where.startswith("redlocks://")


def test_one_node_may_be_without_the_tls_of_the_others():
    found = addresses(
        "redlocks://h1,h2,h3", nodes=[{}, {"tls": False}, {}], tls_ca=certificates().authority
    )

    assert [one.where for one in found] == [
        "redlocks://h1:6379",
        "redlock://h2:6379",
        "redlocks://h3:6379",
    ]


@pytest.mark.parametrize("words", ["?tls=false", "?ssl=0", "tls", "ssl"])
def test_an_option_for_all_nodes_does_not_turn_the_tls_of_the_url_off(words):
    """Otherwise the password would be sent in clear text, although the URL says redlocks."""
    query, options = (words, {}) if words.startswith("?") else ("", {words: False})

    with pytest.raises(ConfigurationError) as refused:
        Locks(f"redlocks://user:pw@h1,h2,h3{query}", **options)

    assert str(refused.value) == (
        "redlocks://***@h1,h2,h3: tls=false contradicts redlocks://; write redlock://, or leave "
        "tls out"
    )


@pytest.mark.parametrize("name", ["tls_ca", "ssl_ca_certs"])
@pytest.mark.parametrize("how", ["in the URL", "in the code", "for all", "of a node"])
def test_tls_options_that_no_node_uses_are_refused(name, how):
    """The option shows that TLS is expected, and the password would go out in clear text."""
    authority, url = certificates().authority, "redlock://:pw@h1,h2,h3"
    options = {
        "in the URL": {},
        "in the code": {name: authority},
        "for all": {name: authority, "nodes": [{}, {"tls": False}, {}]},
        "of a node": {"nodes": [{}, {name: authority}, {}]},
    }[how]

    with pytest.raises(ConfigurationError) as refused:
        Locks(f"{url}?{name}={authority}" if how == "in the URL" else url, **options)

    assert str(refused.value).endswith(
        ": tls_ca needs TLS; write redlocks:// (or add tls=true), or leave tls_ca out"
    )


def test_a_name_for_all_and_another_name_of_it_for_one_node_is_the_nodes():
    own = [{"ssl_ca_certs": certificates().authority, "user": "b"}, {}, {}]
    nodes = addresses("redlocks://h1,h2,h3", nodes=own, tls_verify="ca", username="a")

    assert [one.server.login.username for one in nodes] == ["b", "a", "a"]
    assert [one.server.target.tls.ca for one in nodes] == [certificates().authority, None, None]
    assert [one.server.target.tls.verify for one in nodes] == ["ca", "ca", "ca"]


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("redlock://", {}, "names no host"),
        ("redlock://h1,h1,h2", {}, "names a node twice"),
        ("redlock://h1,h2,h3:x", {}, "'h3:x' is not a host or host:port"),
        ("redlock://h1,h2,h3/abc", {}, "must be a database number such as /0, not 'abc'"),
        (URL, {"nodes": [{}]}, "nodes has 1 of them, and the URL 3"),
        (URL, {"nodes": "abc"}, "a list of options for each node"),
        (URL, {"nodes": [{"colour": "red"}, {}, {}]}, "unknown option colour for a node"),
        (URL, {"max_ttl": "long"}, "max_ttl='long': 0.05 s to a week is accepted"),
        (URL, {"node_timeout": 0}, "node_timeout=0"),
        (URL, {"min_validity": -1}, "min_validity=-1"),
        (URL, {"durable": "perhaps"}, "durable='perhaps': true or false is accepted"),
        (f"{URL}?colour=red", {}, "unknown option colour"),
    ],
)
def test_what_cannot_be_meant_is_refused(url, options, words):
    with pytest.raises(ConfigurationError) as refused:
        Locks(url, **options)

    assert words in str(refused.value)


def test_options_may_stand_in_the_url():
    locks = Locks(f"{URL}?max_ttl=40&node_timeout=0.2&durable=true")

    found = locks._client.backend._options
    assert (found.max_ttl, found.node_timeout, found.durable) == (40.0, 0.2, True)


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ("h1", "1 node.*0 of them may fail, and 1 of 3 could"),
        ("h1,h2", "2 node.*0 of them may fail, and 1 of 3 could"),
        ("h1,h2,h3,h4", "4 node.*1 of them may fail, and 2 of 5 could"),
    ],
)
def test_a_number_that_is_even_or_small_is_warned_of(hosts, words):
    with pytest.warns(UserWarning, match=words):
        Locks(f"redlock://{hosts}")


def test_no_password_is_shown():
    locks = Locks("redlock://me:secret@h1,h2,h3", nodes=[{"password": "other"}, {}, {}])

    assert "secret" not in repr(locks) + locks.location
    assert "other" not in repr(vars(locks._client.backend))


# -- clients -------------------------------------------------------------------------------


def test_clients_of_each_node_are_one_store():
    nodes = shared_nodes()
    nodes.found(["clients"])
    clients = [redis.Redis(port=one.port) for one in nodes]
    with (
        Locks.from_clients(clients, namespace="clients", node_timeout=5) as locks,
        Locks(url_of(*nodes), namespace="clients", node_timeout=5) as others,
        locks.lock("door") as lease,
    ):
        assert lease.token > 0
        assert others.lock("door").try_acquire() is None


@pytest.mark.parametrize(
    ("clients", "error", "words"),
    [
        (
            [redis.asyncio.Redis()] * 3,
            ConfigurationError,
            "give it to lockfast.AsyncLocks.from_clients",
        ),
        ([fakeredis.FakeRedis()] * 3, ConfigurationError, "is no store that others see"),
        ([object()] * 3, ConfigurationError, "one for each node"),
        (redis.Redis(), TypeError, "a list of clients"),
        ([], TypeError, "a list of clients"),
    ],
)
def test_clients_that_cannot_be_meant_are_refused(clients, error, words):
    with pytest.raises(error, match=words):
        Locks.from_clients(clients)


def test_sync_clients_are_not_for_asyncio():
    with pytest.raises(ConfigurationError, match=r"lockfast\.Locks\.from_clients"):
        AsyncLocks.from_clients([redis.Redis()] * 3)


# -- what only the nodes know ------------------------------------------------------------------


def answered(locks) -> None:
    """Acquire, and try again while a busy machine keeps nodes from answering in time."""
    eventually(lambda: locks.lock("door").acquire(), despite=(BackendUnavailable,))


def test_two_addresses_of_one_server_are_refused(flavour, namespace):
    """Two addresses of one server are refused even if a majority of other nodes is healthy."""
    nodes = shared_nodes()
    places = [*(one.address for one in nodes[:4]), f"localhost:{nodes[0].port}"]
    locks = flavour.locks(f"redlock://{','.join(places)}", namespace=namespace, node_timeout=5)

    with pytest.raises(ConfigurationError, match="are one server"):
        answered(locks)


def test_another_max_ttl_is_refused_naming_both(flavour, namespace):
    nodes = shared_nodes()
    nodes.found([namespace], max_ttl=60.0)
    locks = flavour.locks(nodes.url, namespace=namespace, max_ttl=45, node_timeout=5)

    with pytest.raises(ConfigurationError, match=r"max_ttl=60, and this client says max_ttl=45"):
        answered(locks)


def test_a_client_with_another_number_of_nodes_is_refused_naming_both(flavour, namespace):
    """A majority of three nodes and a majority of five nodes need not share a node."""
    nodes = shared_nodes()
    nodes.found([namespace])
    with Locks(nodes.url, namespace=namespace, node_timeout=5) as locks:
        locks.lock("door").acquire(timeout=20).release()
    few = flavour.locks(url_of(*nodes[:3]), namespace=namespace, node_timeout=5)

    with pytest.raises(ConfigurationError, match=r"one of 5 nodes, and this client names 3"):
        few.lock("door").acquire(timeout=20)


def test_nodes_can_be_added_while_no_client_is_there(flavour, namespace):
    """When nodes are added, the old nodes teach the new ones, so that tokens keep growing."""
    nodes = shared_nodes()
    nodes.found([namespace])
    options = {"namespace": namespace, "node_timeout": 5, "request_timeout": 20}
    with Locks(url_of(*nodes[:3]), **options) as locks:
        before = locks.lock("door").acquire(timeout=20)
        before.release()
    for one in nodes:
        with one.client() as client:
            client.hdel(f"{namespace}:redlock:node", "nodes", "max")

    after = flavour.locks(nodes.url, max_ttl=30, **options).lock("door").acquire(timeout=20)

    assert after.token > before.token
    with (
        Locks(url_of(*nodes[:3]), max_ttl=30, **options) as outdated,
        pytest.raises(ConfigurationError, match="one of 5 nodes"),
    ):
        outdated.lock("door").acquire(timeout=20)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ttl": 61.0}, "ttl=61: at most max_ttl=60 s"),
        ({"min_hold": 90.0}, "min_hold=90: at most max_ttl=60 s"),
    ],
)
def test_what_a_restarted_node_could_not_be_trusted_with_is_refused(options, words):
    with Locks(URL) as locks, pytest.raises(ConfigurationError, match=words):
        locks.lock("door", **options).acquire()
