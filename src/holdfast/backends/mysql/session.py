"""What is said when a connection is made, and when a transaction begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.sql.round_trips import Framing
from holdfast.backends.sql.steps import Ask
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.backends.sql.steps import Rows

IDLE = 60.0
"""The server ends a connection that nobody used for so long: that of a client which could not give
it back."""

LONGEST_PAUSE = 3.0
"""A client that stands still in its transaction for longer loses it. Otherwise the name that it
has locked would be closed to all until it goes on: its machine may sleep."""

LONGEST_LOCK_WAIT = 2.0
"""Who waits for a row longer is told so, and asks anew. A request that its client has given up
does not wait much longer than that, and then comes late."""

SETTINGS: Sequence[Ask] = (
    # Every read that decides comes after the lock, and has to see what others wrote until then.
    Ask("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", ()),
    # What a mode of the server's would change is said here: how text is quoted, and whether a
    # value that does not fit is cut. Notes would cost a round trip each.
    Ask(
        "SET SESSION autocommit = 1, time_zone = '+00:00', sql_notes = 0,"
        " sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',"
        f" wait_timeout = {IDLE:.0f}, innodb_lock_wait_timeout = {LONGEST_LOCK_WAIT:.0f},"
        f" lock_wait_timeout = {LONGEST_LOCK_WAIT:.0f}, group_concat_max_len = 65536",
        (),
    ),
)
GREETING: Sequence[Ask] = (*SETTINGS, Ask("SELECT SYSDATE(6), SLEEP(0.001), SYSDATE(6)", ()))

_IDLE = Ask(f"SET SESSION wait_timeout = {IDLE:.0f}", ())

FRAMING = Framing(
    begin=(
        Ask(f"SET SESSION wait_timeout = {LONGEST_PAUSE:.0f}", ()),
        Ask("START TRANSACTION", ()),
    ),
    commit=(Ask("COMMIT", ()), _IDLE),
    roll_back=(Ask("ROLLBACK", ()), _IDLE),
    # Nobody stands still in the middle of what goes in one round trip.
    opening=(Ask("START TRANSACTION", ()),),
    closing=(Ask("COMMIT", ()),),
)


def check_greeting(answers: Sequence[Rows], *, where: str) -> None:
    """Refuse a server whose clock stands still while a statement waits for a row."""
    [(before, _, after)] = answers[-1]
    if before == after:
        raise ConfigurationError(
            f"{where} was started with --sysdate-is-now, so it cannot tell the time after a "
            "lock was waited for; start it without"
        )
