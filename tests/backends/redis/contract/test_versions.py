"""The contract on other versions than the one that most tests use: Redis 8, Valkey 8 and 9.

Only some laws run here: the omitted laws exercise no further parts of the connection or of the
scripts.
"""

from __future__ import annotations

import pytest
from backends.redis.contract.on_redis import AsyncContractOnRedis, ContractOnRedis
from servers.redis import (
    shared_newer_server,
    shared_older_valkey,
    shared_server,
    shared_valkey,
)

LAWS = (1, 2, 3, 4, 5, 6, 12, 14)


class TestAsyncOnRedis8(AsyncContractOnRedis):
    servers = shared_newer_server
    laws = LAWS


class TestSyncOnRedis8(ContractOnRedis):
    servers = shared_newer_server
    laws = LAWS


class TestAsyncOnValkey8(AsyncContractOnRedis):
    servers = shared_older_valkey
    laws = LAWS


class TestSyncOnValkey8(ContractOnRedis):
    servers = shared_older_valkey
    laws = LAWS


class TestAsyncOnValkey9(AsyncContractOnRedis):
    servers = shared_valkey
    laws = LAWS


class TestSyncOnValkey9(ContractOnRedis):
    servers = shared_valkey
    laws = LAWS


@pytest.mark.parametrize(
    ("servers", "version"),
    [
        (shared_server, "redis 7"),
        (shared_newer_server, "redis 8"),
        (shared_older_valkey, "valkey 8"),
        (shared_valkey, "valkey 9"),
    ],
)
def test_each_server_has_the_version_it_stands_for(servers, version):
    """A package that moved on to another version would leave this one untested."""
    with servers().client(decode_responses=True) as client:
        facts = client.info("server")

    number = facts.get("valkey_version", facts["redis_version"])
    name = facts.get("server_name", "redis")
    assert f"{name} {number}".startswith(f"{version}.")


@pytest.mark.parametrize("servers", [shared_newer_server, shared_older_valkey, shared_valkey])
def test_the_handshake_carries_everything(flavour, servers, namespace):
    """Login, name and database are part of the first exchange, in every version."""
    server = servers()
    with server.client(decode_responses=True) as admin:
        admin.execute_command("ACL", "SETUSER", "clerk", "on", ">pw", "~*", "&*", "+@all")
        url = f"redis://clerk:pw@{server.address}/3?client_name={namespace}"
        flavour.locks(url).lock(namespace).acquire(timeout=20).release()

        [one, *_] = [one for one in admin.client_list() if one["name"] == namespace]
        admin.execute_command("ACL", "DELUSER", "clerk")
    assert (one["user"], one["db"]) == ("clerk", "3")
