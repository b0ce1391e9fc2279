"""Four threads hammer one lock through one shared client."""

from __future__ import annotations

import itertools
import threading
import time

import pytest

import lockfast

THREADS = 4
ROUNDS = 1_000


class Resource:
    """A resource whose operations are not atomic, so that two threads inside are noticed."""

    def __init__(self) -> None:
        self.inside: list[int] = []
        self.count = 0
        self.tokens: list[int] = []
        self.intruders: list[tuple[int, ...]] = []

    def use(self, who: int, token: int) -> None:
        self.inside.append(who)
        before = self.count
        if before % 16 == 0:
            time.sleep(0)  # lets another thread run, which is the point of a hammer
        self.tokens.append(token)
        self.count = before + 1
        if self.inside != [who]:
            self.intruders.append(tuple(self.inside))
        self.inside.remove(who)


def hammer(locks: lockfast.Locks, resource: Resource) -> list[BaseException]:
    lock = locks.lock("anvil", timeout=30)
    errors: list[BaseException] = []

    def work(who: int) -> None:
        try:
            for _ in range(ROUNDS):
                with lock as lease:
                    resource.use(who, lease.token)
        except BaseException as error:  # noqa: BLE001 - reported by the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(who,)) for who in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@pytest.fixture(params=["sqlite", "memory"])
def store(request, url) -> str:
    return url if request.param == "sqlite" else "memory://"


def test_threads_that_share_a_client_are_never_two_inside(store, belongings):
    """Threads of one client exclude each other, get growing tokens, and leave nothing behind."""
    before = belongings()
    resource = Resource()

    with lockfast.Locks(store) as locks:
        errors = hammer(locks, resource)
        inspection = locks.inspect("anvil")

    assert errors == []
    assert resource.intruders == []
    assert resource.count == THREADS * ROUNDS
    assert all(one < two for one, two in itertools.pairwise(resource.tokens))
    assert inspection.holders == ()
    assert inspection.line == ()
    assert before.added() == []
