"""What a run wrote down while clients contended and faults struck: all that is judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockfast.challenge.history import Event
    from lockfast.challenge.outcome import Strike, Write


@dataclass(frozen=True, slots=True)
class Exit:
    """How one process of a client ended, and what it had open first and last."""

    client: str
    at: float
    returncode: int
    """As `subprocess` has it: negative for a signal."""
    was_killed: bool = False
    """Whether the run itself ended it, by whatever signal."""
    was_asked: bool = True
    """Whether it was told to end."""
    hung_for: float = 0.0
    """How many seconds later it had not, so that the run killed it; 0 if it ended by itself."""
    descriptors: tuple[int, int] | None = None
    """Before its client was opened and after it was closed; None if nobody counted."""
    threads: tuple[int, int] | None = None
    in_use: tuple[int, int] | None = None
    """Descriptors and threads after its last operation, with its client still open."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One run, at times of one clock. Each process of a client has a name of its own."""

    events: Sequence[Event]
    writes: Sequence[Write]
    strikes: Sequence[Strike]
    quiets: Sequence[tuple[float, float]]
    """When nothing struck, and for long enough before that everybody was back."""
    exits: Sequence[Exit]
    left: Sequence[str]
    """What is still held though everybody is gone, in words."""
    ttl: float
    bound: float
    """How long after the ttl of a dead holder somebody else has to be inside, on a machine that
    does little else."""
    hiccups: Sequence[tuple[float, float]] = ()
    """When the run itself came late in a quiet stretch, and by how many seconds."""
    forgives: Mapping[str, str] = field(default_factory=dict)
    """The kinds of fault under which two may hold at once, and the page's reason."""
    is_guarded: bool = False
    """Whether the resource checked the tokens of its writes."""
    is_fair: bool = False
    """Whether the lock serves in the order of arrival, so that nobody is passed over for ever."""
    is_renewed: bool = False
    """Whether a lease lasts for as long as it is held, however short its ttl is."""
