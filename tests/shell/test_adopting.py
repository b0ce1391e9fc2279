"""A lease on its way from one process to another is adopted once, however many try."""

from __future__ import annotations

import asyncio

import pytest
from both_flavours import FLAVOURS, Flavour

from lockfast import AsyncLocks, LeaseLost, OutcomeUnknown
from lockfast.backends.memory._async.backend import AsyncMemoryBackend
from lockfast.backends.memory.store import MemoryStore
from lockfast.testing import AsyncFaultyBackend, VirtualClock, run_in_virtual_time


@pytest.fixture(params=FLAVOURS)
def flavour(request):
    flavour = Flavour(request.param)
    yield flavour
    flavour.close()


def test_of_many_who_adopt_through_one_client_at_once_one_has_it(flavour, tmp_path):
    url = f"sqlite://{tmp_path}/locks.db"
    text = flavour.locks(url).lock("door").acquire().detach()
    locks = flavour.locks(url)

    under_way = [flavour.start(locks.adopt, text) for _ in range(8)]

    errors = [one.exception(20) for one in under_way]
    assert [type(one) for one in errors if one is not None] == [LeaseLost] * 7
    [lease] = [one.result() for one in under_way if one.exception() is None]
    assert lease.is_trusted


def test_what_is_still_to_be_released_is_not_adopted_once_more(tmp_path):
    """The release in the background would end the lease while the second owner uses it."""

    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = MemoryStore(clock)
        backend = AsyncFaultyBackend(AsyncMemoryBackend(clock=clock, store=store), clock=clock)
        async with AsyncLocks.from_backend(backend, clock=clock) as locks:
            text = await (await locks.lock("door").acquire()).detach()
            adopted = await locks.adopt(text)
            backend.hang("release", times=2)
            with pytest.raises(OutcomeUnknown):
                await adopted.release()

            with pytest.raises(LeaseLost):
                await locks.adopt(text)

    run_in_virtual_time(main())
