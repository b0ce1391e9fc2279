# Generated from src/lockfast/testing/_async/contract/lifecycle.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Laws 12 to 15: names, sharing, closing, and limits of holding."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from lockfast.errors import (
    AcquireTimeout,
    ConfigurationError,
    LeaseLost,
    LocksClosed,
    NotOwner,
    OutcomeUnknown,
    WouldDeadlock,
)
from lockfast.testing import threads as runner
from lockfast.testing._sync.contract.subject import Recorder, Trials, requires

TRIED_NAMES = (
    "door",
    "Door",
    "door ",
    " door",
    "door\n",
    "door\0",
    "door\0x",
    "d\u00f6or",
    "do\u0308or",
    "\ufb01",
    "fi",
    "stra\u00dfe",
    "strasse",
    "{door}",
    "door{1}",
    "a/b",
    "a%2Fb",
    "../door",
    "'; DROP TABLE places; --",
    "door\r\nFLUSHALL\r\n",
    "*",
    "\U0001f512",
    "x" * 512,
    "x" * 511,
)


class LawsOfLifecycle(Trials):
    """The laws about names, sharing, closing, and limits of holding."""

    # -- Law 12: names -----------------------------------------------------------------

    def test_law_12_two_names_never_share_a_lock(self) -> None:
        """Names that look alike, or look like commands, can be held at the same time."""
        first, second = self.locks(), self.locks()
        leases = [first.lock(name, ttl=self.long_ttl).acquire(timeout=0) for name in TRIED_NAMES]

        for name in TRIED_NAMES:
            assert second.lock(name).try_acquire() is None
            assert len(second.inspect(name).holders) == 1

        for lease in leases:
            lease.release()
        assert second.lock(TRIED_NAMES[-1]).try_acquire() is not None

    def test_law_12_names_are_listed_as_they_are(self) -> None:
        """A survey lists names in byte order, unchanged, whatever characters they contain."""
        first, second = self.locks(), self.locks()
        leases = [first.lock(name, ttl=self.long_ttl).acquire(timeout=0) for name in TRIED_NAMES]

        assert [one.name for one in second.survey("doo")] == sorted(
            (name for name in TRIED_NAMES if name.startswith("doo")), key=str.encode
        )

        for lease in leases:
            lease.release()

    def test_law_12_bad_names_are_refused(self) -> None:
        """A name is refused if it is empty, too long, not text, or without a UTF-8 form."""
        locks = self.locks()
        for name in ("", "x" * 513, "\u00e9" * 257, "\ud800"):
            with pytest.raises(ConfigurationError):
                locks.lock(name)
        for wrong in (None, 7, b"door"):
            with pytest.raises(TypeError):
                locks.lock(wrong)  # type: ignore[arg-type]

    # -- Law 13: sharing ---------------------------------------------------------------

    def test_law_13_a_failed_acquire_does_not_disturb_a_holder_on_the_same_object(
        self,
    ) -> None:
        """Threads or tasks that share a lock object do not share its hold."""
        lock = self.locks().lock("door", ttl=self.long_ttl)

        def fail() -> None:
            with pytest.raises(AcquireTimeout):
                lock.acquire(timeout=0.02)
            with pytest.raises(NotOwner):
                lock.release()

        with lock as lease:
            runner.start(fail).result()
            assert lease.is_trusted
            assert self.locks().lock("door").try_acquire() is None

        assert self.locks().lock("door").try_acquire() is not None

    def test_law_13_a_block_may_be_left_by_another(self) -> None:
        """If another thread or task leaves a block, the block's hold is released."""
        lock = self.locks().lock("door", ttl=self.long_ttl)
        runner.start(lock.__enter__).result()

        lock.__exit__(None, None, None)

        assert self.locks().lock("door").try_acquire() is not None

    def test_law_13_another_thread_or_task_does_not_reenter(self) -> None:
        """Another thread or task is another owner, so it does not re-enter the lock."""
        lock = self.locks().lock("door", ttl=self.long_ttl)
        with lock:
            assert runner.start(lock.try_acquire).result() is None

    def test_law_13_all_of_them_or_none(self) -> None:
        """Names are acquired in byte order, and if one of them is held, all others are released."""
        locks, other = self.locks(), self.locks()
        lease = other.lock("b").acquire()

        assert locks.all("c", "b", "a").try_acquire() is None
        assert [len(other.inspect(name).holders) for name in "abc"] == [0, 1, 0]
        lease.release()

        with locks.all("c", "b", "a") as leases:
            assert [one.name for one in leases] == ["c", "b", "a"]
            with pytest.raises(WouldDeadlock):
                locks.all("a", "aa").acquire(timeout=0)
        assert [len(other.inspect(name).holders) for name in "abc"] == [0, 0, 0]

    def test_law_13_all_of_them_are_released_by_one_call(self) -> None:
        """One call releases all leases that this thread or task acquired with its latest acquire.

        The leases of earlier acquires, and of other threads or tasks, stay.
        """
        locks, other = self.locks(), self.locks()
        several = locks.all("b", "a")
        with pytest.raises(NotOwner):
            several.release()
        outer, inner = several.acquire(), several.acquire()

        several.release()
        assert all(one.is_trusted for one in outer)
        with pytest.raises(NotOwner):
            inner[0].release()
        with pytest.raises(NotOwner):
            # Another thread or task holds the leases.
            runner.start(several.release).result()
        several.release()

        assert [len(other.inspect(name).holders) for name in "ab"] == [0, 0]
        with pytest.raises(NotOwner):
            several.release()

    def test_law_13_one_that_was_lost_keeps_none_of_the_others_from_being_released(
        self,
    ) -> None:
        """If a lease was lost, all other leases are released before the loss is raised."""
        locks, other = self.locks(), self.locks()
        several = locks.all("a", "b", "c")
        leases = several.acquire()
        leases[0].release()
        other.break_("b")

        with pytest.raises(LeaseLost):
            several.release()

        assert [len(other.inspect(name).holders) for name in "abc"] == [0, 0, 0]

    def test_law_13_a_block_frees_what_it_entered_and_nothing_else(self) -> None:
        """Leaving a block whose lease was released early must not release another task's lease."""
        locks = self.locks()
        self._enter_in_turns(locks.lock("door"))
        self._enter_in_turns(locks.all("door", "gate"))

    def _enter_in_turns(self, shared: Any) -> None:
        steps: list[str] = []

        def first() -> None:
            with shared as entered:
                for lease in entered if isinstance(entered, tuple) else (entered,):
                    lease.release()
                steps.append("released")
                self.until(lambda: "entered" in steps)
            steps.append("left")

        def second() -> None:
            self.until(lambda: "released" in steps)
            with shared:
                steps.append("entered")
                self.until(lambda: "left" in steps)
                assert self.locks().lock("door").try_acquire() is None

        for one in [runner.start(first), runner.start(second)]:
            one.result()

    @requires("fair")
    def test_law_13_one_that_is_lost_on_the_way_in_keeps_none_of_the_others(self) -> None:
        """If a lease is lost while `all` waits for another name, no name stays held."""
        recorder = Recorder()
        other, locks = self.locks(), self.locks(ttl=2 * self.ttl, on_event=recorder)
        lease = other.lock("b").acquire()

        def enter() -> None:
            with locks.all("a", "b"):
                raise AssertionError

        entering = runner.start(enter)
        self.until_waiting(other, "b")
        other.break_("a")
        self.until(lambda: "Lost" in recorder.kinds())
        lease.release()

        with pytest.raises(LeaseLost):
            entering.result()
        self.assert_free("b", within=0.0)

    # -- Law 14: closing ------------------------------------------------------------------

    def test_law_14_close_ends_an_acquire_whose_first_request_is_on_its_way(self) -> None:
        """If a client closes during an acquire, the acquire must not return a lease."""
        locks, backend = self.faulty()
        backend.delay("try_acquire", 0.1)
        asking = runner.start(locks.lock("door").acquire)
        self.until(lambda: backend.calls["try_acquire"])

        locks.close()

        with pytest.raises(LocksClosed):
            asking.result()
        self.assert_free("door", within=0.0)

    def test_law_14_close_ends_every_lease(self) -> None:
        """When its client closes, a lease without a block is lost, and its name is free."""
        locks = self.locks()
        lease = locks.lock("door", ttl=self.long_ttl).acquire()

        locks.close()

        assert lease.lost.reason == "closed"
        with pytest.raises(LeaseLost):
            lease.check()
        with pytest.raises(LocksClosed):
            locks.lock("door").acquire()
        assert self.locks().lock("door").try_acquire() is not None
        locks.close()

    # -- Law 15: limits of holding ----------------------------------------------------------

    def test_law_15_max_hold_ends_a_lease(self) -> None:
        """Even a renewed lease is lost after max_hold, which is the reported reason."""

        def hold_on(name: str, ttl: float) -> None:
            locks, started = self.locks(ttl=ttl), self.clock.now()
            lease = locks.lock(name, max_hold=ttl / 2).acquire()

            assert lease.lost.wait(ttl / 2 + self.slack)

            assert lease.lost.reason == "max_hold"
            # The tolerance is for rounding errors.
            assert self.clock.now() - started >= ttl / 2 - 0.001
            # After the loss, the lease is not renewed any more, so the name is free within a ttl.
            self.assert_free(name, within=ttl + self.late + self.slack)
            assert self.locks().lock(name).try_acquire() is not None

        self.undisturbed(hold_on, ttl=3 * self.ttl)

    def test_law_15_min_hold_keeps_a_name_closed(self) -> None:
        """min_hold is for a short job on several machines whose schedules are out of step."""

        def come_early(name: str, _: float) -> None:
            other = self.locks().lock(name)
            other.locked()  # connect first, so that connecting takes no time below
            asked_at = self.clock.now()
            with self.locks().lock(name, min_hold=0.4):
                pass

            early = other.try_acquire()
            assert early is None or self.clock.now() >= asked_at + 0.4

            started = self.clock.now()
            longest = 0.4 + self.late + self.slack
            assert other.acquire(timeout=longest).is_trusted
            assert self.clock.now() - started <= longest

        self.undisturbed(come_early, ttl=self.ttl, tolerance=self.slack / 4)

    def test_law_15_min_hold_is_kept_by_a_release_that_was_not_answered(self) -> None:
        """An unanswered release is repeated as a release, not a withdrawal, so min_hold is kept."""
        locks, backend = self.faulty()
        lease = locks.lock("job", min_hold=20.0).acquire()
        backend.lose_request("release")
        with pytest.raises(OutcomeUnknown):
            lease.release()

        self.until(lambda: backend.delivered["release"])

        assert self.locks().lock("job").try_acquire() is None

    def test_law_15_throttling_by_not_releasing_suggests_min_hold(self) -> None:
        """If a lease is left to expire, the next acquire reports this and suggests min_hold."""
        lock = self.locks(ttl=self.ttl).lock("job", renew=False)
        lock.acquire()
        self.pass_ttl()

        with pytest.raises(LeaseLost, match="release it and say min_hold="):
            lock.acquire()

    @requires("lock_delay")
    def test_law_15_lock_delay_follows_a_failure_and_no_clean_release(self) -> None:
        """After a holder fails, lock_delay keeps the name closed; after a release it does not."""
        locks = self.locks()
        clean = locks.lock("door", lock_delay=30.0).acquire()
        clean.release()
        asked_at = self.clock.now()
        failing = self.locks(ttl=self.ttl).lock("door", lock_delay=1.0, renew=False)
        failed = failing.acquire(timeout=0)
        self.pass_time(self.ttl * 1.1)

        assert not failed.is_trusted
        lock = locks.lock("door")
        early = lock.try_acquire()
        assert early is None or self.clock.now() - asked_at >= self.ttl + 1.0 - 0.05
        assert lock.acquire(timeout=self.patience).is_trusted
        assert self.clock.now() - asked_at >= self.ttl + 1.0 - 0.05

    @requires("lock_delay")
    def test_law_15_lock_delay_follows_a_break(self) -> None:
        """After a break, lock_delay gives the old holder time to notice the break."""
        locks, other = self.locks(), self.locks()
        lock = locks.lock("door", lock_delay=0.5, renew=False)
        lock.acquire()
        other.inspect("door")  # connect first, so that connecting takes no time below

        broken_at = self.clock.now()
        locks.break_("door")

        early = other.lock("door").try_acquire()
        assert early is None or self.clock.now() >= broken_at + 0.5
        assert other.lock("door").acquire(timeout=self.patience).is_trusted

    # -- Every error of the library ----------------------------------------------------------

    def test_law_11_an_error_survives_pickling(self) -> None:
        """Errors can be pickled, because workers send their errors to other processes."""
        with self.locks(label="first").lock("door", ttl=self.long_ttl):
            with pytest.raises(AcquireTimeout) as caught:
                self.locks().lock("door").acquire(timeout=0)

        copy: Any = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes

        assert str(copy) == str(caught.value)
        assert copy.holders == caught.value.holders
        assert copy.exit_code == 75
