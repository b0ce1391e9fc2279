"""The server's clock jumps, both ways, while locks are held."""

from __future__ import annotations

import pytest
from servers.redis_shifted_clock import ShiftedServer

from holdfast import StaleToken

HOUR = 3600.0


@pytest.fixture
def server():
    with ShiftedServer() as one:
        yield one


def test_the_shim_moves_the_clock(server):
    with server.client() as client:
        before, _ = client.time()
        server.shift_clock(HOUR)
        after, _ = client.time()

    assert HOUR <= after - before < HOUR + 10


@pytest.mark.parametrize("jump", [HOUR, 3 * 24 * HOUR], ids=["an hour", "three days"])
def test_a_clock_put_forward_ends_leases_and_they_are_told(flavour, server, guarded, jump):
    """To the server the ttl is over: the next one comes in. Its token is larger."""
    locks = flavour.locks(server.url, ttl=1.5)
    lock = locks.lock("door")
    lease = lock.acquire()
    guarded.write("door", lease.token)

    server.shift_clock(jump)
    successor = flavour.locks(server.url).lock("door").acquire(timeout=0)
    guarded.write("door", successor.token)

    assert lease.lost.wait(3)
    assert lease.lost.reason == "taken"
    with pytest.raises(StaleToken):
        guarded.write("door", lease.token)
    successor.check()


def test_tokens_grow_when_the_clock_is_put_right_again(flavour, server):
    """A day ahead and back: no token of that day is given twice."""
    locks = flavour.locks(server.url)
    lock = locks.lock("door")
    tokens = []
    for shift in (0.0, 24 * HOUR, 0.0, -HOUR, 0.0):
        server.shift_clock(shift)
        for _ in range(3):
            lease = lock.acquire(timeout=5)
            tokens.append(lease.token)
            lease.release()

    assert tokens == sorted(set(tokens))


def test_a_clock_put_back_costs_a_holder_nothing(flavour, server, diary, eventually):
    """Its deadline is further off than it was; it is renewed and released as before."""
    locks = flavour.locks(server.url, ttl=1.5, on_event=diary)
    lock = locks.lock("door")
    lease = lock.acquire()

    server.shift_clock(-HOUR)
    before = diary.count("Renewed")
    eventually(lambda: diary.count("Renewed") >= before + 2)

    lease.check()
    assert flavour.locks(server.url).lock("door").try_acquire() is None
    lease.release()
    assert diary.count("Lost") == 0


def test_a_clock_put_back_does_not_keep_a_dead_holders_lock(flavour, server, puppet, eventually):
    """It is free after the holder's ttl, and not after an hour more; the line goes on."""
    holder = puppet(flavour.name, server.url, ttl=1.2)
    token = holder.ask("acquire", "door")
    locks = flavour.locks(server.url)
    waiter = flavour.start(locks.lock("door").acquire, timeout=20)
    eventually(lambda: locks.inspect("door").line)
    holder.kill()

    server.shift_clock(-HOUR)

    assert waiter.result(5).token > token
