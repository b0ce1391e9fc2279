"""Lockfast's own contenders record what the lease says, whether that is right or wrong."""

from __future__ import annotations

import pytest
from challenge.by_hand import ByHand

from lockfast.client._async.lease import AsyncLease
from lockfast.client._sync.lease import Lease
from lockfast.runtime.clock import Clock
from lockfast_challenge.checker.judge import judge
from lockfast_challenge.clients.lockfast_locks import AsyncContender, SyncContender

TTL = 60.0


@pytest.mark.parametrize(
    ("make", "kind"), [(SyncContender, Lease), (AsyncContender, AsyncLease)], ids=["sync", "async"]
)
def test_a_lease_that_says_yes_after_its_deadline_is_told_late(make, kind, monkeypatch):
    monkeypatch.setattr(kind, "check", lambda _: None)
    history = ByHand()

    with make(f"memory://{make.__name__}", ttl=TTL, clock_ahead=0.0) as contender:
        held = contender.acquire("door", timeout=TTL)
        hold = history.acquire("a", Clock.now(), Clock.now())
        over = Clock.now() - 5.0
        held._lease._hold.until = over
        asked = Clock.now()
        held.check()
        history.check("a", hold, asked, deadline=held.deadline)

    [found] = judge(history.recorded())
    assert found.kind == "told late"
    assert held.deadline == over


@pytest.mark.parametrize("make", [SyncContender, AsyncContender], ids=["sync", "async"])
def test_a_lease_that_is_good_is_good_for_a_while(make):
    with make(f"memory://{make.__name__}", ttl=TTL, clock_ahead=0.0) as contender:
        held = contender.acquire("door", timeout=TTL)
        held.check()

        assert Clock.now() < held.deadline <= Clock.now() + TTL
        held.release()
