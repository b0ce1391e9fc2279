"""Who is admitted, and whom the others watch: decided from one list of the line; pure.

Claims are in order of arrival and are admitted from the front while they fit, so what is
admitted stays so: others come behind it, and whoever leaves only makes room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lockfast.core.admission import Weighed, admit
from lockfast.model import ALL

if TYPE_CHECKING:
    from collections.abc import Sequence


class Entry(Weighed, Protocol):
    """What stands in a line: a claim, or what keeps the name closed after one."""

    @property
    def name(self) -> str:
        """What it is called in this line."""
        ...

    @property
    def claim_id(self) -> str:
        """Whose it is: the id of a claim."""
        ...


class Line:
    """The line of a name, as the store told it at one moment, and where our own claim stands."""

    __slots__ = (
        "aside_for",
        "capacity",
        "confirmed_at",
        "entries",
        "inside",
        "number",
        "prefix",
        "retry_in",
    )

    def __init__(
        self,
        entries: Sequence[Entry],
        capacity: int,
        *,
        prefix: str,
        number: int | None = None,
    ) -> None:
        self.entries: Sequence[Entry] = entries
        self.capacity: int = capacity
        self.prefix: str = prefix
        """With the name of an entry after it, the key at which that stands."""
        self.number: int | None = number
        """How many stand in front of our claim; None if it is not in this line."""
        self.inside: int = admitted(entries, capacity=capacity)
        """How many are admitted, from the front."""
        self.aside_for: Entry | None = None
        """Whose going our claim has to await outside the line, which it had to leave again."""
        self.confirmed_at: float | None = None
        """When a request was sent by which a quorum has confirmed the session along the way."""
        self.retry_in: float | None = None
        """When to look again at the latest, where not every change is told by a watch."""

    @property
    def is_admitted(self) -> bool:
        """Whether our claim is."""
        return self.number is not None and self.number < self.inside and self.aside_for is None

    def key_of(self, entry: Entry) -> str:
        """Return where an entry stands."""
        return f"{self.prefix}{entry.name}"

    def to_watch(self) -> Sequence[Entry]:
        """Return those whose going, or touch, is the next that can matter to our claim."""
        if self.aside_for is not None:
            return [self.aside_for]
        if self.number is None:
            return []
        return to_watch(self.entries, self.number, inside=self.inside, capacity=self.capacity)

    def must_touch(self) -> bool:
        """Whether our claim, if it is admitted, has to tell who is behind it."""
        return self.number is not None and must_touch(
            self.entries, self.number, capacity=self.capacity
        )

    @property
    def place(self) -> int | None:
        """The place of our claim among those who wait; the first, if it is in front of them."""
        return None if self.number is None else max(1, self.number - self.inside + 1)


def admitted(line: Sequence[Entry], *, capacity: int) -> int:
    """Return how many of the line are inside, from the front."""
    return len(admit(capacity=capacity, inside=(), line=line))


def to_watch(line: Sequence[Entry], place: int, *, inside: int, capacity: int) -> Sequence[Entry]:
    """Return those whose going, or touch, is the next that can matter to the one at `place`.

    One leaves and one is woken, however many wait. A mutex and a writer watch who is just in
    front. A reader watches the nearest writer in front: readers do not keep it out. Where
    permits are counted any holder's going may let the first of the line in, so it watches
    them all; each other watches who is just in front, which touches its own entry when it is
    admitted and thereby makes its follower the first.
    """
    if capacity == 1 or line[place].weight == ALL:
        return line[place - 1 : place]
    if capacity == ALL:
        writers = [one for one in line[:place] if one.weight == ALL]
        return writers[-1:]
    return line[:inside] if place == inside else line[place - 1 : place]


def must_touch(line: Sequence[Entry], place: int, *, capacity: int) -> bool:
    """Whether one that is admitted after a wait has to tell who is behind it."""
    return capacity not in (1, ALL) and place + 1 < len(line)
