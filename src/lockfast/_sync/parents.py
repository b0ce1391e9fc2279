# Generated from src/lockfast/_async/parents.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Warnings of what was most likely not meant: an owner, or a name with a field left unfilled.

An owner may be a parent task, or all tasks of a loop.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

from lockfast.core.naming import unfilled_field
from lockfast.observe.patterns import pattern_of
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from lockfast._sync.client import Client


def warn_of_parents(client: Client, name: str) -> None:
    """Warn whoever begins to wait for a name that one of its parents holds."""
    for parent in runtime.parents():
        if client.holds.of(parent, name) is not None:
            warnings.warn(
                f"this task waits for {name!r}, which the task that started it holds "
                f"({runtime.context_name(parent)}): a child task is another owner, so this "
                "never ends if the parent waits for it",
                RuntimeWarning,
                stacklevel=_level_of_caller(),
            )


def warn_of_tasks(name: str) -> None:
    """Warn whoever enters again what may be held by another task, which counts as the same."""
    if runtime.has_tasks():
        warnings.warn(
            f"{name!r} is entered again in a thread that runs an event loop: to the sync flavour "
            "all tasks of the loop are one owner, so they do not keep each other out; use "
            f"{runtime.OTHER_CLIENT}",
            RuntimeWarning,
            stacklevel=_level_of_caller(),
        )


MOST_PATTERNS = 256
"""A client remembers at most this many patterns of names that it has warned about."""


def warn_of_braces(client: Client, name: str) -> None:
    """Warn, once per pattern of names, about `lock("order:{order_id}")` without the `f`.

    Such a name is legal, and one lock for all orders.
    """
    field, pattern = unfilled_field(name), pattern_of(name)
    if field is None or pattern in client.warned_patterns:
        return
    if len(client.warned_patterns) >= MOST_PATTERNS:
        return
    client.warned_patterns.add(pattern)
    warnings.warn(
        f"the lock name {name!r} contains {field}, which is not filled in here, so all callers "
        'share one lock. If you meant an f-string, write f"..."; only @locks.locked(...) fills in '
        "such fields, from the arguments of the call",
        RuntimeWarning,
        stacklevel=_level_of_caller(),
    )


def _level_of_caller() -> int:
    """Return how far up the first frame is that is not ours: a warning should point there."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 - the only way to it
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("lockfast."):
        level, frame = level + 1, frame.f_back
    return level
