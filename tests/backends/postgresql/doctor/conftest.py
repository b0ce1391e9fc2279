"""The doctor on one server, which is enough because most settings are per user or database."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lockfast import Finding
from lockfast.backends.postgresql._async import backend as aio
from lockfast.backends.postgresql._sync import backend as threads


@pytest.fixture
def diagnosed(wire_to, server, tables) -> Callable[..., list[Finding]]:
    """Return a function that lists the doctor's findings for a client with the given URL."""

    def found(url: str = "", **options: Any) -> list[Finding]:
        transport = wire_to(url or server.url())
        flavour = transport.flavour
        kind = threads if flavour.name == "sync" else aio
        asked = {"push": None, **options}
        deadline = flavour.clock.now() + 20
        which = asked.pop("tables", tables)
        return list(
            flavour.call(kind.diagnosed, transport.inner, which, deadline=deadline, **asked)
        )

    return found


@pytest.fixture
def finding(diagnosed) -> Callable[..., Finding]:
    """Return a function that returns the doctor's only finding on a subject."""

    def found(subject: str, url: str = "", **options: Any) -> Finding:
        [one] = [one for one in diagnosed(url, **options) if one.subject == subject]
        return one

    return found


@pytest.fixture
def user(server) -> Iterator[str]:
    """An ordinary user, whose settings the tests may change."""
    name = f"user_{os.urandom(4).hex()}"
    server.run(f"CREATE ROLE {name} LOGIN")
    yield name
    server.run(f"DROP OWNED BY {name}")
    server.run(f"DROP ROLE {name}")
