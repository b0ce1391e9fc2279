"""Impossible options of a client or a lock are refused where they are given."""

from __future__ import annotations

import gc
import math
import threading
import weakref

import pytest
from refusal import refusal

from lockfast import AsyncLocks, ConfigurationError, Locks
from lockfast.backends.memory._sync.backend import MemoryBackend
from lockfast.options import checked_switch
from lockfast.runtime.clock import Clock

BAD_TTLS = [
    pytest.param(-1, ConfigurationError, id="negative"),
    pytest.param(0, ConfigurationError, id="zero"),
    pytest.param(math.nan, ConfigurationError, id="NaN"),
    pytest.param(math.inf, ConfigurationError, id="infinite"),
    pytest.param(0.001, ConfigurationError, id="below the minimum"),
    pytest.param(7 * 24 * 3600 + 1, ConfigurationError, id="above a week"),
    pytest.param(10**400, ConfigurationError, id="beyond all floats"),
    pytest.param(True, TypeError, id="bool"),
    pytest.param("30", TypeError, id="str"),
]


@pytest.mark.parametrize("where", ["client", "lock"])
@pytest.mark.parametrize(("ttl", "kind"), BAD_TTLS)
def test_a_bad_ttl_is_refused_with_the_accepted_range(store, where, ttl, kind):
    """The refusal comes where the ttl is given, before any request to the store."""
    told = refusal(
        lambda: Locks(store.url, ttl=ttl) if where == "client" else store.locks.lock("a", ttl=ttl),
        kind,
    )

    assert told.startswith("ttl")
    if kind is TypeError:
        assert "number of seconds, not" in told
    else:
        assert "s and at most 604800 s (a week) is accepted" in told
    assert store.is_unchanged()


def test_a_ttl_below_the_backends_minimum_is_refused_naming_the_minimum(store):
    """SQLite keeps no lease shorter than 50 ms."""
    assert "at least 0.05 s" in refusal(lambda: store.locks.lock("a", ttl=0.04))
    assert "at least 0.05 s" in refusal(lambda: Locks(store.url, ttl=0.04))


BAD_TIMEOUTS = [
    pytest.param(-1, ConfigurationError, id="negative"),
    pytest.param(-0.001, ConfigurationError, id="slightly negative"),
    pytest.param(math.nan, ConfigurationError, id="NaN"),
    pytest.param(math.inf, ConfigurationError, id="infinite"),
    pytest.param(-math.inf, ConfigurationError, id="minus infinite"),
    pytest.param("5", TypeError, id="str"),
    pytest.param(False, TypeError, id="bool"),
]


WAITS = {
    "lock(timeout=)": lambda locks, timeout: locks.lock("held", timeout=timeout),
    "acquire(timeout=)": lambda locks, timeout: locks.lock("held").acquire(timeout=timeout),
    "all().acquire": lambda locks, timeout: locks.all("held").acquire(timeout=timeout),
    "write().acquire": lambda locks, timeout: locks.rwlock("a").write().acquire(timeout=timeout),
}


@pytest.mark.parametrize("where", WAITS)
@pytest.mark.parametrize(("timeout", "kind"), BAD_TIMEOUTS)
def test_a_bad_timeout_is_refused_saying_what_none_and_zero_mean(store, where, timeout, kind):
    """In other libraries -1 means "for ever", and inf might; here None does, and 0 tries once."""
    told = refusal(lambda: WAITS[where](store.locks, timeout), kind)

    assert told.startswith("timeout")
    if kind is ConfigurationError:
        assert "None waits for ever, 0 tries once" in told
    assert store.is_unchanged()


@pytest.mark.parametrize(
    ("option", "value", "kind"),
    [
        ("max_hold", 0, ConfigurationError),
        ("max_hold", -1, ConfigurationError),
        ("max_hold", math.nan, ConfigurationError),
        ("max_hold", True, TypeError),
        ("min_hold", -1, ConfigurationError),
        ("min_hold", math.inf, ConfigurationError),
        ("min_hold", math.nan, ConfigurationError),
        ("min_hold", 1e16, ConfigurationError),
        ("lock_delay", 7 * 24 * 3600 + 1, ConfigurationError),
        ("lock_delay", -0.5, ConfigurationError),
        ("lock_delay", "1", TypeError),
        ("renew", 1, TypeError),
        ("reentrant", "no", TypeError),
        ("owner", "", ConfigurationError),
        ("owner", "x" * 257, ConfigurationError),
        ("owner", "a\ud800", ConfigurationError),
        ("owner", 42, TypeError),
        ("on_lost", "print", TypeError),
    ],
)
def test_a_bad_option_is_refused_by_its_name(store, option, value, kind):
    """The message begins with the name of the option."""
    told = refusal(lambda: store.locks.lock("a", **{option: value}).acquire(timeout=1), kind)

    assert told.startswith(option)
    assert store.is_unchanged()


@pytest.mark.parametrize("cancel", [True, 5, "stop", threading.Event])
def test_what_is_no_event_does_not_cancel_a_wait(store, cancel):
    """A wrong `cancel` is refused before any wait, even if the lock is free.

    The class Event itself is not an event.
    """
    told = refusal(lambda: store.locks.lock("free").acquire(cancel=cancel), TypeError)

    assert told.startswith("cancel is an event")
    assert store.is_unchanged()


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf, 3601])
def test_a_bad_request_timeout_is_refused_with_the_accepted_range(store, seconds):
    """A request may take up to an hour, but not for ever."""
    told = refusal(lambda: Locks(store.url, request_timeout=seconds))

    assert "more than 0 s and at most 3600 s is accepted" in told
    assert store.is_unchanged()


@pytest.mark.parametrize(
    "ask",
    [
        lambda locks: locks.lock("a", time_out=5),
        lambda locks: locks.rwlock("a", time_out=5),
        lambda locks: locks.semaphore("a", capacity=2, time_out=5),
        lambda locks: locks.all("a", time_out=5),
        lambda locks: locks.locked("a", time_out=5),
    ],
    ids=["lock", "rwlock", "semaphore", "all", "locked"],
)
def test_an_unknown_option_of_a_lock_is_refused_listing_the_known_ones(store, ask):
    """The message lists all nine."""
    told = refusal(lambda: ask(store.locks))

    assert "unknown option time_out" in told
    for option in ("lock_delay", "max_hold", "min_hold", "on_lost", "owner", "reentrant"):
        assert option in told
    for option in ("renew", "timeout", "ttl"):
        assert option in told
    assert store.is_unchanged()


WAYS = {
    "Locks": Locks,
    "AsyncLocks": AsyncLocks,
    "from_backend": lambda _, **options: Locks.from_backend(
        MemoryBackend(clock=Clock()), **options
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("label", 7, "label is a str, not int"),
        ("label", b"web", "label is a str, not bytes"),
        ("on_event", "print", "on_event is called with the event: 'print' is not callable"),
        ("request_timeout", "2", "request_timeout is a number of seconds, not str"),
        ("ttl", "30", "ttl is a number of seconds, not str"),
    ],
)
def test_a_bad_option_of_a_client_is_refused_by_its_name(store, way, option, value, sentence):
    """The refusal comes when the client is created, and not at the first event or claim."""
    assert refusal(lambda: WAYS[way](store.url, **{option: value}), TypeError) == sentence
    assert store.is_unchanged()


@pytest.mark.parametrize("ttl", ["30", ["30"]])
def test_an_option_of_a_wrong_type_is_refused_once(store, ttl):
    """The error has no second traceback, whether or not the value can be cached for later locks."""
    with pytest.raises(TypeError, match="ttl is a number of seconds") as refused:
        store.locks.lock("a", ttl=ttl)

    assert refused.value.__context__ is None


EQUALS = [("ttl", 1, True), ("timeout", 0, False), ("renew", True, 1), ("reentrant", False, 0)]


@pytest.mark.parametrize(("option", "good", "bad"), EQUALS)
def test_an_option_is_refused_that_equals_a_good_one_and_is_of_another_type(
    store, option, good, bad
):
    """Valid options are checked once and cached, and True equals 1."""
    assert store.locks.lock("a", **{option: good}).options is not None

    told = refusal(lambda: store.locks.lock("a", **{option: bad}), TypeError)

    assert told.startswith(option)
    assert type(getattr(store.locks.lock("a", **{option: good}).options, option)) is type(good)


def test_a_hook_is_not_kept_longer_than_its_lock(store):
    """A lock's options are cached for the next lock, but the cache must not keep a hook alive."""

    class Hook:
        def __call__(self, lease: object) -> None:
            pass

    hook = Hook()
    seen = weakref.ref(hook)
    lock = store.locks.lock("a", on_lost=hook)
    del hook, lock
    gc.collect()

    assert seen() is None


@pytest.mark.parametrize(("value", "is_on"), [(True, True), ("yes", True), ("0", False)])
def test_a_switch_is_read_from_a_call_and_from_a_url(value, is_on):
    assert checked_switch("ssl", value) is is_on


@pytest.mark.parametrize("value", ["perhaps", "", None, 2])
def test_a_switch_that_says_neither_is_refused(value):
    sentence = refusal(lambda: checked_switch("ssl", value))

    assert sentence == f"ssl={value!r}: true or false is accepted"
