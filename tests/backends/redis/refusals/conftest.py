"""Servers that refuse, and a way to hear each flavour say so."""

from __future__ import annotations

import pytest
from refusals import Refusals


@pytest.fixture
def refusal(flavour, caplog) -> Refusals:
    """Return the error of an acquire, after a look at all that was said."""
    return Refusals([flavour], caplog, within=5.0)


@pytest.fixture
def scheme() -> str:
    return "redis"
