"""A holder that is frozen while it fences a row does not block its successors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from callers import DATABASE
from fencing.frozen_seller import Shop
from puppets import Puppet, Stage
from servers import mariadb, postgresql

from lockfast import Locks
from lockfast_challenge.processes import eventually

SELLER = Path(__file__).parent / "frozen_seller.py"
LOCK = "lamps"

BLOCKED = 60
"""Seconds after which waiting for a row fails, instead of hanging."""


@pytest.fixture
def store(tmp_path) -> str:
    return f"sqlite://{tmp_path}/locks.db"


@pytest.fixture
def shop_at(tmp_path) -> Iterator[Callable[[str], tuple[str, Shop]]]:
    """Return a function that opens a shop in a kind of database, and returns its URL and shop."""
    opened: list[Shop] = []

    def open_one(kind: str) -> tuple[str, Shop]:
        url, options = _address(kind, tmp_path)
        opened.append(Shop(url, **options))
        opened[-1].prepare()
        return url, opened[-1]

    yield open_one
    for one in opened:
        one.close()


def _address(kind: str, directory: Path) -> tuple[str, dict[str, object]]:
    if kind == "postgresql":
        url = postgresql.shared_server().url().replace("postgresql:", "postgresql+psycopg:")
        return url, {"options": f"-c lock_timeout={BLOCKED}s"}
    if kind == "mariadb":
        server = mariadb.shared_server()
        server.run(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        url = f"mysql+pymysql://root@127.0.0.1:{server.port}/{DATABASE}"
        return url, {"init_command": f"SET SESSION innodb_lock_wait_timeout = {BLOCKED}"}
    return f"sqlite:///{directory}/shop.db", {"timeout": BLOCKED}


@pytest.fixture
def frozen(tmp_path, store) -> Iterator[Callable[..., Puppet]]:
    """Return a function that starts a seller, and returns that seller once it stops at a step."""
    stage = Stage(tmp_path, SELLER)

    def freeze(url: str, place: str, bound: str = "") -> Puppet:
        seller = stage(store, LOCK, url, place, bound)
        seller.tell("sell")
        eventually(seller.is_frozen, what="it stands still")
        return seller

    yield freeze
    stage.clear_away()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_one_frozen_between_its_seal_and_its_write_lets_the_next_holder_through(
    kind, store, shop_at, frozen
):
    """The frozen seller's transaction has locked nothing yet, as the seal was committed before."""
    url, shop = shop_at(kind)
    late = frozen(url, "before the write")

    with Locks(store, request_timeout=30) as locks, locks.lock(LOCK, timeout=60) as lease:
        left = shop.sell(lease)
    late.thaw()
    refused = late.answer()

    assert left == shop.stock() == 9
    assert refused.startswith("StaleToken")


@pytest.mark.parametrize(
    ("kind", "bound"),
    [
        ("postgresql", "SET idle_in_transaction_session_timeout = '3s'"),
        ("mariadb", "SET SESSION idle_transaction_timeout = 3"),
    ],
)
def test_one_frozen_between_its_write_and_its_commit_loses_its_transaction(
    kind, bound, store, shop_at, frozen
):
    """The frozen seller keeps its row lock until the server ends the transaction after `bound`."""
    url, shop = shop_at(kind)
    late = frozen(url, "before the commit", bound)

    with Locks(store, request_timeout=30) as locks, locks.lock(LOCK, timeout=60) as lease:
        left = shop.sell(lease)
    late.thaw()
    refused = late.answer()

    assert left == shop.stock() == 9
    assert "Error(" in refused  # a driver's error, whose name varies
