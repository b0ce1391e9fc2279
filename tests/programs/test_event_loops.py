"""Programs whose event loop is not asyncio's own: uvloop is supported."""

from __future__ import annotations

import asyncio

import pytest
import uvloop
from servers import etcd, redis

from lockfast import AsyncLocks, LeaseLost


@pytest.fixture(params=["sqlite", "redis", "etcd"])
def url(request, tmp_path) -> str:
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/locks.db"
    return (redis if request.param == "redis" else etcd).shared_server().url


def test_tasks_on_uvloop_exclude_each_other_and_are_woken_and_told(url):
    inside: list[int] = []
    most: list[int] = []

    async def work(locks: AsyncLocks, number: int) -> None:
        for _ in range(5):
            async with locks.lock("door", timeout=30):
                inside.append(number)
                most.append(len(inside))
                await asyncio.sleep(0)
                inside.remove(number)

    async def sleep_although_it_is_broken(locks: AsyncLocks) -> None:
        async with locks.lock("door"):
            await locks.break_("door")
            await asyncio.sleep(30)

    async def main() -> None:
        async with AsyncLocks(url, namespace="loops") as locks, asyncio.TaskGroup() as tasks:
            for number in range(8):
                tasks.create_task(work(locks, number))
        async with AsyncLocks(url, namespace="loops") as locks:
            with pytest.raises(LeaseLost, match="broken"):
                await sleep_although_it_is_broken(locks)

    uvloop.run(main())

    assert most == [1] * 40
