"""If one caller of a group commit leaves, the other callers still get their reply or error."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from going_together import (
    FIRST,
    PATIENCE,
    claim,
    locked_out,
    names,
    on_a_loop,
    until,
)

from lockfast import OutcomeUnknown
from lockfast.backends.postgresql._sync.transport import PostgresqlTransport
from lockfast.backends.postgresql.address import address_of_url
from lockfast.backends.postgresql.statements import PostgresqlStatements
from lockfast.backends.sql._async.group_commit import AsyncGroupCommit
from lockfast.backends.sql._sync.group_commit import GroupCommit
from lockfast.backends.sql.batch import Operation, OperationKind
from lockfast.backends.sql.turns import Turn
from lockfast.runtime.clock import Clock
from lockfast_challenge.processes import eventually


@pytest.fixture
def statements(tables) -> PostgresqlStatements:
    return PostgresqlStatements(tables, namespace="test")


@pytest.fixture
def standstill(monkeypatch) -> None:
    """Keep callers from giving up on the batch under way, since the tests count statements."""
    for queue in (AsyncGroupCommit, GroupCommit):
        monkeypatch.setattr(queue, "_stale_after", PATIENCE)


def test_a_task_that_is_alone_needs_no_other(server, statements) -> None:
    async def main(together: AsyncGroupCommit, clock: Clock) -> None:
        made: list[Any] = []
        asyncio.get_running_loop().set_task_factory(
            lambda loop, work, **more: made.append(work) or asyncio.Task(work, loop=loop, **more)
        )
        one = claim("door")
        await together.take(one, deadline=clock.now() + PATIENCE)
        await together.give_back(one, deadline=clock.now() + PATIENCE)

        assert made == together._tasks == []

    on_a_loop(server, statements, main)


# -- a caller that goes away -----------------------------------------------------------


def test_a_cancelled_task_does_not_end_what_the_others_wait_for(
    server, tables, statements, standstill
) -> None:
    """Cancelling a task does not end the batch that this task sends for other tasks.

    An operation that is cancelled while it is still queued is left out of the batch.
    """

    async def main(together: AsyncGroupCommit, clock: Clock) -> None:
        def start(name: str, within: float) -> asyncio.Task[Any]:
            taking = together.take(claim(name), deadline=clock.now() + within)
            return asyncio.ensure_future(taking)

        for one in (claim(one) for one in (*FIRST, *names(4))):
            await together._do_batch(
                [Operation(OperationKind.TAKE, one)], clock.now() + PATIENCE, Turn()
            )
            await together.give_back(one, deadline=clock.now() + PATIENCE)
        with locked_out(server, tables):
            first = [start(one, PATIENCE) for one in FIRST]
            await asyncio.sleep(0)
            waiting = [start(one, PATIENCE) for one in names(4)[:3]]
            carrier = start("name 3", 2 * PATIENCE)
            gone = start("name 0", PATIENCE)
            await until(lambda: len(together._queue) == 5)
            gone.cancel()
            first[0].cancel()
            await until(lambda: together._tasks)
            carrier.cancel()
            await asyncio.wait([carrier, gone, first[0]])

        assert None not in await asyncio.gather(*waiting)
        assert carrier.cancelled()
        # The cancelled task's operation was done, although the task cannot know that.
        assert await together.take(claim("name 3"), deadline=clock.now() + PATIENCE) is None

    on_a_loop(server, statements, main)


def test_closing_ends_what_is_under_way_and_tells_those_who_wait(
    server, tables, statements, standstill
) -> None:
    async def main(together: AsyncGroupCommit, clock: Clock) -> None:
        def start(name: str) -> asyncio.Task[Any]:
            return asyncio.ensure_future(together.take(claim(name), deadline=clock.now() + 9.0))

        with locked_out(server, tables):
            first = [start(one) for one in FIRST]
            await asyncio.sleep(0)
            waiting = [start(one) for one in names(3)]
            await until(lambda: len(together._queue) == 3)
            first[0].cancel()
            await until(lambda: together._tasks)
            await together.close()
            told = await asyncio.gather(*waiting, return_exceptions=True)
            first[1].cancel()
            await asyncio.wait(first)

        assert [type(one) for one in told] == [OutcomeUnknown] * 3
        assert {one.get_name() for one in asyncio.all_tasks()} == {
            asyncio.current_task().get_name()
        }

    on_a_loop(server, statements, main)


def test_a_forked_child_waits_for_nobody_of_its_parent(
    server, tables, statements, standstill
) -> None:
    clock = Clock()
    address = address_of_url(server.url(), where="here", options={})
    transport = PostgresqlTransport(address, clock=clock)
    together = GroupCommit(transport, statements, clock=clock)
    with ThreadPoolExecutor(4) as pool:
        with locked_out(server, tables):
            asked = [
                pool.submit(together.take, claim(one), deadline=clock.now() + PATIENCE)
                for one in (*FIRST, "name 0", "name 1")
            ]
            eventually(lambda: len(together._queue) == 2)
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    transport.after_fork_in_child()
                    together.after_fork_in_child()
                    is_free = not (together._is_full(clock.now()) or together._queue)
                    status = 0 if is_free else 2
                finally:
                    os._exit(status)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert None not in [one.result(PATIENCE) for one in asked[2:]]
    transport.close()
