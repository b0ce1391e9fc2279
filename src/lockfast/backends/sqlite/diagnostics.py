"""The guarantees of locks in a file, for `lockfast doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.model import Finding
from lockfast.platforms import here

if TYPE_CHECKING:
    from lockfast.backends.sqlite.connection import SqliteConnection


def findings(connection: SqliteConnection, *, synchronous: str, deadline: float) -> list[Finding]:
    """Return what an operator should know about the file."""
    rows = connection.patiently(
        lambda: connection.execute("PRAGMA quick_check(1)").fetchall(), deadline
    )
    disk = here.file_system(connection.path.parent) or "disk"
    return [
        Finding.ok("file", f"{connection.path}, on {disk}"),
        Finding.note(
            "reach",
            "excludes processes that open this very file on this machine, and no others",
            "for several machines use a server, such as redis://",
        ),
        _durability(synchronous),
        _integrity(rows),
    ]


def _durability(synchronous: str) -> Finding:
    if synchronous == "full":
        return Finding.ok("durability", "every grant is on disk before it counts")
    return Finding.note(
        "durability",
        "a power cut may lose the last grants and their tokens; a killed process loses none",
        "add ?synchronous=full to the URL if tokens must survive a power cut",
    )


def _integrity(rows: list[tuple[str]]) -> Finding:
    if rows == [("ok",)]:
        return Finding.ok("integrity", "the file is sound")
    return Finding.error(
        "integrity",
        f"the file is damaged: {rows[0][0]}",
        "stop its users, move it away and let Lockfast make a new one",
    )
