"""What a run of the challenge came to: all that the report shows, and nothing that it decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lockfast.challenge.workloads import WORKLOADS

if TYPE_CHECKING:
    from lockfast.challenge.history import Event

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
    """"lockfast", or the name of a broken one."""
    workload: str
    clients: int
    seed: int
    seconds: float
    ttl: float
    faults: tuple[str, ...]
    are_named: bool = False
    """Whether somebody asked for these kinds of fault by their names, and not for all there are."""


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault, from its start to its stop."""

    kind: str
    target: str
    began: float
    ended: float
    is_aimed: bool = True
    """Whether its victim had the role; where nobody had it for a while, anybody was struck."""


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
        return "unknown" if self.shows_nothing else "valid"

    @property
    def shows_nothing(self) -> str:
        """Why nothing was shown though nothing is wrong, in words; empty if something was."""
        if not self.grants:
            return "nothing was granted"
        if WORKLOADS[self.setting.workload].is_guarded and not self._has_written:
            if all(one.token is None for one in self.events):
                return "the store has no tokens for the check (--workload lock needs none)"
            return "no write came through the token check"
        if self.setting.are_named and (left := self.never_struck):
            return f"{', '.join(left)} never struck"
        return ""

    @property
    def never_struck(self) -> tuple[str, ...]:
        """The kinds of fault that were to strike and did not, made or not."""
        struck = {one.kind for one in self.strikes}
        return tuple(kind for kind in self.setting.faults if kind not in struck)

    @property
    def _has_written(self) -> bool:
        return any(one.is_accepted for one in self.writes)
