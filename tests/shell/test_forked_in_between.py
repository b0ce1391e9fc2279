"""A signal handler forks in the middle of a call: nothing of that call belongs to the child.

The fork is simulated at the step that it strikes; `tests/backends/test_forked_waits.py` has real
forks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lockfast import AcquireTimeout, LeaseLost, Locks


class Child:
    """The locks of a process that forks once, after a chosen step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[Any] = []
        self.locks = Locks("memory://", on_event=self.told.append)
        self._client = self.locks._client
        self._monkeypatch = monkeypatch
        self.withdrawn: list[Any] = []
        self.asked: list[Any] = []
        self._note("withdraw", self.withdrawn)
        self._note("try_acquire", self.asked)

    def _note(self, verb: str, noted: list[Any]) -> None:
        real = getattr(self._client.backend, verb)

        def act(claim: Any, **options: Any) -> Any:
            noted.append(claim.client)
            return real(claim, **options)

        self._monkeypatch.setattr(self._client.backend, verb, act)

    def forked_behind(self, owner: Any, verb: str, *, then: Callable[[], None] = bool) -> str:
        """Fork after the next call of `verb`; return the client id of the parent."""
        real = getattr(owner, verb)

        def act(*arguments: Any, **options: Any) -> Any:
            self._monkeypatch.setattr(owner, verb, real)
            try:
                return real(*arguments, **options)
            finally:
                self._client.after_fork_in_child()
                then()

        self._monkeypatch.setattr(owner, verb, act)
        return self._client.id


@pytest.fixture
def child(monkeypatch) -> Child:
    return Child(monkeypatch)


def test_what_its_parent_was_granted_is_not_the_childs(child):
    parent = child.forked_behind(child.locks._client.backend, "try_acquire")

    with pytest.raises(AcquireTimeout):
        child.locks.lock("door").acquire(timeout=0)

    assert child.asked == [parent, child.locks._client.id]
    assert parent not in child.withdrawn
    assert len(child.locks.inspect("door").holders) == 1


def test_what_its_parent_was_granted_together_is_not_the_childs(child, monkeypatch):
    backend = child.locks._client.backend

    def try_acquire_all(claims: list[Any], **options: Any) -> list[Any]:
        return [backend.try_acquire(one, **options) for one in claims]

    monkeypatch.setattr(backend, "try_acquire_all", try_acquire_all)
    parent = child.forked_behind(backend, "try_acquire_all")

    with pytest.raises(AcquireTimeout):
        child.locks.all("door", "window").acquire(timeout=0)

    assert parent not in child.withdrawn
    assert len(child.locks.inspect("window").holders) == 1


def test_a_hold_that_the_fork_came_before_is_lost_from_its_first_moment(child, monkeypatch):
    client = child.locks._client
    add = client.add

    def forked_before(hold: Any) -> None:
        monkeypatch.setattr(client, "add", add)
        client.after_fork_in_child()
        add(hold)

    monkeypatch.setattr(client, "add", forked_before)
    lease = child.locks.lock("door").acquire()

    with pytest.raises(LeaseLost) as told:
        lease.check()
    assert told.value.reason == "forked"
    assert child.withdrawn == []
    child.locks.close()  # closing delivers pending events
    assert "Acquired" not in [type(one).__name__ for one in child.told]


def test_a_child_that_is_unwound_out_of_a_wait_withdraws_nothing(child):
    child.locks.lock("door", owner="somebody").acquire()

    def leave() -> None:
        raise SystemExit

    parent = child.forked_behind(child.locks._client.backend, "try_acquire", then=leave)
    with pytest.raises(SystemExit):
        child.locks.lock("door").acquire(timeout=30)

    assert parent not in child.withdrawn
    assert len(child.locks.inspect("door").line) == 1
