"""An interrupt at every place of a sync cycle: nothing is left behind, and nobody else pays."""

from __future__ import annotations

from interrupting import Interrupt, interrupt, places

from holdfast import Locks
from holdfast.challenge.eventually import eventually

TTL = 60.0


def test_an_interrupt_anywhere_costs_nobody_a_lease(url, name):
    """The session is one for all locks of the client, and outlives every interrupt."""
    with (
        Locks(url, ttl=TTL, request_timeout=10.0) as locks,
        Locks(url, ttl=TTL, request_timeout=10.0) as other,
    ):
        mine = locks.lock(f"{name} mine").acquire()
        session = locks._client.backend._session

        def cycle() -> None:
            with locks.lock(name):
                pass

        def is_free() -> bool:
            with_lease = other.lock(name).try_acquire()
            if with_lease is not None:
                with_lease.release()
            return with_lease is not None

        cycle()
        for number in range(1, places(cycle) + 1):
            try:
                where = interrupt(cycle, at=number)
            except Interrupt:
                where = "raised"
            eventually(is_free, what=f"nothing is left behind by an interrupt at {where}")

        mine.check()
        assert locks._client.backend._session is session
        mine.release()
