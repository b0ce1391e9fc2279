"""What a jump of the server's clock does in stores where that clock ends leases."""

from __future__ import annotations

from typing import Any

import pytest
from guarded import Guarded

from lockfast import StaleToken
from lockfast_challenge.processes import eventually

HOUR = 3600.0

TTL = 6.0
"""Longer than a busy machine stalls; leases are renewed after a third of this time."""


class ClockJumps:
    """`server`, at `url`, has a clock that can be set; `server_time` returns the server's time."""

    @pytest.fixture(autouse=True)
    def _in_step(self, server):
        """Set the clock right, because another test may have set it: the server may be shared."""
        server.shift_clock(0.0)

    def test_the_shim_moves_the_clock(self, server, server_time):
        before = server_time()
        server.shift_clock(HOUR)
        after = server_time()

        assert HOUR <= after - before < HOUR + 60

    @pytest.mark.parametrize("jump", [HOUR, 3 * 24 * HOUR], ids=["an hour", "three days"])
    def test_a_clock_put_forward_ends_leases_and_they_are_told(
        self, flavour, server, url, name, jump
    ):
        """For the server the ttl is over: the next client gets the lock, with a larger token."""
        locks, guarded = flavour.locks(url, ttl=TTL), Guarded()
        lock = locks.lock(name)
        lease = lock.acquire()
        guarded.write(name, lease.token)

        server.shift_clock(jump)
        successor = flavour.locks(url).lock(name).acquire(timeout=0)
        guarded.write(name, successor.token)

        assert lease.lost.wait(TTL)
        assert lease.lost.reason == "taken"
        with pytest.raises(StaleToken):
            guarded.write(name, lease.token)
        successor.check()

    def test_tokens_grow_when_the_clock_is_put_right_again(self, flavour, server, url, name):
        """The clock is a day ahead and then right again: no token of that day is issued twice."""
        lock = flavour.locks(url).lock(name)
        tokens = []
        for shift in (0.0, 24 * HOUR, 0.0, -HOUR, 0.0):
            server.shift_clock(shift)
            for _ in range(3):
                lease = lock.acquire(timeout=20)
                tokens.append(lease.token)
                lease.release()

        assert tokens == sorted(set(tokens))

    def test_a_clock_put_back_costs_a_holder_nothing(self, flavour, server, url, name, diary):
        """The lease is renewed and released as before, and the next client is let in at once."""
        locks = flavour.locks(url, ttl=TTL, on_event=diary)
        lock = locks.lock(name)
        lease = lock.acquire()
        other: Any = flavour.locks(url).lock(name)

        server.shift_clock(-HOUR)
        before = diary.count("Renewed")
        eventually(lambda: diary.count("Renewed") >= before + 2)

        lease.check()
        assert other.try_acquire() is None
        lease.release()
        assert diary.count("Lost") == 0
        assert other.acquire(timeout=0).token > lease.token


class SqlClockJumps(ClockJumps):
    """Clock jumps for SQL stores; tests also what the stores' pages say they do not guarantee."""

    def test_a_clock_put_back_keeps_a_dead_holders_lock_until_somebody_breaks_it(
        self, flavour, server, url, name, puppet
    ):
        holder = puppet(flavour.name, url, ttl=60)
        token = holder.ask("acquire", name)
        holder.kill()

        server.shift_clock(-HOUR)

        locks = flavour.locks(url)
        assert locks.inspect(name).holders[0].remaining > HOUR - 60
        assert [one.token for one in locks.break_(name)] == [token]
        assert locks.lock(name).acquire(timeout=0).token > token
