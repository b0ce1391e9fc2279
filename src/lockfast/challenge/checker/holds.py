"""When a client held for certain, from what it saw.

A client may be frozen between any two lines of its diary, so that only what lies between two of
them is certain. It held from the answer of its acquire, if later it was still told that it may act:
until it asked so for the last time with success, or until it began a release that succeeded.
What it never checked again proves nothing: it may have been frozen before it could act.
Who enters again is told so because the first hold lasts: what proves the second proves the first,
and who was inside twice has left when both were given back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockfast.challenge.history import Operation


@dataclass(frozen=True, slots=True)
class Hold:
    """One hold: certain from `granted` to `until`, both included."""

    client: str
    number: int
    name: str
    weight: int
    capacity: int
    token: int | None
    asked: float
    granted: float
    until: float
    released: float | None
    """When the release was answered, if one was and it succeeded."""
    within: int | None = None

    @property
    def is_exclusive(self) -> bool:
        """Whether nobody else may be inside."""
        return self.weight >= self.capacity

    def __str__(self) -> str:
        token = "" if self.token is None else f", token {self.token}"
        return f"client {self.client} from {self.granted:.3f} to {self.until:.3f}{token}"


def definite_holds(operations: Iterable[Operation]) -> list[Hold]:
    """Return the certain part of every hold, by the time at which it began."""
    granted: dict[tuple[str, int], Operation] = {}
    until: dict[tuple[str, int], float] = {}
    released: dict[tuple[str, int], float | None] = {}
    for one in operations:
        key = (one.client, one.hold)
        if not one.is_ok:
            continue
        if one.act == "acquire":
            granted[key] = one
        else:
            until[key] = max(one.invoked, until.get(key, one.invoked))
            if one.act == "release":
                released[key] = one.answered
    # Those that were entered last come first, so that a proof goes all the way out. By their
    # number: a clock may say the same time twice.
    for key, one in sorted(granted.items(), key=lambda each: each[1].hold, reverse=True):
        outer = (one.client, one.within) if one.within is not None else None
        if outer in granted and key in until:
            until[outer] = max(until[key], until.get(outer, until[key]))
            released[outer] = _later(released.get(outer), released.get(key))
    found = [
        Hold(
            client=one.client,
            number=one.hold,
            name=one.name,
            weight=one.weight,
            capacity=one.capacity,
            token=one.token,
            asked=one.invoked,
            granted=one.answered,
            until=until[key],
            released=released.get(key),
            within=one.within,
        )
        for key, one in granted.items()
        if key in until and one.answered is not None and until[key] >= one.answered
    ]
    return sorted(found, key=lambda hold: hold.granted)


def _later(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else max(one, other)
