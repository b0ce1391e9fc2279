"""Members of a store with sessions that are killed or restarted, and a lost quorum."""

from __future__ import annotations

from typing import ClassVar

import pytest

from lockfast import BackendUnavailable, OutcomeUnknown
from lockfast_challenge.processes import eventually

SLACK = 5.0
"""How late an event may be noticed on a busy machine, in seconds."""


class QuorumFaults:
    """Faults of the `members`, a group of three, and their effect on holders and waiters."""

    long: ClassVar[float]
    """A ttl so long that the third of it that is always left outlasts an election."""

    short: ClassVar[float]
    """A ttl that ends while there is no quorum."""

    election: ClassVar[float]
    """Time in which a new leader is elected and followed, on a busy machine too."""

    free_after: ClassVar[float] = 1
    """Ttls from a session's last keep-alive until its names are free, not counting an election."""

    def test_a_leader_that_is_killed_costs_no_lease(self, scenes, members):
        """The session outlives its leader: holder and waiter stay as they are."""
        for one in scenes:
            one.hold(members.url, ttl=self.long)
            one.wait_behind(members.url, ttl=self.long)

        members.leader().kill()
        members.leader()

        assert all(one.is_passed_on() for one in scenes)

    def test_a_quorum_lost_and_back_costs_no_lease_with_a_long_ttl(self, scenes, members):
        """The lease is at risk without a leader, and then renewed; the line is unchanged."""
        for one in scenes:
            one.hold(members.url, ttl=self.long)
            one.wait_behind(members.url, ttl=self.long)

        for one in members.followers():
            one.kill()
        for one in scenes:
            one.diary.time_of("AtRisk")
        members.heal()
        for one in scenes:
            one.diary.time_of("SafeAgain")

        assert all(one.is_passed_on() for one in scenes)
        assert not any(one.diary.count("Lost") for one in scenes)

    def test_a_quorum_lost_longer_than_the_ttl_ends_the_lease_and_lets_nobody_in(
        self, scenes, members
    ):
        """The holder loses the lease by its own clock; the name is free within the session time."""
        ttl = self.short
        others = []
        for one in scenes:
            one.hold(members.url, ttl=ttl)
            patient = one.flavour.locks(members.url, ttl=ttl, request_timeout=20.0)
            others.append(patient.lock(one.name))
            assert others[-1].try_acquire() is None
            one.flavour.give_up_after(0.3)

        for one in members.followers():
            one.kill()
        killed_at = scenes[0].flavour.clock.now()
        for one, other in zip(scenes, others, strict=True):
            assert one.lease.lost.wait(ttl + SLACK)
            with pytest.raises((BackendUnavailable, OutcomeUnknown)):
                other.acquire(timeout=0.3)
        members.heal()

        for one, other in zip(scenes, others, strict=True):
            assert one.diary.time_of("Lost") < killed_at + ttl + SLACK
            one.flavour.give_up_after(2.0)
            assert (
                other.acquire(timeout=self.free_after * ttl + self.election).token > one.lease.token
            )

    def test_a_lease_held_through_a_rolling_restart_is_never_lost(self, scenes, members):
        """Every member is restarted in turn, the leader last; the ttl outlasts each election."""
        for one in scenes:
            one.hold(members.url, ttl=self.long)
            one.wait_behind(members.url, ttl=self.long)

        for member in [*members.followers(), members.leader()]:
            member.kill()
            member.start()
            members.until_whole()
            for one in scenes:
                one.lease.check()
        for one in scenes:
            # Renew here, because the watchdog's renewal may be due only after a third of a long
            # ttl.
            eventually(one.renews, what="it is renewed")

        assert all(one.is_passed_on() for one in scenes)
