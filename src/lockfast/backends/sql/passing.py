"""What one claim wants at the door of its name; several of one name go through it together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from lockfast.backends.sql.partial import PartialDoor
    from lockfast.model import Claim, Grant, Held


class Arrived(NamedTuple):
    """The answer to a claim, and the door as it is now, as far as it was read."""

    answer: Grant | Held
    door: PartialDoor


@dataclass(frozen=True, slots=True)
class Arrival:
    """See Door.arrive; `arrived` says where the claim stands, if the client knows."""

    claim: Claim
    bell: str = ""
    arrived: int | None = None

    @property
    def apart(self) -> str:
        """One transaction answers a claim once."""
        return self.claim.id

    def pass_through(self, door: PartialDoor) -> Outcome:
        """Arrive, or return why the claim is refused: the others go through all the same."""
        try:
            return Arrived(door.arrive(self.claim, now=door.now, bell=self.bell), door)
        except ConfigurationError as error:
            return error  # it changed nothing: the capacity is looked at before all else


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """See Door.withdraw; `arrived` as for an arrival."""

    claim: Claim
    arrived: int | None = None
    tombstone: bool = False

    @property
    def apart(self) -> str:
        """One transaction answers a claim once."""
        return self.claim.id

    def pass_through(self, door: PartialDoor) -> Outcome:
        """Withdraw."""
        door.withdraw(self.claim, now=door.now, tombstone=self.tombstone)
        return None


Passage: TypeAlias = Arrival | Withdrawal
Outcome: TypeAlias = Arrived | ConfigurationError | None
"""None where nothing has to be said."""
