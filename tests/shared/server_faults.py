"""Faults of the server itself: shut down, killed or frozen, and then back."""

from __future__ import annotations

import pytest

from lockfast import LeaseLost, OutcomeUnknown
from lockfast_challenge.processes import eventually

SLACK = 1.5


class ServerFaults:
    """Server faults, for a SQL store, which keeps everything that it has committed."""

    @pytest.mark.parametrize("ending", ["kill", "shut_down"])
    def test_a_server_that_is_back_before_the_ttl_has_forgotten_nothing(
        self, scenes, server, url, ending
    ):
        """Whatever was committed is there: leases are renewed, and waiters keep their places."""
        for scene in scenes:
            scene.hold(url, ttl=12)
            scene.wait_behind(url)

        getattr(server, ending)()
        server.start()

        for scene in scenes:
            assert scene.waiting() == 1
            assert scene.is_passed_on()

    def test_a_short_freeze_of_the_server_costs_nothing(self, flavour, server, door, diary):
        """After a freeze shorter than the ttl, the lease is renewed; waiters keep their places."""
        lock = door.elsewhere(ttl=6, on_event=diary)
        lease = lock.acquire()
        waiter = door.wait_behind()
        door.until([lease.token], 1)
        flavour.give_up_after(0.3)

        server.pause()
        eventually(lambda: "AtRisk" in diary.kinds())
        server.resume()
        eventually(lambda: diary.kinds()[-1] == "Renewed")

        lease.check()
        assert not waiter.done()
        lease.release()
        assert waiter.result(10).token > lease.token

    def test_a_frozen_server_costs_the_lease_and_leaves_nothing_behind(
        self, flavour, server, door, diary
    ):
        """The holder is at risk, then lost by its own clock; requests sent meanwhile are undone."""
        name, lock = door.name, door.elsewhere(ttl=1.5, on_event=diary)
        lease = lock.acquire()
        hurried = door.locks()
        hurried.lock(f"{name} warm").acquire().release()
        flavour.give_up_after(0.2)

        server.pause()
        with pytest.raises(OutcomeUnknown):
            hurried.lock(f"{name} window", ttl=60).acquire(timeout=0.1)
        assert lease.lost.wait(10)

        assert lease.lost.reason == "expired"
        assert diary.time_of("AtRisk") < diary.time_of("Lost") <= lease._hold.until + SLACK
        with pytest.raises(LeaseLost):
            lease.release()
        server.resume()
        patient = door.locks()
        eventually(lambda: not patient.inspect(f"{name} window").is_in_use)
        eventually(lambda: not patient.inspect(name).is_in_use)
        assert patient.lock(f"{name} window").acquire(timeout=20).token > 0
        assert patient.lock(name).acquire(timeout=20).token > lease.token
