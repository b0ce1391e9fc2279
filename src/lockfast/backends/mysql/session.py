"""What is said when a connection is made, and when a transaction begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.mysql.session_variables import IDLE, PINNED
from lockfast.backends.sql.round_trips import Framing
from lockfast.backends.sql.steps import Ask
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.sql.session_variables import Pinned
    from lockfast.backends.sql.steps import Rows

LONGEST_PAUSE = 3.0
"""A client that stands still in its transaction for longer loses it. Otherwise the name that it
has locked would be closed to all until it goes on: its machine may sleep."""


def for_each_pinned(form: Callable[[Pinned], str]) -> str:
    """Return a list of what `form` says of each, of which a server reads those that it has."""
    everywhere = ", ".join(form(one) for one in PINNED if not one.on)
    return everywhere + "".join(f" /*{one.on} , {form(one)} */" for one in PINNED if one.on)


SETTINGS: Sequence[Ask] = (
    # Every read that decides comes after the lock, and has to see what others wrote until then.
    Ask("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", ()),
    Ask(f"SET SESSION {for_each_pinned(lambda one: f'{one.name} = {one.value}')}", ()),
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
