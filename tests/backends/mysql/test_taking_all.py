"""Several names at once: in one transaction, all of them or none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from backends.mysql import each_server

from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.proxy import Proxy

NAMES = ("c", "a", "b", "d")

server = each_server.server

PATIENT = {"ttl": 60.0, "request_timeout": 20.0}
"""Long times for a busy machine, because neither expiry nor the request timeout is under test."""


@pytest.fixture
def locks(flavour, server, namespace) -> Any:
    return flavour.locks(server.url(), namespace=namespace, **PATIENT)


def transactions(locks: Any) -> list[int]:
    """Return a list that grows by one with every transaction of the client."""
    transport = getattr(locks, "_inner", locks)._client.backend._transport
    counted: list[int] = []
    real = transport.transact

    def transact(*arguments: Any, **more: Any) -> Any:
        counted.append(1)
        return real(*arguments, **more)

    transport.transact = transact
    return counted


def test_all_that_are_free_are_taken_in_one_transaction(locks) -> None:
    counted = transactions(locks)

    leases = locks.all(*NAMES).acquire(timeout=20)

    assert len(counted) == 1
    tokens = {one: locks.inspect(one).last_token for one in NAMES}
    assert {one.name: one.token for one in leases} == tokens
    for one in leases:
        one.release()
    assert not any(locks.inspect(one).holders for one in NAMES)


def test_if_one_is_held_none_is_taken(flavour, server, namespace, locks) -> None:
    other = flavour.locks(server.url(), namespace=namespace, **PATIENT)
    held = other.lock("b").acquire(timeout=20)

    assert locks.all(*NAMES).try_acquire() is None

    assert [bool(locks.inspect(one).holders) for one in sorted(NAMES)] == [False, True] + [
        False
    ] * 2
    held.release()
    assert locks.all(*NAMES).acquire(timeout=20) is not None


def test_many_who_want_the_same_in_any_order_all_get_it(flavour, server, namespace) -> None:
    clients = [flavour.locks(server.url(), namespace=namespace, **PATIENT) for _ in range(4)]

    def work(number: int) -> int:
        names = NAMES[number:] + NAMES[:number]
        for _ in range(5):
            for lease in clients[number].all(*names).acquire(timeout=50):
                lease.release()
        return number

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, range(4))) == [0, 1, 2, 3]


@pytest.mark.parametrize("lost", ["lose_reply_to", "cut_reply_to"])
def test_a_commit_whose_answer_is_lost_leaves_nothing_behind(
    flavour, server, namespace, outliving, lost
) -> None:
    """The commit was done, but its reply was lost: a retry gets all names, or gives them back."""
    proxy = outliving.enter_context(Proxy(server.port))
    url = f"mariadb://root@127.0.0.1:{proxy.port}/test"
    locks = flavour.locks(url, namespace=namespace, **PATIENT)
    locks.lock("warm").acquire(timeout=20).release()
    flavour.give_up_after(1.0)
    met = getattr(proxy, lost)(b"COMMIT")

    asked = flavour.start(locks.all(*NAMES).acquire, timeout=60)
    eventually(lambda: met.is_set() or asked.done(), what="the answer is lost")
    flavour.give_up_after(20)  # only the wait for the lost reply should be short
    leases = asked.result(60)

    assert met.is_set()
    for one in leases:
        one.check()
        one.release()
    watcher = flavour.locks(server.url(), namespace=namespace, **PATIENT)
    assert [watcher.inspect(one).holders for one in NAMES] == [()] * 4
