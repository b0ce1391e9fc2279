"""A machine that cannot start a thread, or starts it late: the client leaves nothing behind."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from lockfast import BackendUnavailable
from lockfast.runtime import threads
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.proxy import Proxy

LONG = 300
"""A ttl in seconds, longer than any test: what is gone earlier was ended by its client."""


@pytest.fixture
def spare(monkeypatch):
    """Return a function that limits how many threads can start; None removes the limit."""
    spawn = threads.spawn

    def spare(number: int | None) -> None:
        left = count() if number is None else iter(range(number))

        def spawn_if_any(*arguments: Any, **options: Any) -> Any:
            if next(left, None) is None:
                raise RuntimeError("can't start new thread")
            return spawn(*arguments, **options)

        monkeypatch.setattr(threads, "spawn", spawn_if_any)

    return spare


@pytest.fixture
def proxy(server):
    with Proxy(server.port, scheme="etcd") as proxy:
        yield proxy


@pytest.fixture
def sessions(server, namespace):
    """Return a function that lists the sessions that the server keeps."""
    return lambda: server.keys(f"{namespace}/s/")


@pytest.fixture
def locks(flavour, proxy, namespace):
    return flavour.locks(proxy.url, namespace=namespace, ttl=LONG)


@pytest.mark.parametrize("flavour", ["sync"], indirect=True)
@pytest.mark.parametrize("spared", [0, 1], ids=["for the watch", "for the heartbeats"])
def test_none_for_a_session_that_opens(locks, proxy, sessions, spare, spared):
    """If a session gets no thread, its lease is revoked, and no thread or connection is left."""
    spare(spared)
    with pytest.raises(BackendUnavailable, match="thread"):
        locks.lock("door").try_acquire()

    eventually(lambda: not sessions(), what="its lease is given back")
    eventually(lambda: proxy.connections == 0, what="all connections are closed")
    spare(None)
    locks.lock("door").acquire(timeout=20).release()


@pytest.mark.parametrize("flavour", ["sync"], indirect=True)
def test_none_to_part_from_the_session_before(flavour, locks, sessions, spare):
    """Without a thread for it, the caller closes the old session itself and still gets its lock."""
    locks.lock("door").acquire(timeout=20).release()
    [before] = sessions()

    spare(2)  # one for the watch, one for keep-alives
    backend = locks._client.backend
    opened = backend._opened(LONG + 1, flavour.clock.now() + 20)
    spare(None)

    assert opened.session.asked == LONG + 1
    eventually(lambda: before not in sessions(), what="the one before is over")


@pytest.mark.parametrize("flavour", ["sync"], indirect=True)
def test_one_that_begins_only_when_the_client_closes(locks, proxy, monkeypatch):
    """A busy machine may start the thread of the watch late; closing leaves no connection open."""
    spawn = threads.spawn

    def spawn_late(function: Any, *, name: str) -> Any:
        def begin_late() -> None:
            [run] = function.args
            run.stopping.wait()
            function()

        return spawn(begin_late if name == "lockfast-watch" else function, name=name)

    monkeypatch.setattr(threads, "spawn", spawn_late)
    locks.lock("door").acquire(timeout=20)

    locks.close()

    eventually(lambda: proxy.connections == 0, what="all connections are closed")
