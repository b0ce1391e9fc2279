"""Warnings of an owner that is most likely not who was meant: a parent task, or all of a loop."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

from holdfast.runtime import aio as runtime

if TYPE_CHECKING:
    from holdfast._async.client import AsyncClient


def warn_of_parents(client: AsyncClient, name: str) -> None:
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


def _level_of_caller() -> int:
    """Return how far up the first frame is that is not ours: a warning should point there."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 - the only way to it
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("holdfast."):
        level, frame = level + 1, frame.f_back
    return level
