"""When which kind of fault strikes: one kind for a while, then quiet, then the next.

A mix of all kinds finds less: what one kind is about to show, the next one hides. All of it is
drawn from the seed before anything is looked at, so that the same seed gives the same order, kinds
and lengths. It cannot fix who holds at that time, nor what the clients make of it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.challenge.fault import Draw

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockfast.challenge.fault import Fault

STRIKES = 4
"""How often one kind strikes before it is quiet."""
SHORTEST_GAP, LONGEST_GAP = 0.1, 0.6
"""In ttls, between two strikes: most clients find their way back in less, some do not."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One strike: after so many seconds, and of what chance has made it."""

    gap: float
    draw: Draw


@dataclass(frozen=True, slots=True)
class Slice:
    """Some strikes of one kind, after which it is quiet."""

    fault: Fault
    strikes: tuple[Planned, ...]


def slices(seed: int, faults: Sequence[Fault], *, ttl: float, clients: int) -> Iterator[Slice]:
    """Yield slices for ever, each kind once in every round, each round in an order of its own.

    What cannot be made is drawn like all others and left out afterwards, and the order in which the
    kinds are given is no matter: so a seed that found something finds it elsewhere too.
    """
    chance = random.Random(f"{seed} nemesis")  # noqa: S311 - a seed must repeat
    given = sorted(faults, key=lambda fault: fault.kind)
    while any(not fault.lacks for fault in given):
        for fault in chance.sample(given, len(given)):
            strikes = tuple(_drawn(chance, fault, ttl, clients) for _ in range(STRIKES))
            if not fault.lacks:
                yield Slice(fault, strikes)


def _drawn(chance: random.Random, fault: Fault, ttl: float, clients: int) -> Planned:
    shortest, longest = fault.lengths
    return Planned(
        gap=ttl * chance.uniform(SHORTEST_GAP, LONGEST_GAP),
        draw=Draw(
            length=ttl * chance.uniform(shortest, longest),
            strength=chance.random(),
            anybody=chance.randrange(clients),
        ),
    )
