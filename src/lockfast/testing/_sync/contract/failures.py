# Generated from src/lockfast/testing/_async/contract/failures.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Laws 6 and 8 to 11: what remains in the store when something fails."""

from __future__ import annotations

from typing import Any

import pytest

from lockfast.core.door import ADMISSION_WINDOW_SECONDS
from lockfast.errors import (
    AcquireTimeout,
    BackendError,
    BackendUnavailable,
    LeaseLost,
    LockError,
    NotAcquired,
    NotOwner,
    OutcomeUnknown,
)
from lockfast.model import Grant
from lockfast.testing import threads as runner
from lockfast.testing._sync.contract.subject import Trials, requires


class LawsOfFailure(Trials):
    """The laws about failures."""

    # -- Law 6: a failed acquire leaves nothing behind -----------------------------------

    def test_law_06_a_timeout_leaves_nothing_behind(self) -> None:
        """A waiter that has timed out is no longer in line."""
        holder = self.locks()
        lease = holder.lock("door", ttl=self.long_ttl).acquire()

        with pytest.raises(AcquireTimeout) as caught:
            self.locks().lock("door").acquire(timeout=0.05)

        assert caught.value.waited >= 0.049
        assert holder.inspect("door").line == ()
        lease.release()
        self.assert_free("door", within=0.0)

    def test_law_06_a_request_is_repeated_after_a_lost_reply(self) -> None:
        """A lost reply costs one more round trip, but causes no error."""
        locks, backend = self.faulty()
        backend.lose_reply("try_acquire")

        lease = locks.lock("door").acquire()

        assert lease.is_trusted
        assert backend.calls["try_acquire"] == 2
        lease.release()
        self.assert_free("door", within=0.0)

    def test_law_06_lost_replies_leave_nothing_behind(self) -> None:
        """If the store granted a claim but the replies were lost, the claim is withdrawn."""
        locks, backend = self.faulty()
        backend.lose_reply("try_acquire", times=2)

        with pytest.raises(LockError):
            locks.lock("door", ttl=self.long_ttl).acquire(timeout=5)

        self.assert_free("door", within=0.0)

    def test_law_06_the_withdrawal_goes_on_in_the_background(self) -> None:
        """A withdrawal that the store does not answer is repeated in the background."""
        locks, backend = self.faulty()
        backend.lose_reply("try_acquire", times=2)
        backend.lose_request("withdraw", times=2)

        with pytest.raises(LockError):
            locks.lock("door", ttl=self.long_ttl).acquire(timeout=5)

        self.assert_free("door")

    def test_law_06_a_request_that_arrives_late_gets_nothing(self) -> None:
        """A request that arrives after the withdrawal of its claim must not be granted."""
        locks, backend = self.faulty()
        backend.deliver_late("try_acquire", times=2)
        with pytest.raises(LockError):
            locks.lock("door", ttl=self.long_ttl).acquire(timeout=5)

        backend.deliver()

        self.assert_free("door", within=0.0)
        assert self.locks().lock("door").try_acquire() is not None

    def test_law_06_a_late_repeat_after_the_release_gets_nothing(self) -> None:
        """A request that arrives after the release of its claim must not be granted."""
        locks, backend = self.faulty()
        backend.deliver_late("try_acquire")
        lease = locks.lock("door", ttl=self.long_ttl).acquire()
        lease.release()

        backend.deliver()

        self.assert_free("door", within=0.0)

    def test_law_06_a_failed_release_can_be_tried_again(self) -> None:
        """A lease stays ours until the store has answered its release."""
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
        """If only the reply to a release was lost, repeating the release is not an error."""
        locks, backend = self.faulty()
        lease = locks.lock("door", ttl=self.long_ttl).acquire()
        backend.lose_reply("release")
        with pytest.raises(OutcomeUnknown):
            lease.release()

        lease.release()

        self.assert_free("door", within=0.0)

    def test_law_06_a_lease_whose_release_was_not_answered_is_not_trusted(self) -> None:
        """After an unanswered release, someone else may hold the name, so the lease is over."""
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
        """A failed release through the lock can be repeated, just like a release of the lease."""
        locks, backend = self.faulty()
        lock = locks.lock("door")
        lock.acquire()
        backend.lose_request("release")
        with pytest.raises(OutcomeUnknown):
            lock.release()

        lock.release()

        self.assert_free("door", within=0.0)

    # -- Law 8: acquire ends in time ---------------------------------------------------------

    def test_law_08_a_timeout_is_kept_by_a_waiter(self) -> None:
        """A waiter times out when its timeout ends, however long the holder keeps the lock."""

        def wait(name: str, _: float) -> None:
            held = self.locks().lock(name, ttl=self.long_ttl).acquire()
            started = self.clock.now()

            with pytest.raises(AcquireTimeout):
                self.locks().lock(name).acquire(timeout=0.2)

            assert 0.199 <= self.clock.now() - started <= 0.2 + self.slack
            assert held.is_trusted

        self.undisturbed(wait, ttl=self.ttl, tolerance=self.slack / 4)

    def test_law_08_a_timeout_is_kept_when_the_store_hangs(self) -> None:
        """An acquire, with its withdrawal, ends within its timeout plus one request timeout."""

        def wait(name: str, _: float) -> None:
            locks, backend = self.faulty(request_timeout=0.4)
            backend.hang("try_acquire", times=9)
            backend.hang("withdraw", times=9)
            started = self.clock.now()

            with pytest.raises(LockError):
                locks.lock(name).acquire(timeout=0.2)

            assert self.clock.now() - started <= 0.2 + 0.4 + self.slack
            backend.come_back()

        self.undisturbed(wait, ttl=self.ttl, tolerance=self.slack / 4)

    # -- Law 9: a crash frees the name ---------------------------------------------------------

    def test_law_09_a_crashed_holder_frees_the_name_within_its_ttl(self) -> None:
        """Soon after a crashed holder's ttl, the next claim is granted, even without a wakeup."""

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

        self.undisturbed(crash, ttl=self.ttl, tolerance=self.slack / 4)

    # -- Law 10: dead waiters do not stall the line ----------------------------------------------

    @requires("fair")
    def test_law_10_dead_waiters_cost_one_window_together(self) -> None:
        """Five dead waiters, all of one client, delay the live waiter behind them by one window."""
        # Long enough to outlast the crash, and no longer in a store with sessions, where dead
        # waiters end only with this ttl.
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

            assert self.clock.now() - started <= ADMISSION_WINDOW_SECONDS + self.slack

        self.undisturbed(die_in_line, ttl=self.ttl, tolerance=self.slack / 4)

    # -- Law 11: four different errors ------------------------------------------------------------

    def test_law_11_contention_loss_ignorance_and_outage_are_told_apart(self) -> None:
        """Contention, loss, unknown outcome and outage raise errors of four different branches."""
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
        # Lose every withdrawal that may be under way. The background may be withdrawing the lost
        # lease at this moment.
        backend.lose_request("withdraw", times=9)
        note(lambda: locks.lock("unknown").acquire(timeout=self.patience))
        backend.go_away()
        note(lambda: locks.lock("away").acquire(timeout=5))
        backend.come_back()

        branches = (NotAcquired, LeaseLost, OutcomeUnknown, BackendError)
        assert [[issubclass(one, branch) for branch in branches] for one in seen] == [
            [row == column for column in range(4)] for row in range(4)
        ]
