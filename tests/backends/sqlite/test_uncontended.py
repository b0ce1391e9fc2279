"""A lock that nobody else wants: one statement to take it, one to release it, on small pages."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from backends.sqlite.spoiling import change

import lockfast


def traced(locks: lockfast.Locks) -> list[str]:
    """Return a list that receives the first word of each statement that the client runs."""
    statements: list[str] = []
    locks.lock("warm").acquire().release()
    locks._client.backend._database.connection._sqlite.set_trace_callback(
        lambda one: statements.append(one.split()[0])
    )
    return statements


def test_it_is_taken_and_given_back_by_one_statement_each(url):
    """One statement takes a free lock, because BEGIN and COMMIT would double the cost."""
    with lockfast.Locks(url) as locks:
        statements = traced(locks)

        for _ in range(3):
            with locks.lock("door"):
                pass

        assert statements == ["INSERT", "UPDATE"] * 3


def test_an_explicit_owner_stands_in_the_record_as_such(url):
    """The single statement stores a named owner under its name, and an empty owner as none."""
    with lockfast.Locks(url) as locks, lockfast.Locks(url) as elsewhere:
        first = locks.lock("door", owner="saga").acquire()
        second = elsewhere.lock("door", owner="saga").acquire(timeout=0)
        plain = locks.lock("window").acquire()

        assert second.token == first.token
        assert elsewhere.lock("window").try_acquire() is None
        assert elsewhere.lock("window", owner="saga").try_acquire() is None
        plain.release()


def test_a_clock_that_is_behind_the_last_token_still_gives_a_larger_one(path, url):
    """If the clock is behind the last token, the door grants the next larger token instead."""
    with lockfast.Locks(url) as locks:
        with locks.lock("door") as lease:
            ahead = lease.token + 3_600_000_000
        change(path, f"UPDATE places SET last_token = {ahead}")  # noqa: S608

        for number in (1, 2):
            with locks.lock("door") as lease:
                assert lease.token == ahead + number


def test_a_new_file_has_small_pages_and_one_with_others_is_used_as_it_is(path, url):
    """New files have small pages, as commits write whole pages; old files keep their page size."""
    with lockfast.Locks(url) as locks, locks.lock("door"):
        pass
    small = page_size(path)
    path.unlink()
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA page_size = 4096")
        other.execute("PRAGMA journal_mode = WAL")
    with lockfast.Locks(url) as locks, locks.lock("door") as lease:
        assert lease.is_trusted

    assert small == 2048
    assert page_size(path) == 4096


def page_size(path) -> int:
    with closing(sqlite3.connect(path)) as file:
        return file.execute("PRAGMA page_size").fetchone()[0]
