"""What is said of a pattern of names, with the figures that it rests on: a frozen value."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from lockfast.observe.figures import Figures

ENOUGH: Final = 30
"""Fewer holds than this say nothing about the next one."""
USUAL_HOLDS: Final = (3, 5)
"""The ttl of a lease without renewal: so many times the mean hold."""

Level: TypeAlias = Literal["ok", "note", "warning"]


class Kind(enum.StrEnum):
    """What was found."""

    FINE = "fine"
    TOO_FEW = "too_few"
    TTL_LONG = "ttl_longer_than_needed"
    TTL_SHORT = "ttl_too_short"
    HOLD_EXCEEDS = "hold_exceeds_ttl"
    SHARD = "shard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One thing that was found, what to do about it, and the figures that both rest on.

    `ttl` is what these figures ask for, None where the ttl is not the matter. `shards` says into
    how many to split the busiest name, None where that is not the matter.
    """

    kind: Kind
    level: Level
    message: str
    remedy: str
    figures: Figures
    ttl: float | None = None
    shards: int | None = None

    @property
    def pattern(self) -> str:
        """The names that it is about."""
        return self.figures.pattern

    def __str__(self) -> str:
        fix = f". To fix it: {self.remedy}" if self.remedy else ""
        return f"{self.pattern}: {self.message}{fix}"
