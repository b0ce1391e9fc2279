"""A file that was last used under another boot, or that another kernel still uses."""

from __future__ import annotations

from pathlib import Path

import pytest
from backends.sqlite.spoiling import change, refusal

import lockfast
from lockfast.backends.sqlite.connection import SqliteConnection
from lockfast.testing import ManualClock


def another_boot(path: Path) -> None:
    change(path, "UPDATE meta SET boot = 'another boot'")


def test_a_file_in_use_by_another_kernel_is_refused(path, url):
    """A file that another machine uses is refused, because the two boot clocks differ."""
    with lockfast.Locks(url) as resident:
        lease = resident.lock("door").acquire()
        another_boot(path)

        sentence = refusal(url)

        assert f"{path} is in use by another kernel" in sentence
        assert [one.token for one in resident.inspect("door").holders] == [lease.token]


def test_a_new_boot_is_adopted_when_nobody_is_there(path, url):
    """At a new boot all holders and waiters of the old boot are gone, but tokens keep growing."""
    with lockfast.Locks(url) as locks:
        held = locks.lock("door", ttl=3600).acquire()
        released = locks.lock("window").acquire()
        released.release()
        change(path, "CREATE TABLE kept AS SELECT * FROM places")
    # Closing released the lease: restore it, as a machine that lost power would leave it.
    change(path, "INSERT OR REPLACE INTO places SELECT * FROM kept")
    change(path, "DROP TABLE kept")
    another_boot(path)

    with lockfast.Locks(url) as locks:
        holders = locks.inspect("door").holders
        tokens = [locks.lock(name).try_acquire() for name in ("door", "window")]

        assert holders == ()
        assert tokens[0].token > held.token
        assert tokens[1].token > released.token


def token_after_a_new_boot(path: Path, monkeypatch: pytest.MonkeyPatch, *, wall: float) -> int:
    another_boot(path)
    with monkeypatch.context() as patch:
        patch.setattr("time.time", lambda: wall)
        locks = lockfast.Locks(f"sqlite://{path}")
        lease = locks.lock("door").acquire()
    locks.close()
    return lease.token


def test_tokens_grow_over_a_boot_with_the_wall_clock_set_back(path, url, monkeypatch):
    """Law 3: a dead clock battery must not let an old holder's writes pass the guard."""
    with lockfast.Locks(url) as locks:
        tokens = [locks.lock("door").acquire().token]

    tokens += [
        token_after_a_new_boot(path, monkeypatch, wall=wall) for wall in (1000.0, 1001.0, 5.0)
    ]

    assert tokens == sorted(set(tokens))


def test_tokens_grow_over_a_boot_also_for_a_name_that_was_swept(path, url, monkeypatch):
    """Law 3: tokens also grow over a boot if the reaper has removed the newest token."""
    monkeypatch.setattr("lockfast.backends.sqlite.dialect.REAP_AFTER_SECONDS", 0.0)
    monkeypatch.setattr("lockfast.backends.sqlite.dialect.REAP_EVERY_VERBS", 1)
    with lockfast.Locks(url) as locks:
        lease = locks.lock("door").acquire()
        lease.release()
        locks.lock("window").acquire().release()
        is_swept = locks.inspect("door").last_token is None

    later = token_after_a_new_boot(path, monkeypatch, wall=1000.0)

    assert is_swept
    assert later > lease.token


def test_a_client_that_was_frozen_while_it_opened_the_file_tells_the_same_time(url, monkeypatch):
    """Law 2: a client that was frozen while it opened the file has the right store time.

    If its store clock were behind, other clients would see its leases end early.
    """
    clock = ManualClock()
    clients = [lockfast.Locks(url, clock=clock) for _ in range(3)]
    execute = SqliteConnection.execute

    def execute_slowly(self, statement, values=()):
        if "meta" in statement:
            clock.advance(5)  # stopped, or just not scheduled for a while
        return execute(self, statement, values)

    with monkeypatch.context() as patch:
        patch.setattr(SqliteConnection, "execute", execute_slowly)
        for client in clients[:2]:
            client.inspect("door")
    clients[2].inspect("door")

    times = {client._client.backend._database.connection.now() for client in clients}
    for client in clients:
        client.close()
    assert len(times) == 1
