"""Waiting for what must happen, and not for luck."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 20.0
"""What has not happened on this machine by then will not."""


def eventually(has_happened: Callable[[], object], *, within: float = PATIENCE) -> None:
    """Wait until something has happened; fail if it never does."""
    deadline = time.monotonic() + within
    while not has_happened():
        assert time.monotonic() < deadline, f"has not happened in {within} s"
        time.sleep(0.005)
