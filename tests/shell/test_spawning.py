"""Work begins beside the caller, or the caller learns why not."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
from interrupting import interrupt, places

import lockfast
from lockfast.runtime import threads


class Owned:
    """An object that only the caller's frames own."""


def spawn(owned: list[weakref.ref[Owned]] | None = None) -> None:
    mine = Owned()
    if owned is not None:
        owned.append(weakref.ref(mine))
    threads.spawn(lambda: None, name="spawned").join()


def test_an_interrupt_gets_through_wherever_it_strikes_a_thread_that_begins():
    """If the caller were told that no thread can be started, it would go on without a thread."""
    struck = [interrupt(spawn, at=place) for place in range(places(spawn))]

    assert any("Thread.start" in str(where) for where in struck)


def test_what_the_caller_owns_is_dropped_when_the_interrupt_has_got_through(no_collector):
    """Dropping the object undoes what the caller began; the collector may run hours later."""
    owned: list[weakref.ref[Owned]] = []

    for place in range(places(spawn)):
        interrupt(lambda: spawn(owned), at=place)

    assert [one for one in owned if one() is not None] == []


@pytest.fixture
def no_collector():
    gc.disable()
    yield
    gc.enable()


def test_that_no_thread_is_to_be_had_is_told_while_another_error_is_handled(monkeypatch):
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    try:
        [].pop()
    except IndexError:
        with pytest.raises(RuntimeError, match="can't start new thread"):
            spawn()


@pytest.mark.parametrize("kind", [lockfast.Locks, lockfast.AsyncLocks])
def test_where_no_thread_may_run_beside_the_program_a_client_is_refused(
    kind, tmp_path, monkeypatch
):
    """Where no thread may run, as in a subinterpreter, the client is refused before any request.

    A grant could not be renewed.
    """
    make = threading.Thread.__init__

    def refuse(self, *arguments: object, daemon: bool | None = None, **options: object) -> None:
        if daemon:
            raise RuntimeError("daemon threads are disabled in this (sub)interpreter")
        make(self, *arguments, daemon=daemon, **options)

    monkeypatch.setattr(threading.Thread, "__init__", refuse)

    with pytest.raises(lockfast.ConfigurationError, match="subinterpreters forbid it"):
        kind(f"sqlite://{tmp_path}/locks.db")
