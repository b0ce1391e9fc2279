"""Requests that wait for each other go as one statement; each gets its own answer, or is told."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from eventually import eventually
from interrupting import interrupt, places

from holdfast import BackendUnavailable, ConfigurationError, OutcomeUnknown
from holdfast.backends.postgresql._async import together as async_together
from holdfast.backends.postgresql._async.together import AsyncTogether
from holdfast.backends.postgresql._sync import together as sync_together
from holdfast.backends.postgresql._sync.flight import Flight
from holdfast.backends.postgresql._sync.together import Together
from holdfast.backends.postgresql.addresses import address_of_url
from holdfast.backends.postgresql.connection import aio, threads
from holdfast.backends.postgresql.statements import Deed, Statements, What
from holdfast.core.naming import storage_key
from holdfast.model import Claim
from holdfast.runtime.clock import Clock

OWNER = '{"host": "here", "pid": 1, "label": "", "context": ""}'
PATIENCE = 20.0
"""What only a hang outlasts."""

STANDS = "wait_event_type = 'Lock' AND strpos(query, '{}') > 0"
"""Which sessions wait for a lock in such a statement."""


def claim(name: str, claim_id: str | None = None, **more: Any) -> Claim:
    name_of_claim = claim_id or os.urandom(8).hex()
    return Claim(name_of_claim, name, "client", OWNER, 1, 1, more.pop("ttl", 30.0), **more)


class Subject:
    """One client's; every call blocks, and every statement is counted."""

    def __init__(self, wire, statements: Statements) -> None:
        self.flavour = flavour = wire.flavour
        self.wire = wire
        kind = Together if flavour.name == "sync" else AsyncTogether
        self.inner: Any = flavour.call(lambda: kind(wire.inner, statements, clock=flavour.clock))
        self.asked: list[str] = []
        real = wire.inner.ask_all

        def ask_all(requests: Any, *, deadline: float) -> Any:
            self.asked.extend(one.statement.split()[0] for one in requests)
            return real(requests, deadline=deadline)

        wire.inner.ask_all = ask_all

    def call(self, verb: str, what: Any, within: float = PATIENCE) -> Any:
        deadline = self.flavour.clock.now() + within
        return self.flavour.call(getattr(self.inner, verb), what, deadline=deadline)

    def start(self, verb: str, what: Any, within: float = PATIENCE) -> Future[Any]:
        return self.flavour.start(self.call, verb, what, within)

    def know(self, *names: str) -> None:
        """Let the names be known and idle, as they are as a rule."""
        for name in names:
            one = claim(name)
            request = self.inner._statements.take_new(one)
            assert self.wire.run(request)
            assert self.call("give_back", one)
        self.asked.clear()

    @property
    def number_waiting(self) -> int:
        return len(self.inner._queue)

    @property
    def together(self) -> int:
        """How many statements went that do several things."""
        return self.asked.count("INSERT")

    def close(self) -> None:
        self.flavour.call(self.inner.close)


@pytest.fixture
def statements(tables) -> Statements:
    return Statements(tables, namespace="test")


@pytest.fixture
def subject(wire, statements) -> Iterator[Subject]:
    one = Subject(wire, statements)
    yield one
    one.close()


@pytest.fixture
def standstill(monkeypatch) -> None:
    """Let nobody lose patience with what is under way: how many statements go is on trial."""
    for module in (async_together, sync_together):
        monkeypatch.setattr(module, "LATE", PATIENCE)


@contextmanager
def locked_out(server, tables) -> Iterator[Any]:
    """Let every statement on the table wait, as if the server were slow."""
    with server.connect() as connection, connection.transaction():
        connection.execute(f"LOCK TABLE {tables.door} IN ACCESS EXCLUSIVE MODE")
        yield connection


def standing(server, text: str) -> int:
    """Return how many sessions wait for a lock in such a statement."""
    statement = f"SELECT count(*) FROM pg_stat_activity WHERE {STANDS.format(text)}"
    return int(server.run(statement)[0][0])


def busy(subject: Subject, server) -> list[Future[Any]]:
    """Let as much be under way as may be, by those who came first."""
    first = [subject.start("take", claim(f"first {i}")) for i in range(async_together.MOST)]
    eventually(lambda: standing(server, "RETURNING d.token") == len(first))
    return first


def on_a_loop(server, statements: Statements, main: Callable[..., Awaitable[None]]) -> None:
    """Run what is about tasks alone."""

    async def run() -> None:
        clock = Clock()
        address = address_of_url(server.url(), where="here", options={})
        wire = aio.Wire(address, clock=clock)
        together = AsyncTogether(wire, statements, clock=clock)
        await main(together, clock)
        await together.close()
        await wire.close()

    asyncio.run(run())


async def until(happens: Callable[[], Any]) -> None:
    await asyncio.to_thread(eventually, happens)


def names(count: int) -> list[str]:
    return [f"name {i}" for i in range(count)]


FIRST = [f"first {i}" for i in range(async_together.MOST)]


# -- alone -----------------------------------------------------------------------------


def test_one_who_is_alone_goes_at_once_by_the_plain_statement(subject) -> None:
    subject.know("door")
    one = claim("door")

    assert subject.call("take", one) is not None
    assert subject.call("take", claim("door")) is None
    assert subject.call("renew", [one, claim("door")]) == [True, False]
    assert subject.call("give_back", one)
    assert not subject.call("give_back", one)

    assert subject.asked == ["UPDATE", "UPDATE", "INSERT", "UPDATE", "UPDATE"]


def test_a_task_that_is_alone_needs_no_other(server, statements) -> None:
    async def main(together: AsyncTogether, clock: Clock) -> None:
        made: list[Any] = []
        asyncio.get_running_loop().set_task_factory(
            lambda loop, work, **more: made.append(work) or asyncio.Task(work, loop=loop, **more)
        )
        one = claim("door")
        await together.take(one, deadline=clock.now() + PATIENCE)
        await together.give_back(one, deadline=clock.now() + PATIENCE)

        assert made == together._tasks == []

    on_a_loop(server, statements, main)


# -- together --------------------------------------------------------------------------


def test_those_who_come_meanwhile_go_as_one_statement(subject, server, tables, standstill) -> None:
    subject.know(*FIRST, *names(9))
    held = [claim(one) for one in names(9)]
    for one in held[:6]:
        subject.call("take", one)
    subject.asked.clear()
    with locked_out(server, tables):
        first = busy(subject, server)
        freed = [subject.start("give_back", one) for one in held[:3]]
        kept = subject.start("renew", held[3:6])
        taken = [subject.start("take", one) for one in held[6:]]
        eventually(lambda: subject.number_waiting == 7)

    assert all(one.result(PATIENCE) is not None for one in first + taken)
    assert [one.result(PATIENCE) for one in freed] == [True] * 3
    assert kept.result(PATIENCE) == [True] * 3
    assert subject.asked == ["UPDATE"] * len(first) + ["INSERT"]


def test_who_wants_a_name_that_is_in_the_batch_already_goes_with_the_next(
    subject, server, tables, standstill
) -> None:
    subject.know(*FIRST, *names(2))
    with locked_out(server, tables):
        busy(subject, server)
        asked = [subject.start("take", claim(one)) for one in names(2) * 3]
        eventually(lambda: subject.number_waiting == 6)

    answers = [one.result(PATIENCE) for one in asked]

    assert [answer is not None for answer in answers].count(True) == 2
    assert subject.together >= 3


def test_a_hundred_at_once_on_names_of_their_own_all_get_them(subject) -> None:
    count = 100 if subject.flavour.name == "async" else 16
    subject.know(*names(count))

    def cycle(name: str) -> None:
        for _ in range(5):
            one = claim(name)
            assert subject.call("take", one) is not None
            assert subject.call("renew", [one]) == [True]
            assert subject.call("give_back", one)

    with ThreadPoolExecutor(count) as threads:
        list(threads.map(cycle, names(count)))

    assert len(subject.asked) < 3 * 5 * count / 2


def test_names_that_nobody_knows_are_made_known_on_the_way(
    subject, server, tables, standstill
) -> None:
    with locked_out(server, tables):
        busy(subject, server)
        asked = [subject.start("take", claim(one)) for one in names(5)]
        eventually(lambda: subject.number_waiting == 5)

    assert None not in [one.result(PATIENCE) for one in asked]


def test_two_clients_never_hold_one_name_and_never_stand_in_each_others_way(
    wire_to, server, tables, statements
) -> None:
    subjects = [Subject(wire_to(server.url()), statements) for _ in range(2)]
    subjects[0].know(*names(6))
    before = server.run("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'")
    inside: Counter[str] = Counter()
    last: dict[str, int] = {}
    state = threading.Lock()

    def work(number: int) -> int:
        subject, dice, grants = subjects[number % 2], random.Random(number), 0  # noqa: S311
        for _ in range(30):
            one = claim(dice.choice(names(6)))
            token = subject.call("take", one)
            if token is None:
                continue
            with state:
                inside[one.name] += 1
                assert inside[one.name] == 1
                assert token > last.get(one.name, 0)
                last[one.name] = token
                inside[one.name] -= 1
            grants += 1
            while not subject.call("give_back", one):
                pass  # its row was locked by one of the others; the door would wait for it
        return grants

    with ThreadPoolExecutor(16) as threads:
        assert sum(threads.map(work, range(16))) > 0

    assert server.run("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'") == before
    for one in subjects:
        one.close()


# -- what goes wrong for one -----------------------------------------------------------


def test_what_the_server_refuses_because_of_one_is_done_for_the_others(
    subject, server, tables, standstill
) -> None:
    subject.know(*FIRST, *names(6))
    with locked_out(server, tables):
        busy(subject, server)
        guilty = subject.start("take", claim("name 0", party="a\0b"))
        others = [subject.start("take", claim(one)) for one in names(5)[1:]]
        endless = subject.start("take", claim("name 5", ttl=float("inf")))
        eventually(lambda: subject.number_waiting == 6)

    assert None not in [one.result(PATIENCE) for one in others]
    assert endless.result(PATIENCE) is not None
    with pytest.raises(ConfigurationError, match="encoding cannot hold this text"):
        guilty.result(PATIENCE)


@pytest.mark.parametrize("name", ["n" * 512, "\x00'\"\\", "naïve 🔒", "a ", "{}", "%s"])
def test_any_name_can_go_with_others(subject, server, tables, standstill, name) -> None:
    with locked_out(server, tables):
        busy(subject, server)
        asked = [subject.start("take", claim(one)) for one in (name, "other")]
        eventually(lambda: subject.number_waiting == 2)

    assert None not in [one.result(PATIENCE) for one in asked]


def test_a_name_that_somebody_has_locked_holds_up_nobody_else(subject, server, tables) -> None:
    """Nor do those who come for that very name, one after the other."""
    subject.know("stuck", *names(10))
    with server.connect() as other, other.transaction():
        key = storage_key("test", "stuck")
        other.execute(f"SELECT FROM {tables.door} WHERE key = %s FOR UPDATE", (key,))
        stuck = subject.start("take", claim("stuck"))
        eventually(lambda: subject.asked)
        assert [subject.call("take", claim("stuck")) for _ in range(6)] == [None] * 6
        asked = [subject.start("take", claim(one)) for one in names(10)]
        assert None not in [one.result(PATIENCE) for one in asked]
        assert not stuck.done()

    assert stuck.result(PATIENCE) is not None


# -- time ------------------------------------------------------------------------------


def test_whose_time_is_up_in_the_queue_has_asked_nothing(
    subject, server, tables, standstill
) -> None:
    subject.know(*FIRST, *names(2))
    with locked_out(server, tables):
        busy(subject, server)
        hasty = subject.start("take", claim("name 0"), within=0.1)
        other = subject.start("take", claim("name 1"))
        with pytest.raises(BackendUnavailable, match="no time left"):
            hasty.result(PATIENCE)

    assert other.result(PATIENCE) is not None
    assert subject.call("take", claim("name 0")) is not None


def test_whose_time_is_up_under_way_is_in_doubt_and_the_others_are_served(
    subject, server, tables, standstill
) -> None:
    subject.know(*FIRST, *names(4))
    with locked_out(server, tables):
        first = busy(subject, server)
        hasty = subject.start("take", claim("name 0"), within=3.0)
        asked = [subject.start("take", claim(one)) for one in names(4)[1:]]
        eventually(lambda: subject.number_waiting == 4)
        # One of the first is ended, and whoever waits the longest carries the others.
        server.terminate(STANDS.format("RETURNING d.token"))
        eventually(lambda: subject.together)
        with pytest.raises(OutcomeUnknown, match="no answer in time"):
            hasty.result(PATIENCE)

    assert None not in [one.result(PATIENCE) for one in asked]
    for one in first:
        with pytest.raises(OutcomeUnknown):
            one.result(PATIENCE)


# -- a failure of all ------------------------------------------------------------------


def test_a_connection_that_is_lost_under_way_leaves_all_of_them_in_doubt(
    subject, server, tables, standstill
) -> None:
    subject.know(*FIRST, *names(5))
    with locked_out(server, tables):
        first = busy(subject, server)
        asked = [subject.start("take", claim(one)) for one in names(5)]
        eventually(lambda: subject.number_waiting == 5)
        server.terminate(STANDS.format("RETURNING d.token"))
        eventually(lambda: subject.together)
        eventually(lambda: server.terminate(STANDS.format("json_to_recordset")))
        for one in [*first, *asked]:
            with pytest.raises(OutcomeUnknown):
                one.result(PATIENCE)

    errors = [one.exception() for one in asked]
    assert len({id(one) for one in errors}) == 5
    assert subject.call("take", claim("name 0")) is not None


def test_a_server_that_cannot_be_reached_has_done_nothing_for_anybody(
    subject, server, tables, standstill
) -> None:
    subject.know(*FIRST, *names(3))
    with locked_out(server, tables):
        busy(subject, server)
        asked = [subject.start("take", claim(one)) for one in names(3)]
        eventually(lambda: subject.number_waiting == 3)
        real = subject.wire.inner._connected

        def refused(link: Any, *_: Any) -> Any:
            subject.wire.inner._discard(link)
            raise BackendUnavailable("nothing listens there")

        subject.wire.inner._connected = refused
        server.terminate(STANDS.format("RETURNING d.token"))
        for one in asked:
            with pytest.raises(BackendUnavailable, match="nothing listens"):
                one.result(PATIENCE)
        subject.wire.inner._connected = real

    assert subject.call("take", claim("name 0")) is not None


# -- one who goes away -----------------------------------------------------------------


def test_a_cancelled_task_does_not_end_what_the_others_wait_for(
    server, tables, statements, standstill
) -> None:
    """Not even the one that carries them; and who was in the queue is not carried."""

    async def main(together: AsyncTogether, clock: Clock) -> None:
        def start(name: str, within: float) -> asyncio.Task[Any]:
            taking = together.take(claim(name), deadline=clock.now() + within)
            return asyncio.ensure_future(taking)

        for one in (claim(one) for one in (*FIRST, *names(4))):
            await together._in_one([Deed(What.TAKE, one)], clock.now() + PATIENCE)
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
        # Whether it was done is not known to the one that was cancelled: it was.
        assert await together.take(claim("name 3"), deadline=clock.now() + PATIENCE) is None

    on_a_loop(server, statements, main)


def test_closing_ends_what_is_under_way_and_tells_those_who_wait(
    server, tables, statements, standstill
) -> None:
    async def main(together: AsyncTogether, clock: Clock) -> None:
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


class InstantWire:
    """Answers at once that all was done."""

    where = "postgresql://here"

    def ask_all(self, requests: Any, *, deadline: float) -> list[Any]:
        del deadline
        [(statement, values)] = requests
        if not statement.lstrip().startswith("INSERT"):
            return [[(7,)]]
        return [[(bytes.fromhex(one["key"]), 7) for one in json.loads(values[0])]]


def test_an_interrupt_at_any_place_of_the_one_who_carries_leaves_nobody_waiting(
    tables, monkeypatch
) -> None:
    """The others are served, or told that it may have been done."""
    monkeypatch.setattr(sync_together, "MOST", 1)
    monkeypatch.setattr(sync_together, "LATE", PATIENCE)
    clock = Clock()
    statements = Statements(tables, namespace="test")
    told: Counter[str] = Counter()
    gc.collect()  # what other tests left would be finalized in the middle, and interrupted there
    pool = ThreadPoolExecutor(2)

    def scene(act: Callable[[Callable[[], object]], object]) -> None:
        """Let one be under way, another wait for it, and a third one carry that."""
        together = Together(InstantWire(), statements, clock=clock)  # type: ignore[arg-type]
        under_way = together._let_go(Flight("first", since=clock.now(), where=""))
        other = pool.submit(together.take, claim("other"), deadline=clock.now() + PATIENCE / 2)
        eventually(lambda: together._queue)

        def go_on() -> None:
            eventually(lambda: len(together._queue) == 2 or has_ended.is_set())
            under_way.is_over = True
            together._call_next()

        has_ended = threading.Event()
        going_on = pool.submit(go_on)
        try:
            act(lambda: together.take(claim("carrier"), deadline=clock.now() + PATIENCE))
        finally:
            has_ended.set()
        going_on.result(PATIENCE)
        try:
            told[str(other.result(PATIENCE / 4))] += 1
        except OutcomeUnknown:
            told["in doubt"] += 1
        assert together.take(claim("last"), deadline=clock.now() + PATIENCE) == 7
        assert not together._queue

    number = 0

    def count(action: Callable[[], object]) -> None:
        nonlocal number
        number = places(action)

    scene(count)
    for place in range(number + 1):
        scene(lambda action, place=place: interrupt(action, at=place))

    pool.shutdown()
    assert set(told) == {"7", "in doubt"}


def test_an_interrupt_at_any_place_of_one_who_is_alone_leaves_the_way_free(tables) -> None:
    clock = Clock()
    statements = Statements(tables, namespace="test")
    together = Together(InstantWire(), statements, clock=clock)  # type: ignore[arg-type]

    def take() -> None:
        together.take(claim("door"), deadline=clock.now() + PATIENCE)

    for place in range(places(take) + 1):
        interrupt(take, at=place)
        assert together._time_to_go() is not None
        assert together.take(claim("door"), deadline=clock.now() + PATIENCE) == 7


def test_a_forked_child_waits_for_nobody_of_its_parent(
    server, tables, statements, standstill
) -> None:
    clock = Clock()
    address = address_of_url(server.url(), where="here", options={})
    wire = threads.Wire(address, clock=clock)
    together = Together(wire, statements, clock=clock)
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
                    wire.after_fork_in_child()
                    together.after_fork_in_child()
                    is_free = together._time_to_go() is not None and not together._queue
                    status = 0 if is_free else 2
                finally:
                    os._exit(status)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert None not in [one.result(PATIENCE) for one in asked[2:]]
    wire.close()
