"""A server that is flushed, or killed and restarted with or without its data."""

from __future__ import annotations

import pytest
from both_flavours import number_waiting

from lockfast import LeaseLost, StaleToken
from lockfast_challenge.servers.redis import RedisServer

SLACK = 0.5


def test_a_restart_with_its_data_costs_nothing(flavour, diary, eventually):
    """After a restart from an append-only file, leases are renewed and the line is unchanged."""
    # Use `always`: with `everysec`, a write that is not on disk yet would be lost in the kill.
    with RedisServer("--appendonly", "yes", "--appendfsync", "always") as server:
        locks = flavour.locks(server.url, ttl=9.0, on_event=diary)
        lock = locks.lock("door")
        lease = lock.acquire()
        lines = [flavour.locks(server.url, ttl=9.0).lock("door") for _ in range(2)]
        waiters = []
        for number, one in enumerate(lines, 1):
            waiters.append(flavour.start(one.acquire, timeout=90))
            eventually(lambda n=number: len(locks.inspect("door").line) == n)

        server.kill()
        server.start()
        before = diary.count("Renewed")
        eventually(lambda: diary.count("Renewed") > before)
        eventually(lambda: len(locks.inspect("door").line) == 2, despite=(Exception,))

        lease.check()
        assert not any(one.done() for one in waiters)
        lease.release()
        first = waiters[0].result(90)
        assert not waiters[1].done()
        first.release()
        second = waiters[1].result(90)
        assert lease.token < first.token < second.token


def _restart(server: RedisServer) -> None:
    server.kill()
    server.start()


def _flush(server: RedisServer) -> None:
    with server.client() as client:
        client.flushall()


@pytest.mark.parametrize("forget", [_restart, _flush], ids=["restart", "FLUSHALL"])
def test_a_server_that_forgets_costs_the_lease_and_no_token(
    flavour, server, guarded, forget, diary
):
    """Two clients may trust their leases for a while, but the resource refuses stale writes."""
    locks = flavour.locks(server.url, ttl=1.5, on_event=diary)
    lock = locks.lock("door")
    lease = lock.acquire()
    guarded.write("door", lease.token)

    forget(server)
    successor = flavour.locks(server.url).lock("door").acquire(timeout=0)
    guarded.write("door", successor.token)

    assert lease.lost.wait(20)
    assert lease.lost.reason == "taken"
    assert diary.time_of("Lost") < lease._hold.until + SLACK
    assert successor.token > lease.token
    with pytest.raises(LeaseLost):
        lease.release()
    with pytest.raises(StaleToken):
        guarded.write("door", lease.token)
    successor.check()


@pytest.mark.parametrize("forget", [_restart, _flush], ids=["restart", "FLUSHALL"])
def test_those_who_wait_at_a_server_that_forgets_join_again(flavour, server, forget, eventually):
    """Waiters whose line was lost notice within a heartbeat, and join the new line."""
    locks = flavour.locks(server.url)
    lock = locks.lock("door", renew=False)
    lease = lock.acquire()
    waiting = flavour.locks(server.url).lock("door")
    waiter = flavour.start(waiting.acquire, timeout=20)
    eventually(lambda: locks.inspect("door").line)

    forget(server)

    assert waiter.result(20).token > lease.token


def test_a_server_that_forgets_its_scripts_is_told_them_again(flavour, server, diary, eventually):
    """After SCRIPT FLUSH every verb reloads its script, without an error or an extra event."""
    locks = flavour.locks(server.url, on_event=diary)
    client = server.client()
    client.script_flush()
    lock = locks.lock("door")
    lease = lock.acquire()

    client.script_flush()
    lease.renew()
    waiting = flavour.locks(server.url)
    waiter = flavour.start(waiting.lock("door").acquire, timeout=20)
    # Wait until the client has its reply, not only a place in line, so that each flush hits a
    # different verb.
    eventually(lambda: number_waiting(waiting))
    client.script_flush()
    assert len(locks.inspect("door").holders) == 1
    client.script_flush()
    lease.release()
    following = waiter.result(20)
    client.script_flush()
    assert [one.token for one in locks.break_("door")] == [following.token]

    assert following.token > lease.token
    eventually(lambda: diary.kinds() == ["Acquired", "Renewed", "Released"])
    client.close()
