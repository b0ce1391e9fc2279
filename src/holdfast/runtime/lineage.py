"""Which tasks a task descends from, if they took leases: asyncio alone, threads inherit nothing.

A child task is another owner. When it waits for what its parent holds, somebody should say so.
"""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from typing import Any

Context = asyncio.Task[Any]


class _Lineage:
    """A task that took a lease, and those it descends from; the dead are left out."""

    __slots__ = ("parent", "task")

    task: weakref.ref[Context]
    parent: _Lineage | None

    def __init__(self, task: Context, parent: _Lineage | None) -> None:
        while parent is not None and parent.task() is None:
            parent = parent.parent
        self.task = weakref.ref(task)
        self.parent = parent


# A child task starts with a copy of its parent's context, so it finds its parent here.
_lineage: contextvars.ContextVar[_Lineage | None] = contextvars.ContextVar(
    "holdfast_lineage", default=None
)


def remember_context(task: Context) -> None:
    """Note that the task holds something, for the tasks that it will start."""
    lineage = _lineage.get()
    if lineage is None or lineage.task() is not task:
        _lineage.set(_Lineage(task, lineage))


def parents() -> tuple[Context, ...]:
    """Return the living tasks that the current one descends from and that held leases."""
    found = []
    lineage = _lineage.get()
    current = asyncio.current_task()
    while lineage is not None:
        task = lineage.task()
        if task is not None and task is not current:
            found.append(task)
        lineage = lineage.parent
    return tuple(found)
