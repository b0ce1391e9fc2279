"""What an item says: who holds the name, or that it is free; bytes and back.

The head is one line: format, state, claim, ttl, age, token, and the claim that was broken last.
Then the name, then the owner as other stores keep it. An item is there also while nobody holds
the name: only what is there can be changed by compare-and-swap, and a request that nobody waits
for any more meets another version.
"""

from __future__ import annotations

import enum
import json
import math
from json.encoder import encode_basestring_ascii as json_string
from typing import TYPE_CHECKING, NamedTuple

from lockfast.errors import ConfigurationError
from lockfast.model import Closing, Held, Holder, Inspection, Owner

if TYPE_CHECKING:
    from lockfast.model import Claim

FORMAT = 1
FREE_FOR = 86_400
"""An item that says FREE is kept so long after it was last changed. Nothing hangs on it."""

_NOBODY = "-"


class State(enum.StrEnum):
    """What may be done with the name."""

    FREE = "free"
    HELD = "held"
    CLOSED = "closed"  # nobody holds it, and its min_hold is not over


class Record(NamedTuple):
    """One item. `age` is how long its holder had it when this was written, by its own clock.

    Two are made for each cycle of a lock, which is why it is a tuple.
    """

    state: State
    name: str
    claim: str = _NOBODY
    ttl: float = 0.0
    age: float = 0.0
    token: int = 0
    broken: str = _NOBODY
    owner: str = ""

    @property
    def seconds(self) -> int:
        """For how long the server is to keep it.

        The server counts whole seconds and may end an item up to one second early, so that a
        holder which trusts its full ttl needs one more.
        """
        return FREE_FOR if self.state is State.FREE else seconds_for(self.ttl)

    def to_bytes(self) -> bytes:
        """Return what is stored."""
        return (
            f"{FORMAT} {self.state} {self.claim} {self.ttl:.3f} {self.age:.3f} {self.token} "
            f"{self.broken}\n{json_string(self.name)}\n{self.owner}"
        ).encode()

    def aged(self, seconds: float) -> Record:
        """Return it as it reads so much later."""
        return self._replace(age=self.age + max(0.0, seconds))

    def is_of(self, claim: Claim) -> bool:
        """Whether this claim holds the name."""
        return self.state is State.HELD and self.claim == claim.id

    # -- what becomes of it ----------------------------------------------------------------

    def held_by(self, claim: Claim, *, token: int) -> Record:
        """Return what says that the claim holds the name from now on."""
        return Record(
            State.HELD, self.name, claim.id, claim.ttl, 0.0, token, self.broken, claim.owner
        )

    def freed(self, *, broken: str | None = None) -> Record:
        """Return what says that nobody holds it, by an operator's hand or by the holder's."""
        return Record(State.FREE, self.name, token=self.token, broken=broken or self.broken)

    def closed_for(self, seconds: float) -> Record:
        """Return what says that nobody gets it for so long."""
        return self._replace(state=State.CLOSED, claim=_NOBODY, ttl=seconds, age=0.0)

    # -- what is told of it ----------------------------------------------------------------

    def held(self, *, remaining: float) -> Held:
        """Return it as the answer to whoever asked for the name."""
        return Held(self._holders(remaining), None, remaining, self._closing(remaining))

    def inspection(self, *, remaining: float) -> Inspection:
        """Return it as the answer to whoever looks."""
        token = self.token or None
        return Inspection(
            self.name, 1, self._holders(remaining), (), token, self._closing(remaining)
        )

    def _holders(self, remaining: float) -> tuple[Holder, ...]:
        if self.state is not State.HELD:
            return ()
        return (self.holder(remaining),)

    def holder(self, remaining: float) -> Holder:
        """Return who holds it."""
        owner = Owner.from_text(self.owner)
        return Holder(owner, self.token or None, 1, self.age, min(remaining, self.ttl))

    def _closing(self, remaining: float) -> tuple[Closing, ...]:
        if self.state is not State.CLOSED:
            return ()
        return (Closing(Owner.from_text(self.owner), 1, remaining),)


def seconds_for(ttl: float) -> int:
    """Return what the server is asked for, so that it keeps an item no shorter than this.

    It takes more than thirty days for a date, and no option of ours is longer than a week.
    """
    return math.ceil(ttl) + 1


def unheld(name: str) -> Record:
    """Return what is added where there is no item."""
    return Record(State.FREE, name)


def record_of(value: bytes, *, key: bytes) -> Record:
    """Return what an item says; ConfigurationError where it is not ours to read."""
    head, _, rest = value.partition(b"\n")
    fields = head.split(b" ")
    if fields[0].isdigit() and int(fields[0]) > FORMAT:
        raise ConfigurationError(
            f"the item {key.decode()!r} has format {int(fields[0])}, and this Lockfast knows "
            f"{FORMAT}: a newer one uses the same namespace. Upgrade this one"
        )
    try:
        _, state, claim, ttl, age, token, broken = (one.decode() for one in fields)
        name, _, owner = rest.decode().partition("\n")
        return Record(
            State(state), json.loads(name), claim, float(ttl), float(age), int(token), broken, owner
        )
    except ValueError:
        raise ConfigurationError(
            f"the item {key.decode()!r} is not of Lockfast: another program uses this key. "
            "Choose a namespace of your own"
        ) from None
