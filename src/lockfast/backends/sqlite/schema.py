"""The table in the file: one row per claim, and a record in row 0.

One table, one tree, so that a grant touches one page. Row 0 of a key stays when everybody
has left: it remembers the capacity and the last token. The first to come to an empty door
stands in that row itself, so that an uncontended lock is one row from end to end.
"""

from __future__ import annotations

FORMAT = 1
APPLICATION_ID = 0x4C6F636B  # "Lock"

SCHEMA = (
    "CREATE TABLE meta (boot TEXT NOT NULL, epoch REAL NOT NULL, floor INTEGER NOT NULL)",
    """CREATE TABLE places (
        key BLOB NOT NULL, arrived INTEGER NOT NULL, id TEXT NOT NULL, client TEXT NOT NULL,
        owner TEXT NOT NULL, party TEXT, weight INTEGER NOT NULL, ttl REAL NOT NULL,
        lock_delay REAL NOT NULL, min_hold REAL NOT NULL, standing INTEGER NOT NULL,
        until REAL NOT NULL, since REAL NOT NULL, token INTEGER NOT NULL, bell TEXT NOT NULL,
        capacity INTEGER NOT NULL, last_token INTEGER NOT NULL,
        PRIMARY KEY (key, arrived)
    ) WITHOUT ROWID""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)

# For a file that is made now. Each commit writes whole pages, and a record takes some 300 bytes:
# SQLite's own 4096 would be written for nothing. In smaller ones it does not fit on a page.
PAGE_SIZE = 2048

# Of a line of thousands a verb reads those inside and the front. Row 0 is not in the index,
# so that an uncontended lock pays nothing for it. A file of an older version gets it too.
INDEX = """CREATE INDEX IF NOT EXISTS standings ON places (key, standing, arrived)
    WHERE arrived > 0"""
