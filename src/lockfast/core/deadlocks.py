"""Deadlock detection: which participants wait for each other and can therefore never continue.

A participant can continue if it does not wait, or if nothing known to us blocks it. A deadlock is
reported only if each of its participants is blocked by others that cannot continue either. So
partial knowledge never causes a false alarm. (A client has information only on its own waits, an
operator only on the doors that could be read.)
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
    """A participant's wait; `place` is 1 at the front of the line, and None if there is no line."""

    who: W
    name: str
    weight: int
    capacity: int
    place: int | None = None


@dataclass(frozen=True, slots=True)
class Owned(Generic[W]):
    """A participant's hold of a name, which it keeps until it can continue."""

    who: W
    name: str
    weight: int


@dataclass(frozen=True, slots=True)
class Link(Generic[W]):
    """One step of a cycle: `who` waits for `name` because of the next participant in the cycle.

    If `is_ahead` is true, the next participant waits ahead of `who` in the line of the name;
    otherwise it holds the name.
    """

    who: W
    name: str
    is_ahead: bool = False


def cycles(waits: Iterable[Wait[W]], holds: Iterable[Owned[W]]) -> list[tuple[Link[W], ...]]:
    """Return the cycles of participants that can never continue, each cycle once."""
    graph = _WaitGraph(waits, holds)
    found: list[tuple[Link[W], ...]] = []
    seen: set[W] = set()
    for who in graph.stuck:
        if who not in seen:
            chain = graph.chain_from(who, known=seen)
            seen.update(one.who for one in chain)
            found += [cycle] if (cycle := _cycle_in(chain, graph)) else []
    return found


def cycle_of(who: W, waits: Iterable[Wait[W]], holds: Iterable[Owned[W]]) -> tuple[Link[W], ...]:
    """Return the cycle that `who` is in, or waits for; empty if `who` can continue."""
    graph = _WaitGraph(waits, holds)
    return _cycle_in(graph.chain_from(who, known=set()), graph) if who in graph.stuck else ()


class _WaitGraph(Generic[W]):
    """The graph of waits; `stuck` maps each participant that can never continue to its wait.

    The participants in `stuck` are in the order in which the waits were given.
    """

    def __init__(self, waits: Iterable[Wait[W]], holds: Iterable[Owned[W]]) -> None:
        waits = list(waits)
        self._holds: dict[str, list[Owned[W]]] = defaultdict(list)
        for one in holds:
            self._holds[one.name].append(one)
        # Two waits with the same `who` belong to different participants that look alike to us, so
        # these waits are left out.
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
        """Free the participants in a line that can continue; return whether there were any.

        A participant behind a stuck one is stuck too. Lines may be long, so this makes a single
        pass from the front.
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

    def blocker_of(self, who: W) -> Link[W]:
        """Return a link to the participant that blocks `who`, with the name `who` waits for."""
        wait = self.stuck[who]
        holders = [one.who for one in self._holds[wait.name] if one.who in self.stuck]
        if holders:
            return Link(holders[0], wait.name)
        return Link(self._ahead(wait)[0].who, wait.name, is_ahead=True)

    def chain_from(self, who: W, *, known: set[W]) -> list[Link[W]]:
        """Return the links from `who` onwards, until a participant repeats or is in `known`."""
        chain: list[Link[W]] = []
        here: set[W] = set()
        while who not in here and who not in known:
            here.add(who)
            blocker = self.blocker_of(who)
            chain.append(Link(who, blocker.name, is_ahead=blocker.is_ahead))
            who = blocker.who
        return chain


def _cycle_in(chain: Sequence[Link[W]], graph: _WaitGraph[W]) -> tuple[Link[W], ...]:
    """Return the part of the chain that leads back to its own start; empty if no part does."""
    if not chain:
        return ()
    back_to = graph.blocker_of(chain[-1].who).who
    members = [one.who for one in chain]
    return tuple(chain[members.index(back_to) :]) if back_to in members else ()
