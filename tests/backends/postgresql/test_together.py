"""Requests that wait for each other go as one statement; each gets its own answer, or is told."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from eventually import eventually
from going_together import (
    FIRST,
    PATIENCE,
    STANDS,
    Subject,
    busy,
    claim,
    locked_out,
    names,
)

from holdfast import BackendUnavailable, ConfigurationError, OutcomeUnknown
from holdfast.backends.postgresql.statements import Statements
from holdfast.backends.sql._async import together as async_together
from holdfast.backends.sql._sync import together as sync_together
from holdfast.core.naming import storage_key


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


# -- alone -----------------------------------------------------------------------------


def test_one_who_is_alone_goes_at_once_by_the_plain_statement(subject) -> None:
    subject.know("door")
    one = claim("door")

    assert subject.call("take", one) is not None
    assert subject.call("take", claim("door")) is None
    assert subject.call("renew", [one, claim("door")]) == [True, False]
    assert subject.call("renew", []) == []
    assert subject.call("give_back", one)
    assert not subject.call("give_back", one)

    assert subject.asked == ["UPDATE", "UPDATE", "WITH", "UPDATE", "UPDATE"]


def test_a_name_that_nobody_knows_is_taken_by_one_who_says_so(subject) -> None:
    deadline = subject.flavour.clock.now() + PATIENCE
    take = subject.inner.take

    assert subject.call("take", claim("door")) is None
    assert subject.flavour.call(take, claim("door"), deadline=deadline, is_known=False) is not None


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
    assert subject.asked == ["UPDATE"] * len(first) + ["WITH"]


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
        pool = subject.wire.inner._pool
        real = pool._connect

        def refused(*_: Any) -> Any:
            raise BackendUnavailable("nothing listens there")

        pool._connect = refused
        server.terminate(STANDS.format("RETURNING d.token"))
        for one in asked:
            with pytest.raises(BackendUnavailable, match="nothing listens"):
                one.result(PATIENCE)
        pool._connect = real

    assert subject.call("take", claim("name 0")) is not None
