"""What the tests of Redis share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from backends.redis.scripted import Scripted


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    """The scripts on a server that is empty, by a clock that the test sets."""
    store = Scripted()
    yield store
    store.close()
