"""Who waits for whom, and who can never go on because of it.

Somebody goes on that does not wait, or that nothing known to us keeps waiting: an alarm is given
only where every way out is closed. So whoever is told of half of it, a client of its own waits or
an operator of what could be read, gives no false alarm for that half.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class Wait(Generic[W]):
    """Somebody stands in line; `place` is 1 for who is next, None where there is no line."""

    who: W
    name: str
    weight: int
    capacity: int
    place: int | None = None


@dataclass(frozen=True, slots=True)
class Owned(Generic[W]):
    """Somebody holds, and will until it goes on."""

    who: W
    name: str
    weight: int


@dataclass(frozen=True, slots=True)
class Link(Generic[W]):
    """One of a cycle: it waits for the name, because of who comes next in the cycle.

    That one holds it, or `is_ahead` in the line.
    """

    who: W
    name: str
    is_ahead: bool = False


def cycles(waits: Iterable[Wait[W]], holds: Iterable[Owned[W]]) -> list[tuple[Link[W], ...]]:
    """Return the cycles of those who can never go on, each once."""
    tangle = _Tangle(waits, holds)
    found: list[tuple[Link[W], ...]] = []
    seen: set[W] = set()
    for who in tangle.stuck:
        if who not in seen:
            way = tangle.way_from(who, known=seen)
            seen.update(one.who for one in way)
            found += [cycle] if (cycle := _closed(way, tangle)) else []
    return found


def cycle_of(who: W, waits: Iterable[Wait[W]], holds: Iterable[Owned[W]]) -> tuple[Link[W], ...]:
    """Return the cycle that somebody is in, or waits behind; nothing if it can go on."""
    tangle = _Tangle(waits, holds)
    return _closed(tangle.way_from(who, known=set()), tangle) if who in tangle.stuck else ()


class _Tangle(Generic[W]):
    """Those who can never go on: `stuck`, each with its wait, in the order given."""

    def __init__(self, waits: Iterable[Wait[W]], holds: Iterable[Owned[W]]) -> None:
        waits = list(waits)
        self._holds: dict[str, list[Owned[W]]] = defaultdict(list)
        for one in holds:
            self._holds[one.name].append(one)
        # Who waits for two things at once is not one who waits, but somebody we cannot tell apart.
        count = Counter(one.who for one in waits)
        self.stuck: dict[W, Wait[W]] = {one.who: one for one in waits if count[one.who] == 1}
        self._line: dict[str, list[Wait[W]]] = defaultdict(list)
        for wait in self.stuck.values():
            self._line[wait.name].append(wait)
        from_front = {
            name: sorted(line, key=lambda one: -1 if one.place is None else one.place)
            for name, line in self._line.items()
        }
        while any(self._free(name, line) for name, line in from_front.items()):
            pass

    def _free(self, name: str, line: Sequence[Wait[W]]) -> bool:
        """Free those of a line who can go on, from its front; whether anybody could.

        Whoever stands behind one that is stuck is stuck. In one go, since a line may be long.
        """
        before, is_shut = len(self.stuck), False
        closed = sum(one.weight for one in self._holds[name] if one.who in self.stuck)
        for wait in line:
            if wait.who not in self.stuck or (is_shut and wait.place is not None):
                continue
            if closed + wait.weight <= wait.capacity:
                del self.stuck[wait.who]
            elif wait.place is not None:
                is_shut = True
        return len(self.stuck) < before

    def _ahead(self, wait: Wait[W]) -> list[Wait[W]]:
        if wait.place is None:
            return []
        return [
            one
            for one in self._line[wait.name]
            if one.who in self.stuck and one.place is not None and one.place < wait.place
        ]

    def next_of(self, who: W) -> Link[W]:
        """Return because of whom it is stuck, as a link of that one's: who, and its own name."""
        wait = self.stuck[who]
        holders = [one.who for one in self._holds[wait.name] if one.who in self.stuck]
        if holders:
            return Link(holders[0], wait.name)
        return Link(self._ahead(wait)[0].who, wait.name, is_ahead=True)

    def way_from(self, who: W, *, known: set[W]) -> list[Link[W]]:
        """Return the links from somebody on, until one comes again or is known."""
        way: list[Link[W]] = []
        here: set[W] = set()
        while who not in here and who not in known:
            here.add(who)
            because = self.next_of(who)
            way.append(Link(who, because.name, is_ahead=because.is_ahead))
            who = because.who
        return way


def _closed(way: Sequence[Link[W]], tangle: _Tangle[W]) -> tuple[Link[W], ...]:
    """Return the part of a way that comes back to its own beginning."""
    if not way:
        return ()
    back_to = tangle.next_of(way[-1].who).who
    whose = [one.who for one in way]
    return tuple(way[whose.index(back_to) :]) if back_to in whose else ()
