"""A Redis server that cannot grant locks now: replica, cluster, loading, busy, full."""

from __future__ import annotations

import threading

import pytest
import redis
from servers.redis import shared_server
from servers.redis_sentinels import shared_sentinels

from lockfast import BackendUnavailable, ConfigurationError
from lockfast.backends.redis.errors import refused
from lockfast.backends.redis.resp import ErrorReply
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.redis import ClusterNode, RedisServer


@pytest.fixture(scope="module")
def replica():
    with (
        RedisServer("--repl-diskless-sync-delay", "0") as master,
        RedisServer("--replicaof", "127.0.0.1", str(master.port)) as one,
        one.client() as client,
    ):
        eventually(lambda: client.info("replication")["master_link_status"] == "up")
        yield one


def test_a_replica(refusal, replica):
    error = refusal(replica.url)

    assert isinstance(error, ConfigurationError)
    assert "is a replica" in str(error)
    assert "redis+sentinel://" in str(error)


def test_a_cluster_that_is_not_whole(refusal):
    with ClusterNode() as node:
        error = refusal(node.url.replace("redis://", "redis+cluster://"), within=20.0)

    assert isinstance(error, BackendUnavailable)
    assert "serves no slots and knows nobody who does" in str(error)


@pytest.fixture(scope="module")
def nodes():
    """Two nodes of a cluster; the second one has all the slots."""
    with (
        ClusterNode() as node,
        ClusterNode() as other,
        node.client() as client,
        other.client() as others,
    ):
        others.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        client.execute_command("CLUSTER", "MEET", "127.0.0.1", other.port, other.bus)
        eventually(lambda: client.execute_command("CLUSTER INFO")["cluster_state"] == "ok")
        yield node, other


def test_a_node_of_a_cluster_given_as_a_server(refusal, nodes):
    error = refusal(nodes[0].url)

    assert isinstance(error, ConfigurationError)
    assert "is a node of a cluster; use redis+cluster://" in str(error)


def test_a_node_of_a_cluster_that_has_all_slots(refusal, nodes):
    """A cluster node with all slots could grant every lock, but would lose locks as slots move."""
    error = refusal(nodes[1].url)

    assert isinstance(error, ConfigurationError)
    assert "is a node of a cluster; use redis+cluster://" in str(error)


def test_a_node_of_a_cluster_that_has_all_slots_given_as_a_cluster(flavour, nodes):
    locks = flavour.locks(nodes[1].url.replace("redis://", "redis+cluster://"))

    locks.lock("door").acquire(timeout=2).release()


def test_a_sentinel_given_as_a_server(refusal):
    error = refusal(shared_sentinels().sentinels[0].url)

    assert isinstance(error, ConfigurationError)
    assert "is a Sentinel" in str(error)
    assert "use redis+sentinel://" in str(error)


def test_a_server_that_is_loading(refusal):
    """Loading is slowed down for the test; the server serves clients after each key of 1 kB."""
    with RedisServer("--rdbcompression", "no") as server:
        with server.client() as client:
            client.mset({f"key {n}": "x" * 1100 for n in range(400)})
            client.save()
        server.kill()
        server.options += ("--key-load-delay", "10000")
        server.options += ("--loading-process-events-interval-bytes", "1024")
        server.spawn()
        eventually(lambda: _says_loading(server))

        error = refusal(server.url)

    assert isinstance(error, BackendUnavailable)
    assert "is still loading its data; try again" in str(error)


def _says_loading(server: RedisServer) -> bool:
    try:
        with server.client() as client:
            client.get("key")
    except redis.BusyLoadingError:
        return True
    except redis.ConnectionError:
        return False
    raise AssertionError("the data was loaded before anybody could see it")


def test_a_server_that_is_busy_with_a_script(refusal):
    with RedisServer("--busy-reply-threshold", "5") as server:
        spinning = threading.Thread(target=_spin, args=[server])
        spinning.start()
        with server.client() as client:
            eventually(lambda: _says_busy(client))

            error = refusal(server.url)
            client.script_kill()
        spinning.join()

    assert isinstance(error, BackendUnavailable)
    assert "end it (SCRIPT KILL)" in str(error)


def _spin(server: RedisServer) -> None:
    with server.client() as client, pytest.raises(redis.ResponseError, match="killed"):
        client.eval("while true do end", 0)


def _says_busy(client: redis.Redis) -> bool:
    try:
        client.get("key")
    except redis.ResponseError as error:
        return "BUSY" in str(error)
    return False


def test_a_server_that_cannot_save(refusal):
    """Redis refuses writes while its snapshots fail, and the error says so."""
    with RedisServer() as server, server.client() as client:
        (server.directory / "dump.rdb").mkdir()
        client.config_set("save", "3600 1")
        client.set("key", "value")
        client.bgsave()
        eventually(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")

        error = refusal(server.url)

    assert isinstance(error, BackendUnavailable)
    assert "cannot save its data and refuses to write; its log says why" in str(error)


def test_a_server_without_memory(refusal):
    with shared_server().client() as client:
        client.config_set("maxmemory", 1)
        try:
            error = refusal(shared_server().url)
        finally:
            client.config_set("maxmemory", 0)

    assert isinstance(error, BackendUnavailable)
    assert "Give it memory, or delete other data" in str(error)


def test_a_server_with_too_few_replicas(refusal):
    with shared_server().client() as client:
        client.config_set("min-replicas-to-write", 1)
        try:
            error = refusal(shared_server().url)
        finally:
            client.config_set("min-replicas-to-write", 0)

    assert isinstance(error, BackendUnavailable)
    assert "bring one back, or lower that setting" in str(error)


def test_a_server_without_room_for_another_connection(refusal):
    with RedisServer("--maxclients", "1") as server, server.client() as client:
        eventually(lambda: _is_let_in(client))  # after the start-up probe has disconnected

        error = refusal(server.url)

    assert isinstance(error, BackendUnavailable)
    assert "raise maxclients" in str(error)


def _is_let_in(client: redis.Redis) -> bool:
    try:
        return client.ping()
    except redis.ConnectionError:
        return False


def test_a_key_of_ours_that_another_program_uses(refusal):
    with shared_server().client() as client:
        client.set("lockfast:{door}:door", "mine")
        try:
            error = refusal(shared_server().url)
        finally:
            client.delete("lockfast:{door}:door")

    assert isinstance(error, ConfigurationError)
    assert "choose a namespace of your own" in str(error)


def test_names_in_several_slots_at_once():
    """A cluster answers CROSSSLOT to a heartbeat for several names."""
    error = refused(ErrorReply("CROSSSLOT Keys in request don't hash"), where="redis://there")

    assert isinstance(error, ConfigurationError)
    assert "use redis+cluster://" in str(error)
