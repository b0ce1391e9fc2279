"""Pins the session variables that change what our statements mean.

**The rule.** A session pins every default of the server, the database or the user that changes what
our statements mean, or whether and when they commit. Administrators set such defaults for good
reasons and without knowing our statements. For example, `sql_select_limit` once let seven holders
into a semaphore of three, and with `completion_type=CHAIN` a grant was returned before it was
committed.

Each store on a database server therefore has a module `session_variables.py`, which lists every
variable that a session of that server has:

- `PINNED` lists the variables that we set, and their values. Our own sessions are set up when they
  connect. On a borrowed connection the settings last only for our request, and then the old values
  are restored.
- `LEFT` lists all other variables, each with the reason why it may have any value.

A test reads the server's own list and fails for a variable that is in neither list. Another test
starts a server with hostile defaults for every pinned variable.
"""

from __future__ import annotations

from typing import NamedTuple


class Pinned(NamedTuple):
    """A variable, the value that our statements rely on, and what another value would do.

    `on` names the servers that have the variable, in the store's own terms; empty means all
    servers.
    """

    name: str
    value: str
    why: str
    on: str = ""
