"""Checking whether a thread is running may be interrupted; the thread goes on."""

from __future__ import annotations

import threading

from interrupting import interrupt, places

from lockfast.runtime import threads


def test_a_thread_that_runs_never_looks_as_if_it_had_ended():
    """If the thread seemed to have ended, a second thread would use the same connection."""
    end = threading.Event()
    task = threads.spawn(lambda: end.wait(30) and None, name="looked-at")

    for number in range(1, places(task.is_alive) + 1):
        interrupt(task.is_alive, at=number)
        assert task.is_alive(), f"after place {number}"

    end.set()
    task.join()
    assert not task.is_alive()
