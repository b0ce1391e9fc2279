"""Waiters that are killed together, that are very many, or that are cut off in line."""

from __future__ import annotations

import asyncio
import contextvars
import time

import pytest

from lockfast import AsyncLocks, BackendUnavailable, OutcomeUnknown
from lockfast.core.door import ADMISSION_WINDOW_SECONDS

SLACK = 1.0
SOON = 1.5
"""Seconds; less than the time to the next heartbeat, which would make up for a missed wakeup."""


def test_twenty_waiters_killed_together_cost_one_window(flavour, server, puppet, eventually):
    """Law 10: twenty dead waiters of one client delay the line by one window, not by twenty."""
    locks = flavour.locks(server.url)
    lock = locks.lock("door")
    lease = lock.acquire()
    crowd = puppet(flavour.name, server.url)
    crowd.ask("let_many_wait", "door", 20)
    eventually(lambda: len(locks.inspect("door").line) == 20)
    alive = flavour.locks(server.url).lock("door")
    waiter = flavour.start(alive.acquire, timeout=20)
    eventually(lambda: len(locks.inspect("door").line) == 21)
    crowd.kill()

    released_at = flavour.clock.now()
    lease.release()

    assert waiter.result(20).token > lease.token
    assert flavour.clock.now() - released_at < ADMISSION_WINDOW_SECONDS + SLACK


@pytest.mark.parametrize("clients", [1, 4])
def test_a_thousand_waiters_are_served_in_order(server, clients):
    """Each of a thousand waiters is served once, alone, and in order of arrival."""
    served: list[int] = []
    tokens: list[int] = []
    arrived: list[int] = []

    async def work() -> None:
        opened = [AsyncLocks(server.url, ttl=60, request_timeout=20) for _ in range(clients)]
        first = await opened[0].lock("door").acquire()

        async def wait(number: int) -> None:
            async with opened[number % clients].lock("door") as lease:
                served.append(number)
                tokens.append(lease.token)

        tasks = []
        for batch in range(0, 1000, 1000 // clients):
            mine = range(batch // (1000 // clients), 1000, clients)
            # Use empty contexts, because child tasks of the holding task would draw a warning.
            tasks += [
                asyncio.create_task(wait(number), context=contextvars.Context()) for number in mine
            ]
            arrived.extend(mine)
            while len((await opened[0].inspect("door")).line) < len(tasks):  # noqa: ASYNC110
                await asyncio.sleep(0.01)  # the server notifies nobody when a claim joins
        await first.release()
        await asyncio.gather(*tasks)
        for one in opened:
            await one.aclose()

    asyncio.run(work())

    assert served == arrived
    assert tokens == sorted(set(tokens))


@pytest.fixture
def held_before_two(flavour, server, proxy, line, eventually):
    """A lease, a waiter that connects through the proxy, and a second waiter behind the first."""
    lease = flavour.locks(server.url).lock("door").acquire()
    cut_off = flavour.start(flavour.locks(proxy.url).lock("door").acquire, timeout=20)
    eventually(lambda: line("door")[1] == 1)
    behind = flavour.start(flavour.locks(server.url).lock("door").acquire, timeout=20)
    eventually(lambda: line("door")[1] == 2)
    return lease, cut_off, behind


def test_a_waiter_whose_connection_is_reset_keeps_its_place(
    held_before_two, proxy, line, eventually
):
    """A waiter that reconnects keeps its claim, and so stays ahead of later waiters."""
    lease, cut_off, behind = held_before_two

    proxy.reset()
    eventually(lambda: proxy.connections > 0)
    lease.release()
    first = cut_off.result(20)

    assert not behind.done()
    assert line("door")[1] == 1
    first.release()
    assert behind.result(20).token > first.token > lease.token


def test_a_ring_that_nobody_heard_is_made_up_for(held_before_two, proxy, line):
    """A waiter that missed its wakeup while cut off asks again as soon as it reconnects."""
    lease, cut_off, behind = held_before_two

    proxy.refuse()
    lease.release()
    assert line("door")[1] == 1
    proxy.accept()
    first = cut_off.result(SOON)

    assert not behind.done()
    first.release()
    assert behind.result(20).token > first.token


def test_who_has_waited_longer_than_its_ttl_keeps_its_turn(flavour, server, eventually):
    """A wakeup that comes too late to be trusted still makes the waiter ask in its turn."""
    locks = flavour.locks(server.url)
    lease = locks.lock("door").acquire()
    waiting = []
    for number, ttl in enumerate((0.3, 30.0), 1):
        lock = flavour.locks(server.url, ttl=ttl).lock("door", renew=False)
        waiting.append(flavour.start(lock.acquire, timeout=20))
        eventually(lambda n=number: len(locks.inspect("door").line) == n)
    time.sleep(0.6)  # longer than the ttl, shorter than the window

    lease.release()

    assert waiting[0].result(20).token < waiting[1].result(20).token


def test_an_inbox_that_is_lost_is_opened_again(flavour, server, eventually):
    """A waiter whose subscription is killed just before a release is still woken soon."""
    client = server.client()
    locks = flavour.locks(server.url)
    lock = locks.lock("door")
    lease = lock.acquire()
    waiter = flavour.start(flavour.locks(server.url).lock("door").acquire, timeout=20)
    eventually(lambda: client.pubsub_channels("lockfast:inbox:*"))
    eventually(lambda: locks.inspect("door").line)

    assert client.client_kill_filter(_type="pubsub", skipme=True) == 1
    lease.release()

    assert waiter.result(SOON).token > lease.token
    client.close()


def test_a_message_that_cannot_be_read_ends_no_inbox(flavour, server, eventually):
    """An inbox that receives unreadable messages still delivers the next wakeup."""
    locks = flavour.locks(server.url)
    lock = locks.lock("door")
    lease = lock.acquire()
    waiter = flavour.start(flavour.locks(server.url).lock("door").acquire, timeout=20)
    with server.client() as client:
        eventually(lambda: client.pubsub_channels("lockfast:inbox:*"))
        [before] = client.pubsub_channels("lockfast:inbox:*")

        for message in (b"what is this?", b"*", b"*\xff", b"a b", b""):
            client.publish(before, message)

        lease.release()
        assert waiter.result(SOON).token > lease.token
        assert client.pubsub_channels("lockfast:inbox:*") == [before]


def test_a_waiter_cut_off_to_its_end_is_told_in_time_and_withdrawn_later(
    flavour, server, proxy, line, eventually
):
    """Law 8: a waiter that is cut off times out by its own clock, and is withdrawn later."""
    locks = flavour.locks(server.url)
    lock = locks.lock("door")
    lease = lock.acquire()
    hurried = flavour.locks(proxy.url, request_timeout=0.5)
    cut_off = flavour.start(hurried.lock("door").acquire, timeout=1.0)
    eventually(lambda: line("door")[1] == 1)
    behind = flavour.start(flavour.locks(server.url).lock("door").acquire, timeout=20)
    eventually(lambda: line("door")[1] == 2)

    proxy.refuse()
    asked_at = flavour.clock.now()
    with pytest.raises((OutcomeUnknown, BackendUnavailable)):
        cut_off.result(10)
    waited = flavour.clock.now() - asked_at
    proxy.accept()
    eventually(lambda: line("door")[1] == 1)
    lease.release()

    assert waited < 1.0 + 0.5 + SLACK
    assert behind.result(SLACK).token > lease.token


def test_those_who_wait_through_one_client_are_each_woken(flavour, server, eventually):
    """When the waiter that reads for its client leaves, another waiter goes on reading."""
    holders = flavour.locks(server.url)
    names = [f"door {number}" for number in range(8)]
    leases = {name: holders.lock(name).acquire() for name in names}
    locks = flavour.locks(server.url)
    waiting = {name: flavour.start(locks.lock(name).acquire, timeout=30) for name in names}
    eventually(lambda: all(holders.inspect(name).line for name in names))

    for name in [*names[::2], *names[1::2]]:
        released_at = flavour.clock.now()
        leases[name].release()
        waiting[name].result(20)
        assert flavour.clock.now() - released_at < SOON


@pytest.mark.parametrize("renew", [True, False])
def test_a_lease_by_message_becomes_a_full_one(flavour, server, diary, eventually, renew):
    """A lease granted by message is trusted for one window, until a renewal extends it."""
    locks = flavour.locks(server.url)
    lock = flavour.locks(server.url, on_event=diary).lock("door", ttl=30, renew=renew)

    def hand_over():
        held = locks.lock("door").acquire()
        waiter = flavour.start(lock.acquire, timeout=20)
        eventually(lambda: len(locks.inspect("door").line) == 1)
        held.release()
        return waiter.result(20)

    hand_over().release()  # opens the inbox of the waiting client
    before = diary.count("Renewed")

    lease = hand_over()
    at_first = lease.remaining
    eventually(lambda: diary.count("Renewed") > before)

    assert at_first <= ADMISSION_WINDOW_SECONDS
    assert lease.remaining > ADMISSION_WINDOW_SECONDS
    assert lease.is_trusted
    lease.release()
