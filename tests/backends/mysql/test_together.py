"""Requests that wait at the same time share one commit; each gets its own reply or error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from backends.mysql import each_server
from backends.sql.together_laws import TogetherLaws
from going_together import FIRST, PATIENCE, Subject, claim, names, until

from lockfast import LockError, OutcomeUnknown
from lockfast.backends.mysql._async.transport import AsyncMysqlTransport
from lockfast.backends.mysql.address import address_of_url
from lockfast.backends.mysql.statements import MysqlStatements
from lockfast.backends.sql._async.group_commit import AsyncGroupCommit
from lockfast.backends.sql._sync.group_commit import GroupCommit
from lockfast.backends.sql.batch import Operation, OperationKind
from lockfast.core.naming import storage_key
from lockfast.runtime.clock import Clock
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.proxy import Proxy

BATCH = "lockfast_deeds"
"""Text that occurs in every statement of a batch, and in no other statement."""

server = each_server.server


@pytest.fixture
def statements(tables) -> MysqlStatements:
    return MysqlStatements(tables, namespace="test")


@pytest.fixture
def subject(transport, statements) -> Iterator[Subject]:
    one = Subject(transport, statements, batch="SET")
    yield one
    one.close()


@pytest.fixture
def standstill(monkeypatch) -> None:
    """Keep callers from giving up on the batch under way, since the tests count statements."""
    for queue in (AsyncGroupCommit, GroupCommit):
        monkeypatch.setattr(queue, "_stale_after", PATIENCE)


@contextmanager
def locked_out(server, tables) -> Iterator[None]:
    """Make every statement on the table wait, as if the server were slow."""
    with server.connect("test") as connection, connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLES {tables.door} WRITE")
        yield


def standing(server, tables, text: str = "") -> list[int]:
    """Return the sessions whose statement contains this text and waits for the table."""
    rows = server.run(
        "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table%%'"
        " AND INFO LIKE %s AND INFO LIKE %s",
        f"%{tables.table}%",
        f"%{text}%",
    )
    return [row[0] for row in rows]


def busy(subject: Subject, server, tables) -> list[Future[Any]]:
    """Occupy all batches that may be in flight, by taking the names in `FIRST`."""
    first = [subject.start("take", claim(one)) for one in FIRST]
    eventually(lambda: len(standing(server, tables)) == len(first))
    return first


def taken(server, tables) -> int:
    """Return how many names are held."""
    [[count]] = server.run(f"SELECT count(*) FROM {tables.door} WHERE id <> ''", database="test")
    return count


class Stage:
    """Ways to hold up and break this server."""

    def __init__(self, server: Any, tables: Any, another: Callable[[], Subject]) -> None:
        self._server = server
        self._tables = tables
        self.another = another

    def locked_out(self) -> AbstractContextManager[None]:
        return locked_out(self._server, self._tables)

    def busy(self, subject: Subject) -> list[Future[Any]]:
        return busy(subject, self._server, self._tables)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        with self._server.connect("test", autocommit=False) as other, other.cursor() as cursor:
            key = storage_key("test", name)
            text = f"SELECT * FROM {self._tables.door} WHERE `key` = %s FOR UPDATE"
            cursor.execute(text, (key,))
            yield
            other.rollback()

    def end_first(self) -> int:
        return self._end("")

    def end_batch(self) -> int:
        return self._end(BATCH)

    def _end(self, text: str) -> int:
        found = standing(self._server, self._tables, text)
        for one in found:
            self._server.run("KILL %s", one)
        return len(found)

    def deadlocks(self) -> Any:
        return self._server.run("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")


@pytest.fixture
def stage(server, tables, wire_to, statements) -> Stage:
    return Stage(server, tables, lambda: Subject(wire_to(server.url()), statements, batch="SET"))


class TestTogether(TogetherLaws):
    """The tests for every SQL server."""


# -- alone, and together ---------------------------------------------------------------------------


def test_one_who_is_alone_goes_at_once_by_the_plain_statement(subject) -> None:
    subject.know("door")
    one = claim("door")

    assert subject.call("take", one) is not None
    assert subject.call("take", claim("door")) is None
    assert subject.call("give_back", one)
    assert not subject.call("give_back", one)

    assert subject.asked == ["UPDATE"] * 4


def test_a_name_that_nobody_knows_is_taken_by_one_who_says_so(subject) -> None:
    deadline = subject.flavour.clock.now() + PATIENCE
    take = subject.inner.take
    first, second = claim("door"), claim("door")

    assert subject.call("take", first) is None
    token = subject.flavour.call(take, first, deadline=deadline, is_known=False)
    assert token is not None
    assert subject.flavour.call(take, second, deadline=deadline, is_known=False) is None
    assert subject.call("give_back", first)
    assert subject.flavour.call(take, second, deadline=deadline, is_known=False) > token


def test_what_goes_together_is_as_if_each_went_alone(transport, server, tables, statements) -> None:
    """A batch stores everything that a claim carries, such as permits, a delay and an owner."""
    alone, other = (
        replace(claim(name), weight=2, capacity=5, lock_delay=3.0, min_hold=4.0, party="saga")
        for name in ("alone", "other")
    )
    transport.run(statements.take_new(alone))
    operations = [Operation(OperationKind.TAKE, other, is_known=False)]

    [token] = statements.done(operations, transport.run_all(statements.together(operations)))

    columns = "client, owner, party, weight, ttl, lock_delay, min_hold, standing, bell, capacity"
    rows = f"SELECT {columns}, ROUND(until - since - ttl, 3), crowd, head FROM {tables.door}"
    assert len(set(server.run(rows, database="test"))) == 1
    told = f"SELECT token, last_token FROM {tables.door} WHERE id = %s"
    assert server.run(told, other.id, database="test") == ((token, token),)


def test_names_that_nobody_knows_are_made_known_on_the_way(transport, statements) -> None:
    operations = [
        Operation(OperationKind.TAKE, claim(one), is_known=i % 2 > 0)
        for i, one in enumerate(names(4))
    ]

    done = statements.done(operations, transport.run_all(statements.together(operations)))

    assert [token is not None for token in done] == [True, False, True, False]


@pytest.mark.parametrize("name", ["n" * 512, "\x00'\"\\", "naïve 🔒", "a ", "{}", "%s"])
def test_any_name_can_go_with_others(transport, statements, name) -> None:
    operations = [
        Operation(OperationKind.TAKE, claim(one), is_known=False) for one in (name, "other")
    ]

    assert None not in statements.done(
        operations, transport.run_all(statements.together(operations))
    )


# -- failures of one operation ---------------------------------------------------------


def test_what_the_server_refuses_because_of_one_is_done_for_the_others(
    subject, server, tables, standstill
) -> None:
    subject.know(*FIRST, *names(5))
    with locked_out(server, tables):
        busy(subject, server, tables)
        guilty = subject.start("take", claim("name 0", ttl=float("inf")))
        others = [subject.start("take", claim(one)) for one in names(5)[1:]]
        eventually(lambda: subject.number_waiting == 5)

    assert None not in [one.result(PATIENCE) for one in others]
    with pytest.raises(LockError, match="inf"):
        guilty.result(PATIENCE)


def test_a_cancelled_task_does_not_end_what_the_others_wait_for(
    server, tables, statements, standstill
) -> None:
    """Cancelling a task does not end the batch that this task sends for other tasks.

    An operation that is cancelled while it is still queued is left out of the batch.
    """

    async def main() -> None:
        clock = Clock()
        address = address_of_url(server.url(), where="here", options={})
        transport = AsyncMysqlTransport(address, clock=clock)
        together = AsyncGroupCommit(transport, statements, clock=clock)

        def start(name: str, within: float) -> asyncio.Task[Any]:
            taking = together.take(claim(name), deadline=clock.now() + within)
            return asyncio.ensure_future(taking)

        for one in (*FIRST, *names(4)):
            known = claim(one)
            await together.take(known, deadline=clock.now() + PATIENCE, is_known=False)
            await together.give_back(known, deadline=clock.now() + PATIENCE)
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
        await asyncio.wait(first)
        await together.close()
        await transport.close()

    asyncio.run(main())


# -- failures of the whole batch -------------------------------------------------------


@pytest.fixture
def proxied(wire_to, server, outliving) -> tuple[Proxy, Any]:
    proxy = outliving.enter_context(Proxy(server.port))
    return proxy, wire_to(f"mariadb://root@127.0.0.1:{proxy.port}/test")


@pytest.mark.usefixtures("standstill")
@pytest.mark.parametrize("lost", ["lose_reply_to", "cut_reply_to", "reset_on"])
def test_a_batch_whose_answer_is_lost_leaves_all_of_them_in_doubt(
    proxied, server, tables, statements, lost
) -> None:
    """All operations share one commit, so either all of them were done or none."""
    proxy, transport = proxied
    subject = Subject(transport, statements, batch="SET")
    subject.know(*FIRST, *names(5))
    getattr(proxy, lost)(BATCH.encode())
    with locked_out(server, tables):
        first = busy(subject, server, tables)
        # Only with `lose_reply_to` do the callers wait until their deadline.
        within = 6.0 if lost == "lose_reply_to" else PATIENCE
        asked = [subject.start("take", claim(one), within=within) for one in names(5)]
        eventually(lambda: subject.number_waiting == 5)

    for one in asked:
        with pytest.raises(OutcomeUnknown):
            one.result(PATIENCE)
    assert all(one.result(PATIENCE) is not None for one in first)
    done = 0 if lost == "reset_on" else 5
    eventually(lambda: taken(server, tables) == len(first) + done)
    assert len({id(one.exception()) for one in asked}) == 5
    subject.close()
