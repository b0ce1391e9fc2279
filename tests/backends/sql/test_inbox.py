"""The inbox of a client on a SQL server: threads share the wakeups under one lock."""

from __future__ import annotations

from typing import Any

from lockfast.backends.sql._sync.waiting import SqlInbox
from lockfast.backends.sql.wait_schedule import ProbeResult
from lockfast.model import FOREVER, Claim
from lockfast.runtime.clock import Clock


class UnderLock(dict[str, None]):
    """A dict that fails if a thread changes it without holding the lock."""

    def __init__(self, lock: Any) -> None:
        super().__init__()
        self._lock = lock

    def pop(self, *arguments: Any) -> Any:
        assert self._lock._is_owned()
        return super().pop(*arguments)


def test_a_claim_is_forgotten_under_the_lock_that_wakeups_are_read_under():
    """Another thread may iterate over the wakeups, which fails if the dict shrinks meanwhile."""
    inbox = SqlInbox(Any, Any, Clock(), notification_source=None)
    inbox._called = UnderLock(inbox.state)
    inbox._wake_called("claim")

    inbox.forget("claim")

    assert not inbox._called


def test_a_wakeup_counts_until_its_claim_asks_again():
    """A wakeup may come before the answer that puts its claim in line, or while the claim waits."""
    inbox = SqlInbox(Any, Any, Clock(), notification_source=None)
    claim = Claim("early", "door", "client", "owner", 1, 1, 30.0)

    inbox.call([claim.id])
    inbox.stands(claim, 1, ProbeResult(True, True, 30.0, None))
    inbox.wait(claim, deadline=FOREVER)
    asked = [inbox.was_woken(claim.id), inbox.was_woken(claim.id)]
    inbox.wake([claim.id])
    is_news = inbox.was_woken(claim.id)
    inbox.stop()

    assert asked == [True, False]
    assert not is_news
