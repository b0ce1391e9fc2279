"""A holder is frozen past the end of its lease: the resource refuses its late write."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from callers import DATABASE
from fencing.resources import KINDS, Requests
from fencing.served import LOCK
from puppets import Stage, environment
from servers import mariadb, postgresql
from servers.redis import shared_server

from lockfast import Locks, StaleToken
from lockfast_challenge.processes import eventually

HERE = Path(__file__).parent
LATE_WRITER = HERE / "late_writer.py"


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """Run the HTTP server in a separate process, and yield its port."""
    command = [sys.executable, str(HERE / "served.py"), *arguments]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
    try:
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


@contextmanager
def resource(kind: str, directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the kind of resource, as `resources` calls it, and its address."""
    what, _, of = kind.partition("/")
    if what == "requests":
        where = {"redis": shared_server().url, "sqlite": f"{directory}/marks.db"}.get(of, "")
        with shared_server().client() as client:
            client.delete(f"http:{LOCK}")
        with serving(of, where) as port:
            yield what, port
    elif what == "files":
        yield what, str(directory)
    elif what == "keys":
        yield what, shared_server().url
    elif of == "mariadb":
        server = mariadb.shared_server()
        server.run(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        yield what, f"mysql+pymysql://root@127.0.0.1:{server.port}/{DATABASE}"
    elif of == "postgresql":
        yield what, postgresql.shared_server().url().replace("postgresql:", "postgresql+psycopg:")
    else:
        yield what, f"sqlite:///{directory}/rows.db"


@pytest.mark.parametrize(
    "kind",
    [
        *("rows/sqlite", "rows/postgresql", "rows/mariadb", "keys", "files"),
        *("requests/memory", "requests/sqlite", "requests/redis"),
    ],
)
def test_the_late_write_is_refused_and_without_a_guard_it_lands(kind, tmp_path):
    store = f"sqlite://{tmp_path}/locks.db"
    with resource(kind, tmp_path) as (what, where), Locks(store, request_timeout=30) as locks:
        ours = KINDS[what](where)
        ours.prepare()
        stage = Stage(tmp_path, LATE_WRITER)
        late = stage(store, LOCK, what, where)
        late.tell("write", "late")
        eventually(late.is_frozen, what="it stands still")

        with locks.lock(LOCK).acquire(timeout=60) as lease:
            ours.plain(lease, "second")
            ours.fenced(lease, "second")
            late.thaw()
            is_over, refusal = late.answer()

            assert is_over
            assert isinstance(refusal, StaleToken)
            assert refusal.token < refusal.seen == lease.token
            assert ours.read("plain") == "late"  # otherwise the guard stopped nothing
            assert ours.read("fenced") == "second"
        stage.clear_away()
        ours.close()


def test_the_server_says_what_it_lacks(tmp_path):
    with serving("memory") as port:
        ours = Requests(port)
        right = {"Lockfast-Lock": "d%C3%B4or/%201", "Lockfast-Token": "33"}

        assert ours.ask("PUT", "/fenced", "words", right)[0] == 200
        assert ours.ask("GET", "/fenced")[1] == b"words"
        assert ours.ask("GET", "/fenced/token")[1] == b"33"
        assert ours.ask("PUT", "/fenced", "words")[0] == 428
        assert ours.ask("PUT", "/fenced", "words", {**right, "Lockfast-Lock": "gate"})[0] == 428
        assert ours.ask("PUT", "/fenced", "words", {**right, "Lockfast-Token": "-33"})[0] == 400
        status, body = ours.ask("PUT", "/fenced", "late", {**right, "Lockfast-Token": "32"})

        assert status == 412
        assert b'"urn:lockfast:stale-token"' in body
        assert ours.ask("GET", "/fenced")[1] == b"words"
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - marks in memory leave no files
