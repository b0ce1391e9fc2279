"""What the tests of all rooms share; see `tests/shared`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from eventually import eventually


@pytest.fixture(name="eventually")
def _eventually() -> Callable[..., None]:
    """Wait until something has happened; fail if it never does."""
    return eventually
