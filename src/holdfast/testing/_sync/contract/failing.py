# Generated from src/holdfast/testing/_async/contract/failing.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Laws 6 to 11: what remains when something fails."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.door import WINDOW
from holdfast.errors import (
    AcquireTimeout,
    BackendError,
    BackendUnavailable,
    LeaseLost,
    LockError,
    NotAcquired,
    NotOwner,
    OutcomeUnknown,
)
from holdfast.model import Grant
from holdfast.testing import threads as runner
from holdfast.testing._sync.contract.subject import Recorder, requires
from holdfast.testing._sync.contract.trials import Trials


class LawsOfFailing(Trials):
    """The laws about failing."""

    # -- Law 6: a failed acquire leaves nothing behind -----------------------------------

    def test_law_06_a_timeout_leaves_nothing_behind(self) -> None:
        """Who stops waiting stands in no line."""
        holder = self.locks()
        lease = holder.lock("door", ttl=self.long_ttl).acquire()

        with pytest.raises(AcquireTimeout) as caught:
            self.locks().lock("door").acquire(timeout=0.05)

        assert caught.value.waited >= 0.049
        assert holder.inspect("door").line == ()
        lease.release()
        self.assert_free("door", within=0.0)

    def test_law_06_a_lost_reply_is_asked_again(self) -> None:
        """One lost reply costs a round trip and no error."""
        locks, backend = self.faulty()
        backend.lose_reply("try_acquire")

        lease = locks.lock("door").acquire()

        assert lease.is_trusted
        assert backend.calls["try_acquire"] == 2
        lease.release()
        self.assert_free("door", within=0.0)

    def test_law_06_lost_replies_leave_nothing_behind(self) -> None:
        """The store granted, nobody heard it, and the claim is withdrawn."""
        locks, backend = self.faulty()
        backend.lose_reply("try_acquire", times=2)

        with pytest.raises(LockError):
            locks.lock("door", ttl=self.long_ttl).acquire(timeout=5)

        self.assert_free("door", within=0.0)

    def test_law_06_the_withdrawal_goes_on_in_the_background(self) -> None:
        """A store that does not even answer the withdrawal hears of it again."""
        locks, backend = self.faulty()
        backend.lose_reply("try_acquire", times=2)
        backend.lose_request("withdraw", times=2)

        with pytest.raises(LockError):
            locks.lock("door", ttl=self.long_ttl).acquire(timeout=5)

        self.assert_free("door")

    def test_law_06_a_request_that_arrives_late_gets_nothing(self) -> None:
        """The network may deliver an acquire after its withdrawal."""
        locks, backend = self.faulty()
        backend.deliver_late("try_acquire", times=2)
        with pytest.raises(LockError):
            locks.lock("door", ttl=self.long_ttl).acquire(timeout=5)

        backend.deliver()

        self.assert_free("door", within=0.0)
        assert self.locks().lock("door").try_acquire() is not None

    def test_law_06_a_late_repeat_after_the_release_gets_nothing(self) -> None:
        """The first request was slow, its repeat was granted and released."""
        locks, backend = self.faulty()
        backend.deliver_late("try_acquire")
        lease = locks.lock("door", ttl=self.long_ttl).acquire()
        lease.release()

        backend.deliver()

        self.assert_free("door", within=0.0)

    def test_law_06_a_failed_release_can_be_tried_again(self) -> None:
        """The handle is ours until the store has answered."""
        locks, backend = self.faulty()
        lease = locks.lock("door", ttl=self.long_ttl).acquire()
        backend.go_away()
        with pytest.raises(BackendUnavailable):
            lease.release()

        backend.come_back()
        lease.release()

        self.assert_free("door", within=0.0)
        with pytest.raises(NotOwner):
            lease.release()

    def test_law_06_a_release_whose_reply_was_lost_is_clean(self) -> None:
        """Sent while trusted, executed, unanswered: the repeat finds nothing, and that is well."""
        locks, backend = self.faulty()
        lease = locks.lock("door", ttl=self.long_ttl).acquire()
        backend.lose_reply("release")
        with pytest.raises(OutcomeUnknown):
            lease.release()

        lease.release()

        self.assert_free("door", within=0.0)

    def test_law_06_a_lease_whose_release_was_not_answered_is_not_trusted(self) -> None:
        """The name may be somebody else's by now, and soon it is free whoever asks."""
        locks, backend = self.faulty()
        lease = locks.lock("door").acquire()
        backend.lose_request("release")
        with pytest.raises(OutcomeUnknown):
            lease.release()

        assert not lease.is_trusted
        assert lease.remaining == 0.0
        with pytest.raises(NotOwner):
            lease.check()
        self.assert_free("door")

    def test_law_06_a_failed_release_by_the_lock_can_be_tried_again(self) -> None:
        """As one by the lease."""
        locks, backend = self.faulty()
        lock = locks.lock("door")
        lock.acquire()
        backend.lose_request("release")
        with pytest.raises(OutcomeUnknown):
            lock.release()

        lock.release()

        self.assert_free("door", within=0.0)

    # -- Law 7: the holder is told of loss --------------------------------------------------

    def test_law_07_the_holder_is_told_at_its_own_deadline(self) -> None:
        """First at risk, then lost, by the local clock, with no word from the store."""

        def hear_nothing(name: str, ttl: float) -> None:
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

        self.undisturbed(hear_nothing, ttl=2 * self.ttl)

    def test_law_07_leaving_the_block_raises(self) -> None:
        """A body that ends after the loss is told so, though it asked nobody."""
        with pytest.raises(LeaseLost) as caught:
            with self.locks(ttl=self.ttl).lock("door", renew=False).acquire():
                self.pass_ttl()

        assert caught.value.reason == "expired"

    def test_law_07_the_bodys_own_exception_wins(self) -> None:
        """And carries the loss as a note."""
        with pytest.raises(KeyError) as caught:  # noqa: PT012 - the block is the subject
            lock = self.locks(ttl=self.ttl).lock("door", renew=False)
            with lock.acquire() as lease:
                try:
                    self.pass_ttl()
                finally:
                    assert not lease.is_trusted
                    raise KeyError("mine")

        assert any("lost" in note for note in caught.value.__notes__)

    @requires("keeps_records")
    def test_law_07_a_broken_holder_is_told_at_its_next_renewal(self) -> None:
        """An operator's break reaches the holder within a third of the ttl."""
        operator = self.locks()
        operator.inspect("door")  # connected: that may take longer than the ttl

        def be_broken(name: str, ttl: float) -> None:
            told: list[Any] = []
            lease = self.locks(ttl=ttl).lock(name, on_lost=told.append).acquire()

            broken = operator.break_(name)

            assert len(broken) == 1
            assert lease.lost.wait(ttl + self.slack)
            assert lease.lost.reason == "broken"
            self.until(lambda: told == [lease])

        self.undisturbed(be_broken, ttl=2 * self.ttl)

    @requires("keeps_records")
    def test_law_07_a_broken_holder_that_releases_is_told_of_the_break(self) -> None:
        """Also if it has not renewed since: it was broken, and nobody took it by force."""
        lease = self.locks().lock("door").acquire()
        self.locks().break_("door")

        with pytest.raises(LeaseLost) as told:
            lease.release()

        assert told.value.reason == lease.lost.reason == "broken"

    def test_law_07_a_lease_is_renewed_while_its_holder_lives(self) -> None:
        """Held for several ttls, never lost, never at risk."""
        other = self.locks()
        other.inspect("door")  # connected: that may take longer than the ttl

        def live_on(name: str, ttl: float) -> None:
            recorder = Recorder()
            locks = self.locks(on_event=recorder, ttl=ttl)
            with locks.lock(name) as lease:
                self.pass_time(ttl * 1.5)
                # A machine that is slow renews later and less often, and that is well.
                self.until(lambda: recorder.kinds().count("Renewed") >= 3)
                assert lease.is_trusted
                # Not for long, at least: a machine may stand still just before we look.
                self.until(lambda: not lease.is_at_risk, within=ttl / 6)
                assert other.lock(name).try_acquire() is None

            assert "Released" in recorder.kinds()
            assert "Lost" not in recorder.kinds()

        self.undisturbed(live_on, ttl=3 * self.ttl)

    # -- Law 8: acquire ends in time ---------------------------------------------------------

    def test_law_08_a_timeout_is_kept_by_a_waiter(self) -> None:
        """However long the holder holds."""

        def wait(name: str, _: float) -> None:
            held = self.locks().lock(name, ttl=self.long_ttl).acquire()
            started = self.clock.now()

            with pytest.raises(AcquireTimeout):
                self.locks().lock(name).acquire(timeout=0.2)

            assert 0.199 <= self.clock.now() - started <= 0.2 + self.slack
            assert held.is_trusted

        self.undisturbed(wait, ttl=self.ttl, bears=self.slack / 4)

    def test_law_08_a_timeout_is_kept_when_the_store_hangs(self) -> None:
        """The timeout plus one request timeout, the withdrawal included."""

        def wait(name: str, _: float) -> None:
            locks, backend = self.faulty(request_timeout=0.4)
            backend.hang("try_acquire", times=9)
            backend.hang("withdraw", times=9)
            started = self.clock.now()

            with pytest.raises(LockError):
                locks.lock(name).acquire(timeout=0.2)

            assert self.clock.now() - started <= 0.2 + 0.4 + self.slack
            backend.come_back()

        self.undisturbed(wait, ttl=self.ttl, bears=self.slack / 4)

    # -- Law 9: a crash frees the name ---------------------------------------------------------

    def test_law_09_a_crashed_holder_frees_the_name_within_its_ttl(self) -> None:
        """And the next in line runs soon after, though nobody rings."""

        def crash(name: str, _: float) -> None:
            backend = self.raw()
            grant = backend.try_acquire(self.claim(name), deadline=self.soon())
            assert isinstance(grant, Grant)
            self.crash(backend)
            started = self.clock.now()

            patience = self.ttl + self.late + 2 * self.slack
            lease = self.locks().lock(name).acquire(timeout=patience)

            assert not self.capabilities.has_tokens or lease.token > (grant.token or 0)
            assert self.clock.now() - started <= self.ttl + self.late + self.slack

        self.undisturbed(crash, ttl=self.ttl, bears=self.slack / 4)

    # -- Law 10: dead waiters do not stall the line ----------------------------------------------

    @requires("fair")
    def test_law_10_dead_waiters_cost_one_window_together(self) -> None:
        """Five waiters of a client that died stand in front of a living one."""
        # Long enough to be there when it crashes; a session ends only by this.
        long = self.long_ttl if self.capabilities.ends_by == "ttl" else 2 * self.ttl

        def die_in_line(name: str, _: float) -> None:
            locks, backend = self.locks(), self.raw()
            lease = locks.lock(name, ttl=self.long_ttl).acquire()
            for _number in range(5):
                dead = self.claim(name, client="dead", ttl=long)
                backend.try_acquire(dead, deadline=self.soon())
            living = runner.start(self.locks().lock(name).acquire)
            self.until_waiting(locks, name, 6)
            self.crash(backend)
            started = self.clock.now()

            lease.release()
            living.result()

            assert self.clock.now() - started <= WINDOW + self.slack

        self.undisturbed(die_in_line, ttl=self.ttl, bears=self.slack / 4)

    # -- Law 11: four different errors ------------------------------------------------------------

    def test_law_11_contention_loss_ignorance_and_outage_are_told_apart(self) -> None:
        """The caller does four different things, so there are four branches."""
        locks, backend = self.faulty(ttl=self.ttl)
        seen: list[type[BaseException]] = []

        def note(action: Any) -> None:
            with pytest.raises(LockError) as caught:
                action()
            seen.append(caught.type)

        taken = self.locks().lock("taken", ttl=self.long_ttl).acquire()
        note(lambda: locks.lock("taken").acquire(timeout=0))
        taken.release()
        lost = locks.lock("lost", renew=False).acquire()
        self.pass_ttl()
        note(lost.release)
        backend.lose_reply("try_acquire", times=2)
        # All of them: the lost lease may be withdrawn behind our back just now.
        backend.lose_request("withdraw", times=9)
        note(lambda: locks.lock("unknown").acquire(timeout=self.patience))
        backend.go_away()
        note(lambda: locks.lock("away").acquire(timeout=5))
        backend.come_back()

        branches = (NotAcquired, LeaseLost, OutcomeUnknown, BackendError)
        assert [[issubclass(one, branch) for branch in branches] for one in seen] == [
            [row == column for column in range(4)] for row in range(4)
        ]
