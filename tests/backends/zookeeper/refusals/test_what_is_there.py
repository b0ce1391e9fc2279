"""What answers at the address: nothing, another protocol, no quorum, no such chroot."""

from __future__ import annotations

import pytest
from refusals import PASSWORD
from servers.zookeeper import shared_ensemble, shared_server

from lockfast import BackendError, BackendUnavailable, ConfigurationError
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.server import free_ports


def test_a_port_where_nothing_listens(refusal):
    error = refusal(f"zookeeper://clerk:{PASSWORD}@127.0.0.1:{free_ports(1)[0]}")

    assert isinstance(error, BackendUnavailable)
    assert "nothing listens" in str(error)


def test_several_ports_where_nothing_listens(refusal):
    """The error names all ports that were tried."""
    ports = free_ports(2)
    error = refusal(f"zookeeper://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}")

    assert isinstance(error, BackendUnavailable)
    assert f"127.0.0.1:{ports[1]}" in str(error)


def test_a_host_without_an_address(refusal):
    error = refusal("zookeeper://no-such-host.invalid:2181")

    assert isinstance(error, BackendUnavailable)


def test_a_server_that_says_nothing(refusal, talker):
    error = refusal(talker().url)

    assert isinstance(error, BackendUnavailable)
    assert "in time" in str(error)


@pytest.mark.parametrize(
    ("greeting", "answer"),
    [
        (b"", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
        (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", b""),
        (b"", b"-ERR unknown command\r\n"),
        (b"\0" * 64, b""),
    ],
    ids=["HTTP", "SSH", "Redis", "zeros"],
)
def test_a_server_of_another_kind(refusal, talker, greeting, answer):
    """A reply that cannot be read leads to an error that mentions ZooKeeper."""
    error = refusal(talker(greeting=greeting, answer=lambda _: answer).url)

    assert isinstance(error, (BackendError, ConfigurationError))
    assert "ZooKeeper" in str(error)


def test_members_without_a_quorum(refusal):
    """The servers run, but serve no requests while most of them are missing."""
    ensemble = shared_ensemble().heal()
    for one in ensemble.members[:2]:
        one.kill()
    eventually(lambda: ensemble.members[2].mode() is None, what="it serves nobody")

    error = refusal(ensemble.members[2].url)

    assert isinstance(error, BackendUnavailable)


@pytest.mark.parametrize("path", ["queue/config", "stranger"], ids=["in line", "as a name"])
def test_a_node_of_another_program_hides_no_other_name(flavour, namespace, caplog, path):
    """A survey skips another program's node with a warning; only using its name is an error."""
    locks = flavour.locks(shared_server().url, namespace=namespace)
    kept = [locks.lock(name).acquire(timeout=20) for name in ("queue", "window")]
    with shared_server().client() as client:
        client.create(f"/{namespace}/{path}", b"theirs")

    found = [one.name for one in locks.survey("")]

    assert found == [one.name for one in kept if not path.startswith(one.name)]
    assert path in caplog.text
    with pytest.raises(ConfigurationError, match="another program"):
        locks.inspect(path.partition("/")[0])
    for one in kept:
        one.release()


def test_a_chroot_that_does_not_exist(refusal):
    """A missing chroot is not created, because it is more likely misspelt."""
    error = refusal(f"{shared_server().url}/no/such/place", within=2.0)

    assert isinstance(error, ConfigurationError)
    assert "/no/such/place" in str(error)
    with shared_server().client() as client:
        assert not client.exists("/no")


def test_a_chroot_that_exists(flavour):
    with shared_server().client() as client:
        client.ensure_path("/shop/locks")

        lease = flavour.locks(f"{shared_server().url}/shop/locks").lock("door").acquire(timeout=20)

        assert client.get_children("/shop/locks") == ["lockfast"]
    lease.release()


@pytest.mark.parametrize(
    "url",
    [
        "zookeeper://",
        "zookeeper:///chroot",
        "zookeeper://host:port",
        "zookeeper://host:70000",
        "zookeeper://host,,other",
        "zookeeper://host//double",
        "zookeeper://host/../up",
        "zookeeper://host?colour=red",
    ],
)
def test_a_url_that_cannot_be_meant(flavour, url):
    """A meaningless URL is refused before anything is sent."""
    with pytest.raises(ConfigurationError) as told:
        flavour.locks(url)

    assert "\n" not in str(told.value)


def test_another_ttl_on_a_lock(flavour):
    """A client has only one session, so all of its locks have the same ttl."""
    locks = flavour.locks(shared_server().url, ttl=10)

    with pytest.raises(ConfigurationError, match="ttl"):
        locks.lock("door", ttl=5)


def test_the_same_ttl_on_a_lock(flavour, namespace):
    locks = flavour.locks(shared_server().url, ttl=10, namespace=namespace)

    lease = locks.lock("door", ttl=10).acquire(timeout=20)

    assert lease.ttl == 10


@pytest.mark.parametrize(
    "options", [{"owner": "saga-42"}, {"lock_delay": 1.0}], ids=["owner", "lock_delay"]
)
def test_what_it_does_not_offer_is_refused_by_name(flavour, options):
    locks = flavour.locks(shared_server().url)

    with pytest.raises(ConfigurationError, match=next(iter(options))):
        locks.lock("door", **options).acquire(timeout=1)
