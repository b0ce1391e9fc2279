"""What the variables of a session are to our statements.

**The rule.** A session pins every default of the server, the database or the user that changes
what our statements mean, or whether and when they commit. Administrators set such defaults for
good reasons and without knowing our statements: `sql_select_limit` once let seven into a
semaphore of three, and `completion_type=CHAIN` had a grant returned before it was committed.

Each store on a database server therefore has a module `session_variables.py`, which goes through
every variable that a session of that server has:

- `PINNED` is what we set, and to what. A session of our own is set up when it connects. On one
  that others use too, what we set holds for our request alone, and then what was there before.
- `LEFT` is everything else, each with the reason why it may have any value.

A test reads the server's own list, and fails for a variable that is in neither. Another starts a
server with hostile defaults for all that is pinned.
"""

from __future__ import annotations

from typing import NamedTuple


class Pinned(NamedTuple):
    """A variable, the value that our statements rely on, and what another value would do.

    `on` says which servers have it, in the store's own terms; empty means all of them.
    """

    name: str
    value: str
    why: str
    on: str = ""
