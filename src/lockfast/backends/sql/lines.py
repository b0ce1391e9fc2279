"""Which claims of a client stand in which lines, and when each line is looked at next; no I/O.

Only the first of them at a name is looked for, whether its row still stands and who is inside:
so looking costs one row per name however many wait, and one statement for all names together.
Whoever uses this holds a lock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from lockfast.core.door import WINDOW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.model import Claim

NEVER = float("inf")

STEADY = 5.0
"""How often a line is looked at where a release rings: for the ring that nobody sends, because
whoever was let in is dead, or the holder is."""

AHEAD = STEADY / 2
"""What is due within so long is looked at along with the rest."""

QUICK, LESS_QUICK, GROWTH = 0.02, 0.1, 1.5
"""Where nothing rings, the first of a line looks so often: at first, and after a while."""

SLOW = 1.05
"""And all others so often, in one look for all of them. Well below the window in which one who
was let in has to answer, or it would lose its place."""

SOONEST = 0.02
"""The least time until the next look, however soon a holder's time is up."""


class Glance(NamedTuple):
    """What is looked for: a claim of ours where it stands."""

    name: str
    claim_id: str
    arrived: int


class Sight(NamedTuple):
    """What was seen: whether the claim still waits, and is the first of all.

    And when the first of those inside will be over, and the first of those who were let in and
    have not answered yet; None if there is no such one.
    """

    is_waiting: bool
    is_head: bool
    ends_in: float | None
    window_ends_in: float | None


@dataclass(slots=True, eq=False)
class Line:
    """The claims of this client that wait for one name, with their arrivals, in order."""

    name: str
    claims: dict[str, int] = field(default_factory=dict)
    look_at: float = NEVER
    watch_at: float = NEVER
    """When to look for one who was let in before us, whatever an older answer says."""
    pause: float = QUICK
    is_head: bool = False
    """Whether the first of ours was the first of all, when it was last seen."""

    @property
    def first(self) -> str:
        """The claim that is looked for."""
        return next(iter(self.claims))

    @property
    def last(self) -> int:
        """The arrival of the last of ours."""
        return next(reversed(self.claims.values()), 0)


class Lines:
    """All lines in which claims of a client stand; `rings` says whether a release is heard."""

    def __init__(self, *, rings: bool = True) -> None:
        self.rings = rings
        self._lines: dict[str, Line] = {}
        self._names: dict[str, str] = {}
        self._sharing: set[str] = set()

    @property
    def sharing(self) -> list[str]:
        """Those who may share a hold with others, and so pass wherever they stand."""
        return list(self._sharing)

    @property
    def waiting(self) -> list[str]:
        """All claims that wait."""
        return list(self._names)

    @property
    def are_any(self) -> bool:
        """Whether any claim waits."""
        return bool(self._names)

    def are_at(self, name: str) -> bool:
        """Whether any of ours stands in the line of this name."""
        return name in self._lines

    def __contains__(self, claim_id: object) -> bool:
        return claim_id in self._names

    def is_first(self, claim: Claim) -> bool:
        """Whether none of ours stands before it at its name."""
        line = self._lines.get(claim.name)
        return line is None or line.first == claim.id

    def arrival_of(self, claim: Claim) -> int | None:
        """Return where the claim stands, None if it does not."""
        line = self._lines.get(claim.name)
        return None if line is None else line.claims.get(claim.id)

    def stands(self, claim: Claim, arrived: int, sight: Sight, *, now: float) -> None:
        """Know that the claim waits, and what was seen when it was told so."""
        line = self._lines.setdefault(claim.name, Line(claim.name))
        if line.claims.get(claim.id) != arrived:
            is_last = claim.id not in line.claims and arrived > line.last
            line.claims[claim.id] = arrived
            if not is_last:  # in a crowd nearly all are, and to sort it for each would take long
                line.claims = dict(sorted(line.claims.items(), key=lambda one: one[1]))
        self._names[claim.id] = claim.name
        if claim.party is not None:
            self._sharing.add(claim.id)
        if line.first == claim.id:
            self._plan(line, sight, now=now)

    def forget(self, claim_id: str, *, now: float) -> None:
        """Know that the claim no longer waits; the next of ours at the name is looked for."""
        name = self._names.pop(claim_id, None)
        self._sharing.discard(claim_id)
        if name is None:
            return
        line = self._lines[name]
        was_first = line.first == claim_id
        del line.claims[claim_id]
        if not line.claims:
            del self._lines[name]
        elif was_first:
            line.look_at = min(line.look_at, now + (STEADY if self.rings else QUICK))
            line.pause = QUICK
            line.is_head = False

    def behind(self, claim: Claim) -> list[str]:
        """Return the other claims of ours at the claim's name."""
        line = self._lines.get(claim.name)
        return [] if line is None else [one for one in line.claims if one != claim.id]

    def look_now(self, *, now: float) -> None:
        """Look at every line as soon as can be: a ring may have been lost."""
        for line in self._lines.values():
            line.look_at = min(line.look_at, now)

    def watch(self, claim_id: str, *, now: float) -> None:
        """Know that somebody before the claim was let in, and has a window to answer.

        Until the next such message: while those in front come and go, nobody has to look.
        """
        name = self._names.get(claim_id)
        if name is not None and self._lines[name].first == claim_id:
            line = self._lines[name]
            line.look_at = line.watch_at = now + WINDOW + SOONEST

    def due_at(self) -> float:
        """Return when to look next."""
        return min((one.look_at for one in self._lines.values()), default=NEVER)

    def take_due(self, now: float, *, most: int) -> list[Glance]:
        """Return what to look for now, at most so many; each is planned anew in any case."""
        ahead = AHEAD if self.rings else 0.0
        due = [one for one in self._lines.values() if one.look_at <= now + ahead]
        if not self.rings and any(not one.is_head for one in due):
            # All of them at once: however many names there are, it is one look in so long.
            due += [one for one in self._lines.values() if not one.is_head and one.look_at > now]
        del due[most:]
        for line in due:
            if line.watch_at <= now:
                line.watch_at = NEVER
            line.look_at = now + (STEADY if self.rings else SLOW)
        return [Glance(one.name, one.first, one.claims[one.first]) for one in due]

    def learn(self, glance: Glance, sight: Sight | None, *, now: float) -> Sequence[str]:
        """Take what was seen; return the claims that should ask. None: the name is not there."""
        line = self._lines.get(glance.name)
        if line is None or line.claims.get(glance.claim_id) != glance.arrived:
            return ()
        if sight is None:
            return [*line.claims]
        if not sight.is_waiting:
            # Let in as a rule, and then the others still wait. If it was turned away, so were they;
            # it learns that when it asks. A crowd that asked at every turn would do nothing else.
            return (glance.claim_id,)
        if sight.ends_in is None or sight.ends_in <= 0:
            return (glance.claim_id,)
        self._plan(line, sight, now=now)
        return ()

    def _plan(self, line: Line, sight: Sight, *, now: float) -> None:
        # Not all at the very end of a hold: the first of the line is enough, unless that is the
        # one who does not answer.
        moment = sight.ends_in if sight.is_head else sight.window_ends_in
        ends_in = NEVER if moment is None else max(SOONEST, moment)
        line.is_head = sight.is_head
        if self.rings:
            line.look_at = min(now + min(STEADY, ends_in), line.watch_at)
        elif sight.is_head:
            line.look_at = now + min(line.pause, ends_in)
            line.pause = min(LESS_QUICK, line.pause * GROWTH)
        else:
            line.look_at = now + min(SLOW, ends_in)
