"""Which clients a store adopts: by the package of their classes, and by the store's own check."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from lockfast.core.descriptor import ForeignClients, is_asyncio_class, server_arguments


def client_of(module: str, *inherited: type) -> Any:
    """Return an object whose class is defined in a module."""
    return type("Client", inherited, {"__module__": module})()


THEIRS = ForeignClients(packages=frozenset({"driver"}), listed_as="clients of driver")


@pytest.mark.parametrize("module", ["driver", "driver.pool.sync"])
def test_a_client_is_known_by_the_package_of_its_class(module):
    assert THEIRS.includes(client_of(module))


@pytest.mark.parametrize("module", ["drivers", "my.driver", "builtins"])
def test_a_package_that_is_only_called_alike_is_another_one(module):
    assert not THEIRS.includes(client_of(module))


def test_a_class_that_inherits_from_theirs_is_taken_for_theirs():
    assert THEIRS.includes(client_of("my.application", type(client_of("driver"))))


def test_a_store_may_look_at_the_client_where_its_package_leads_to_several():
    """A SQLAlchemy engine belongs to the store that its dialect names."""

    def engines_of(dialect: str) -> ForeignClients:
        return ForeignClients(
            packages=frozenset({"engines"}),
            listed_as=f"engines of {dialect}",
            is_ours=lambda engine: engine.dialect.name == dialect,
        )

    engine = client_of("engines.base")
    engine.dialect = SimpleNamespace(name="postgresql")

    assert engines_of("postgresql").includes(engine)
    assert not engines_of("mysql").includes(engine)


def test_a_stranger_is_not_looked_at():
    """A store's check relies on attributes that only the store's own clients have."""
    picky = ForeignClients(
        packages=frozenset({"driver"}), listed_as="", is_ours=lambda one: one.is_there
    )

    assert not picky.includes(client_of("elsewhere"))


def test_what_only_looks_like_theirs_is_objected_to():
    theirs = ForeignClients(
        packages=frozenset({"driver"}), listed_as="", refused={"fakedriver": "is a fake"}
    )
    fake = client_of("fakedriver.server", type(client_of("driver")))

    assert theirs.objection_to(fake) == "is a fake"
    assert theirs.objection_to(client_of("driver")) is None


@pytest.mark.parametrize(
    ("module", "expected"),
    [("redis.asyncio.client", True), ("redis.client", False), ("asyncions.redis", False)],
)
def test_a_package_called_asyncio_tells_the_flavour(module, expected):
    kind = type(client_of("my.application", type(client_of(module))))

    assert is_asyncio_class(kind) is expected


def test_the_place_of_a_server_is_shown_without_its_password():
    place = server_arguments(urlsplit("redis://user:pw@host:1/0?password=pw"), "shop")

    assert place == {
        "url": "redis://user:pw@host:1/0",
        "location": "redis://***@host:1/0",
        "namespace": "shop",
    }
