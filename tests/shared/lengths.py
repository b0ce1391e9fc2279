"""How much of a long test a run includes: a part in `make test`, all of it in `make soak`.

A test may only be shortened by this module if the short form fails for the same defects, of which
the long form finds the rarer occurrences.
"""

from __future__ import annotations

import os
from typing import TypeVar

IS_LONG = os.environ.get("LOCKFAST_TEST_LENGTH") == "long"

T = TypeVar("T")


def length(short: T, *, long: T) -> T:
    """Return the length for this run."""
    return long if IS_LONG else short
