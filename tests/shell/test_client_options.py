"""Every way to make a client accepts the same keywords, and passes all of them on."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from lockfast import AsyncLocks, Event, Locks, urls
from lockfast.backends.memory._async.backend import AsyncMemoryBackend
from lockfast.backends.memory._sync.backend import MemoryBackend
from lockfast.options import ClientOptions
from lockfast.runtime.clock import Clock

MAKERS = [
    pytest.param(make, id=f"{kind.__name__}.{name}")
    for kind in (Locks, AsyncLocks)
    for name, make in (
        ("__init__", kind),
        ("from_client", kind.from_client),
        ("from_factory", functools.partial(kind.from_factory, backend="postgresql")),
        ("from_backend", kind.from_backend),
    )
]


@pytest.mark.parametrize("make", MAKERS)
def test_every_way_to_make_a_client_takes_all_its_keywords(make):
    """If one way lacked a keyword, its callers could not choose that option."""
    taken = inspect.signature(make).parameters

    for one in dataclasses.fields(ClientOptions):
        assert taken[one.name].kind is inspect.Parameter.KEYWORD_ONLY
        if one.name != "clock":
            assert taken[one.name].default == one.default
    assert taken["clock"].default is None


@pytest.mark.parametrize("make", MAKERS)
def test_what_was_chosen_arrives(make: Callable[..., Any], monkeypatch):
    """No other test would notice two options that were mixed up."""
    clock, events = Clock(), list[Event]()
    kind = MemoryBackend if "Async" not in repr(make) else AsyncMemoryBackend
    backend = kind(clock=clock)
    monkeypatch.setattr(urls, "open_backend", lambda *_, **__: backend)
    monkeypatch.setattr(urls, "adopt_client", lambda *_, **__: backend)
    monkeypatch.setattr(urls, "open_by_factory", lambda *_, **__: backend)

    locks = make(
        backend, ttl=11.0, request_timeout=7.0, label="web", on_event=events.append, clock=clock
    )

    client = locks._client
    assert client.backend is backend
    assert (client.ttl, client.request_timeout, client.clock) == (11.0, 7.0, clock)
    assert client.owner_text.endswith("(web)")
    assert locks.lock("door").options.ttl == 11.0
    assert [hook for hook, _ in client.dispatcher._hooks] == [events.append]


def test_a_client_that_is_refused_was_never_attached_to_the_store():
    """An attached client would be closed at exit and notified of sessions, though nobody has it."""

    class Watched(MemoryBackend):
        attached = False

        def attach(self, **_: object) -> None:
            type(self).attached = True

    backend = Watched(clock=Clock())
    with pytest.raises(ValueError, match=r"ttl=-1: at least 0\.01 s"):
        Locks.from_backend(backend, ttl=-1)

    assert not backend.attached


@pytest.mark.parametrize(
    ("bounds", "timeout", "latest"),
    [(True, None, float("inf")), (True, 5.0, 12.0), (False, None, 7.0), (False, 5.0, 7.0)],
)
def test_a_store_that_bounds_its_requests_may_let_them_wait_until_the_acquire_ends(
    bounds, timeout, latest
):
    """The requests wait no longer: an acquire ends within its timeout plus one request timeout."""
    given: list[float] = []

    class Bounding(MemoryBackend):
        def bound_requests(self, request_timeout: float) -> bool:
            assert request_timeout == 7.0
            return bounds

        def try_acquire(self, claim, *, deadline):
            given.append(deadline)
            return super().try_acquire(claim, deadline=deadline)

    class Still(Clock):
        def now(self) -> float:
            return 0.0

    with Locks.from_backend(Bounding(clock=Clock()), request_timeout=7.0, clock=Still()) as locks:
        locks.lock("door").acquire(timeout=timeout).release()

    assert given == [latest]
