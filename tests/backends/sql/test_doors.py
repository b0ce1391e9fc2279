"""Claims of one client that reach one door at the same time go through it together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Any

import pytest
from both_flavours import Flavour
from going_together import PATIENCE, claim

from lockfast import BackendUnavailable, OutcomeUnknown
from lockfast.backends.sql._async.group_commit import DOOR_BATCH, AsyncNameQueues
from lockfast.backends.sql._sync.group_commit import NameQueues
from lockfast.backends.sql.door_rows import Passage, Withdrawal
from lockfast_challenge.processes import eventually


class Wire:
    """A transport to nowhere."""

    where = "nowhere"
    request_timeout: float | None = PATIENCE


class Subject:
    """Doors of one flavour; each transaction waits until the test lets it proceed."""

    def __init__(self, flavour: Flavour) -> None:
        self.flavour = flavour
        self.transport = Wire()
        self.sizes: list[int] = []
        self.errors: list[Exception | None] = []
        """The errors of the next transactions; None, or no entry, means success."""
        self.may_go = Event()
        is_sync = flavour.name == "sync"
        make: Callable[[], Any] = partial(
            NameQueues if is_sync else AsyncNameQueues,
            self.transport,  # type: ignore[arg-type]
            self.through if is_sync else self.through_async,  # type: ignore[arg-type]
            clock=flavour.clock,
        )
        self.doors = flavour.call(make)
        self._threads = ThreadPoolExecutor(DOOR_BATCH + 20)

    def through(self, passages: list[Passage], deadline: float, turn: Any) -> list[Any]:
        turn.come(self.flavour.clock.now(), deadline=deadline)
        self.sizes.append(len(passages))
        assert self.may_go.wait(PATIENCE)
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        return [None] * len(passages)

    async def through_async(self, *given: Any) -> list[Any]:
        return await asyncio.to_thread(self.through, *given)

    def start(self, name: str = "door") -> Future[Any]:
        return self._threads.submit(self._go, Withdrawal(claim(name)))

    def _go(self, passage: Passage) -> Any:
        deadline = self.flavour.clock.now() + PATIENCE
        return self.flavour.call(self.doors.go, passage, deadline=deadline)

    def queued(self, name: str = "door") -> int:
        door = self.doors._doors.get(name)
        return 0 if door is None else len(door._queue)

    def close(self) -> None:
        self.may_go.set()
        self._threads.shutdown()


@pytest.fixture(params=["sync", "async"])
def subject(request) -> Iterator[Subject]:
    flavour = Flavour(request.param)
    one = Subject(flavour)
    yield one
    one.close()
    flavour.close()


def come(subject: Subject, count: int) -> list[Future[Any]]:
    """Let one transaction be under way, and this many claims wait for it."""
    first = subject.start()
    eventually(lambda: subject.sizes, what="one is under way")
    others = [subject.start() for _ in range(count)]
    eventually(lambda: subject.queued() == count, what="the others wait")
    return [first, *others]


def test_those_who_come_while_one_is_under_way_go_in_one_transaction(subject):
    crowd = come(subject, 10)

    subject.may_go.set()

    assert [one.result(PATIENCE) for one in crowd] == [None] * 11
    assert subject.sizes == [1, 10]


def test_a_transaction_takes_no_more_than_a_batch(subject):
    crowd = come(subject, DOOR_BATCH + 5)

    subject.may_go.set()

    assert [one.result(PATIENCE) for one in crowd] == [None] * len(crowd)
    assert sorted(subject.sizes) == [1, 5, DOOR_BATCH]


def test_another_door_waits_for_nobody_here(subject):
    come(subject, 1)
    subject.start("another door")

    eventually(lambda: subject.sizes == [1, 1], what="it goes by itself")


def test_a_batch_that_was_not_done_goes_once_more(subject):
    """A batch that was not done is repeated, so that one slow request does not fail a crowd."""
    subject.errors = [None, BackendUnavailable("this once")]
    crowd = come(subject, 10)

    subject.may_go.set()

    assert [one.result(PATIENCE) for one in crowd] == [None] * 11
    assert subject.sizes == [1, 10, 10]


def test_a_batch_that_was_not_done_twice_is_told_so(subject):
    subject.errors = [None, BackendUnavailable("once"), BackendUnavailable("twice")]
    first, *others = come(subject, 10)

    subject.may_go.set()

    assert first.result(PATIENCE) is None
    for one in others:
        with pytest.raises(BackendUnavailable, match="twice"):
            one.result(PATIENCE)


def test_a_batch_that_may_have_been_done_is_told_so_at_once(subject):
    subject.errors = [None, OutcomeUnknown("cut")]
    first, *others = come(subject, 10)

    subject.may_go.set()

    assert first.result(PATIENCE) is None
    for one in others:
        with pytest.raises(OutcomeUnknown, match="cut"):
            one.result(PATIENCE)
