"""A lease that is handed over, on a store whose requests take time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lockfast import AsyncLease, AsyncLocks, LeaseLost


def test_of_two_tasks_that_adopt_in_the_same_instant_one_has_it(tmp_path: Path) -> None:
    """Two tasks that adopt one lease at once look alike to the store, but only one gets it."""

    async def scenario() -> None:
        async with AsyncLocks(f"sqlite://{tmp_path}/locks.db") as locks:
            text = await (await locks.lock("door").acquire()).detach()

            answers = await asyncio.gather(
                locks.adopt(text), locks.adopt(text), return_exceptions=True
            )

            [lease] = [one for one in answers if isinstance(one, AsyncLease)]
            assert [type(one) for one in answers if one is not lease] == [LeaseLost]
            assert lease.is_trusted
            await lease.release()

    asyncio.run(scenario())
