"""The reaper of idle connections and names is started again when no run of it can be relied on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lockfast.backends.sql._sync.maintenance import IdleReaper
from lockfast.backends.waiting._sync.background import BackgroundRun
from lockfast.runtime.clock import Clock


@pytest.fixture
def reaper():
    transport: Any = SimpleNamespace(connections=1, give_back=lambda: None)
    names: Any = SimpleNamespace(sweep=lambda **_: 0, reap=lambda **_: 0)
    one = IdleReaper(transport, names, Clock())
    yield one
    one.stop()


@pytest.mark.parametrize("task", [None, SimpleNamespace(is_alive=lambda: False)])
def test_a_run_that_an_interrupt_ended_is_replaced(reaper, task) -> None:
    """An interrupt may strike before the thread of a run is started, or known."""
    broken = BackgroundRun()
    broken.task = task
    reaper._background.current = broken

    reaper.begin()

    assert reaper._background.current is not broken
    assert reaper._background.current.is_alive()


def test_a_run_that_is_alive_is_kept(reaper) -> None:
    """Every request passes here, and must not start a thread of its own."""
    reaper.begin()
    first = reaper._background.current

    reaper.begin()

    assert reaper._background.current is first
