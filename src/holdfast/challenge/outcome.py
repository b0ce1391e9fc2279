"""What a run of the challenge came to: all that the report shows, and nothing that it decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from holdfast.challenge.history import Event

Kind = Literal[
    "overlap", "token", "lost update", "told late", "stall", "left behind", "crash", "not a history"
]

Verdict = Literal["valid", "invalid", "unknown"]
"""`unknown`: nothing was wrong, and too little happened to say more."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What was run: enough to run it again."""

    store: str
    lock: str
    """"holdfast", or the name of a broken one."""
    workload: str
    clients: int
    seed: int
    seconds: float
    ttl: float
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault, from its start to its stop."""

    kind: str
    target: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Write:
    """What the resource was asked to write, at its own time; it lives outside of the store."""

    at: float
    client: str
    hold: int
    token: int | None
    is_accepted: bool
    is_lost: bool
    """Whether it overwrote what its writer had not read."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or that the store's page says may happen."""

    kind: Kind
    at: float
    message: str
    """A sentence."""
    clients: tuple[str, ...] = ()
    is_documented: bool = False
    """Whether the store's own promise ends here: it is counted, and is no fault of the lock."""
    example: tuple[Event, ...] = ()
    """The fewest events that show it."""


@dataclass(slots=True)
class Outcome:
    """All of one run. Times are those of one clock, which all clients share."""

    setting: Setting
    began: float = 0.0
    ended: float = 0.0
    events: list[Event] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    strikes: list[Strike] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    not_made: dict[str, str] = field(default_factory=dict)
    """Faults that could not be made here, and why."""
    grants: int = 0
    cut_short: str = ""
    """What ended it before its time and was no finding, in words; empty if nothing did."""

    @property
    def verdict(self) -> Verdict:
        """What it comes to."""
        if any(not one.is_documented for one in self.findings):
            return "invalid"
        return "valid" if self.grants else "unknown"
