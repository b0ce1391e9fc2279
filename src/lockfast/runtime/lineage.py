"""Which tasks a task descends from, if they took leases: asyncio alone, threads inherit nothing.

A child task is another owner. When it waits for what its parent holds, somebody should say so.
"""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from typing import Any

Context = asyncio.Task[Any]


class _Lineage(weakref.ref[Context]):
    """A task that took a lease, weakly, and those it descends from; the dead are left out.

    One object for both: its holds know the task by it, and the collector has less to look at.
    """

    __slots__ = ("parent",)

    parent: _Lineage | None


# A child task starts with a copy of its parent's context, so it finds its parent here.
_lineage: contextvars.ContextVar[_Lineage | None] = contextvars.ContextVar(
    "lockfast_lineage", default=None
)


def remember_context(task: Context) -> weakref.ref[Context]:
    """Note that the task holds something, for the tasks that it will start; return it weakly."""
    lineage = _lineage.get()
    if lineage is not None and lineage() is task:
        return lineage
    while lineage is not None and lineage() is None:
        lineage = lineage.parent
    latest = _Lineage(task)
    latest.parent = lineage
    _lineage.set(latest)
    return latest


def parents() -> tuple[Context, ...]:
    """Return the living tasks that the current one descends from and that held leases."""
    found = []
    lineage = _lineage.get()
    current = asyncio.current_task()
    while lineage is not None:
        task = lineage()
        if task is not None and task is not current:
            found.append(task)
        lineage = lineage.parent
    return tuple(found)
