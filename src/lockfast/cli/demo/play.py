"""What a story leaves behind: facts that were counted, and who did what when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Span:
    """What one worker did for a while; `label` says what, if one needs to be told apart."""

    worker: str
    begin: float
    end: float
    label: str = ""
    is_wrong: bool = False
    is_frozen: bool = False


@dataclass(frozen=True, slots=True)
class Play:
    """One run of a story, as it was counted afterwards; None is what it does not count."""

    story: str
    guarded: bool
    seconds: float
    verdict: str
    is_right: bool
    sold: int | None = None
    stock: int | None = None
    duplicates: int | None = None
    stale_writes: int | None = None
    spans: tuple[Span, ...] = field(default=(), repr=False)
    zoom: int | None = None
    """Draw about so many spans from the beginning; None draws all."""

    def as_fields(self) -> dict[str, object]:
        """Return the play for --json."""
        return {
            "story": self.story,
            "guarded": self.guarded,
            "sold": self.sold,
            "stock": self.stock,
            "duplicates": self.duplicates,
            "stale_writes": self.stale_writes,
            "seconds": round(self.seconds, 3),
        }


class Story(Protocol):
    """A module of this package that tells one story."""

    NAME: str
    TITLE: str
    TEXT: str
    CODE: str

    def play(self, url: str | None, *, guarded: bool) -> Play:
        """Let the workers run, and count what came of it."""
