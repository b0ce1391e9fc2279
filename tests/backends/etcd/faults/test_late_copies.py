"""A copy of an acquire arrives late, after its repeat was granted and the lease broken."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from backends.etcd.open_sessions import session_of
from both_flavours import number_waiting
from fault_scene import Scene

from lockfast import LeaseLost, OutcomeUnknown
from lockfast.backends.etcd.requests import Request
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.etcd import EtcdServer

LONG = 60.0
"""A ttl longer than any test, in seconds: no loss is due to expiry."""

PATIENCE = 20.0


@pytest.fixture
def scene(flavour) -> Scene:
    return Scene(flavour)


class Slow:
    """Delays the first request for each name, as a slow member would."""

    def __init__(self, scene: Scene, locks: Any, *names: str) -> None:
        self._flavour = scene.flavour
        self._members = session_of(locks).transport._members
        self._ask = self._members.ask
        self._names = {name.encode() for name in names}
        self.asked = 0
        self.kept: list[Request[Any]] = []
        is_sync = scene.flavour.name == "sync"
        self._members.ask = self._ask_in_threads if is_sync else self._ask_in_tasks

    def _keeps(self, request: Request[Any]) -> None:
        self.asked += 1
        for name in [name for name in self._names if name in request.body]:
            self._names.discard(name)
            self.kept.append(request)
            raise OutcomeUnknown("the first copy is slow")

    def _ask_in_threads(self, request: Request[Any], *, deadline: float) -> Any:
        self._keeps(request)
        return self._ask(request, deadline=deadline)

    async def _ask_in_tasks(self, request: Request[Any], *, deadline: float) -> Any:
        self._keeps(request)
        return await self._ask(request, deadline=deadline)

    def arrives(self) -> Any:
        """Deliver the first copy, and return the store's reply."""
        [request] = self.kept
        deadline = self._flavour.clock.now() + PATIENCE
        return self._flavour.call(self._ask, request, deadline=deadline)


@pytest.fixture
def broken_twin(scene, server) -> Callable[..., Slow]:
    """Break a lease while the first copy of its request is under way; the next client holds."""

    def broken(**options: Any) -> Slow:
        locks = scene.flavour.locks(server.url, ttl=LONG, request_timeout=PATIENCE)
        locks.lock("warm").acquire(timeout=PATIENCE).release()
        slow = Slow(scene, locks, scene.name)
        scene.lease = locks.lock(scene.name, **options).acquire(timeout=PATIENCE)
        scene.wait_behind(server.url, ttl=LONG, request_timeout=PATIENCE)
        operator = scene.flavour.locks(server.url, request_timeout=PATIENCE)
        assert [one.token for one in operator.break_(scene.name)] == [scene.lease.token]
        scene.successor, _ = scene.waiter.result(PATIENCE)
        return slow

    return broken


def test_a_first_copy_that_arrives_after_its_repeat_was_broken_changes_nothing(
    scene, server, broken_twin
):
    """The repeat superseded the first copy, so no key of the broken holder comes back."""
    slow = broken_twin()
    before = server.keys(f"lockfast/n/{scene.name}/")

    slow.arrives()

    assert server.keys(f"lockfast/n/{scene.name}/") == before
    with pytest.raises(LeaseLost) as told:
        scene.lease.renew()
    assert told.value.reason == "broken"
    scene.successor.check()
    scene.successor.release()


def test_a_repeat_of_a_later_request_supersedes_what_was_not_answered_before(scene, server):
    """The first request fails, and the client's repeat makes the late first copy void."""
    locks = scene.flavour.locks(server.url, ttl=LONG, request_timeout=PATIENCE)
    locks.lock("warm").acquire(timeout=PATIENCE).release()
    sender = session_of(locks).transport._requests
    slow = Slow(scene, locks, scene.name)
    ask_twice = sender.ask_twice
    sender.ask_twice = _only_once(scene, sender)
    lease = locks.lock(scene.name).acquire(timeout=PATIENCE)  # the client repeats the request
    sender.ask_twice = ask_twice
    lease.release()

    slow.arrives()

    assert not server.keys(f"lockfast/n/{scene.name}/")


def test_many_requests_that_are_repeated_together_do_not_void_each_other_for_ever(scene, server):
    """Each repeat voids the copies of all other requests, but the repeats must come to an end."""
    crowd = 30
    locks = scene.flavour.locks(server.url, ttl=LONG, request_timeout=PATIENCE)
    locks.lock("warm").acquire(timeout=PATIENCE).release()
    names = [f"{scene.name}-{number:02}" for number in range(crowd)]
    slow = Slow(scene, locks, *names)

    acquiring = [scene.flavour.start(locks.lock(name).acquire, timeout=PATIENCE) for name in names]
    leases = [one.result(2 * PATIENCE) for one in acquiring]

    assert len({one.token for one in leases}) == crowd
    assert slow.asked < 10 * crowd


def _only_once(scene: Scene, sender: Any) -> Callable[..., Any]:
    """Return a function that asks one member, and leaves the repeat to its caller."""

    def in_threads(request: Request[Any], *, deadline: float, **_: Any) -> Any:
        return sender.ask_once(request, deadline=deadline), False

    async def in_tasks(request: Request[Any], *, deadline: float, **_: Any) -> Any:
        return await sender.ask_once(request, deadline=deadline), False

    return in_threads if scene.flavour.name == "sync" else in_tasks


def test_a_holder_whose_key_was_deleted_and_made_again_has_lost(scene, server):
    """A new key of the same name proves nothing, because its creation revision differs."""
    scene.hold(server.url, ttl=LONG, request_timeout=PATIENCE)
    scene.lease.renew()

    _make_again(server, f"lockfast/n/{scene.name}/")

    eventually(lambda: not _renews(scene), what="it is told at a renewal")
    assert scene.lease.lost.reason == "broken"


def _renews(scene: Scene) -> bool:
    try:
        scene.lease.renew()
    except LeaseLost:
        return False
    return True


def test_the_release_of_a_lease_whose_key_was_made_again_says_that_it_was_lost(scene, server):
    scene.hold(server.url, ttl=LONG, request_timeout=PATIENCE)

    _make_again(server, f"lockfast/n/{scene.name}/")

    with pytest.raises(LeaseLost):
        scene.lease.release()


def test_one_who_waits_and_whose_key_was_made_again_is_granted_by_the_new_one(scene, server):
    """The waiter's token is the new key's revision, which exceeds all tokens granted meanwhile."""
    pool = {"capacity": 2, "permits": 2}
    holder = scene.flavour.locks(server.url, ttl=LONG, request_timeout=PATIENCE)
    lease = holder.semaphore(scene.name, **pool).acquire(timeout=PATIENCE)
    locks = scene.flavour.locks(server.url, ttl=LONG, request_timeout=PATIENCE)
    waiting = scene.flavour.start(locks.semaphore(scene.name, **pool).acquire, timeout=LONG)
    eventually(lambda: holder.inspect(scene.name).line, what="it waits")
    eventually(lambda: number_waiting(locks), what="it was told to wait")

    created = _make_again(server, f"lockfast/n/{scene.name}/", nth=-1)
    lease.release()

    assert waiting.result(LONG).token == created


def _make_again(server: EtcdServer, prefix: str, *, nth: int = 0) -> int:
    """Delete a claim and put it back unchanged; return its new creation revision."""
    begin = prefix.encode()
    found = server.ask(
        "kv/range",
        key=base64.b64encode(begin).decode(),
        range_end=base64.b64encode(begin[:-1] + b"0").decode(),
        sort_target="CREATE",
    )["kvs"]
    claims = [one for one in found if b"/c/" in base64.b64decode(one["key"])]
    one = claims[nth]
    server.ask("kv/deleterange", key=one["key"])
    put = server.ask("kv/put", key=one["key"], value=one["value"], lease=one["lease"])
    return int(put["header"]["revision"])
