# Generated from src/lockfast/testing/_async/contract/loss.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Law 7: the holder is notified of a loss."""

from __future__ import annotations

from typing import Any

import pytest

from lockfast.errors import LeaseLost
from lockfast.testing._sync.contract.subject import Recorder, Trials


class LawsOfLoss(Trials):
    """The law about losing a lease, and about keeping a lease until then."""

    def test_law_07_the_holder_is_notified_at_its_own_deadline(self) -> None:
        """If the store does not answer, the lease is at risk, and then lost, by the local clock."""

        def lose_the_store(name: str, ttl: float) -> None:
            recorder = Recorder()
            locks, backend = self.faulty(on_event=recorder, ttl=ttl)
            lease = locks.lock(name).acquire()
            started = self.clock.now()
            backend.go_away()

            assert lease.lost.wait(ttl + self.slack)

            assert self.clock.now() - started <= ttl + self.slack
            assert lease.lost.reason == "expired"
            self.until(lambda: "Lost" in recorder.kinds())
            assert recorder.kinds()[-2:] == ["AtRisk", "Lost"]
            with pytest.raises(LeaseLost):
                lease.check()
            backend.come_back()

        self.undisturbed(lose_the_store, ttl=4 * self.ttl)

    def test_law_07_leaving_the_block_raises(self) -> None:
        """If a body ends after the loss of its lease, LeaseLost is raised, even without a check."""
        with pytest.raises(LeaseLost) as caught:
            with self.locks(ttl=self.ttl).lock("door", renew=False).acquire():
                self.pass_ttl()

        assert caught.value.reason == "expired"

    def test_law_07_the_bodys_own_exception_wins(self) -> None:
        """If the body raises an error, the error is passed on, with a note about the loss."""
        with pytest.raises(KeyError) as caught:  # noqa: PT012 - the block is the subject
            lock = self.locks(ttl=self.ttl).lock("door", renew=False)
            with lock.acquire() as lease:
                try:
                    self.pass_ttl()
                finally:
                    assert not lease.is_trusted
                    raise KeyError("mine")

        assert any("lost" in note for note in caught.value.__notes__)

    def test_law_07_a_broken_holder_is_notified_at_its_next_renewal(self) -> None:
        """An operator's break reaches the holder within a third of the ttl."""
        operator = self.locks()
        operator.inspect("door")  # connect first, which may take longer than the ttl

        def be_broken(name: str, ttl: float) -> None:
            reported: list[Any] = []
            lease = self.locks(ttl=ttl).lock(name, on_lost=reported.append).acquire()

            broken = operator.break_(name)

            assert len(broken) == 1
            assert lease.lost.wait(ttl + self.slack)
            assert lease.lost.reason == "broken"
            self.until(lambda: reported == [lease])

        self.undisturbed(be_broken, ttl=2 * self.ttl)

    def test_law_07_a_broken_holder_that_releases_learns_of_the_break(self) -> None:
        """A release after a break reports the break and not an expiry, even without a renewal."""
        lease = self.locks().lock("door").acquire()
        self.locks().break_("door")

        with pytest.raises(LeaseLost) as reported:
            lease.release()

        assert reported.value.reason == lease.lost.reason == "broken"

    def test_law_07_a_lease_is_renewed_while_its_holder_lives(self) -> None:
        """As long as its holder lives, a lease is renewed, and outlasts several ttls."""
        other = self.locks()
        other.inspect("door")  # connect first, which may take longer than the ttl

        def live_on(name: str, ttl: float) -> None:
            recorder = Recorder()
            locks = self.locks(on_event=recorder, ttl=ttl)
            with locks.lock(name) as lease:
                self.pass_time(ttl * 1.5)
                # On a slow machine, renewals are later and fewer, which is fine.
                self.until(lambda: recorder.kinds().count("Renewed") >= 3)
                assert lease.is_trusted
                # Allow a short time, because the machine may have stalled just before this check.
                self.until(lambda: not lease.is_at_risk, within=ttl / 6)
                assert other.lock(name).try_acquire() is None

            self.until(lambda: "Released" in recorder.kinds())
            assert "Lost" not in recorder.kinds()

        self.undisturbed(live_on, ttl=3 * self.ttl)
