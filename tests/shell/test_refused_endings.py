"""A refused release or withdrawal is not done yet, and goes on; closing does every step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from virtual import virtual_clock

from lockfast import (
    AsyncLocks,
    ConfigurationError,
    Grant,
    Held,
    OutcomeUnknown,
)
from lockfast.backends.memory._async.backend import AsyncMemoryBackend
from lockfast.backends.memory.store import MemoryStore
from lockfast.model import Claim
from lockfast.testing import run_in_virtual_time

NO_RIGHT = "the right to do that was taken away"


class _Refusing(AsyncMemoryBackend):
    """Raises the error that a test chose, from the verbs that it chose."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.refuses: dict[str, type[Exception]] = {}
        self.is_closed = False

    def refuse(self, *verbs: str, kind: type[Exception] = ConfigurationError) -> None:
        self.refuses.update(dict.fromkeys(verbs, kind))

    def _ask(self, verb: str) -> None:
        if verb in self.refuses:
            raise self.refuses[verb](NO_RIGHT)

    async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        self._ask("try_acquire")
        return await super().try_acquire(claim, deadline=deadline)

    async def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        self._ask("release")
        return await super().release(grant, deadline=deadline, tombstone=tombstone)

    async def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        self._ask("withdraw")
        await super().withdraw(claim, deadline=deadline, tombstone=tombstone)

    async def disown(self, client: str, *, deadline: float) -> None:
        self._ask("disown")
        await super().disown(client, deadline=deadline)

    async def aclose(self) -> None:
        self.is_closed = True
        self._ask("aclose")
        await super().aclose()


class _Scene:
    """A client whose store may refuse, and another that is never refused."""

    def __init__(self) -> None:
        clock = virtual_clock()
        store = MemoryStore(clock)
        self.backend = _Refusing(clock=clock, store=store)
        self.locks = AsyncLocks.from_backend(self.backend, clock=clock)
        self.other = AsyncLocks.from_backend(
            AsyncMemoryBackend(clock=clock, store=store), clock=clock
        )


def _in(story: Callable[[_Scene], Any]) -> None:
    async def main() -> None:
        scene = _Scene()
        await story(scene)
        scene.backend.refuses.clear()
        await scene.locks.aclose()
        await scene.other.aclose()

    run_in_virtual_time(main())


@pytest.mark.parametrize("kind", [ConfigurationError, ValueError])
def test_a_withdrawal_that_is_refused_goes_on_and_says_why(kind: type[Exception]) -> None:
    """Whatever the store raises, a claim whose acquire timed out does not stay in line."""

    async def story(scene: _Scene) -> None:
        held = await scene.other.lock("door").acquire()
        scene.backend.refuse("withdraw", kind=kind)

        with pytest.raises(OutcomeUnknown, match=NO_RIGHT):
            await scene.locks.lock("door").acquire(timeout=1.0)

        assert (await scene.other.inspect("door")).line
        scene.backend.refuses.clear()
        await asyncio.sleep(5.0)
        assert not (await scene.other.inspect("door")).line
        await held.release()

    _in(story)


def test_a_claim_that_was_only_ever_refused_is_not_followed_up() -> None:
    """The store has not recorded the claim, and a wrong password must not pile up withdrawals."""

    async def story(scene: _Scene) -> None:
        scene.backend.refuse("try_acquire", "withdraw")

        with pytest.raises(ConfigurationError):
            await scene.locks.lock("door").acquire(timeout=1.0)

        assert scene.locks._client.cleanup_queue.are_done

    _in(story)


def test_a_release_that_is_refused_goes_on() -> None:
    async def story(scene: _Scene) -> None:
        lease = await scene.locks.lock("door").acquire()
        scene.backend.refuse("release", "withdraw")

        with pytest.raises(ConfigurationError):
            await lease.release()

        assert await scene.other.lock("door").locked()
        scene.backend.refuses.clear()
        await asyncio.sleep(5.0)
        assert not await scene.other.lock("door").locked()

    _in(story)


def test_a_refused_repeat_of_a_release_that_was_not_answered_is_no_answer() -> None:
    """The first request may have released the lock, so the outcome is unknown."""

    async def story(scene: _Scene) -> None:
        lease = await scene.locks.lock("door").acquire()
        scene.backend.refuse("release", "withdraw", kind=OutcomeUnknown)
        with pytest.raises(OutcomeUnknown):
            await lease.release()
        scene.backend.refuse("release", "withdraw", kind=ConfigurationError)

        with pytest.raises(OutcomeUnknown, match=NO_RIGHT) as told:
            await lease.release()

        assert isinstance(told.value.__cause__, ConfigurationError)

    _in(story)


def test_a_refused_repeat_of_an_acquire_that_was_not_answered_is_no_answer() -> None:
    """While the claim cannot be withdrawn, its first request may still succeed."""

    async def story(scene: _Scene) -> None:
        scene.backend.refuse("try_acquire", kind=OutcomeUnknown)
        taking = asyncio.create_task(scene.locks.lock("door").acquire(timeout=30.0))
        await asyncio.sleep(0.01)

        scene.backend.refuse("try_acquire", "withdraw", kind=ConfigurationError)

        with pytest.raises(OutcomeUnknown, match=NO_RIGHT) as told:
            await taking
        assert isinstance(told.value.__cause__, ConfigurationError)
        assert not scene.locks._client.cleanup_queue.are_done

    _in(story)


@pytest.mark.parametrize("verb", ["release", "disown", "aclose"])
def test_every_step_of_closing_is_done_whatever_the_store_refuses(verb: str) -> None:
    async def story(scene: _Scene) -> None:
        leases = [await scene.locks.lock(f"door {number}").acquire() for number in range(3)]
        waiting = asyncio.create_task(_holds_a_block(scene.locks))
        await asyncio.sleep(0.1)
        scene.backend.refuse(verb)

        await scene.locks.aclose()

        assert [one.lost.reason for one in leases] == ["closed"] * 3
        assert scene.backend.is_closed
        waiting.cancel()
        await asyncio.wait([waiting])
        left = {one.get_name() for one in asyncio.all_tasks()}
        assert not {one for one in left if one.startswith("lockfast") and "memory" not in one}

    _in(story)


async def _holds_a_block(locks: AsyncLocks) -> None:
    async with locks.lock("block"):
        try:
            await asyncio.sleep(60.0)
        except asyncio.CancelledError:
            await asyncio.sleep(30.0)  # the body does not end in time, so its client is disowned


@pytest.mark.parametrize("verb", ["release", "disown", "aclose"])
def test_a_defect_in_one_step_of_closing_does_not_keep_the_others_from_running(verb: str) -> None:
    """The error of the defective step is raised once all other steps are done."""

    async def story(scene: _Scene) -> None:
        lease = await scene.locks.lock("door").acquire()
        waiting = asyncio.create_task(_holds_a_block(scene.locks))
        await asyncio.sleep(0.1)
        scene.backend.refuse(verb, kind=ValueError)

        ended = await asyncio.gather(scene.locks.aclose(), return_exceptions=True)

        assert lease.lost.reason == "closed"
        assert scene.backend.is_closed
        assert verb == "release" or isinstance(ended[0], ValueError)
        waiting.cancel()
        await asyncio.wait([waiting])

    _in(story)
