"""`Locks.from_client(KazooClient)`: only its address and its settings are used."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl
from servers.zookeeper import shared_server

from lockfast import AsyncLocks, ConfigurationError, Locks


@pytest.fixture
def namespace() -> str:
    return os.urandom(8).hex()


def test_both_flavours_take_a_client_and_leave_it_alone(namespace: str) -> None:
    with shared_server().client() as client:
        before = client.client_id
        with Locks.from_client(client, namespace=namespace, ttl=5.0) as locks:
            first = locks.lock("door").acquire()
            assert client.get_children(f"/{namespace}") == ["door"]
            first.release()

        async def main() -> int:
            async with (
                AsyncLocks.from_client(client, namespace=namespace, ttl=5.0) as locks,
                locks.lock("door") as lease,
            ):
                return lease.token

        assert asyncio.run(main()) > first.token
        assert client.connected
        assert client.client_id == before


def test_a_client_that_was_never_started_will_do(namespace: str) -> None:
    """A client need not be started: only its hosts, chroot, credentials and ACL are read."""
    clerk = make_digest_acl("clerk", "pw", all=True)
    with shared_server().client() as plain:
        plain.create(f"/{namespace}")
        client = KazooClient(
            f"{shared_server().address}/{namespace}",
            auth_data=[("digest", "clerk:pw")],
            default_acl=[clerk],
        )
        with Locks.from_client(client) as locks:
            assert "pw" not in repr(locks)
            lease = locks.lock("door").acquire()
            assert plain.get_children(f"/{namespace}") == ["lockfast"]
            with pytest.raises(NoAuthError):
                plain.get_children(f"/{namespace}/lockfast")
            lease.release()
        assert not client.connected


def test_options_are_refused(namespace: str) -> None:
    with pytest.raises(ConfigurationError, match="unknown option use_ssl"):
        Locks.from_client(KazooClient(), namespace=namespace, use_ssl=True)


def test_an_idle_client_has_no_thread_and_opens_a_new_session(
    namespace: str, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None]
) -> None:
    monkeypatch.setattr("lockfast.backends.sessions._sync.session.SESSION_IDLE_SECONDS", 0.2)
    monkeypatch.setattr("lockfast.client._sync.watchdog.WATCHDOG_IDLE_SECONDS", 0.2)
    before = set(threading.enumerate())

    def added() -> set[threading.Thread]:
        return set(threading.enumerate()) - before  # other threads may end meanwhile

    with Locks(shared_server().url, namespace=namespace, ttl=3.0) as locks:
        first = locks.lock("door").acquire()
        first.release()
        eventually(lambda: not added())

        second = locks.lock("door").acquire()

        assert second.token > first.token
        second.release()
    assert not added()
