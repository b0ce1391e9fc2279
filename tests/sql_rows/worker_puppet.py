"""A worker in a separate process, which claims a row and finishes it on command.

    worker_puppet.py DATABASE DATABASE-ADDRESS TABLE STAGE-ADDRESS ttl=SECONDS

It executes a test's commands, and replies with their results.
"""

from __future__ import annotations

import sys

from databases import connected
from puppets import seconds_of, serve

from lockfast import NotOwner
from lockfast.sql_rows import claim_rows


class Worker:
    def __init__(self, name: str, address: str, table: str, *, ttl: float) -> None:
        self._rows = claim_rows(
            lambda: connected(name, address), table, key="id", where={"state": "pending"}, ttl=ttl
        )
        self._row = None

    def claim(self) -> int:
        self._row = next(self._rows)
        return int(self._row["id"])

    def finish(self, state: str) -> None:
        if self._row is None:
            raise NotOwner("nothing was claimed")
        self._row.finish(state=state)


if __name__ == "__main__":
    name, address, table, stage, *options = sys.argv[1:]
    serve(Worker(name, address, table, **seconds_of(options)), stage)
