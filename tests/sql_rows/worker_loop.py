"""A worker as users write it, ended by SIGTERM; it prints which row it has, and which is done.

    worker_loop.py DATABASE ADDRESS TABLE

The worker finishes a row when a line arrives on stdin.
"""

from __future__ import annotations

import sys

from databases import connected

from lockfast.sql_rows import claim_rows


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


name, address, table = sys.argv[1:]
for row in claim_rows(
    lambda: connected(name, address),
    table,
    key="id",
    where={"state": "pending"},
    limit=3,
    poll=3600,
):
    say("has", row["id"])
    if row["id"] < 100:
        sys.stdin.readline()
    row.finish(state="done")
    say("did", row["id"])
say("over")
