"""The hammer works on every Python: what a profile function raises is raised in the program."""

from __future__ import annotations

import itertools
import logging
import socket
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from interrupting import interrupt

from lockfast import Locks


def called(*_: object, **__: object) -> None:
    """Do nothing: what matters is that this function is written in Python and not in C."""


class Made:
    def __init__(self, number: int) -> None:
        self.number = number


def calls(done: list[str]) -> None:
    """Make every kind of call that has its own bytecode instruction."""
    called()
    called(1, named=2)
    called(*done)
    Made(3)
    len(done)
    sorted(done, key=None)
    max(*[1, 2])
    int("1")
    done.copy()
    done.append("done")


def struck() -> tuple[set[str], list[str]]:
    """Return the kinds of places that were struck, and the kinds at which the program went on."""
    kinds: set[str] = set()
    ignored: list[str] = []
    for place in itertools.count():
        after: list[str] = []

        def program(after: list[str] = after) -> None:
            calls([])
            after.append("went on")

        where = interrupt(program, at=place)
        if where is None:
            return kinds, ignored
        if calls.__name__ in where or called.__name__ in where or Made.__name__ in where:
            kinds.add(where.split()[0])
            ignored += [where] * bool(after)
    raise AssertionError


def test_an_interrupt_at_any_place_ends_what_it_strikes():
    kinds, ignored = struck()

    assert kinds == {"call", "return", "c_return"}
    assert ignored == []


def test_what_a_call_of_c_has_done_is_done_and_its_result_is_gone():
    done: list[str] = []
    results: list[object] = []

    def program() -> None:
        results[:] = [done.pop()]

    reached = set()
    for place in itertools.count():
        done[:], results[:] = ["once"], []
        where = interrupt(program, at=place)
        if where is None:
            break
        if where.startswith("c_return pop"):
            reached.add((len(done), len(results)))

    assert reached == {(0, 0)}


class Owned:
    """An object that only the frames of a program own."""


def drops_a_socket(owned: list[weakref.ref[Owned]]) -> None:
    mine = Owned()
    owned.append(weakref.ref(mine))
    called(socket.socket())  # the warning about the socket is raised nowhere in the program
    called(mine)


# The unclosed socket causes the warning.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_how_a_dropped_socket_is_told_is_not_interrupted_and_keeps_nothing_alive():
    struck_at: list[str] = []
    owned: list[weakref.ref[Owned]] = []
    for place in itertools.count():
        where = interrupt(lambda: drops_a_socket(owned), at=place)
        if where is None:
            break
        struck_at.append(where)

    assert [one for one in struck_at if called.__name__ in one]
    assert [one for one in struck_at if "unraisable" in one or "tracemalloc" in one] == []
    assert [one for one in owned if one() is not None] == []


def test_what_a_weak_collection_does_when_it_loses_something_is_not_interrupted():
    """Python itself would swallow the exception, as it does in a finalizer."""
    gone: list[str] = []

    def program() -> None:
        key = Owned()
        kept = weakref.WeakKeyDictionary({key: 1}), weakref.WeakSet({key})
        values = weakref.WeakValueDictionary({1: key})
        del key
        gone.append(f"{len(values)}{len(kept[0])}{len(kept[1])}")

    for place in itertools.count():
        if (where := interrupt(program, at=place)) is None:
            break
        assert "remove" not in where

    assert gone[-1] == "000"


def test_an_interrupt_leaves_no_handler_of_messages_locked(caplog):
    """The handlers of pytest outlive this test: a locked one would block later tests for ever."""
    locks = [one.lock for one in logging.getLogger().handlers if one.lock is not None]
    assert locks
    locks.append(logging._lock)

    with ThreadPoolExecutor(1) as threads:
        for place in itertools.count():
            logging.root.manager._clear_cache()  # as setting a level does
            where = interrupt(lambda: logging.getLogger("lockfast").warning("ready"), at=place)
            for one in locks:
                assert threads.submit(one.acquire, blocking=False).result(), where
                threads.submit(one.release).result()
            if where is None:
                return


@pytest.mark.parametrize("url", ["memory:", None], ids=["memory", "embedded"])
def test_no_client_looks_for_its_logger(url, tmp_path, monkeypatch):
    """An interrupt in getLogger would leave `logging` locked, and block all other threads."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    Locks(url).close()  # each module finds its logger when it is imported
    with monkeypatch.context() as patched:
        patched.setattr(logging, "getLogger", None)
        with Locks(url) as locks, locks.lock("door"):
            pass


def test_no_interrupt_is_swallowed_where_it_is_asked_what_a_thread_holds():
    """A swallowed interrupt would cause a pytest warning, which is an error here."""
    with Locks("memory://what-a-thread-holds") as locks, locks.lock("door"):
        holds, me = locks._client.holds, threading.current_thread()
        for place in itertools.count():
            if interrupt(lambda: holds.names_of(me), at=place) is None:
                break

        assert holds.names_of(me) == {"door"}
