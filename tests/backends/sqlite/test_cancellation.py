"""Cancellation at every await: an operation that is cut short leaves nothing behind."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lockfast import AcquireTimeout, AsyncLease, AsyncLocks

MOST_AWAITS = 200


class CancelledAt:
    """Awaits some work, and cancels the awaiting task at one of its awaits.

    `early` cancels as the await begins. `late` cancels when the await's result has come but has not
    been read, where a grant is most easily forgotten. `again` cancels early, and then at every
    later await too, so that the cleanup is cancelled as well.
    """

    def __init__(self, work: Coroutine[Any, Any, Any], *, at: int, moment: str) -> None:
        self._work = work
        self._at = at
        self._moment = moment
        self.has_struck = False

    def __await__(self) -> Generator[Any, None, Any]:
        task = asyncio.current_task()
        assert task is not None
        steps = self._work.__await__()
        error: BaseException | None = None
        for number in itertools.count():
            try:
                awaited = steps.send(None) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value
            if number == self._at or (self._moment == "again" and number > self._at):
                self.has_struck = True
                if self._moment == "late" and awaited is not None:
                    awaited.add_done_callback(lambda _: task.cancel())
                else:
                    task.cancel()
            error = None
            try:
                yield awaited
            except BaseException as thrown:  # noqa: BLE001 - it is thrown into the work
                error = thrown
        raise AssertionError


class Scene:
    """One store, one name, and its clients."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._clients: list[AsyncLocks] = []

    def client(self) -> AsyncLocks:
        self._clients.append(AsyncLocks(self._url))
        return self._clients[-1]

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()

    async def is_clear(self) -> None:
        """Fail unless a new client finds the name free, without holders or waiters."""
        client = self.client()
        inspection = await client.inspect("door")
        assert inspection.holders == ()
        assert inspection.line == ()
        lease = await client.lock("door").try_acquire()
        assert lease is not None
        await lease.release()


@pytest.fixture(params=["sqlite", "memory"])
def store(request, url, tmp_path) -> str:
    return url if request.param == "sqlite" else f"memory://{tmp_path.name}"


@pytest.fixture(params=["early", "late", "again"])
def moment(request) -> str:
    return request.param


@asynccontextmanager
async def scene_of(store: str) -> AsyncIterator[Scene]:
    scene = Scene(store)
    try:
        yield scene
    finally:
        await scene.close()


async def struck(work: CancelledAt) -> Any:
    """Return the work's result, or None if the cancellation ended it."""

    async def alone() -> Any:
        return await work

    task = asyncio.create_task(alone())
    await asyncio.wait([task])
    if task.cancelled():
        assert work.has_struck
        return None
    return task.result()


def at_every_await(
    store: str, moment: str, play: Callable[[Scene, Callable[..., CancelledAt]], Awaitable[None]]
) -> int:
    """Play the scene again and again, cancelled one await later each time.

    Return the number of awaits at which it was cancelled.
    """

    async def once(number: int) -> bool:
        works: list[CancelledAt] = []

        def cut(work: Coroutine[Any, Any, Any]) -> CancelledAt:
            works.append(CancelledAt(work, at=number, moment=moment))
            return works[-1]

        async with scene_of(store) as scene:
            await play(scene, cut)
            await scene.is_clear()
        return works[0].has_struck

    for number in range(MOST_AWAITS):
        if not asyncio.run(once(number)):
            return number
    raise AssertionError("it never ran to its end")


def test_a_cancelled_acquire_leaves_nothing_behind(store, moment):
    """Law 6: cancelling an acquire of a free lock undoes a grant that is already on its way."""

    async def play(scene, cut):
        lease = await struck(cut(scene.client().lock("door").acquire()))
        if lease is not None:
            await lease.release()

    awaits = at_every_await(store, moment, play)

    assert awaits >= (1 if store.startswith("sqlite") else 0)


def test_a_cancelled_waiter_leaves_nothing_behind(store, moment):
    """Law 6: a waiter leaves nothing behind, even if cancelled when woken, admitted or granted."""

    async def play(scene, cut):
        holder, watcher = await scene.client().lock("door").acquire(), scene.client()
        waiting = asyncio.create_task(struck(cut(scene.client().lock("door").acquire())))
        while not (waiting.done() or (await watcher.inspect("door")).line):  # noqa: ASYNC110
            await asyncio.sleep(0)  # only the store knows whether it is in line
        await holder.release()
        lease = await waiting
        if lease is not None:
            await lease.release()

    awaits = at_every_await(store, moment, play)

    assert awaits >= (3 if store.startswith("sqlite") else 1)


def test_a_cancelled_wait_that_would_have_timed_out_leaves_nothing_behind(store, moment):
    """Law 6: the withdrawal after a timeout completes even if it is cancelled."""

    async def in_vain(scene: Scene) -> None:
        with pytest.raises(AcquireTimeout):
            await scene.client().lock("door").acquire(timeout=0.05)

    async def play(scene, cut):
        holder, watcher = await scene.client().lock("door").acquire(), scene.client()
        await struck(cut(in_vain(scene)))
        assert (await watcher.inspect("door")).line == ()
        await holder.release()

    assert at_every_await(store, moment, play) >= 1


def test_a_cancelled_release_frees_the_lock_all_the_same(store, moment):
    """Law 6: a release that has begun is shielded from cancellation."""

    async def play(scene, cut):
        lease = await scene.client().lock("door").acquire()
        await struck(cut(lease.release()))
        assert not lease.is_trusted

    # A release in memory never waits: there is nothing to cancel.
    least = 0 if store.startswith("memory") else 1
    assert at_every_await(store, moment, play) >= least


def not_begun(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Return a task that even an eager factory does not begin at once."""
    return asyncio.Task(coroutine, loop=asyncio.get_running_loop())


def test_a_release_that_was_cancelled_before_it_began_can_be_made_again(store):
    """A release that was cancelled before it began leaves the lease intact."""

    async def play() -> AsyncLease:
        async with scene_of(store) as scene:
            lease = await scene.client().lock("door").acquire()
            task = not_begun(lease.release())
            task.cancel()
            await asyncio.wait([task])
            lease.check()
            await lease.release()
            await scene.is_clear()
            return lease

    assert asyncio.run(play()).is_trusted is False


def test_an_acquire_that_was_cancelled_before_it_began_leaves_nothing_behind(store):
    """An acquire that was cancelled before it began has requested nothing."""

    async def play() -> bool:
        async with scene_of(store) as scene:
            task = not_begun(scene.client().lock("door").acquire())
            task.cancel()
            await asyncio.wait([task])
            await scene.is_clear()
            return task.cancelled()

    assert asyncio.run(play())


def test_a_cancelled_block_is_left_with_the_lock_free(store, moment):
    """A block releases its lock wherever it is cancelled: on entry, inside, or on exit."""

    async def block(scene: Scene) -> None:
        async with scene.client().lock("door") as lease:
            await asyncio.sleep(0)
            await lease.renew()

    async def play(scene, cut):
        await struck(cut(block(scene)))

    # With the memory store, the verbs themselves never wait.
    assert at_every_await(store, moment, play) >= (1 if store.startswith("memory") else 2)


def test_a_cancelled_all_takes_all_or_nothing(store, moment):
    """A cancelled `all` releases the names acquired so far, and the release is shielded."""

    async def block(scene: Scene) -> None:
        async with scene.client().all("door", "window", "attic"):
            await asyncio.sleep(0)

    async def play(scene, cut):
        await struck(cut(block(scene)))
        assert [one.name async for one in scene.client().survey()] == []

    # With the memory store, the verbs themselves never wait.
    assert at_every_await(store, moment, play) >= (1 if store.startswith("memory") else 2)
