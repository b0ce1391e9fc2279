"""The namespace of a client adopted from another library, if the caller names none."""

from __future__ import annotations

from importlib import import_module

import pytest
import redis
import redis.asyncio

from lockfast import AsyncLocks, Locks

MODULES = {Locks: "_sync", AsyncLocks: "_async"}
PREFIXES = {Locks: "", AsyncLocks: "Async"}


@pytest.mark.parametrize("flavour", [Locks, AsyncLocks])
def test_every_way_to_open_a_client_reads_the_same_namespace(flavour, monkeypatch):
    """The test contacts no store: it checks the namespace that would be passed to the backend."""

    class Seen(Exception):
        pass

    def opened(*_args: object, namespace: str, **_options: object) -> None:
        raise Seen(namespace)

    for way in ("from_client", "from_clients", "from_factory"):
        for room in ("redis", "redlock", "postgresql"):
            module = import_module(f"lockfast.backends.{room}.{MODULES[flavour]}.backend")
            backend = getattr(module, f"{PREFIXES[flavour]}{room.capitalize()}Backend")
            monkeypatch.setattr(backend, way, opened, raising=False)
    make = redis.Redis if flavour is Locks else redis.asyncio.Redis
    ways = [
        lambda: flavour.from_client(make(port=1)),
        lambda: flavour.from_clients([make(port=1), make(port=2), make(port=3)]),
        lambda: flavour.from_factory(lambda: None, backend="postgresql"),
    ]

    for said, meant in (("shop", "shop"), ("", "lockfast")):
        monkeypatch.setenv("LOCKFAST_NAMESPACE", said)
        for way in ways:
            with pytest.raises(Seen, match=f"^{meant}$"):
                way()
