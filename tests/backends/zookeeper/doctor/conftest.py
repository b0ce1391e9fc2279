"""What the doctor says, in both flavours, of servers that a test has spoilt."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from both_flavours import FLAVOURS, Flavour
from servers.zookeeper import shared_server

from holdfast import Finding


@pytest.fixture(params=FLAVOURS)
def flavour(request) -> Iterator[Flavour]:
    one = Flavour(request.param)
    yield one
    one.close()


@pytest.fixture
def namespace() -> str:
    return f"test-{os.urandom(4).hex()}"


@pytest.fixture
def finding(flavour, namespace) -> Callable[..., Finding]:
    """Return the one finding on a subject."""

    def found(subject: str, url: str | None = None, **options: Any) -> Finding:
        locks = flavour.locks(url or shared_server().url, namespace=namespace, **options)
        [one] = [one for one in locks.diagnose() if one.subject == subject]
        return one

    return found
