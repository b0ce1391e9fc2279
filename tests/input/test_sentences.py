"""The first mistakes of users of other libraries: each message says what is right in Lockfast."""

from __future__ import annotations

import copy
import logging
import pickle
import threading
from pathlib import Path

import pytest
from refusal import refusal

from lockfast import AsyncLocks, Locks, NotAcquired, NotOwner


class Redis:
    """Has the name of redis-py's class; redis-py itself is not installed on every Python."""


LISTED = "all() takes the names one by one: all('a', 'b'), or all(*names)"


@pytest.mark.parametrize("names", [["a", "b"], ("a",), {"a"}])
def test_names_in_a_list_are_refused_with_the_right_spelling(store, names):
    assert refusal(lambda: store.locks.all(names), TypeError) == LISTED


@pytest.mark.parametrize("flavour", [Locks, AsyncLocks])
def test_a_client_that_is_taken_for_a_url_is_told_where_it_goes(flavour):
    told = refusal(lambda: flavour(Redis()), TypeError)

    assert told == (
        "a URL is a str, not Redis; a client that you have goes to Locks.from_client(...) or "
        "AsyncLocks.from_client(...)"
    )


def test_a_path_that_is_taken_for_a_url_is_told_its_url():
    told = refusal(lambda: Locks(Path("/srv/locks.db")), TypeError)

    assert told.endswith("of a file it is sqlite:///srv/locks.db")


PICKLED = {
    "client": (lambda locks: locks, "make a client there"),
    "lock": (lambda locks: locks.lock("door"), "pass on its name"),
    "semaphore": (lambda locks: locks.semaphore("pool", capacity=2), "pass on its name"),
    "rwlock": (lambda locks: locks.rwlock("config"), "pass on its name"),
    "all": (lambda locks: locks.all("a", "b"), "pass on the names"),
    "sharded": (lambda locks: locks.sharded("stock", shards=2), "pass on its name and its number"),
    "lease": (lambda locks: locks.lock("door").acquire(), "lease.detach() and locks.adopt(text)"),
}


@pytest.mark.parametrize("what", PICKLED)
@pytest.mark.parametrize("how", [pickle.dumps, copy.copy, copy.deepcopy])
def test_what_belongs_to_a_process_is_not_pickled_and_says_what_goes_instead(what, how):
    """A lock that is sent to a process pool, for example, would hold nothing there."""
    make, instead = PICKLED[what]
    with Locks("memory://") as locks:
        told = refusal(lambda: how(make(locks)), TypeError)

    assert "belongs to this process and can be neither pickled nor copied" in told
    assert instead in told


@pytest.mark.parametrize("what", ["lock", "all"])
def test_who_releases_in_another_thread_is_told_who_can(what):
    with Locks("memory://") as locks:
        lock = locks.lock("door") if what == "lock" else locks.all("door", "window")
        lock.acquire()
        told: list[str] = []
        thread = threading.Thread(target=lambda: told.append(refusal(lock.release, NotOwner)))
        thread.start()
        thread.join()

    assert "another thread than the one that acquired it" in told[0]
    assert ("lease.release()" if what == "lock" else "releases each of the leases") in told[0]


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("localhost:6379", "a host has its store before it: redis://localhost:6379; "),
        ("db.internal:5432/app", "before it: postgresql://db.internal:5432/app; "),
        ("10.0.0.7:11211", "a host has its store before it: memcached://10.0.0.7:11211; "),
        ("localhost:1234", "a host has its store before it, as in redis://localhost:1234; "),
        ("redi://host", "did you mean redis://host:6379/0? "),
        ("postgre://host", "did you mean postgres://host:5432/database? "),
        ("/srv/locks.db", "a file is written sqlite:///srv/locks.db; "),
        ("locks.db", "a file is written sqlite:locks.db; "),
        ("foo://host", "in 'foo://host'; accepted: "),
    ],
)
def test_an_unknown_scheme_is_told_what_was_meant(url, hint):
    """The message adds only the list of schemes: ten whole URLs would bury the one that helps."""
    told = refusal(lambda: Locks(url))

    assert hint in told
    assert told.endswith("as in sqlite:///path/to/locks.db")
    assert len(told) < 420


def test_who_holds_is_told_in_words_that_read_on(store):
    at_once = refusal(lambda: store.locks.lock("held").acquire(timeout=0), NotAcquired)
    later = refusal(lambda: store.locks.lock("held").acquire(timeout=0.1), NotAcquired)

    assert at_once.startswith("'held' is held by ")
    assert " s: held by " in later


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("blocking", "acquire() waits, and try_acquire() does not"),
        ("blocking_timeout", "how long to wait is timeout=, how long the lock lives is ttl="),
        ("expire", "how long the lock lives is ttl="),
        ("time_out", "did you mean timeout?"),
    ],
)
@pytest.mark.parametrize("where", ["lock", "acquire"])
def test_options_of_other_locks_are_told_what_they_are_called_here(store, option, hint, where):
    given = {option: 5}
    told = refusal(
        lambda: (
            store.locks.lock("a", **given)
            if where == "lock"
            else store.locks.lock("a").acquire(**given)
        )
    )

    assert f"unknown option {option} for " in told
    assert hint in told
    assert store.is_unchanged()


@pytest.mark.parametrize("where", ["client", "lock"])
def test_a_ttl_that_looks_like_milliseconds_is_warned_of_once(caplog, where):
    """Such a ttl is accepted, but would block everyone else for hours after a holder's death."""
    ttl = {"client": 45_000, "lock": 35_000}[where]  # unique: each value is warned about once
    for _ in range(2):
        if where == "client":
            Locks("memory://", ttl=ttl)
        else:
            Locks("memory://").lock("a", ttl=ttl)

    [told] = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert f"ttl={ttl} is {ttl / 3600:.1f} hours" in told.getMessage()
    assert f"if milliseconds were meant, write ttl={ttl // 1000}" in told.getMessage()


@pytest.mark.parametrize("ttl", [30, 1000, 3600, 7200, 36_000, 86_400, 5001, 604_800])
def test_a_long_ttl_that_is_meant_is_not_warned_of(caplog, ttl):
    Locks("memory://", ttl=ttl)

    assert caplog.records == []
