"""Settings, workloads, recording and outcome of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lockfast.model import ALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast_challenge.history import HistoryEvent


# What clients do while they hold the lock, and what the lock protects.
#
# Only a resource behind the token check must survive whatever happens, because under any lock the
# write of a holder that was frozen after its last check of the lease comes too late (Jepsen's tests
# of etcd have the same three cases).


@dataclass(frozen=True, slots=True)
class Workload:
    """What the clients of a run do."""

    kind: Literal["lock", "counter", "set", "read-write", "semaphore"]
    is_guarded: bool = False
    """Whether the resource refuses a token that is smaller than one that the resource has seen."""
    longest: float = 2.0
    """Longest work time of a long turn, in ttls."""
    capacity: int = 1
    short: float = 0.2
    """Longest work time of all other turns, in ttls."""
    long: float = 0.15
    """Fraction of turns that may outlast the ttl, which exposes a lock that does not renew."""
    brief: float = 0.0
    """Fraction of turns that take a few milliseconds, so that much is granted in little time."""
    lease: float = 1.0
    """The ttl of the leases, in ttls of the run."""

    @property
    def writes(self) -> bool:
        """Whether the clients write to a resource."""
        return self.kind in {"counter", "set"}


WORKLOADS = {
    "lock": Workload("lock"),
    "long-lock": Workload("lock", long=1.0),
    "short-lock": Workload("lock", long=0.0, short=0.02),
    "counter": Workload("counter", long=0.04, brief=0.7),
    "set": Workload("set", long=0.04, brief=0.7),
    "guarded-counter": Workload("counter", is_guarded=True, long=0.04, brief=0.7),
    "guarded-set": Workload("set", is_guarded=True, long=0.04, brief=0.7),
    "read-write": Workload("read-write", capacity=ALL, long=0.04, brief=0.7),
    "semaphore": Workload("semaphore", capacity=2, long=0.04, brief=0.7),
    # The lock is held across an election, because only then can a deposed leader keep a holder from
    # learning of its loss.
    "slow-lock": Workload("lock", long=0.8, longest=4.0),
    # A grant that is pushed to a waiter is trusted for a window of 2.5 s. A client that trusts it
    # for longer is only seen where the lease lasts longer than that.
    "long-lease": Workload("lock", lease=4.0, long=0.1, longest=1.0, brief=0.7),
}
"""Maps the names that `--workload` takes to the workloads."""

MIXED_NAME = "mixed"
MIXED = (
    "guarded-counter",
    "short-lock",
    "long-lease",
    "guarded-set",
    "read-write",
    "semaphore",
    "lock",
)
"""The workloads that the names of a run share by default, as far as the store offers them."""


Kind = Literal[
    "overlap", "token", "lost update", "told late", "stall", "left behind", "crash", "not a history"
]

ExemptFinding = Literal["overlap", "token"]
"""The kinds of finding that a store's page may allow for; all others are always judged."""

ClockDirection = Literal["ahead", "back"]

Verdict = Literal["valid", "invalid", "unknown"]
"""`unknown`: nothing was wrong, but the run was cut short, or too little happened in it."""


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
    names: int = 1
    """How many names are contended for side by side, each by `clients` clients of its own."""
    workloads: tuple[str, ...] = ()
    """The workloads that the names take in turn; empty if all have `workload`."""

    def workload_of(self, number: int) -> str:
        """Return the workload of the name with this number."""
        return self.workloads[number % len(self.workloads)] if self.workloads else self.workload


@dataclass(frozen=True, slots=True)
class ClockMove:
    """A server's clock was set, at some time from `since` to `until`."""

    since: float
    until: float
    seconds: float
    """How far the clock was set ahead; negative if it was set back."""

    @property
    def direction(self) -> ClockDirection:
        """Which way the clock was set."""
        return "ahead" if self.seconds > 0 else "back"


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault, from its start to its stop."""

    kind: str
    target: str
    began: float
    ended: float
    is_aimed: bool = True
    """Whether the victim had the role; False if a random client was struck because none had it."""
    name: str = ""
    """The name whose client was struck; empty for a fault that strikes the clients of all names."""
    has_met: bool = True
    """Whether the fault met somebody: a client with the role, or a message on its way."""
    clock_moves: tuple[ClockMove, ...] = ()
    """The moves of a server's clock: the jump, and the opposite move that puts the clock right."""


@dataclass(frozen=True, slots=True)
class Exemption:
    """One kind of finding that may happen under one kind of fault, as the store's page says."""

    fault: str
    finding: ExemptFinding
    sentence: str
    """What the page says, word for word."""
    clock: ClockDirection | None = None
    """The direction in which a server's clock must have been set, too; None if that is irrelevant.

    An overlap is then excused only as long as leases from before such a move are trusted, and a
    token only until the clock has made up for the move.
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
    """Whether the write overwrote a value that its writer had not read."""


@dataclass(frozen=True, slots=True)
class RunFinding:
    """A fault of the lock, or something that the store's page documents as possible."""

    kind: Kind
    at: float
    message: str
    """The finding as a sentence."""
    clients: tuple[str, ...] = ()
    is_documented: bool = False
    """Whether the store does not guarantee to prevent this.

    The finding is then counted, but is not the fault of the lock.
    """
    example: tuple[HistoryEvent, ...] = ()
    """The fewest events that show the finding."""


@dataclass(slots=True)
class Outcome:
    """Everything about one run, with all times on one clock, which all clients share."""

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
    """The reason, other than a finding, why the run ended early; empty if it did not."""

    @property
    def verdict(self) -> Verdict:
        """The overall verdict; documented findings do not make a run invalid."""
        if any(not one.is_documented for one in self.findings):
            return "invalid"
        return "unknown" if self.cut_short or self.shows_nothing else "valid"

    @property
    def shows_nothing(self) -> str:
        """Why a run without findings proves nothing, in words; empty if it proves something."""
        if not self.grants:
            return "nothing was granted"
        if self._is_guarded and not self._has_written:
            if all(one.token is None for one in self.events):
                return "the store has no tokens for the check (--workload lock needs none)"
            return "no write came through the token check"
        if self.setting.are_named and (left := self.never_struck):
            return f"{', '.join(left)} never struck"
        return ""

    @property
    def never_struck(self) -> tuple[str, ...]:
        """The kinds of fault that were scheduled and never met anybody, for whatever reason."""
        struck = {one.kind for one in self.strikes if one.has_met}
        return tuple(kind for kind in self.setting.faults if kind not in struck)

    @property
    def possible(self) -> tuple[str, ...]:
        """The kinds of fault that were scheduled and can be made here."""
        return tuple(kind for kind in self.setting.faults if kind not in self.not_made)

    @property
    def _is_guarded(self) -> bool:
        """Whether the writes of every name go through the token check."""
        used = {self.setting.workload_of(number) for number in range(self.setting.names)}
        return all(WORKLOADS[one].is_guarded for one in used)

    @property
    def _has_written(self) -> bool:
        return any(one.is_accepted for one in self.writes)


# The record of a run in which clients contended and faults struck; the checker judges it.


@dataclass(frozen=True, slots=True)
class Exit:
    """How one client process ended, and its descriptors and threads before and after its work."""

    client: str
    at: float
    returncode: int
    """As in `subprocess`: negative for a signal."""
    was_killed: bool = False
    """Whether the run killed the process on purpose; False if it was killed because it hung."""
    was_asked: bool = True
    """Whether the process was asked to end."""
    hung_for: float = 0.0
    """Seconds that the process was given to end before it was killed; 0 if it ended in time."""
    descriptors: tuple[int, int] | None = None
    """Counts before the client was opened and after the client was closed; None if not counted."""
    threads: tuple[int, int] | None = None
    in_use: Sequence[tuple[tuple[int, int], tuple[int, int]]] = ()
    """The least and the largest numbers of descriptors and threads, in each quarter of the turns.

    They are counted after each turn, while the client is open. Empty if they were not counted.
    """
    turns: int = 0
    """How many turns the client took."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One run, with all times on one clock. Each process of a client has its own name."""

    events: Sequence[HistoryEvent]
    writes: Sequence[Write]
    strikes: Sequence[Strike]
    quiets: Sequence[tuple[float, float]]
    """Time spans in which no fault struck; each begins after the clients had time to recover."""
    exits: Sequence[Exit]
    left: Sequence[str]
    """Holders and waiters that are left in the store after all clients have ended, in words."""
    ttl: float
    bound: float
    """Maximum time from the end of a dead holder's ttl to the next grant, in seconds.

    This is the time on a machine that does little else.
    """
    hiccups: Sequence[tuple[float, float]] = ()
    """The times at which the run itself was late in a quiet stretch, and by how many seconds."""
    exemptions: Sequence[Exemption] = ()
    """What the store does not guarantee to prevent."""
    is_guarded: bool = False
    """Whether the resource checks the token of each write."""
    is_fair: bool = False
    """Whether the lock serves in order of arrival, so that no client is passed over forever."""
    is_renewed: bool = False
    """Whether a lease lasts as long as it is held, however short its ttl."""
