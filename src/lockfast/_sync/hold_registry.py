# Generated from src/lockfast/_async/hold_registry.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The holds of one client: by name while they are ours, and weakly once they were lost."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from lockfast.core.deadlocks import Wait
from lockfast.core.mostly_one import added, each, without

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast._sync.acquiring import Acquisition
    from lockfast._sync.hold import Hold
    from lockfast.core.mostly_one import MostlyOne
    from lockfast.runtime import threads as runtime


def wait_at(place: int | None, *, of: Acquisition) -> Wait[runtime.Context]:
    """Return for what an acquire waits at that place of the line."""
    claim = of.claim
    return Wait(of.context, claim.name, claim.weight, claim.capacity, place)


class HoldRegistry:
    """Who holds what here; touched under the client's state lock."""

    __slots__ = ("_adopting", "_by_name", "_has_lost", "_lost", "_state", "_waits")

    def __init__(self, state: runtime.StateLock) -> None:
        self._state = state
        self._by_name: dict[str, MostlyOne[Hold]] = {}
        # Known for as long as somebody has a lease on it, who must be told before it enters anew.
        self._lost: weakref.WeakSet[Hold] = weakref.WeakSet()
        self._has_lost = False
        # Weakly: one that an interrupt ended must not keep its lease from being adopted.
        self._adopting: weakref.WeakSet[Acquisition] = weakref.WeakSet()
        # Weakly, as above, and with nothing that refers to the key: a task would never be freed.
        # What has ended stays until the same one waits again, and is asked.
        self._waits: weakref.WeakKeyDictionary[
            runtime.Context, tuple[weakref.ref[Acquisition], int | None]
        ] = weakref.WeakKeyDictionary()

    def __len__(self) -> int:
        with self._state:
            return len(self._lost) + len(self.kept())

    def add(self, hold: Hold) -> None:
        """Know the hold from now on; under the state lock, as what else is done with it."""
        name = hold.grant.claim.name
        self._by_name[name] = added(self._by_name.get(name), hold)

    def begin_adopting(self, one: Acquisition) -> bool:
        """Whether nobody here has that very claim, nor is about to: a store knows clients only."""
        with self._state:
            here = {hold.grant.claim.id for hold in self.on(one.claim.name)}
            here.update([other.claim.id for other in self._adopting])
            if one.claim.id in here:
                return False
            self._adopting.add(one)
            return True

    def end_adopting(self, one: Acquisition) -> None:
        """Know that it was adopted, and is a hold by now, or was not."""
        with self._state:
            self._adopting.discard(one)

    def remove(self, hold: Hold) -> None:
        """Forget the hold; under the state lock, as above."""
        if self._has_lost:  # as in `of`, at every release
            self._lost.discard(hold)
        name = hold.grant.claim.name
        if self._by_name.get(name) is hold:
            del self._by_name[name]
        else:
            self._remove_by_name(hold)

    def lose(self, hold: Hold) -> None:
        """Know the hold, if at all, only for as long as somebody has a lease on it."""
        with self._state:
            if hold in self.on(hold.grant.claim.name):
                # In this order: interrupted between any two, it is still known.
                self._has_lost = True
                self._lost.add(hold)
                self._remove_by_name(hold)

    def _remove_by_name(self, hold: Hold) -> None:
        name = hold.grant.claim.name
        left = without(self._by_name.get(name), hold)
        if left is None:
            self._by_name.pop(name, None)
        else:
            self._by_name[name] = left

    def may_have(self, name: str) -> bool:
        """Whether anybody here holds the name, or has lost something.

        Without a lock: what the asking thread or task holds it has put here itself, before.
        """
        return name in self._by_name or self._has_lost

    def may_have_any(self, names: tuple[str, ...]) -> bool:
        """Whether anybody here holds one of the names, or has lost something; as above."""
        return self._has_lost or not self._by_name.keys().isdisjoint(names)

    def has_any(self) -> bool:
        """Whether anybody here holds anything that is not lost; without a lock, as above."""
        return bool(self._by_name)

    def of(self, context: runtime.Context, name: str) -> Hold | None:
        """Return the hold of a thread or task on a name: what it would re-enter."""
        with self._state:
            for hold in each(self._by_name.get(name)):
                if hold.context() is context and hold.grant.claim.party is None:
                    return hold
            if not self._has_lost:
                return None  # at every acquire; even to count the set would be felt
            self._has_lost = bool(self._lost)
            for hold in self._lost:
                claim = hold.grant.claim
                if hold.context() is context and claim.name == name and claim.party is None:
                    return hold
        return None

    def on(self, name: str) -> tuple[Hold, ...]:
        """Return those on a name that are not lost, of all threads and tasks."""
        with self._state:
            return each(self._by_name.get(name))

    def begins_waiting(self, one: Acquisition, *, place: int | None) -> None:
        """Know for what a thread or task begins to wait."""
        with self._state:
            self._waits[one.context] = (weakref.ref(one), place)

    def wait_of(
        self, who: runtime.Context, *, lasts: Callable[[Acquisition], bool]
    ) -> Wait[runtime.Context] | None:
        """Return for what a thread or task waits now, if it does and the wait lasts."""
        with self._state:
            known = self._waits.get(who)
            one = None if known is None else known[0]()
            if known is None or one is None or one.hold is not None or not lasts(one):
                return None
            return wait_at(known[1], of=one)

    def waits_at(
        self, name: str, *, lasts: Callable[[Acquisition], bool]
    ) -> list[Wait[runtime.Context]]:
        """Return all waits here for a name that last."""
        with self._state:
            waiting = list(self._waits)
        found = [self.wait_of(who, lasts=lasts) for who in waiting]
        return [one for one in found if one is not None and one.name == name]

    def names_of(self, context: runtime.Context) -> set[str]:
        """Return the names that a thread or task holds."""
        with self._state:
            # No generator: Python swallows an interrupt that strikes while it drops one.
            return {
                name
                for name, holds in self._by_name.items()
                for hold in each(holds)
                if hold.context() is context and hold.has_handles()
            }

    def kept(self) -> list[Hold]:
        """Return those that are not lost, on all names."""
        with self._state:
            return [hold for holds in self._by_name.values() for hold in each(holds)]

    def all(self) -> list[Hold]:
        """Return all of them. Takes no lock: after a fork, whoever had it is not there."""
        holds = [hold for holds in self._by_name.values() for hold in each(holds)]
        return list(dict.fromkeys([*holds, *self._lost]))
