"""Demo: a frozen holder overwrites newer data. As a program, this file is one of two editors."""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lockfast import LeaseLost
from lockfast.cli.demo.command import Play, Span
from lockfast.cli.demo.crew import (
    Crew,
    DemoWorker,
    send_message,
    shortest_ttl,
    wait_for_director,
    worker_client,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "frozen"
TITLE = "A frozen holder"
TEXT = (
    "An editor takes a lock that expires, reads a document, and is frozen (SIGSTOP; a long "
    "pause of its machine does the same). The lock expires, another editor takes it and "
    "writes. Then the first wakes up and writes what it had in mind."
)
CODE = """\
with locks.lock("document") as lease:
    text = edit(read_document())
    # UPDATE document SET text = ?, token = :token WHERE token <= :token
    write_document(text, token=lease.token)"""

EDITORS = ["editor A", "editor B"]
THINKING = 0.2
RENDERING = 0.3


def play(url: str | None, *, guarded: bool) -> Play:
    """Let two processes edit, and freeze the first between its read and its write."""
    ttl = shortest_ttl(url)
    with tempfile.TemporaryDirectory() as folder:
        set_up(Path(folder))
        way = "guarded" if guarded else ""
        arguments = [folder, f"document-{os.getpid()}", way, str(ttl)]
        with Crew(__name__, EDITORS, arguments, url=url) as (first, second):
            started = time.monotonic()
            spans = _direct(first, second)
            seconds = time.monotonic() - started
        stale, refused = count(Path(folder))
    lost = f"{stale} newer version overwritten" if stale else "nothing overwritten"
    return Play(
        NAME,
        guarded,
        seconds,
        verdict=f"{lost}, {refused} write refused" if refused else lost,
        is_right=stale == 0,
        stale_writes=stale,
        spans=spans,
    )


def _direct(first: DemoWorker, second: DemoWorker) -> tuple[Span, ...]:
    first.say("go")
    begin = first.expect("read")["since"]
    frozen = first.freeze()
    # The first editor's turn to write has come, but it is frozen; only the second editor can run.
    first.say("write")
    second.say("go")
    other = second.expect("read")["since"]
    second.say("write")
    wrote = second.expect("wrote")["at"]
    second.end()
    thawed = first.thaw()
    last = first.expect("wrote")
    first.end()
    label = "wrote" if last["accepted"] else "refused"
    return (
        Span(first.name, begin, frozen, "holds"),
        Span(first.name, frozen, thawed, "frozen", is_frozen=True),
        Span(first.name, thawed, last["at"], label, is_wrong=bool(last["accepted"])),
        Span(second.name, other, wrote, "wrote"),
    )


# The document: a row that counts its versions, and a history of all writes.


def set_up(folder: Path) -> None:
    """Create the document."""
    with closing(_connect(folder)) as database:
        database.executescript(
            "CREATE TABLE document (text TEXT, version INTEGER, token INTEGER);"
            "CREATE TABLE history (who TEXT, read INTEGER, found INTEGER, accepted INTEGER);"
            "INSERT INTO document VALUES ('a draft', 1, 0);"
        )


def read_version(folder: Path) -> int:
    """Return the version of the document."""
    with closing(_connect(folder)) as database:
        return int(database.execute("SELECT version FROM document").fetchone()[0])


def write(folder: Path, who: str, *, read: int, token: int | None) -> bool:
    """Write the document, and record the version that was replaced; refuse a smaller token."""
    with closing(_connect(folder)) as database:
        database.execute("BEGIN IMMEDIATE")
        (found,) = database.execute("SELECT version FROM document").fetchone()
        text = f"{who}, after version {read}"
        if token is None:
            change = database.execute("UPDATE document SET text = ?, version = version + 1", [text])
        else:
            change = database.execute(
                "UPDATE document SET text = ?, version = version + 1, token = ? WHERE token <= ?",
                [text, token, token],
            )
        is_accepted = change.rowcount == 1
        database.execute("INSERT INTO history VALUES (?, ?, ?, ?)", [who, read, found, is_accepted])
        database.execute("COMMIT")
        return is_accepted


def count(folder: Path) -> tuple[int, int]:
    """Return how many writes replaced a version they had not read, and how many were refused."""
    with closing(_connect(folder)) as database:
        return (
            database.execute(
                "SELECT count(*) FROM history WHERE accepted AND read <> found"
            ).fetchone()[0],
            database.execute("SELECT count(*) FROM history WHERE NOT accepted").fetchone()[0],
        )


def _connect(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(folder / "document.db", timeout=10, isolation_level=None)


# The editors.


@contextmanager
def lock_file(path: Path, *, ttl: float) -> Iterator[None]:
    """Hold a home-made lock: a file that counts as gone when it is too old."""
    while True:
        try:
            path.touch(exist_ok=False)
            break
        except FileExistsError:
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > ttl:
                    path.unlink()
            time.sleep(0.01)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def edit(me: str, folder: Path, *, token: int | None) -> None:
    """Read the document, think, then write; the process may be frozen in between."""
    since = time.monotonic()
    version = read_version(folder)
    time.sleep(THINKING)
    send_message("read", since=since)
    wait_for_director()
    time.sleep(RENDERING)
    is_accepted = write(folder, me, read=version, token=token)
    send_message("wrote", at=time.monotonic(), accepted=is_accepted)


def work(me: str, folder: Path, name: str, *, guarded: bool, ttl: float) -> None:
    """Edit the document once, under a Lockfast lock if `guarded`, else under a home-made lock."""
    with worker_client(me, ttl=ttl) as locks:
        send_message("ready")
        wait_for_director()
        if not guarded:
            with lock_file(folder / "lock", ttl=ttl):
                edit(me, folder, token=None)
            return
        # The frozen editor learns that its lease has ended only when it leaves the block, after its
        # write.
        with suppress(LeaseLost), locks.lock(name) as lease:
            edit(me, folder, token=lease.token)


if __name__ == "__main__":
    work(
        sys.argv[1],
        Path(sys.argv[2]),
        sys.argv[3],
        guarded=bool(sys.argv[4]),
        ttl=float(sys.argv[5]),
    )
