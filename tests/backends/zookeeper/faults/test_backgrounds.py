"""A client's background work survives any error, and failures are noticed."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from kazoo.exceptions import AuthFailedError
from kazoo.protocol.connection import ConnectionHandler
from kazoo.security import OPEN_ACL_UNSAFE

from lockfast import BackendUnavailable
from lockfast.backends.zookeeper import driver, requests
from lockfast_challenge.processes import eventually

TTL = 6.0
"""A ttl in seconds, long enough for a machine that stalls; no test waits for its end."""


class Stumbling:
    """Makes a function raise an error a number of times before the function works again."""

    def __init__(self, owner: Any, name: str, error: BaseException, *, times: int) -> None:
        self.times = times
        function = getattr(owner, name)

        def act(*arguments: Any, **options: Any) -> Any:
            if self.times > 0:
                self.times -= 1
                raise error
            return function(*arguments, **options)

        self.act = act


@pytest.fixture
def stumble(monkeypatch):
    def begin(owner: Any, name: str, error: BaseException, *, times: int = 1) -> Stumbling:
        stumbling = Stumbling(owner, name, error, times=times)
        monkeypatch.setattr(owner, name, stumbling.act)
        return stumbling

    return begin


FULL = OSError(errno.EMFILE, "Too many open files")


def _refused() -> Exception:
    """Return the error that kazoo raises when the application's code cannot provide credentials."""
    error = AuthFailedError("Unknown error")
    error.__cause__ = ValueError("no secret today")
    return error


@pytest.fixture
def by_sasl(flavour, proxy, diary, monkeypatch):
    """A client that sends credentials at every connection; the server accepts any of them."""
    monkeypatch.setattr(ConnectionHandler, "_authenticate_with_sasl", lambda *_: None)
    return flavour.locks(proxy.url, ttl=TTL, on_event=diary, sasl_options={}, acl=OPEN_ACL_UNSAFE)


@pytest.mark.parametrize(
    "error", [ValueError("no secret today"), SystemExit("no secret"), _refused()], ids=repr
)
def test_credentials_that_cannot_be_had_just_now_cost_no_lease(
    by_sasl, proxy, diary, stumble, error
):
    """A lease survives failures of the code that provides credentials for a reconnect."""
    lease = by_sasl.lock("door").acquire()

    stumbling = stumble(ConnectionHandler, "_authenticate_with_sasl", error, times=2)
    proxy.reset()
    eventually(lambda: not stumbling.times, what="it has stumbled")
    diary.until_renewed(3)

    lease.check()
    lease.release()


def test_a_request_that_cannot_be_sent_costs_no_lease(flavour, server, door, diary, stumble):
    """A defect on the driver's thread makes the client reconnect, and the session goes on."""
    locks = flavour.locks(server.url, ttl=TTL, on_event=diary)
    lease = locks.lock(door.name).acquire()

    stumbling = stumble(requests.Confirm, "serialize", ValueError("a defect"))
    eventually(lambda: not stumbling.times, what="it has stumbled")
    diary.until_renewed(3)

    lease.check()
    lease.release()


def test_a_heartbeat_that_fails_is_not_the_last_one(flavour, server, door, diary, stumble):
    locks = flavour.locks(server.url, ttl=TTL, on_event=diary)
    lease = locks.lock(door.name).acquire()
    session = getattr(locks, "_inner", locks)._client.backend._reading.session

    stumbling = stumble(session, "_end_min_holds", ValueError("a defect"))
    eventually(lambda: not stumbling.times, what="it has stumbled")
    diary.until_renewed(4)

    assert session._task.is_alive()
    lease.check()
    lease.release()


def test_a_full_table_of_files_is_an_outage_that_passes(flavour, server, door, stumble):
    """A full descriptor table is reported as an outage, and the next acquire works again."""
    locks = flavour.locks(server.url, ttl=TTL)
    stumble(driver._Handler, "create_socket_pair", FULL)

    with pytest.raises(BackendUnavailable, match="too many files open"):
        locks.lock(door.name).acquire(timeout=5)

    locks.lock(door.name).acquire(timeout=5).release()


def test_who_waits_connects_again_when_files_are_to_be_had(flavour, proxy, door, stumble):
    """A waiter that finds the descriptor table full for a while is still served in its turn."""
    lease = door.elsewhere(ttl=30).acquire()
    locks = flavour.locks(proxy.url, ttl=30)
    waiter = flavour.start(locks.lock(door.name).acquire, timeout=20)
    door.until([lease.token], 1)

    stumble(driver._Handler, "create_connection", FULL, times=3)
    proxy.reset()
    lease.release()

    assert waiter.result(10).token > lease.token


def test_a_background_that_was_cancelled_is_noticed_and_goes_on(flavour, server, door, diary):
    """A program may cancel the background task and go on; a thread cannot be cancelled."""
    locks = flavour.locks(server.url, ttl=TTL, on_event=diary)
    lease = locks.lock(door.name).acquire()
    session = getattr(locks, "_inner", locks)._client.backend._reading.session
    before = session._task

    if flavour.name == "async":
        flavour.call(before._task.cancel)
        eventually(lambda: session._task is not before, what="it goes on")
    diary.until_renewed(4)

    assert session._task.is_alive()
    lease.check()
    lease.release()
