"""Laws 12 to 15: names, sharing, closing, and limits of holding."""

from __future__ import annotations

import asyncio  # async only
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
from lockfast.testing import aio as runner
from lockfast.testing._async.contract.subject import AsyncTrials, Recorder, requires

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


class AsyncLawsOfLifecycle(AsyncTrials):
    """The laws about names, sharing, closing, and limits of holding."""

    # -- Law 12: names -----------------------------------------------------------------

    async def test_law_12_two_names_never_share_a_lock(self) -> None:
        """Names that look alike, or look like commands, can be held at the same time."""
        first, second = self.locks(), self.locks()
        leases = [
            await first.lock(name, ttl=self.long_ttl).acquire(timeout=0) for name in TRIED_NAMES
        ]

        for name in TRIED_NAMES:
            assert await second.lock(name).try_acquire() is None
            assert len((await second.inspect(name)).holders) == 1

        for lease in leases:
            await lease.release()
        assert await second.lock(TRIED_NAMES[-1]).try_acquire() is not None

    async def test_law_12_names_are_listed_as_they_are(self) -> None:
        """A survey lists names in byte order, unchanged, whatever characters they contain."""
        first, second = self.locks(), self.locks()
        leases = [
            await first.lock(name, ttl=self.long_ttl).acquire(timeout=0) for name in TRIED_NAMES
        ]

        assert [one.name async for one in second.survey("doo")] == sorted(
            (name for name in TRIED_NAMES if name.startswith("doo")), key=str.encode
        )

        for lease in leases:
            await lease.release()

    async def test_law_12_bad_names_are_refused(self) -> None:
        """A name is refused if it is empty, too long, not text, or without a UTF-8 form."""
        locks = self.locks()
        for name in ("", "x" * 513, "\u00e9" * 257, "\ud800"):
            with pytest.raises(ConfigurationError):
                locks.lock(name)
        for wrong in (None, 7, b"door"):
            with pytest.raises(TypeError):
                locks.lock(wrong)  # type: ignore[arg-type]

    # -- Law 13: sharing ---------------------------------------------------------------

    async def test_law_13_a_failed_acquire_does_not_disturb_a_holder_on_the_same_object(
        self,
    ) -> None:
        """Threads or tasks that share a lock object do not share its hold."""
        lock = self.locks().lock("door", ttl=self.long_ttl)

        async def fail() -> None:
            with pytest.raises(AcquireTimeout):
                await lock.acquire(timeout=0.02)
            with pytest.raises(NotOwner):
                await lock.release()

        async with lock as lease:
            await runner.start(fail).result()
            assert lease.is_trusted
            assert await self.locks().lock("door").try_acquire() is None

        assert await self.locks().lock("door").try_acquire() is not None

    async def test_law_13_a_block_may_be_left_by_another(self) -> None:
        """If another thread or task leaves a block, the block's hold is released."""
        lock = self.locks().lock("door", ttl=self.long_ttl)
        await runner.start(lock.__aenter__).result()

        await lock.__aexit__(None, None, None)

        assert await self.locks().lock("door").try_acquire() is not None

    async def test_law_13_another_thread_or_task_does_not_reenter(self) -> None:
        """Another thread or task is another owner, so it does not re-enter the lock."""
        lock = self.locks().lock("door", ttl=self.long_ttl)
        async with lock:
            assert await runner.start(lock.try_acquire).result() is None

    async def test_law_13_all_of_them_or_none(self) -> None:
        """Names are acquired in byte order, and if one of them is held, all others are released."""
        locks, other = self.locks(), self.locks()
        lease = await other.lock("b").acquire()

        assert await locks.all("c", "b", "a").try_acquire() is None
        assert [len((await other.inspect(name)).holders) for name in "abc"] == [0, 1, 0]
        await lease.release()

        async with locks.all("c", "b", "a") as leases:
            assert [one.name for one in leases] == ["c", "b", "a"]
            with pytest.raises(WouldDeadlock):
                await locks.all("a", "aa").acquire(timeout=0)
        assert [len((await other.inspect(name)).holders) for name in "abc"] == [0, 0, 0]

    async def test_law_13_all_of_them_are_released_by_one_call(self) -> None:
        """One call releases all leases that this thread or task acquired with its latest acquire.

        The leases of earlier acquires, and of other threads or tasks, stay.
        """
        locks, other = self.locks(), self.locks()
        several = locks.all("b", "a")
        with pytest.raises(NotOwner):
            await several.release()
        outer, inner = await several.acquire(), await several.acquire()

        await several.release()
        assert all(one.is_trusted for one in outer)
        with pytest.raises(NotOwner):
            await inner[0].release()
        with pytest.raises(NotOwner):
            # Another thread or task holds the leases.
            await runner.start(several.release).result()
        await several.release()

        assert [len((await other.inspect(name)).holders) for name in "ab"] == [0, 0]
        with pytest.raises(NotOwner):
            await several.release()

    async def test_law_13_one_that_was_lost_keeps_none_of_the_others_from_being_released(
        self,
    ) -> None:
        """If a lease was lost, all other leases are released before the loss is raised."""
        locks, other = self.locks(), self.locks()
        several = locks.all("a", "b", "c")
        leases = await several.acquire()
        await leases[0].release()
        await other.break_("b")

        with pytest.raises(LeaseLost):
            await several.release()

        assert [len((await other.inspect(name)).holders) for name in "abc"] == [0, 0, 0]

    async def test_law_13_a_block_frees_what_it_entered_and_nothing_else(self) -> None:
        """Leaving a block whose lease was released early must not release another task's lease."""
        locks = self.locks()
        await self._enter_in_turns(locks.lock("door"))
        await self._enter_in_turns(locks.all("door", "gate"))

    async def _enter_in_turns(self, shared: Any) -> None:
        steps: list[str] = []

        async def first() -> None:
            async with shared as entered:
                for lease in entered if isinstance(entered, tuple) else (entered,):
                    await lease.release()
                steps.append("released")
                await self.until(lambda: "entered" in steps)
            steps.append("left")

        async def second() -> None:
            await self.until(lambda: "released" in steps)
            async with shared:
                steps.append("entered")
                await self.until(lambda: "left" in steps)
                assert await self.locks().lock("door").try_acquire() is None

        for one in [runner.start(first), runner.start(second)]:
            await one.result()

    @requires("fair")
    async def test_law_13_one_that_is_lost_on_the_way_in_keeps_none_of_the_others(self) -> None:
        """If a lease is lost while `all` waits for another name, no name stays held."""
        recorder = Recorder()
        other, locks = self.locks(), self.locks(ttl=2 * self.ttl, on_event=recorder)
        lease = await other.lock("b").acquire()

        async def enter() -> None:
            async with locks.all("a", "b"):
                raise AssertionError

        entering = runner.start(enter)
        await self.until_waiting(other, "b")
        await other.break_("a")
        await self.until(lambda: "Lost" in recorder.kinds())
        await lease.release()

        with pytest.raises(LeaseLost):
            await entering.result()
        await self.assert_free("b", within=0.0)

    # -- Law 14: closing ------------------------------------------------------------------

    async def test_law_14_close_ends_an_acquire_whose_first_request_is_on_its_way(self) -> None:
        """If a client closes during an acquire, the acquire must not return a lease."""
        locks, backend = self.faulty()
        backend.delay("try_acquire", 0.1)
        asking = runner.start(locks.lock("door").acquire)
        await self.until(lambda: backend.calls["try_acquire"])

        await locks.aclose()

        with pytest.raises(LocksClosed):
            await asking.result()
        await self.assert_free("door", within=0.0)

    async def test_law_14_close_ends_every_lease(self) -> None:
        """When its client closes, a lease without a block is lost, and its name is free."""
        locks = self.locks()
        lease = await locks.lock("door", ttl=self.long_ttl).acquire()

        await locks.aclose()

        assert lease.lost.reason == "closed"
        with pytest.raises(LeaseLost):
            lease.check()
        with pytest.raises(LocksClosed):
            await locks.lock("door").acquire()
        assert await self.locks().lock("door").try_acquire() is not None
        await locks.aclose()

    # async only: begin
    async def test_law_14_close_is_shielded_from_cancellation(self) -> None:
        """If `close` is cancelled, the cancellation is raised only after everything is released."""
        locks, backend = self.faulty()
        await locks.lock("door").acquire()
        backend.delay("release", 0.1)
        closing = runner.start(locks.aclose)
        await self.until(lambda: backend.calls["release"])

        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing.result()

        await self.assert_free("door", within=0.0)

    async def test_law_14_close_cancels_bodies_and_awaits_them(self) -> None:
        """When `close` returns, bodies under a lease have ended, and their names are free."""
        locks = self.locks()
        inside = asyncio.Event()
        ended: list[str] = []

        async def body() -> None:
            try:
                async with locks.lock("door", ttl=self.long_ttl):
                    try:
                        inside.set()
                        await asyncio.sleep(1000)
                    finally:
                        ended.append("body")
            except LeaseLost as error:
                ended.append(error.reason)

        running = runner.start(body)
        await inside.wait()
        await locks.aclose()

        assert await self.locks().lock("door").try_acquire() is not None
        await running.result()
        assert ended == ["body", "closed"]

    # async only: end

    # -- Law 15: limits of holding ----------------------------------------------------------

    async def test_law_15_max_hold_ends_a_lease(self) -> None:
        """Even a renewed lease is lost after max_hold, which is the reported reason."""

        async def hold_on(name: str, ttl: float) -> None:
            locks, started = self.locks(ttl=ttl), self.clock.now()
            lease = await locks.lock(name, max_hold=ttl / 2).acquire()

            assert await lease.lost.wait(ttl / 2 + self.slack)

            assert lease.lost.reason == "max_hold"
            # The tolerance is for rounding errors.
            assert self.clock.now() - started >= ttl / 2 - 0.001
            # After the loss, the lease is not renewed any more, so the name is free within a ttl.
            await self.assert_free(name, within=ttl + self.late + self.slack)
            assert await self.locks().lock(name).try_acquire() is not None

        await self.undisturbed(hold_on, ttl=3 * self.ttl)

    async def test_law_15_min_hold_keeps_a_name_closed(self) -> None:
        """min_hold is for a short job on several machines whose schedules are out of step."""

        async def come_early(name: str, _: float) -> None:
            other = self.locks().lock(name)
            await other.locked()  # connect first, so that connecting takes no time below
            asked_at = self.clock.now()
            async with self.locks().lock(name, min_hold=0.4):
                pass

            early = await other.try_acquire()
            assert early is None or self.clock.now() >= asked_at + 0.4

            started = self.clock.now()
            longest = 0.4 + self.late + self.slack
            assert (await other.acquire(timeout=longest)).is_trusted
            assert self.clock.now() - started <= longest

        await self.undisturbed(come_early, ttl=self.ttl, tolerance=self.slack / 4)

    async def test_law_15_min_hold_is_kept_by_a_release_that_was_not_answered(self) -> None:
        """An unanswered release is repeated as a release, not a withdrawal, so min_hold is kept."""
        locks, backend = self.faulty()
        lease = await locks.lock("job", min_hold=20.0).acquire()
        backend.lose_request("release")
        with pytest.raises(OutcomeUnknown):
            await lease.release()

        await self.until(lambda: backend.delivered["release"])

        assert await self.locks().lock("job").try_acquire() is None

    async def test_law_15_throttling_by_not_releasing_suggests_min_hold(self) -> None:
        """If a lease is left to expire, the next acquire reports this and suggests min_hold."""
        lock = self.locks(ttl=self.ttl).lock("job", renew=False)
        await lock.acquire()
        await self.pass_ttl()

        with pytest.raises(LeaseLost, match="release it and say min_hold="):
            await lock.acquire()

    @requires("lock_delay")
    async def test_law_15_lock_delay_follows_a_failure_and_no_clean_release(self) -> None:
        """After a holder fails, lock_delay keeps the name closed; after a release it does not."""
        locks = self.locks()
        clean = await locks.lock("door", lock_delay=30.0).acquire()
        await clean.release()
        asked_at = self.clock.now()
        failing = self.locks(ttl=self.ttl).lock("door", lock_delay=1.0, renew=False)
        failed = await failing.acquire(timeout=0)
        await self.pass_time(self.ttl * 1.1)

        assert not failed.is_trusted
        lock = locks.lock("door")
        early = await lock.try_acquire()
        assert early is None or self.clock.now() - asked_at >= self.ttl + 1.0 - 0.05
        assert (await lock.acquire(timeout=self.patience)).is_trusted
        assert self.clock.now() - asked_at >= self.ttl + 1.0 - 0.05

    @requires("lock_delay")
    async def test_law_15_lock_delay_follows_a_break(self) -> None:
        """After a break, lock_delay gives the old holder time to notice the break."""
        locks, other = self.locks(), self.locks()
        lock = locks.lock("door", lock_delay=0.5, renew=False)
        await lock.acquire()
        await other.inspect("door")  # connect first, so that connecting takes no time below

        broken_at = self.clock.now()
        await locks.break_("door")

        early = await other.lock("door").try_acquire()
        assert early is None or self.clock.now() >= broken_at + 0.5
        assert (await other.lock("door").acquire(timeout=self.patience)).is_trusted

    # -- Every error of the library ----------------------------------------------------------

    async def test_law_11_an_error_survives_pickling(self) -> None:
        """Errors can be pickled, because workers send their errors to other processes."""
        async with self.locks(label="first").lock("door", ttl=self.long_ttl):
            with pytest.raises(AcquireTimeout) as caught:
                await self.locks().lock("door").acquire(timeout=0)

        copy: Any = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes

        assert str(copy) == str(caught.value)
        assert copy.holders == caught.value.holders
        assert copy.exit_code == 75
