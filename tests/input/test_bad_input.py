"""Bad input gets a clear sentence and changes nothing."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import math
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncLocks, ConfigurationError, Locks, NotOwner, urls

SECRET = "hunter2-s3cr3t"


class Store:
    """A file in which somebody holds "held", and which must be the same afterwards."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite://{path}"
        self.holder = Locks(self.url)
        self.lease = self.holder.lock("held", ttl=600).acquire()
        self.locks = Locks(self.url)
        self.locks.inspect("held")
        self._before = self._dump()

    def _dump(self) -> list[str]:
        connection = sqlite3.connect(self.path)
        try:
            return list(connection.iterdump())
        finally:
            connection.close()

    def is_unchanged(self) -> bool:
        self.lease.check()
        return self._dump() == self._before


@pytest.fixture
def store(tmp_path) -> Iterator[Store]:
    store = Store(tmp_path / "locks.db")
    yield store
    store.locks.close()
    store.holder.close()


def refusal(
    act: Callable[[], Any], kind: type[Exception] | tuple[type[Exception], ...] = ConfigurationError
) -> str:
    """Return the sentence with which it is refused; a wrong type is a plain TypeError."""
    with pytest.raises(kind) as refused:
        act()
    assert not isinstance(refused.value, UnicodeError)
    return str(refused.value)


# -- names -----------------------------------------------------------------------------

BAD_NAMES = [
    pytest.param("", ConfigurationError, "must not be empty", id="empty"),
    pytest.param("x" * 513, ConfigurationError, "513 bytes of UTF-8; at most 512", id="long"),
    pytest.param("é" * 257, ConfigurationError, "514 bytes of UTF-8; at most 512", id="long UTF-8"),
    pytest.param("a\ud800", ConfigurationError, "lone surrogate", id="surrogate"),
    pytest.param(None, TypeError, "is a str, not NoneType", id="None"),
    pytest.param(7, TypeError, "is a str, not int", id="int"),
    pytest.param(b"door", TypeError, "is a str, not bytes", id="bytes"),
]
ENTRANCES = {
    "lock": lambda locks, name: locks.lock(name),
    "rwlock": lambda locks, name: locks.rwlock(name),
    "semaphore": lambda locks, name: locks.semaphore(name, capacity=2),
    "all": lambda locks, name: locks.all("fine", name),
    "inspect": lambda locks, name: locks.inspect(name),
    "break_": lambda locks, name: locks.break_(name),
    "locked": lambda locks, name: locks.locked(lambda: name)(lambda: None)(),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize(("name", "kind", "sentence"), BAD_NAMES)
def test_a_bad_name_is_refused_wherever_it_enters(store, entrance, name, kind, sentence):
    """Law 12: empty, over-long, without a UTF-8 form, or no string at all."""
    told = refusal(lambda: ENTRANCES[entrance](store.locks, name), kind)

    assert sentence in told
    assert store.is_unchanged()


@pytest.mark.parametrize("name", ["x" * 512, "é" * 256, "🔒" * 128, " ", "\0", "a\nb"])
def test_the_longest_and_the_oddest_names_are_accepted(store, name):
    """Exactly 512 bytes; blanks and control characters are letters like others."""
    with store.locks.lock(name) as lease:
        assert lease.name == name


@pytest.mark.parametrize(
    ("prefix", "kind"), [(7, TypeError), (None, TypeError), ("a\ud800", ConfigurationError)]
)
def test_a_bad_prefix_is_refused_in_a_sentence(store, prefix, kind):
    """A survey reads what begins with a name, so it asks the same of it."""
    told = refusal(lambda: list(store.locks.survey(prefix)), kind)

    assert "str" in told or "surrogate" in told
    assert store.is_unchanged()


@pytest.mark.parametrize("namespace", ["", "a b", "ä", "x" * 65, "a/b", "a\0b"])
def test_a_bad_namespace_is_refused(store, namespace):
    """It stands inside keys, so it is kept plain."""
    told = refusal(lambda: Locks(store.url, namespace=namespace))

    assert "1 to 64 letters, digits or any of _ . : - are accepted" in told
    assert store.is_unchanged()


# -- times -----------------------------------------------------------------------------

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
    """Where it is given, before anything is asked of the store."""
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
    """-1 means "for ever" elsewhere, and inf would: here None does, and 0 tries once."""
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
    """The sentence begins with what is wrong."""
    told = refusal(lambda: store.locks.lock("a", **{option: value}).acquire(timeout=1), kind)

    assert told.startswith(option)
    assert store.is_unchanged()


@pytest.mark.parametrize("cancel", [True, 5, "stop", threading.Event])
def test_what_is_no_event_does_not_cancel_a_wait(store, cancel):
    """Told before anything waits, also where the lock is free; a class is not its object."""
    told = refusal(lambda: store.locks.lock("free").acquire(cancel=cancel), TypeError)

    assert told.startswith("cancel is an event")
    assert store.is_unchanged()


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf, 3601])
def test_a_bad_request_timeout_is_refused_with_the_accepted_range(store, seconds):
    """One request may take up to an hour, and not for ever."""
    told = refusal(lambda: Locks(store.url, request_timeout=seconds))

    assert "more than 0 s and at most 3600 s is accepted" in told
    assert store.is_unchanged()


# -- capacity --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("take", "both"),
    [
        (lambda locks: locks.semaphore("held", capacity=3), ("capacity 1", "capacity 3")),
        (lambda locks: locks.rwlock("held").read(), ("capacity 1", "read-write")),
        (lambda locks: locks.rwlock("held").write(), ("capacity 1", "read-write")),
    ],
    ids=["semaphore", "read", "write"],
)
@pytest.mark.parametrize("how", ["acquire", "try_acquire"])
def test_another_capacity_than_the_one_in_use_is_refused_naming_both(store, take, both, how):
    """Law 12: otherwise each side would believe in its own rule."""
    told = refusal(getattr(take(store.locks), how))

    assert "'held'" in told
    assert all(one in told for one in both)
    assert store.is_unchanged()


def test_two_semaphores_that_differ_are_refused_also_in_the_holders_own_thread(store):
    """A second thought about the capacity in one program is found as well."""
    with store.locks.semaphore("seats", capacity=2):
        told = refusal(lambda: store.locks.semaphore("seats", capacity=3).try_acquire())

    assert "with capacity 2" in told
    assert "with capacity 3" in told


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        ({"capacity": 0}, ConfigurationError, "capacity=0: 1 to 1000000 is accepted"),
        ({"capacity": -1}, ConfigurationError, "capacity=-1: 1 to 1000000 is accepted"),
        ({"capacity": 10**9}, ConfigurationError, "1 to 1000000 is accepted"),
        ({"capacity": True}, TypeError, "capacity is a whole number, not bool"),
        ({"capacity": 2.0}, TypeError, "capacity is a whole number, not float"),
        ({"capacity": 2, "permits": 3}, ConfigurationError, "permits=3: 1 to 2 is accepted"),
        ({"capacity": 2, "permits": 0}, ConfigurationError, "permits=0: 1 to 2 is accepted"),
    ],
)
def test_a_bad_capacity_or_number_of_permits_is_refused(store, arguments, kind, sentence):
    """More permits than there are could never be had."""
    told = refusal(lambda: store.locks.semaphore("seats", **arguments), kind)

    assert sentence in told
    assert store.is_unchanged()


# -- URLs and options ------------------------------------------------------------------


@pytest.mark.parametrize("url", ["foo://host", "redi://host", "", "locks.db", "/srv/locks.db"])
@pytest.mark.parametrize("flavour", [Locks, AsyncLocks])
def test_an_unknown_scheme_is_refused_listing_the_known_ones(flavour, url):
    """With an example of each, since a path without a scheme is the usual mistake."""
    told = refusal(lambda: flavour(url))

    assert "unknown scheme" in told
    assert "memory://" in told
    assert "sqlite:///path/to/locks.db" in told


def test_a_url_that_is_no_string_is_refused():
    """A Path is the usual mistake."""
    assert "a URL is a str, not" in refusal(lambda: Locks(Path("/srv/locks.db")), TypeError)


def test_a_host_in_an_sqlite_url_is_refused_with_the_right_spelling():
    """Two slashes where three are meant."""
    told = refusal(lambda: Locks("sqlite://locks.db"))

    assert "sqlite:///absolute/path.db or sqlite:relative.db" in told


@pytest.mark.parametrize(
    ("open_it", "accepted"),
    [
        (lambda: Locks("sqlite:///x.db?synchronus=full"), "accepted: synchronous"),
        (lambda: Locks("sqlite:///x.db", journal="wal"), "accepted: synchronous"),
        (lambda: Locks("memory://?size=3"), "accepted: none"),
        (lambda: AsyncLocks("memory://", size=3), "accepted: none"),
    ],
)
def test_an_unknown_option_of_a_store_is_refused_listing_the_known_ones(open_it, accepted):
    """A misspelt option that is ignored would be a promise not kept."""
    told = refusal(open_it)

    assert "unknown option" in told
    assert accepted in told


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
    """All nine are named."""
    told = refusal(lambda: ask(store.locks))

    assert "unknown option time_out" in told
    for option in ("lock_delay", "max_hold", "min_hold", "on_lost", "owner", "reentrant"):
        assert option in told
    for option in ("renew", "timeout", "ttl"):
        assert option in told
    assert store.is_unchanged()


@pytest.mark.parametrize(
    ("names", "sentence"),
    [((), "at least one name"), (("a", "b", "a"), "each name once")],
    ids=["none", "twice"],
)
def test_all_of_nothing_or_of_one_name_twice_is_refused(store, names, sentence):
    """Neither can be what was meant."""
    assert sentence in refusal(lambda: store.locks.all(*names))
    assert store.is_unchanged()


# -- release ---------------------------------------------------------------------------


def test_a_second_release_is_refused_and_frees_nobody_elses_lock(store):
    """The name may have gone to somebody else meanwhile."""
    lease = store.locks.lock("door").acquire()
    lease.release()
    successor = store.holder.lock("door").acquire()

    told = refusal(lease.release, NotOwner)

    assert "'door' was released before" in told
    successor.check()
    assert [one.token for one in store.locks.inspect("door").holders] == [successor.token]


def test_a_lock_object_is_not_released_more_often_than_acquired(store):
    """As threading's locks: an extra release is a mistake that is told."""
    lock = store.locks.lock("door")
    lock.acquire()
    lock.release()

    assert "'door' is not held" in refusal(lock.release, NotOwner)


def test_another_client_cannot_release(store):
    """It does not hold it, whatever it believes."""
    told = refusal(store.locks.lock("held").release, NotOwner)

    assert "'held' is not held through this object by the one who releases it" in told
    assert store.is_unchanged()


def test_another_thread_cannot_release_through_the_lock(store):
    """The lock object is shared, the hold is not."""
    lock = store.locks.lock("door")
    lease = lock.acquire()
    told: list[str] = []

    thread = threading.Thread(target=lambda: told.append(refusal(lock.release, NotOwner)))
    thread.start()
    thread.join()

    assert len(told) == 1
    lease.check()
    assert store.locks.inspect("door").holders[0].token == lease.token


def test_a_lease_that_was_released_can_neither_be_checked_nor_renewed(store):
    """Nor entered again."""
    lease = store.locks.lock("door").acquire()
    lease.release()

    for act in (lease.check, lease.renew, lease.__enter__):
        assert "was released" in refusal(act, NotOwner)


# -- flavours and loops ----------------------------------------------------------------

ASKS: dict[str, Callable[[AsyncLocks], Any]] = {
    "acquire": lambda locks: locks.lock("door").acquire(),
    "try_acquire": lambda locks: locks.lock("door").try_acquire(),
    "locked": lambda locks: locks.lock("door").locked(),
    "inspect": lambda locks: locks.inspect("door"),
    "survey": lambda locks: anext(locks.survey()),
    "break_": lambda locks: locks.break_("door"),
    "diagnose": lambda locks: locks.diagnose(),
}


@pytest.mark.parametrize("verb", ASKS)
def test_an_asyncio_client_is_refused_in_a_second_loop(store, verb):
    """One sentence instead of a future that belongs to another loop."""
    locks = AsyncLocks(store.url)

    async def use() -> None:
        async with locks.lock("door"):
            pass

    async def ask() -> str:
        with pytest.raises(ConfigurationError) as refused:
            await ASKS[verb](locks)
        return str(refused.value)

    with asyncio.Runner() as first, asyncio.Runner() as second:
        first.run(use())
        told = second.run(ask())
        holders = first.run(locks.inspect("door")).holders
        first.run(locks.aclose())

    assert told == "this AsyncLocks belongs to another event loop; make one per loop"
    assert holders == ()


class _Callable:
    async def __call__(self) -> None: ...


async def _coroutine() -> None: ...


async def _async_generator():
    yield


def _generator():
    yield


def _plain() -> None: ...


@pytest.mark.parametrize(
    "function",
    [_coroutine, _async_generator, functools.partial(_coroutine), _Callable(), _generator],
    ids=["async def", "async generator", "partial", "object", "generator"],
)
@pytest.mark.parametrize("how", ["lock", "locked"])
def test_a_sync_lock_does_not_decorate_what_runs_after_the_call(store, function, how):
    """Law 1: the call would return, and give the lock back, before the body has run."""
    decorate = store.locks.lock("door") if how == "lock" else store.locks.locked("door")

    told = refusal(lambda: decorate(function))

    assert "the sync flavour" in told or "generator" in told
    assert store.is_unchanged()


@pytest.mark.parametrize(
    "function", [_plain, _generator, _async_generator], ids=["def", "generator", "async generator"]
)
@pytest.mark.parametrize("how", ["lock", "locked"])
def test_an_asyncio_lock_decorates_nothing_but_an_async_def(store, function, how):
    """The sentence names the flavour that can."""
    locks = AsyncLocks(store.url)
    decorate = locks.lock("door") if how == "lock" else locks.locked("door")

    told = refusal(lambda: decorate(function))

    assert "the asyncio flavour" in told
    if inspect.isfunction(function) and function is _plain:
        assert "_plain is a plain def" in told
        assert "holdfast.Locks" in told
    assert store.is_unchanged()


def test_an_async_def_is_told_where_to_go(store):
    """The usual mistake, with its way out."""
    told = refusal(lambda: store.locks.lock("door")(_coroutine))

    assert "_coroutine is an async def" in told
    assert "decorate it with a lock of holdfast.AsyncLocks" in told


# -- the template of locked() ----------------------------------------------------------


def ship(order_id: int, *, carrier: str = "post") -> None:
    raise AssertionError((order_id, carrier))


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("order:{order}", "names order, but ship takes order_id, carrier"),
        ("order:{order_id}:{colour}", "names colour, but ship takes order_id, carrier"),
        ("order:{}", "names an unnamed field, but ship takes order_id, carrier"),
        ("order:{0}", "names 0, but ship takes order_id, carrier"),
        ("order:{order.id}", "names order.id, but ship takes order_id, carrier"),
        ("order:{order_id", "order:{order_id"),
    ],
    ids=["unknown", "one of two", "unnamed", "numbered", "attribute", "unbalanced"],
)
def test_a_template_that_the_call_cannot_fill_is_refused_at_once(store, template, sentence):
    """When the function is decorated, not when an order is shipped."""
    told = refusal(lambda: store.locks.locked(template)(ship))

    assert sentence in told
    assert store.is_unchanged()


@pytest.mark.parametrize("choice", ["wiat", "", None, True])
def test_an_unknown_if_held_is_refused_listing_the_choices(store, choice):
    """Wait, skip or raise."""
    told = refusal(lambda: store.locks.locked("door", if_held=choice))

    assert "wait, skip or raise is accepted" in told
    assert store.is_unchanged()


def test_a_call_with_wrong_arguments_takes_no_lock(store):
    """Python's own error comes first, and the name was never asked for."""
    decorated = store.locks.locked("order:{order_id}")(ship)

    assert "order_id" in refusal(decorated, TypeError)
    assert store.is_unchanged()


# -- secrets ---------------------------------------------------------------------------

URLS_WITH_A_SECRET = [
    f"foo://user:{SECRET}@host",
    f"foo://:{SECRET}@host/0",
    f"foo://user:{SECRET}@host:nan/0?x=1",
    f"foo://user:{SECRET}@[bad",
    f"foo://user:{SECRET}@ho\u2100st",
    f"foo://user:{SECRET}@one@two",
    f"foo://user:a/{SECRET}@host",
    f"foo://user:a#{SECRET}@host",
    f"foo://user:a?{SECRET}@host",
    f"foo:user:{SECRET}@host",
    f"//user:{SECRET}@host",
    f"sqlite://user:{SECRET}@host/locks.db",
    f"sqlite://user:{SECRET}@host?password={SECRET}",
    f"memory://user:{SECRET}@host?password={SECRET}",
    f"redis://user:{SECRET}@ho\u2100st",
]


@pytest.mark.parametrize("url", URLS_WITH_A_SECRET)
@pytest.mark.parametrize("flavour", [Locks, AsyncLocks])
def test_no_refusal_shows_a_password(flavour, url, caplog):
    """Neither the error, nor what caused it, nor the log."""
    caplog.set_level(logging.DEBUG)

    with pytest.raises(ConfigurationError) as refused:
        flavour(url)

    error: BaseException | None = refused.value
    while error is not None:
        assert SECRET not in str(error)
        assert SECRET not in repr(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("url", [f"memory://user:{SECRET}@host"])
def test_no_repr_shows_a_password(url, caplog):
    """Of the client, its locks and leases, its findings and its log."""
    caplog.set_level(logging.DEBUG)

    with Locks(url) as locks:
        lease = locks.lock("door").acquire()
        shown = [repr(locks), locks.location, repr(locks.lock("door")), repr(lease)]
        shown += [repr(locks.diagnose()), repr(locks.inspect("door"))]
        lease.release()

    assert SECRET not in " ".join(shown)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("url", ["redis://user:pw@host:6379/0", "redis://:pw@host:6379/0"])
def test_what_is_no_secret_stays_readable(url):
    """A masked URL still tells which store it was."""
    shown = urls.masked(url)

    assert shown.startswith("redis://")
    assert shown.endswith("host:6379/0")
    assert "pw" not in shown


def test_a_password_given_as_an_option_is_not_shown(caplog):
    """The option's name is, which is what was wrong."""
    told = refusal(lambda: Locks("memory://", password=SECRET))

    assert "unknown option password" in told
    assert SECRET not in told + caplog.text


def test_every_refusal_is_one_of_ours():
    """Catching LockError is enough, and so is ValueError for whoever knows only that."""
    with pytest.raises(holdfast.LockError) as refused:
        Locks("foo://host")

    assert isinstance(refused.value, ValueError)
    assert refused.value.http_status == 400  # the caller's mistake, and no failure of the store


@pytest.mark.parametrize(
    ("token", "kind", "sentence"),
    [
        (0, ConfigurationError, "token=0: 1 to"),
        (-1, ConfigurationError, "token=-1: 1 to"),
        (2**53, ConfigurationError, "1 to 9007199254740991 is accepted"),
        ("7", TypeError, "token is a whole number, not str"),
        (True, TypeError, "token is a whole number, not bool"),
    ],
)
def test_a_break_by_what_cannot_be_a_token_is_refused(store, token, kind, sentence):
    told = refusal(lambda: store.locks.break_("held", token=token), kind)

    assert sentence in told
    assert store.is_unchanged()
