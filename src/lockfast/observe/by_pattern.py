"""Something that is kept for each pattern of names, kind and store; found again by a claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from lockfast.core.telling import kind_of
from lockfast.observe.patterns import Patterns

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.model import Claim

T = TypeVar("T")

MOST_NAMES: Final = 4096
"""Of so many names in a store is remembered what belongs to them."""


class Labels(NamedTuple):
    """What figures are about."""

    pattern: str
    kind: str
    store: str


class ByPattern(Generic[T]):
    """Makes one where there is none yet. Threads may share it, as they may `Patterns`."""

    def __init__(self, make: Callable[[Labels], T], *, raw_names: bool) -> None:
        self._make = make
        self._raw_names = raw_names
        self._patterns = Patterns()
        self.all: dict[Labels, T] = {}
        self._known: dict[tuple[str, str, int, int], T] = {}

    def of_claim(self, claim: Claim, store: str) -> T:
        """Return what is kept for the pattern of a claim's name."""
        key = (claim.name, store, claim.weight, claim.capacity)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST_NAMES:
                self._known.clear()
            found = self._known[key] = self.of(claim.name, kind_of(claim), store)
        return found

    def of(self, name: str, kind: str, store: str) -> T:
        """Return what is kept for the pattern of a name."""
        labels = Labels(name if self._raw_names else self._patterns.of(name), kind, store)
        found = self.all.get(labels)
        if found is None:
            found = self.all.setdefault(labels, self._make(labels))
        return found
