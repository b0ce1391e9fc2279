"""Notifications reach listeners and waiters, and the end of the connection is noticed."""

from __future__ import annotations

import os

import pytest

from lockfast import BackendUnavailable
from lockfast.backends.postgresql import connection_aio, connection_threads
from lockfast.backends.waiting import NotificationsUnavailable
from lockfast.runtime import aio as runtime_of_tasks
from lockfast.runtime import threads as runtime_of_threads
from lockfast_challenge.processes import eventually

PATIENCE = 20.0


@pytest.fixture
def channel() -> str:
    return f"lockfast_{os.urandom(6).hex()}"


@pytest.fixture
def heard() -> list[str]:
    return []


@pytest.fixture
def subscription(transport, channel, heard):
    """A subscription in the flavour of the transport, proven to receive notifications."""
    one = transport.subscribe(channel, heard.append)
    yield one
    transport.flavour.call(one.close)


def listening(transport, subscription, seconds: float = PATIENCE) -> bool:
    return transport.flavour.call(
        subscription.listen, until=transport.flavour.clock.now() + seconds
    )


def test_what_others_notify_is_heard_in_order_and_the_proof_is_not_told(
    transport, server, channel, heard, subscription
) -> None:
    with server.connect() as other:
        for i in range(5):
            other.execute("SELECT pg_notify(%s, %s)", (channel, f"ring {i}"))
        other.execute("SELECT pg_notify(%s, 'not for us')", (f"{channel}x",))

    def is_all_heard() -> bool:
        listening(transport, subscription, 0.05)
        return len(heard) >= 5

    eventually(is_all_heard)

    assert heard == [f"ring {i}" for i in range(5)]


def test_an_interrupt_ends_the_listening(transport, subscription) -> None:
    asked = transport.flavour.start(listening, transport, subscription)
    interrupts = 0
    while not asked.done():
        transport.flavour.call(subscription.interrupt)
        interrupts += 1

    assert asked.result() is True
    assert interrupts


def test_whoever_waits_is_woken_by_what_it_hears(transport, channel, server) -> None:
    """A waiting thread reads the notifications itself; for tasks, the event loop reads them."""
    is_sync = transport.flavour.name == "sync"
    made = transport.flavour.call((runtime_of_threads if is_sync else runtime_of_tasks).WakeEvent)
    event = getattr(made, "_inner", made)
    one = transport.subscribe(channel, lambda _: event.set())
    deadline = transport.flavour.clock.now() + PATIENCE
    waiting = transport.flavour.start(
        transport.flavour.call, one.wait_for_event, event, deadline=deadline
    )
    server.run("SELECT pg_notify(%s, 'ring')", channel)

    waiting.result()

    assert event.is_set()
    transport.flavour.call(one.close)


def test_the_end_of_its_connection_is_seen(transport, server, channel, subscription) -> None:
    """Waiters have to ask again after the connection ends, since notifications may be lost."""
    asked = transport.flavour.start(listening, transport, subscription)
    assert server.terminate(f"strpos(query, '{channel}') > 0 AND strpos(query, 'LISTEN') > 0") == 1

    assert asked.result() is False


def test_nothing_is_left_when_it_is_closed(transport, server, channel) -> None:
    one = transport.subscribe(channel, print)
    query = f"SELECT count(*) FROM pg_stat_activity WHERE strpos(query, 'LISTEN \"{channel}') > 0"
    with server.connect() as other:
        assert other.execute(query + " AND pid <> pg_backend_pid()").fetchone() == (1,)
        transport.flavour.call(one.close)

        eventually(lambda: other.execute(query + " AND pid <> pg_backend_pid()").fetchone() == (0,))


def test_a_session_that_ends_before_the_proof_comes_is_not_taken_for_a_pooler(
    transport, server, channel, monkeypatch
) -> None:
    """Otherwise the claims would poll for a minute before they subscribe again."""
    listens = f"strpos(query, 'LISTEN \"{channel}\"') > 0 AND pid <> pg_backend_pid()"
    end = f"SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE {listens}"
    ended = []

    def end_the_session(*_: object, **__: object) -> None:
        ended.extend(server.run(end))

    async def end_it_async(*_: object, **__: object) -> None:
        end_the_session()

    # The session ends at the moment when the proof would be sent.
    is_sync = transport.flavour.name == "sync"
    monkeypatch.setattr(transport.inner, "ask", end_the_session if is_sync else end_it_async)
    for module in (connection_aio, connection_threads):
        monkeypatch.setattr(module, "PROOF_TIMEOUT_SECONDS", PATIENCE)

    with pytest.raises(BackendUnavailable, match="cannot be reached") as refused:
        transport.subscribe(channel, print)

    assert ended == [(True,)]
    assert not isinstance(refused.value, NotificationsUnavailable)
