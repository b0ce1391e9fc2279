"""Fixtures that return the error with which a server refuses a client of either flavour."""

from __future__ import annotations

import pytest
from refusals import Refusals


@pytest.fixture
def refusal(flavour, caplog) -> Refusals:
    """Return the error of an acquire, after checking everything that was printed."""
    return Refusals([flavour], caplog, within=5.0)


@pytest.fixture
def scheme() -> str:
    return "redis"
