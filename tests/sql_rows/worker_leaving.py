"""A worker that leaves its first loop early, and may go on with a second one.

    worker_leaving.py "leaves" | "fails first" | "keeps first" FILE TABLE

In the second loop, the worker finishes a row when a line arrives on stdin.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import suppress
from typing import Any

from lockfast.sql_rows import claim_rows


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def claims() -> Any:
    connect = lambda: sqlite3.connect(path, timeout=60)  # noqa: E731
    return claim_rows(connect, table, key="id", where={"state": "pending"}, ttl=600)


def fail() -> None:
    for row in claims():
        row.finish(state="done")
        raise ZeroDivisionError


way, path, table = sys.argv[1:]
if way == "fails first":
    with suppress(ZeroDivisionError):
        fail()
else:
    kept = claims()
    for row in kept:
        row.finish(state="done")
        break
if way == "leaves":
    say("left")
    sys.stdin.read()
    sys.exit()
for row in claims():
    say("has", row["id"])
    sys.stdin.readline()
    row.finish(state="done")
    say("did", row["id"])
say("over")
