"""What is said when a transaction begins and ends."""

from __future__ import annotations

from holdfast.backends.sql.round_trips import Framing
from holdfast.backends.sql.steps import Ask

LONGEST_PAUSE = 2.0
"""A client that stands still in its transaction for longer loses it. Otherwise the name that it
has locked would be closed to all until it goes on: its machine may sleep."""

LONGEST_LOCK_WAIT = 2.0
"""Who waits for a row longer is told so, and asks anew. A request that its client has given up
does not wait much longer than that, and then comes late."""

# Every read that decides comes in a statement after the one that locks, and has to see what
# others wrote until then. The server's default may be another isolation.
_BEGIN = Ask("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE")
# And every read goes by an index: the planner, which knows nothing of a young table, may think
# that a line of thousands is short, and keep that plan.
_SETTINGS = Ask(
    "SELECT set_config('idle_in_transaction_session_timeout', $1, true),"
    " set_config('lock_timeout', $2, true),"
    " set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)",
    (f"{LONGEST_PAUSE * 1000:.0f}", f"{LONGEST_LOCK_WAIT * 1000:.0f}"),
)

# What is sent in one round trip is one transaction by itself.
FRAMING = Framing(begin=(_BEGIN, _SETTINGS), commit=(Ask("COMMIT"),), roll_back=(Ask("ROLLBACK"),))
