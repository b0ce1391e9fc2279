"""A release or a withdrawal that is refused for lack of rights is done once the rights return."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from backends.etcd.open_sessions import session_of
from both_flavours import number_waiting
from fault_scene import Scene

from lockfast import ConfigurationError, NotAcquired, OutcomeUnknown
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.etcd import EtcdServer

LONG = 60.0
"""A ttl longer than any test, in seconds: nothing ends by expiry."""

PATIENCE = 20.0

OURS = "ours"


@pytest.fixture(scope="module")
def guarded_server() -> Iterator[EtcdServer]:
    with EtcdServer() as one:
        yield one.let_in("app", "sesame", prefix=f"{OURS}/")


@pytest.fixture
def rights(guarded_server, outliving) -> Iterator[EtcdServer]:
    """A server that can be made to refuse; its user has all rights again when clients close."""
    yield guarded_server
    guarded_server.allow("app", prefix=f"{OURS}/")


@pytest.fixture
def scene(flavour) -> Scene:
    return Scene(flavour)


def _locks(scene: Scene, server: EtcdServer, user: str, **options: Any) -> Any:
    return scene.flavour.locks(
        server.url_of(user), namespace=OURS, ttl=LONG, request_timeout=PATIENCE, **options
    )


def test_a_claim_whose_withdrawal_is_refused_leaves_the_line_when_the_right_is_back(scene, rights):
    """Otherwise the claim would be admitted one day with no client to use it, and block others."""
    held = _locks(scene, rights, "root").lock(scene.name).acquire(timeout=PATIENCE)
    given_up = threading.Event()
    locks = _locks(scene, rights, "app")
    waiting = scene.flavour.start(locks.lock(scene.name).acquire, timeout=LONG, cancel=given_up)
    eventually(lambda: number_waiting(locks), what="it waits")

    rights.forbid("app", prefix=f"{OURS}/")
    given_up.set()
    with pytest.raises((NotAcquired, ConfigurationError)):
        waiting.result(PATIENCE)
    rights.allow("app", prefix=f"{OURS}/")
    held.release()

    assert _locks(scene, rights, "root").lock(scene.name).acquire(timeout=PATIENCE).is_trusted


def test_a_release_that_is_refused_is_done_when_the_right_is_back(scene, rights):
    lease = _locks(scene, rights, "app").lock(scene.name).acquire(timeout=PATIENCE)

    rights.forbid("app", prefix=f"{OURS}/")
    with pytest.raises(ConfigurationError):
        lease.release()
    rights.allow("app", prefix=f"{OURS}/")

    assert _locks(scene, rights, "root").lock(scene.name).acquire(timeout=PATIENCE).is_trusted


def test_a_client_that_is_refused_everything_closes_and_leaves_nothing(scene, rights):
    """No thread, task or socket is left, the leases are lost, and closing does not raise."""
    before = _sockets()
    locks = _locks(scene, rights, "app")
    leases = [locks.lock(f"{scene.name}-{one}").acquire(timeout=PATIENCE) for one in range(3)]

    rights.forbid("app", prefix=f"{OURS}/")
    (locks.close if scene.flavour.name == "sync" else locks.aclose)()

    assert [one.lost.reason for one in leases] == ["closed"] * 3
    eventually(
        lambda: not _threads() and not scene.flavour.call(_tasks, scene.flavour.name),
        what="its threads and tasks have ended",
    )
    eventually(lambda: _sockets() <= before, what="its sockets are closed")


def _answers_nothing_and_then_no(scene: Scene, locks: Any) -> None:
    """Leave the next request unanswered, and refuse all that follow."""
    sender, answers = session_of(locks).transport._requests, [OutcomeUnknown("no answer")]

    def in_threads(*_: Any, **__: Any) -> None:
        raise answers.pop() if answers else ConfigurationError("no right")

    async def in_tasks(*_: Any, **__: Any) -> None:
        in_threads()

    sender.ask_once = in_threads if scene.flavour.name == "sync" else in_tasks


@pytest.mark.parametrize("verb", ["acquire", "release"])
def test_a_refused_repeat_of_a_request_that_was_not_answered_is_no_answer(scene, server, verb):
    """The first copy was sent, so the request may have been carried out."""
    locks = scene.flavour.locks(server.url, ttl=LONG, request_timeout=PATIENCE)
    lease = locks.lock(f"{scene.name}-held").acquire(timeout=PATIENCE)
    sender, now = session_of(locks).transport._requests, scene.flavour.clock.now()

    _answers_nothing_and_then_no(scene, locks)

    acts = {
        "acquire": partial(scene.flavour.call, sender.ask_twice, None, deadline=now + PATIENCE),
        "release": lease.release,
    }
    with pytest.raises(OutcomeUnknown, match="no right"):
        acts[verb]()
    del sender.ask_once


def _threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("lockfast")]


def _tasks(flavour: str) -> list[str]:
    if flavour == "sync":
        return []
    return [one.get_name() for one in asyncio.all_tasks() if one.get_name().startswith("lockfast")]


def _sockets() -> int:
    found = 0
    for one in Path("/proc/self/fd").iterdir():
        try:
            found += str(one.readlink()).startswith("socket:")
        except OSError:
            continue  # the descriptor of the listing itself
    return found
