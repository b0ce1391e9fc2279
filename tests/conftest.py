"""What the tests of all rooms share; see `tests/shared`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from eventually import eventually
from hypothesis import HealthCheck, settings
from started_anywhere import as_from_a_terminal, in_a_session_of_its_own

as_from_a_terminal()
in_a_session_of_its_own()

# Properties, not speed: a machine that stands still for 0.2 s has falsified nothing.
settings.register_profile("holdfast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("holdfast")


@pytest.fixture(name="eventually")
def _eventually() -> Callable[..., None]:
    """Wait until something has happened; fail if it never does."""
    return eventually
