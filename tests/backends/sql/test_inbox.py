"""The inbox of a client on a SQL server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lockfast.backends.mysql._sync.backend import MysqlBackend
from lockfast.backends.sql._sync.waiting import QueuedClaim, SqlWaiting
from lockfast.backends.sql.door_rows import Arrived
from lockfast.backends.sql.turns import Turn
from lockfast.backends.waiting._sync.inbox import WAKE_BATCH, Inbox
from lockfast.core.door import Entry, EntryState
from lockfast.model import FOREVER, Claim, Held
from lockfast.runtime.clock import Clock


class UnderLock(dict[str, int]):
    """A dict that fails if a thread changes it without holding the lock."""

    def __init__(self, lock: Any) -> None:
        super().__init__()
        self._lock = lock

    def pop(self, *arguments: Any) -> Any:
        assert self._lock._is_owned()
        return super().pop(*arguments)


def queued(claim_id: str) -> QueuedClaim:
    return QueuedClaim(Claim(claim_id, "door", "client", "owner", 1, 1, 30.0), 1)


@pytest.fixture
def inbox():
    waiting = SqlWaiting(Any, Any, Clock(), namespace="test", can_listen=False)
    one = Inbox[Any](waiting, Clock(), arrival=lambda one: one.arrived)
    yield one
    one.stop()


def test_a_claim_is_forgotten_under_the_lock_that_wakeups_are_read_under(inbox: Inbox[Any]) -> None:
    """Another thread may iterate over the wakeups, which fails if the dict shrinks meanwhile."""
    inbox._heard, inbox._early = UnderLock(inbox.state), UnderLock(inbox.state)
    inbox.hear("early")
    inbox.joined(queued("early"))
    inbox.hear("gone")

    inbox.left("early")
    inbox.left("gone")

    assert not inbox._heard
    assert not inbox._early


def test_a_wakeup_counts_until_its_claim_asks_again(inbox: Inbox[Any]) -> None:
    """A wakeup may come before the answer that puts its claim in line, or while the claim waits."""
    waiter = queued("early")

    inbox.hear("early")
    inbox.joined(waiter)
    inbox.wait(waiter.claim, deadline=FOREVER)
    heard = [inbox.heard("early"), inbox.heard("early")]
    inbox.wake(["early"])
    inbox.wait(waiter.claim, deadline=FOREVER)
    heard_by_chance = inbox.heard("early")

    assert heard == [0, None]
    assert heard_by_chance is None


def test_few_messages_for_unknown_claims_are_kept(inbox: Inbox[Any]) -> None:
    """A claim that has left may still get messages, and nothing would ever remove them."""
    for number in range(2 * WAKE_BATCH):
        inbox.hear(f"claim {number}")

    assert list(inbox._early) == [f"claim {n}" for n in range(WAKE_BATCH, 2 * WAKE_BATCH)]


class OtherThread:
    """Acts wherever the inbox does not hold its lock: the claim leaves, and another one joins."""

    def __init__(self, inbox: Inbox[Any], claim_id: str) -> None:
        self._inbox = inbox
        self._claim_id = claim_id
        self._of_name, self._waiter = inbox.schedule.of_name, inbox.waiter

    def of_name(self, name: str) -> list[str]:
        if not self._inbox.state._is_owned():  # type: ignore[attr-defined]
            raise RuntimeError("dictionary changed size during iteration")
        return self._of_name(name)

    def waiter(self, claim_id: str) -> Any:
        found = self._waiter(claim_id)
        if not self._inbox.state._is_owned():  # type: ignore[attr-defined]
            self._inbox.left(self._claim_id)
        return found


def test_claims_that_were_turned_away_ask_again_while_other_threads_come_and_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread that finds out lists the claims at the name, which other threads may change."""
    url = "mysql://user@127.0.0.1:1/nowhere"
    backend = MysqlBackend(url=url, location=url, clock=Clock())
    inbox = backend._inbox
    first, second = queued("first"), queued("second")
    for one in (first, second):
        inbox.joined(one)
    answer = Held((), None, FOREVER)
    moved = Entry(first.claim, arrived=2, state=EntryState.WAITING)
    door = SimpleNamespace(find=lambda _: moved)
    monkeypatch.setattr(backend._doors, "go", lambda *_, **__: Arrived(answer, door))  # type: ignore[arg-type]
    other = OtherThread(inbox, "first")
    monkeypatch.setattr(inbox.schedule, "of_name", other.of_name)
    monkeypatch.setattr(inbox, "waiter", other.waiter)

    found = backend._arrive(first.claim, 1, FOREVER, Turn())
    inbox.wait(second.claim, deadline=FOREVER)

    assert found is answer
    assert not inbox.schedule.waiting
    backend.close()
