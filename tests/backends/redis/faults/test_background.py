"""The listener of a waiting client survives every error, or its waiters restart it."""

from __future__ import annotations

import errno
import socket

import pytest
from both_flavours import Flavour
from redis.credentials import CredentialProvider

from lockfast.core.door import ADMISSION_WINDOW_SECONDS
from lockfast_challenge.servers.redis import RedisServer

SOON = 1.5
"""Seconds; less than the time to the next heartbeat, which would make up for a missed wakeup."""


class Provider(CredentialProvider):
    """Returns a password unless the service behind it is down."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.failures = 0

    def get_credentials(self) -> tuple[str, str]:
        if self.error is not None:
            self.failures += 1
            raise self.error
        return "default", "secret"

    async def get_credentials_async(self) -> tuple[str, str]:
        return self.get_credentials()


def receiver_of(locks):
    [one] = getattr(locks, "_inner", locks)._client.backend._inbox.receivers
    return one


def cut_off_inboxes(server) -> None:
    with server.client() as client:
        assert client.client_kill_filter(_type="pubsub", skipme=True) > 0


def until_it_listens(server, locks, eventually) -> None:
    with server.client() as client:
        eventually(lambda: client.pubsub_channels("lockfast:inbox:*"))
    eventually(lambda: receiver_of(locks).subscription is not None)


@pytest.fixture
def closed_server():
    with RedisServer(password="secret") as one:
        yield one


@pytest.mark.parametrize("kind", [RuntimeError, ValueError, OSError])
def test_waiters_outlive_a_provider_of_passwords_that_fails_for_a_moment(
    flavour, closed_server, eventually, kind
):
    """A waiter whose listener cannot log in again for a while is still served afterwards."""
    provider = Provider()
    holders = flavour.locks(closed_server.url, password="secret")
    lease = holders.lock("door").acquire()
    locks = flavour.locks(closed_server.url, credential_provider=provider)
    waiter = flavour.start(locks.lock("door").acquire, timeout=30)
    until_it_listens(closed_server, locks, eventually)

    provider.error = kind("the service is down")
    cut_off_inboxes(closed_server)
    eventually(lambda: provider.failures > 1)
    provider.error = None
    lease.release()

    assert waiter.result(10).token > lease.token


def test_waiters_outlive_a_table_of_descriptors_that_was_full(server, eventually, monkeypatch):
    """A listener that finds no free descriptors opens later, when descriptors are free again."""
    flavour = Flavour("sync")
    holders, locks = flavour.locks(server.url), flavour.locks(server.url)
    lease = holders.lock("door").acquire()
    refused: list[bool] = []

    def refuse(*_: object) -> None:
        refused.append(True)
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as full:
        full.setattr(socket, "socketpair", refuse)
        waiter = flavour.start(locks.lock("door").acquire, timeout=30)
        eventually(lambda: len(refused) > 1)
    until_it_listens(server, locks, eventually)
    lease.release()

    assert waiter.result(SOON).token > lease.token
    flavour.close()


def test_waiters_begin_a_background_that_was_cancelled_with_all_else(server, eventually):
    """Waiters restart their listener after the program has cancelled every task of its loop."""
    flavour = Flavour("async")
    holders, locks = flavour.locks(server.url), flavour.locks(server.url)
    lease = holders.lock("door").acquire()
    waiter = flavour.start(locks.lock("door").acquire, timeout=30)
    until_it_listens(server, locks, eventually)
    receiver = receiver_of(locks)
    before = receiver.background.current

    flavour.call(before.task._task.cancel)
    eventually(lambda: receiver.background.current not in (None, before))
    eventually(lambda: receiver.subscription is not None)
    lease.release()

    assert waiter.result(SOON).token > lease.token
    flavour.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_waiters_begin_a_background_whose_thread_was_ended(server, eventually, monkeypatch):
    """SystemExit, which is not an `Exception`, ends the listener's thread; waiters restart it."""
    flavour = Flavour("sync")
    holders, locks = flavour.locks(server.url), flavour.locks(server.url)
    lease = holders.lock("door").acquire()
    waiter = flavour.start(locks.lock("door").acquire, timeout=30)
    until_it_listens(server, locks, eventually)
    receiver = receiver_of(locks)
    before = receiver.background.current

    def leave(**_: object) -> bool:
        raise SystemExit

    monkeypatch.setattr(receiver.subscription, "listen", leave)
    receiver.subscription.interrupt()
    eventually(lambda: receiver.background.current not in (None, before))
    eventually(lambda: receiver.subscription is not None)
    lease.release()

    assert waiter.result(SOON).token > lease.token
    flavour.close()


def test_waiters_ask_by_themselves_where_no_thread_is_to_be_had(server, eventually, monkeypatch):
    """A client that cannot start a listener thread still gets the lock in its turn."""
    flavour = Flavour("sync")
    holders, locks = flavour.locks(server.url), flavour.locks(server.url)
    lease = holders.lock("door").acquire()
    refused: list[bool] = []

    def refuse(*_: object, **__: object) -> None:
        refused.append(True)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("lockfast.backends.waiting._sync.background.runtime.spawn", refuse)
    waiter = flavour.start(locks.lock("door", renew=False).acquire, timeout=30)
    eventually(lambda: refused)
    monkeypatch.undo()
    lease.release()

    assert waiter.result(10).token > lease.token
    flavour.close()


def test_an_inbox_is_named_only_once_it_hears(flavour, server, eventually):
    """A claim names its inbox only after the subscription: earlier wakeups would be lost."""
    holders, locks = flavour.locks(server.url), flavour.locks(server.url)
    lease = holders.lock("door").acquire()
    backend = getattr(locks, "_inner", locks)._client.backend
    inbox, transport = backend._inbox, backend._transport
    opened: list[tuple[bytes, str]] = []
    subscribe = transport.subscribe

    def watched(channel: bytes, hear: object, *, deadline: float) -> object:
        opened.append((channel, inbox.channel))
        return subscribe(channel, hear, deadline=deadline)

    transport.subscribe = watched
    waiter = flavour.start(locks.lock("door").acquire, timeout=30)
    until_it_listens(server, locks, eventually)
    cut_off_inboxes(server)
    eventually(lambda: len(opened) > 1)
    lease.release()
    waiter.result(10)

    assert all(not channel.endswith(name.encode()) for channel, name in opened)
    assert opened[-1][0].endswith(inbox.channel.encode())


def test_waiting_processes_killed_together_cost_one_window(flavour, server, puppet, eventually):
    """Law 10: dead processes cost one window together, although each is a separate client."""
    count = 6
    locks = flavour.locks(server.url)
    lease = locks.lock("door").acquire()
    crowd = [puppet(flavour.name, server.url) for _ in range(count)]
    for one in crowd:
        one.ask("let_many_wait", "door", 1)
    eventually(lambda: len(locks.inspect("door").line) == count)
    living = flavour.locks(server.url)
    waiter = flavour.start(living.lock("door").acquire, timeout=30)
    eventually(lambda: len(locks.inspect("door").line) == count + 1)
    for one in crowd:
        one.kill()

    before = flavour.clock.now()
    lease.release()
    waiter.result(30)

    assert flavour.clock.now() - before < 2 * ADMISSION_WINDOW_SECONDS
