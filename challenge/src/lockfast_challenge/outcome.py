"""Settings, workloads, recording and outcome of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lockfast.model import ALL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockfast_challenge.history import HistoryEvent


# What clients do while they hold the lock, and what the lock protects.
#
# Only a resource behind the token check must survive whatever happens, because a holder that is
# frozen between its last check of the lease and its write comes too late under any lock (Jepsen's
# tests of etcd have the same three cases).


@dataclass(frozen=True, slots=True)
class Workload:
    """What the clients of a run do."""

    kind: Literal["lock", "counter", "set", "read-write", "semaphore"]
    is_guarded: bool = False
    """Whether the resource refuses a token below one that it has seen."""
    longest: float = 2.0
    """Longest work time of a long turn, in ttls."""
    capacity: int = 1
    short: float = 0.2
    """Longest work time of all other turns, in ttls."""
    long: float = 0.15
    """Fraction of turns that may outlast the ttl, which exposes a lock that does not renew."""

    @property
    def writes(self) -> bool:
        """Whether the clients write to a resource."""
        return self.kind in {"counter", "set"}


WORKLOADS = {
    "lock": Workload("lock"),
    "long-lock": Workload("lock", long=1.0),
    "short-lock": Workload("lock", long=0.0, short=0.02),
    "counter": Workload("counter"),
    "set": Workload("set"),
    "guarded-counter": Workload("counter", is_guarded=True),
    "guarded-set": Workload("set", is_guarded=True),
    "read-write": Workload("read-write", capacity=ALL),
    "semaphore": Workload("semaphore", capacity=2),
    # The lock is held across an election, because only then can a deposed leader keep a holder from
    # learning of its loss.
    "slow-lock": Workload("lock", long=0.8, longest=4.0),
}
"""Workloads by the name that `--workload` takes."""


Kind = Literal[
    "overlap", "token", "lost update", "told late", "stall", "left behind", "crash", "not a history"
]

Verdict = Literal["valid", "invalid", "unknown"]
"""`unknown`: nothing was wrong, but too little happened to call the run valid."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings of a run, which are enough to run it again."""

    store: str
    lock: str
    """The lock under test: "lockfast", or the name of a broken lock."""
    workload: str
    clients: int
    seed: int
    seconds: float
    ttl: float
    faults: tuple[str, ...]
    are_named: bool = False
    """Whether the user named these kinds of fault, instead of taking all of them."""


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault, from its start to its stop."""

    kind: str
    target: str
    began: float
    ended: float
    is_aimed: bool = True
    """Whether the victim had the role; False if none had it in time and a random client was struck.
    """


@dataclass(frozen=True, slots=True)
class Write:
    """One write request, timed by the resource itself, which lives outside the store."""

    at: float
    client: str
    hold: int
    token: int | None
    is_accepted: bool
    is_lost: bool
    """Whether it overwrote a value that its writer had not read."""


@dataclass(frozen=True, slots=True)
class RunFinding:
    """One thing that is wrong, or that the store's page documents as possible."""

    kind: Kind
    at: float
    message: str
    """The finding as a sentence."""
    clients: tuple[str, ...] = ()
    is_documented: bool = False
    """Whether the finding lies beyond the store's guarantee; it is then counted, but is not the
    fault of the lock."""
    example: tuple[HistoryEvent, ...] = ()
    """The fewest events that show the finding."""


@dataclass(slots=True)
class Outcome:
    """Everything about one run. All times are on one clock, which all clients share."""

    setting: Setting
    began: float = 0.0
    ended: float = 0.0
    events: list[HistoryEvent] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    strikes: list[Strike] = field(default_factory=list)
    findings: list[RunFinding] = field(default_factory=list)
    not_made: dict[str, str] = field(default_factory=dict)
    """Faults that could not be injected here, and why."""
    grants: int = 0
    cut_short: str = ""
    """What ended the run early other than a finding, in words; empty if nothing did."""

    @property
    def verdict(self) -> Verdict:
        """The overall verdict; documented findings do not make a run invalid."""
        if any(not one.is_documented for one in self.findings):
            return "invalid"
        return "unknown" if self.shows_nothing else "valid"

    @property
    def shows_nothing(self) -> str:
        """Why a run without findings shows nothing, in words; empty if it shows something."""
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
        """The kinds of fault that were scheduled and never struck, for whatever reason."""
        struck = {one.kind for one in self.strikes}
        return tuple(kind for kind in self.setting.faults if kind not in struck)

    @property
    def _has_written(self) -> bool:
        return any(one.is_accepted for one in self.writes)


# The record of a run in which clients contended and faults struck; the checker judges it.


@dataclass(frozen=True, slots=True)
class Exit:
    """How one client process ended, and its descriptors and threads before and after."""

    client: str
    at: float
    returncode: int
    """As in `subprocess`: negative for a signal."""
    was_killed: bool = False
    """Whether the run killed the process on purpose, and not because it hung."""
    was_asked: bool = True
    """Whether the process was asked to end."""
    hung_for: float = 0.0
    """Seconds after which the process still had not ended and the run killed it; 0 if it ended in
    time."""
    descriptors: tuple[int, int] | None = None
    """Counts before the client was opened and after it was closed; None if not counted."""
    threads: tuple[int, int] | None = None
    in_use: tuple[int, int] | None = None
    """Numbers of descriptors and threads after the last operation, with the client still open."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One run, with all times on one clock. Each process of a client has a name of its own."""

    events: Sequence[HistoryEvent]
    writes: Sequence[Write]
    strikes: Sequence[Strike]
    quiets: Sequence[tuple[float, float]]
    """Time spans in which no fault struck; each begins after the clients had time to recover."""
    exits: Sequence[Exit]
    left: Sequence[str]
    """Holders and waiters that remain in the store though all clients are gone, in words."""
    ttl: float
    bound: float
    """Time limit for another client to get in after a dead holder's ttl, in seconds, on a machine
    that does little else."""
    hiccups: Sequence[tuple[float, float]] = ()
    """When the run itself was late in a quiet stretch, and by how many seconds."""
    forgives: Mapping[str, str] = field(default_factory=dict)
    """For each kind of fault, the documented reason why two clients may hold at once; empty if they
    may not."""
    is_guarded: bool = False
    """Whether the resource checks the tokens of its writes."""
    is_fair: bool = False
    """Whether the lock serves in order of arrival, so that no client is passed over forever."""
    is_renewed: bool = False
    """Whether a lease lasts as long as it is held, however short its ttl."""
