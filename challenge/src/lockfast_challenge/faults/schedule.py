"""Decides which fault strikes when, and which client or server the fault strikes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from lockfast_challenge.faults.fault import Draw
from lockfast_challenge.faults.on_clients import client_faults, then_killed
from lockfast_challenge.faults.on_network import network_faults

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lockfast_challenge.clients.fleet import Fleet
    from lockfast_challenge.faults.fault import Deployment, Fault, Role
    from lockfast_challenge.history import HistoryEvent


# The faults of a run: the kinds that were requested and that can be made on this machine.


class NoSuchFault(ValueError):
    """A kind of fault that this deployment does not have."""


def check_kinds(kinds: Sequence[str], there: Mapping[str, Fault], *, store: str) -> None:
    """Raise NoSuchFault if a kind is not among the faults that there are."""
    unknown = [kind for kind in kinds if kind not in there]
    if unknown:
        raise NoSuchFault(
            f"there is no fault {unknown[0]!r} for {store}; there are: {', '.join(sorted(there))}"
        )


def all_faults(fleet: Fleet, deployment: Deployment) -> dict[str, Fault]:
    """Return all faults of these clients and of this deployment, by kind."""
    return faults_of_clients(fleet, deployment) | {one.kind: one for one in deployment.faults()}


def faults_of_clients(fleet: Fleet, deployment: Deployment) -> dict[str, Fault]:
    """Return the faults that strike one client or its connections, by kind.

    A fault can strike one client at a time, so each contest needs faults of its own.
    """
    from_network = network_faults(deployment.proxies_of)
    found: list[Fault] = [*client_faults(fleet, deployment.proxies_of), *from_network]
    found += [then_killed(fault, fleet) for fault in from_network if fault.kind.endswith("-held")]
    return {fault.kind: fault for fault in found}


# Which client holds, requests or waits, as the clients' diaries show.


@dataclass(slots=True)
class Roles:
    """The roles of the clients, from the events they write; callers leave out dead clients."""

    _last: dict[str, HistoryEvent] = field(default_factory=dict)
    """The last event of each client."""
    _holds: dict[str, bool] = field(default_factory=dict)
    _granted_at: dict[str, float] = field(default_factory=dict)
    """When each client was last granted the lock."""

    def record(self, events: Iterable[HistoryEvent]) -> None:
        """Record new events."""
        for event in events:
            self._last[event.client] = event
            if event.phase == "invoked":
                continue
            if event.act == "acquire":
                self._holds[event.client] = event.phase == "ok"
                if event.phase == "ok":
                    self._granted_at[event.client] = event.at
            elif event.act == "release" or event.phase == "fail":
                self._holds[event.client] = False

    def client_with(self, role: Role, among: Iterable[str]) -> str | None:
        """Return the client that has the role, or None if there is none.

        Of several holders or waiters, the client whose last event is oldest is returned. Of several
        askers, the client that began last is returned, because its request is most likely still
        under way.
        """
        there = [client for client in among if client in self._last]
        asking = sorted(filter(self._is_asking, there), key=lambda one: self._last[one].at)
        holding = sorted(filter(self._is_holder, there), key=lambda one: self._last[one].at)
        if role == "holder":
            return holding[0] if holding else None
        if role == "asker":
            return asking[-1] if asking else None
        if role == "waiter":
            return asking[0] if asking and holding else None
        return None

    def has_claim(self, client: str) -> bool:
        """Return whether the client holds or requests; if so, its death would block others."""
        return self._is_holder(client) or (client in self._last and self._is_asking(client))

    def were_granted(self, clients: Iterable[str], *, since: float) -> bool:
        """Return whether each of these clients was granted the lock at `since` or later."""
        return all(self._granted_at.get(client, -inf) >= since for client in clients)

    def _is_holder(self, client: str) -> bool:
        return self._holds.get(client, False)

    def _is_asking(self, client: str) -> bool:
        last = self._last[client]
        return last.phase == "invoked" and last.act == "acquire"


STRIKES_PER_SLICE = 4
"""Number of strikes of one kind before a quiet stretch."""
SHORTEST_GAP_TTLS, LONGEST_GAP_TTLS = 0.1, 0.6
"""Shortest and longest gap between two strikes, in ttls.

In most gaps all clients recover before the next strike, but not in all gaps.
"""


@dataclass(frozen=True, slots=True)
class Planned:
    """One strike: the gap before it, in seconds, and its random choices."""

    gap: float
    draw: Draw

    def scaled(self, factor: float) -> Planned:
        """Return the strike with all its times multiplied by a factor."""
        draw = replace(self.draw, length=factor * self.draw.length)
        return Planned(factor * self.gap, draw)


@dataclass(frozen=True, slots=True)
class Slice:
    """Some strikes of one kind, followed by a quiet stretch."""

    fault: Fault
    strikes: tuple[Planned, ...]


def slices(
    seed: int,
    faults: Sequence[Fault],
    *,
    ttl: float,
    clients: int,
    strikes: int = STRIKES_PER_SLICE,
) -> Iterator[Slice]:
    """Yield slices for ever: each kind once in every round, each round in a new order.

    Kinds that cannot be made are drawn like all other kinds and then left out, and the order of
    `faults` does not matter. So a seed that found something finds it on another machine too.
    """
    chance = random.Random(f"{seed} nemesis")  # noqa: S311 - a seed must repeat
    in_order = sorted(faults, key=lambda fault: fault.kind)
    while any(not fault.lacks for fault in in_order):
        for fault in chance.sample(in_order, len(in_order)):
            drawn = tuple(_drawn(chance, fault, ttl, clients) for _ in range(strikes))
            if not fault.lacks:
                yield Slice(fault, drawn)


def _drawn(chance: random.Random, fault: Fault, ttl: float, clients: int) -> Planned:
    shortest, longest = fault.lengths
    return Planned(
        gap=ttl * chance.uniform(SHORTEST_GAP_TTLS, LONGEST_GAP_TTLS),
        draw=Draw(
            length=ttl * chance.uniform(shortest, longest),
            strength=chance.random(),
            anybody=chance.randrange(clients),
        ),
    )


RETRIES = 3
"""How often a kind that met nobody has another turn before the kinds that did."""


class Turns:
    """Hands the slices of a run to its contests, in the order that the seed gives them.

    Each kind has one turn. After that, kinds that met nobody come first, such as a fault of waiters
    where nobody waited.
    """

    def __init__(self, plan: Iterator[Slice], kinds: Iterable[str]) -> None:
        self._plan = plan
        self._retries = dict.fromkeys(kinds, RETRIES)
        self._open: set[str] = set(self._retries)
        """The kinds that have not had their first turn yet, and those to be tried again."""

    def next(self) -> Slice:
        """Return the next slice."""
        for one in self._plan:
            if not self._open or one.fault.kind in self._open:
                self._open.discard(one.fault.kind)
                return one
        raise NoSuchFault("there is no fault that can be made here")

    def record(self, kind: str, *, has_met: bool) -> None:
        """Record the end of a turn; if it met nobody, the kind will have another turn."""
        if not has_met and self._retries[kind]:
            self._retries[kind] -= 1
            self._open.add(kind)
        elif has_met:
            self._open.discard(kind)
