"""A few connections serve all requests, each with a deadline, and never mix up replies."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from typing import Any

import pytest
from asyncmy.errors import OperationalError

from lockfast import BackendUnavailable, OutcomeUnknown
from lockfast.backends.mysql import connection_aio, connection_setup, session_variables
from lockfast.backends.mysql.address import Address
from lockfast.backends.sql._sync.pool import TRUSTED_UNPOLLED_SECONDS
from lockfast.backends.sql.steps import Query, QueryMany
from lockfast.runtime.clock import Clock
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.mysql import MariadbServer
from lockfast_challenge.servers.proxy import Proxy

ME = "SELECT CONNECTION_ID()"

PATIENCE = 20.0
"""A timeout that only a hang exceeds, in seconds."""


def running(server: MariadbServer, text: str) -> list[int]:
    """Return the sessions that are running a statement with this text."""
    rows = server.run(
        "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()"
        " AND INFO LIKE %s",
        f"%{text}%",
    )
    return [row[0] for row in rows]


def adding(table: str, *rows: int):
    """Return steps that add one to each of the rows, and read the sum."""

    def steps():
        for k in rows:
            yield [Query(f"SELECT v FROM {table} WHERE k = %s FOR UPDATE", (k,))]
            yield [QueryMany(f"UPDATE {table} SET v = v + 1 WHERE k = %s", [(k,)])]
        [[(total,)]] = yield [Query(f"SELECT CAST(SUM(v) AS SIGNED) FROM {table}", ())]
        return total

    return steps


def total(server: MariadbServer, table: str) -> int:
    return int(server.run(f"SELECT SUM(v) FROM {table}", database="test")[0][0])


def test_values_come_back_as_they_were_given(transport) -> None:
    values = ("naïve ' \" \\ % \0 🔒", b"\0\xff'\\%", 0.1 + 0.2, 2**53 - 1, None)
    kinds = "CONVERT(%s USING utf8mb4), CAST(%s AS BINARY), %s + 0, %s + 0, %s"

    [found] = transport.ask(f"SELECT {kinds}", *values)

    assert tuple(found) == values


def test_the_session_is_as_we_need_it_whatever_the_servers_defaults(wire_to) -> None:
    defaults = ("--transaction-isolation=SERIALIZABLE", "--sql-mode=ANSI,NO_BACKSLASH_ESCAPES")
    with MariadbServer(*defaults, "--default-time-zone=+07:00") as one:
        transport = wire_to(one.url("mysql"))

        [found] = transport.ask(
            "SELECT @@tx_isolation, @@time_zone, @@autocommit, %s", 'it\'s \\ "x"'
        )

        assert tuple(found) == ("READ-COMMITTED", "+00:00", 1, 'it\'s \\ "x"')
        transport.close()


def test_after_an_error_the_connection_is_as_good_as_before(transport) -> None:
    before = transport.ask(ME)
    with pytest.raises(Exception, match=r"SQL syntax"):
        transport.ask("SELEKT 1")

    assert transport.ask(ME) == before


def test_a_request_that_is_not_answered_in_time_ends_its_connection(transport) -> None:
    """A late reply must not be taken for the reply to the next request."""
    before = transport.ask(ME)
    with pytest.raises(OutcomeUnknown, match="did not answer"):
        transport.ask("SELECT SLEEP(30)", within=0.2)

    assert transport.ask(ME) != before


def test_four_connections_serve_any_number(transport) -> None:
    tasks = [transport.flavour.start(transport.ask, "SELECT SLEEP(0.02), %s", i) for i in range(24)]

    answers = [one.result()[0][1] for one in tasks]

    assert answers == list(range(24))
    assert transport.inner.connections == 4


def test_who_gets_no_connection_in_time_has_asked_nothing(wire_to, server) -> None:
    transport = wire_to(server.url(), most=1)
    transport.ask("SELECT 1")
    busy = transport.flavour.start(transport.ask, "SELECT SLEEP(0.613)")
    eventually(lambda: running(server, "SLEEP(0.613)"))

    with pytest.raises(BackendUnavailable, match="no connection was free in time"):
        transport.ask("SELECT 1", within=0.05)

    busy.result()


def test_a_session_that_the_server_ended_is_replaced(transport, server) -> None:
    """The loss is noticed before anything is sent, so no outcome is in doubt."""
    [(number,)] = transport.ask(ME)
    [connection] = transport.inner._pool._idle
    server.run("KILL %s", number)
    eventually(lambda: not connection.is_sound())
    # A connection that answered a moment ago is not checked.
    eventually(
        lambda: transport.flavour.clock.now() - connection.used_at > TRUSTED_UNPOLLED_SECONDS
    )

    assert transport.ask(ME) != [(number,)]


def test_a_session_that_is_ended_in_the_middle_leaves_us_in_doubt(transport, server) -> None:
    asked = transport.flavour.start(transport.ask, "SELECT SLEEP(47)")
    eventually(lambda: running(server, "SLEEP(47)"))
    for one in running(server, "SLEEP(47)"):
        server.run("KILL %s", one)

    with pytest.raises(OutcomeUnknown):
        asked.result()

    assert [tuple(row) for row in transport.ask("SELECT 1")] == [(1,)]


@pytest.mark.parametrize("nothing", ["lose_reply_to", "cut_reply_to", "reset_on"])
def test_a_transaction_that_is_cut_before_its_commit_did_nothing(
    wire_to, server, numbers, nothing
) -> None:
    with Proxy(server.port) as proxy:
        transport = wire_to(f"mariadb://root@127.0.0.1:{proxy.port}/test")
        transport.ask("SELECT 1")
        getattr(proxy, nothing)(b"SUM(v)")

        with pytest.raises(BackendUnavailable, match="nothing was done"):
            transport.transact(adding(numbers, 1), within=1.0)

        transport.close()
    eventually(lambda: wire_is_free(server, numbers), what="the row is unlocked")
    assert total(server, numbers) == 0


def wire_is_free(server: MariadbServer, table: str) -> bool:
    text = f"SELECT k FROM {table} FOR UPDATE SKIP LOCKED"
    return len(server.run(text, database="test")) == 2


@pytest.mark.parametrize("doubt", ["lose_reply_to", "cut_reply_to"])
def test_a_commit_whose_answer_is_lost_leaves_us_in_doubt(wire_to, server, numbers, doubt) -> None:
    with Proxy(server.port) as proxy:
        transport = wire_to(f"mariadb://root@127.0.0.1:{proxy.port}/test")
        transport.ask("SELECT 1")
        getattr(proxy, doubt)(b"COMMIT")

        with pytest.raises(OutcomeUnknown):
            transport.transact(adding(numbers, 1), within=1.0)

        transport.close()
    assert total(server, numbers) == 1


def test_what_the_steps_refuse_is_rolled_back(transport, server, numbers) -> None:
    def steps():
        yield from adding(numbers, 1, 2)()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        transport.transact(steps)

    eventually(lambda: wire_is_free(server, numbers), what="the rows are unlocked")
    assert total(server, numbers) == 0


def test_a_refusal_of_the_steps_costs_no_connection(transport, numbers) -> None:
    before = transport.ask(ME)

    def steps():
        yield from adding(numbers, 1)()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        transport.transact(steps)

    assert transport.ask(ME) == before
    assert transport.transact(adding(numbers, 1)) == 1


def test_an_interrupt_in_the_middle_ends_the_connection(transport, server, numbers) -> None:
    """Otherwise the next transaction on the connection would commit the half-done one."""
    before = transport.ask(ME)

    def steps():
        yield from adding(numbers, 1)()
        raise Interrupt

    with pytest.raises(Interrupt):
        transport.transact(steps)

    assert transport.ask(ME) != before
    eventually(lambda: wire_is_free(server, numbers), what="the row is unlocked")
    assert transport.transact(adding(numbers, 1)) == 1


class Interrupt(BaseException):
    """A stand-in for KeyboardInterrupt that only this test raises."""


def test_the_victim_of_a_deadlock_begins_anew(transport, server, numbers) -> None:
    there = [transport.flavour.start(transport.transact, adding(numbers, 1, 2)) for _ in range(10)]
    back = [transport.flavour.start(transport.transact, adding(numbers, 2, 1)) for _ in range(10)]

    for one in (*there, *back):
        one.result()

    assert total(server, numbers) == 40


def test_a_row_that_stays_locked_is_waited_for_until_the_deadline(
    transport, server, numbers
) -> None:
    """The client waits beyond the server's lock timeout; after the deadline, nothing was done."""
    with server.connect("test", autocommit=False) as other, other.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {numbers} FOR UPDATE")
        waiting = transport.flavour.start(transport.transact, adding(numbers, 1))
        with pytest.raises(BackendUnavailable):
            transport.transact(adding(numbers, 1), within=session_variables.LOCK_WAIT_SECONDS + 0.5)
        other.rollback()

    assert waiting.result() == 1


def test_who_stands_still_in_a_transaction_loses_it(transport, server, numbers) -> None:
    """Otherwise a frozen client would close the name to everyone."""
    assert transport.transact(adding(numbers, 1)) == 1

    def frozen():
        yield [Query(f"SELECT v FROM {numbers} FOR UPDATE", ())]
        time.sleep(connection_setup.IDLE_TRANSACTION_SECONDS + 2)
        yield [Query(f"UPDATE {numbers} SET v = 100", ())]

    stopped = transport.flavour.start(transport.transact, frozen)
    if transport.flavour.name == "sync":
        eventually(lambda: not wire_is_free(server, numbers), what="it has locked the rows")
        assert transport.transact(adding(numbers, 1)) == 2
    with pytest.raises(BackendUnavailable, match="nothing was done"):
        stopped.result()

    assert total(server, numbers) == (2 if transport.flavour.name == "sync" else 1)


def test_an_idle_connection_is_left_before_the_server_ends_it(transport, monkeypatch) -> None:
    before = transport.ask(ME)
    monkeypatch.setattr(transport.inner._pool, "_idle_for", 0.0)

    assert transport.ask(ME) != before
    assert transport.inner.connections == 1


def test_a_closed_wire_leaves_nothing_behind(transport, server) -> None:
    [(number,)] = transport.ask(ME)

    transport.close()

    gone = "SELECT count(*) FROM information_schema.PROCESSLIST WHERE ID = %s"
    eventually(lambda: server.run(gone, number) == ((0,),), what="the server sees nobody")
    assert transport.inner.connections == 0


def test_a_refusal_that_comes_to_a_cancelled_task_is_nobodys_complaint(monkeypatch) -> None:
    """Otherwise the loop would report the error that nobody retrieves as if it were a defect."""

    class Refused:
        def __init__(self, **_: object) -> None:
            """Not connected yet."""

        async def connect(self) -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise OperationalError(1040, "Too many connections") from None

    monkeypatch.setattr(connection_aio, "Connection", Refused)
    complaints: list[Any] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
        clock = Clock()
        connection = connection_aio.MysqlConnection(clock=clock, where="mysql://here")
        address = Address("mysql://here", {})
        task = asyncio.ensure_future(connection.connect(address, deadline=clock.now() + 60))
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        for _ in range(3):
            await asyncio.sleep(0)
        gc.collect()

    asyncio.run(run())
    assert complaints == []


def test_a_machine_that_stands_still_while_one_connects_costs_no_more_than_the_deadline(
    monkeypatch,
) -> None:
    """Python 3.11 swallows a cancellation that arrives just as the connection is established."""

    async def run() -> None:
        loop, clock = asyncio.get_running_loop(), Clock()
        reach = loop.create_connection

        async def reached_at_the_deadline(*arguments: Any, **options: Any) -> Any:
            made, is_told = await reach(*arguments, **options), loop.create_future()
            loop.call_later(0, is_told.set_result, None)
            time.sleep(max(0.0, deadline - clock.now()) + 0.1)  # noqa: ASYNC251 - stalls the loop
            await is_told
            return made

        monkeypatch.setattr(loop, "create_connection", reached_at_the_deadline)
        connection = connection_aio.MysqlConnection(clock=clock, where="mysql://here")
        where = {"host": "127.0.0.1", "port": silent.getsockname()[1], "user": "root"}
        address = Address("mysql://here", where)
        deadline = clock.now() + 1.0
        task = asyncio.ensure_future(connection.connect(address, deadline=deadline))

        await asyncio.wait([task], timeout=PATIENCE)

        assert task.done(), "it waits for ever"
        assert task.exception() is not None

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(run())
