"""What a server's store has to put into words beside its dialect: all that needs no door.

The uncontended cycle decides by columns of the name's own row alone, which its statement locks:
how many stand beside the record is counted in the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sql.deeds import Deed
    from lockfast.backends.sql.steps import Ask, AskMany, Rows
    from lockfast.model import Claim


class Statements(Protocol):
    """The statements on one pair of tables, for the names of one namespace. None is run here."""

    # -- for one, see `token_in` -------------------------------------------------------

    def take(self, claim: Claim) -> Ask:
        """Grant to one who comes to an empty door whose name is known.

        Nobody comes to one whose name is not; refused, it writes nothing.
        """
        ...

    def take_new(self, claim: Claim) -> Ask:
        """The same for a name that may be unknown. Refused, it may cost a commit all the same."""
        ...

    def release(self, claim: Claim) -> Ask:
        """End the hold of one who is alone."""
        ...

    def confirm(self, claim: Claim, arrived: int) -> Ask:
        """Make the window of one who was let in a hold of its ttl."""
        ...

    def token_in(self, rows: Rows) -> int | None:
        """Return the token of what was done, and some number for a release; None if nothing was."""
        ...

    # -- for several, in one round trip ------------------------------------------------

    def together(self, deeds: Sequence[Deed]) -> Sequence[Ask]:
        """Do several at once, each for another name, by what is one transaction.

        It waits for nobody who has locked a name: one whose transaction does not end would hold
        up all who go with it. Only for one who makes the same name known it waits, and new names
        are made in the order of their keys.
        """
        ...

    def done(self, deeds: Sequence[Deed], answers: Sequence[Rows]) -> list[int | None]:
        """Return the token of each that was done, None for each that was not."""
        ...

    # -- for many, each given one list in JSON -----------------------------------------

    def look(self, wanted: str) -> Ask:
        """Look at many lines, by objects with number, key, id and arrived.

        A row for each whose name is there: the number; whether the claim still waits where it
        arrived, and is the first who does; in how long the first of those inside ends, and the
        first of those who were let in and have not answered, or NULL.
        """
        ...

    def make(self, keys: str) -> AskMany:
        """Make the records of names that have none, in the order of the keys given."""
        ...

    def lock_empty(self, keys: str) -> Ask:
        """Lock those of the names where nobody is, in the order of the keys: a row for each."""
        ...
