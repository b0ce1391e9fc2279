"""If a server evicts some keys of a name and keeps the others, no waiter waits for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import combinations
from typing import Any

from both_flavours import Flavour, number_waiting

from lockfast import LeaseLost
from lockfast.backends.redis.requests import DOOR_KEYS, RedisKeys
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.redis import RedisServer

PATIENCE = 150.0
"""A timeout in seconds that only a hanging waiter exceeds."""

EVICTED = [some for number in range(len(DOOR_KEYS) + 1) for some in combinations(DOOR_KEYS, number)]

Entrance = Callable[[Any, str], Any]


def _lock(**options: Any) -> Entrance:
    return lambda locks, name: locks.lock(name, **options)


def _two(locks: Any, name: str) -> Any:
    return locks.semaphore(name, capacity=2)


def _read(locks: Any, name: str) -> Any:
    return locks.rwlock(name).read()


def _write(locks: Any, name: str) -> Any:
    return locks.rwlock(name).write()


STATES: dict[str, tuple[list[Entrance], list[Entrance]]] = {
    "free": ([], []),
    "held": ([_lock()], []),
    "wanted": ([_lock()], [_lock(), _lock()]),
    "semaphore": ([_two, _two], [_two, _two]),
    "rwlock": ([_read], [_write, _write]),
    "owner": ([_lock(owner="saga")], [_lock(owner="other"), _lock(owner="other")]),
    "lock_delay": ([_lock(lock_delay=1)], [_lock(), _lock()]),
    "min_hold": ([_lock(min_hold=1)], [_lock(), _lock()]),
}
"""For each state, the holders of a name and the waiters for it."""


class Place:
    """One name, some of whose keys are evicted while it is held and wanted."""

    def __init__(self, state: str, evicted: tuple[str, ...], locks: list[Any]) -> None:
        self.name = f"{state} without {' '.join(evicted) or 'nothing'}"
        self.keys = list(map(self.key, evicted))
        self._holding, self._waiting = STATES[state]
        self._locks = locks
        self.held: list[Any] = []
        self.waiters: list[Any] = []
        self.tokens: list[int] = []

    def key(self, kind: str) -> bytes:
        """Return the name's key of this kind."""
        return RedisKeys("lockfast", [kind]).door(self.name)

    def begin(self, threads: ThreadPoolExecutor) -> None:
        """Hold the name, and wait for it with one client per waiter."""
        locks, *others = self._locks
        if not self._holding:
            lease = locks.lock(self.name).acquire(timeout=PATIENCE)
            self.tokens.append(lease.token)
            lease.release()
        self.held = [way(locks, self.name).acquire(timeout=PATIENCE) for way in self._holding]
        self.tokens += [one.token for one in self.held]
        self.waiters = [
            threads.submit(self._come_and_go, way(other, self.name))
            for way, other in zip(self._waiting, others, strict=False)
        ]

    def _come_and_go(self, entrance: Any) -> int:
        lease = entrance.acquire(timeout=PATIENCE)
        lease.release()
        return lease.token

    def release(self) -> None:
        """Release every hold, and ignore holds that were lost with an evicted key."""
        for one in self.held:
            with suppress(LeaseLost):
                one.release()

    def check(self) -> None:
        """Check that every waiter got the name, that tokens grew, and that the name is free."""
        came = [one.result(2 * PATIENCE) for one in self.waiters]
        assert all(one > max(self.tokens) for one in came), (self.name, self.tokens, came)
        entrance = (self._waiting or self._holding or [_lock()])[0]
        lease = entrance(self._locks[0], self.name).try_acquire()
        assert lease is not None, self.name
        assert lease.token > max(self.tokens + came), self.name
        lease.release()


class Server:
    """The keys that a server stores for some names."""

    def __init__(self, places: list[Place], server: RedisServer) -> None:
        self._places = places
        self._server = server

    def evict(self) -> None:
        with self._server.client() as client:
            for one in self._places:
                if one.keys:
                    client.delete(*one.keys)

    def has_all_in_line(self) -> bool:
        with self._server.client() as client:
            lengths = [client.zcard(one.key("line")) for one in self._places]
        return lengths == [len(one.waiters) for one in self._places]


@contextmanager
def _wanted(
    flavour: Flavour, server: RedisServer, places: list[tuple[str, tuple[str, ...]]]
) -> Iterator[list[Place]]:
    """Yield names in these states, with all waiters in line and no key evicted yet."""
    locks = [flavour.locks(server.url, ttl=20, request_timeout=20) for _ in range(3)]
    found = [Place(state, evicted, locks) for state, evicted in places]
    with ThreadPoolExecutor(2 * len(found)) as threads:
        for one in found:
            one.begin(threads)
        waiting = sum(len(one.waiters) for one in found)
        eventually(lambda: sum(map(number_waiting, locks[1:])) == waiting)
        yield found


def test_nobody_waits_for_ever_whichever_keys_are_evicted(flavour, server):
    """Whichever subset of the keys is evicted, in whichever state, all waiters get their turn."""
    every = [(state, evicted) for state in STATES for evicted in EVICTED]
    with _wanted(flavour, server, every) as places:
        Server(places, server).evict()

        for one in places:
            one.release()

        for one in places:
            one.check()


def test_those_who_wait_join_again_while_the_name_is_held_if_their_line_is_evicted(flavour, server):
    """Waiters learn from a heartbeat that their line is gone, and rejoin before any release."""
    with _wanted(flavour, server, [(state, ("line",)) for state in STATES]) as places:
        keys = Server(places, server)
        keys.evict()

        eventually(keys.has_all_in_line, within=PATIENCE)

        for one in places:
            one.release()
        for one in places:
            one.check()
