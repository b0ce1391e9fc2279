"""Which claims of a client wait for which name, and when the store is asked about each. No I/O.

A check concerns a name, not a claim, so that its cost does not depend on how many claims wait.
Callers must hold a lock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from lockfast.core.door import ADMISSION_WINDOW_SECONDS
from lockfast.model import FOREVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.model import Claim

CHECK_MIN_SECONDS = 0.02
"""Minimum time until the next check, in seconds, however soon a hold ends."""

HEAD_POLL_FIRST_SECONDS, HEAD_POLL_LONGEST_SECONDS, HEAD_POLL_GROWTH = 0.02, 0.1, 1.5
"""Poll interval of a claim that is the first in a line without notifications, in seconds: its first
value, its longest value, and its growth factor."""

BEHIND_POLL_SECONDS = 1.05
"""Poll interval of all other claims, which share one check, in seconds. It is well below the
admission window, because an admitted claim that does not answer within the window loses its place.
"""


@dataclass(frozen=True, slots=True)
class Timing:
    """How often a store is asked about names, and how many of them at once."""

    steady_seconds: float
    """Interval of the checks of one name where the store notifies."""
    together_seconds: float
    """A check that is due within this time is made along with others, unless it is due when a hold
    ends, because it would be useless before."""
    names_per_check: int
    subscribe_timeout: float
    """Timeout for a subscription, in seconds."""
    unsubscribed_poll_seconds: float
    """Poll interval of our first claim at a name until the subscription is open."""


class WaitRecord(Protocol):
    """What a store records about a claim that waits."""

    @property
    def claim(self) -> Claim:
        """The claim."""
        ...


W = TypeVar("W", bound=WaitRecord)


class Checked(NamedTuple, Generic[W]):
    """What the store said about a name.

    `ends_at` is when the line could move without a notification. `is_head` says whether the checked
    claim is the first in line. `asks` selects the claims that should ask now.
    """

    ends_at: float = FOREVER
    is_head: bool = False
    asks: Callable[[W], bool] | None = None


@dataclass(slots=True, eq=False)
class NameWaiters(Generic[W]):
    """The claims of one client that wait for one name."""

    steady_at: float
    """When the next check is due, whatever happens."""
    claims: dict[str, W] = field(default_factory=dict)
    ends_at: float = FOREVER
    """When the line could move without a notification."""
    watch_at: float = FOREVER
    """When to check whether a claim that was admitted ahead of ours has answered; an older answer
    cannot postpone this check."""
    planned: float = FOREVER
    pause: float = HEAD_POLL_FIRST_SECONDS
    is_head: bool = False
    """Whether our first claim was the first in line at the last check."""

    @property
    def first(self) -> W:
        """The claim that stands for the others."""
        return next(iter(self.claims.values()))


class WaitSchedule(Generic[W]):
    """All names that claims of a client wait for, in the order in which checks are due.

    With `arrival`, a store orders the claims at a name and is asked about the first of them alone.
    Without it, an answer to any of the claims says when the line could move.
    """

    def __init__(self, timing: Timing, *, arrival: Callable[[W], int] | None = None) -> None:
        self._timing = timing
        self._arrival = arrival
        self.notifies = True
        """Whether the store notifies us, so that checks only replace notifications that are never
        sent because a client has died."""
        self.waiting: dict[str, W] = {}
        self._names: dict[str, dict[str, NameWaiters[W]]] = {}
        self._plan: list[tuple[float, int, NameWaiters[W]]] = []
        self._numbers = count()

    @property
    def _steady(self) -> float:
        return self._timing.steady_seconds if self.notifies else BEHIND_POLL_SECONDS

    # -- who waits ---------------------------------------------------------------------

    def add(self, waiter: W, *, now: float, ends_at: float, is_head: bool = False) -> None:
        """Record that a claim waits, as the answer to its request says; it may wait already."""
        claim = waiter.claim
        # This comes first, so that `remove` undoes what an interrupt leaves unfinished.
        self.waiting[claim.id] = waiter
        of_name = self._names.setdefault(claim.name, {})
        line = of_name.get(claim.client)
        if line is None or not line.claims:
            line = of_name[claim.client] = NameWaiters(now + self._steady)
        self._put_in_line(line, waiter)
        if self._arrival is None or line.first is waiter:
            self._expect(line, ends_at, is_head=is_head, now=now)
        self._put(line)

    def _put_in_line(self, line: NameWaiters[W], waiter: W) -> None:
        claim_id, arrival = waiter.claim.id, self._arrival
        known, last = line.claims.get(claim_id), next(reversed(line.claims.values()), waiter)
        line.claims[claim_id] = waiter
        if arrival is None:
            return
        is_sorted = (
            arrival(last) <= arrival(waiter) if known is None else arrival(known) == arrival(waiter)
        )
        if not is_sorted:  # rare, which is good, because sorting a large crowd is slow
            line.claims = dict(sorted(line.claims.items(), key=lambda one: arrival(one[1])))

    def remove(self, claim_id: str, *, now: float) -> W | None:
        """Record that a claim no longer waits; where order counts, the next one is checked."""
        waiter = self.waiting.get(claim_id)
        if waiter is None:
            return None
        name, client = waiter.claim.name, waiter.claim.client
        of_name = self._names.get(name, {})
        if (line := of_name.get(client)) is not None:
            was_first = next(iter(line.claims), None) == claim_id
            line.claims.pop(claim_id, None)
            if not line.claims:
                line.planned = FOREVER
                of_name.pop(client, None)
            elif was_first:
                line.pause, line.is_head = HEAD_POLL_FIRST_SECONDS, False
                if not self.notifies:
                    line.ends_at = min(line.ends_at, now + HEAD_POLL_FIRST_SECONDS)
                self._put(line)
        if not of_name:
            self._names.pop(name, None)
        # This comes last, so that another call completes what an interrupt leaves undone.
        self.waiting.pop(claim_id, None)
        return waiter

    def is_first(self, claim: Claim) -> bool:
        """Return whether the claim is the first of our claims at its name, or would be."""
        line = self._line_of(claim)
        return line is None or next(iter(line.claims), claim.id) == claim.id

    def of_name(self, name: str) -> list[str]:
        """Return the claims that wait for a name."""
        return [claim_id for one in self._names.get(name, {}).values() for claim_id in one.claims]

    def has_waiters_at(self, name: str) -> bool:
        """Return whether a claim waits for a name."""
        return name in self._names

    # -- when to check -----------------------------------------------------------------

    def due_at(self) -> float:
        """Return when the next check is due."""
        plan = self._plan
        while plan and not (plan[0][2].claims and plan[0][2].planned == plan[0][0]):
            heappop(plan)  # the name was rescheduled since, or is gone
        return plan[0][0] if plan else FOREVER

    def take_due(self, now: float) -> list[W]:
        """Take the names that are due, or nearly due, and reschedule them.

        Returns the first claim at each. One batch has a limit; the next call returns the others.
        """
        most = self._timing.names_per_check
        together = self._timing.together_seconds if self.notifies else 0.0
        taken: dict[NameWaiters[W], None] = {}
        while len(taken) < most and (moment := self.due_at()) <= now + together:
            line = self._plan[0][2]
            if moment > now and line.steady_at > moment:
                break
            self._take(line, now, taken)
        if not self.notifies and not all(line.is_head for line in taken):
            # Check all names at which our claim is not the first together, so that there is one
            # request per interval, however many names there are.
            for line in self._lines():
                if len(taken) < most and not line.is_head and line not in taken:
                    self._take(line, now, taken)
        return [line.first for line in taken]

    def _take(self, line: NameWaiters[W], now: float, taken: dict[NameWaiters[W], None]) -> None:
        taken[line] = None
        if line.watch_at <= now:
            line.watch_at = FOREVER
        line.steady_at, line.ends_at = now + self._steady, line.watch_at
        self._put(line)

    def learned(self, first: W, checked: Checked[W], *, now: float) -> list[str]:
        """Record the answer about the name of a claim that was taken; return who should ask."""
        claim, arrival = first.claim, self._arrival
        line = self._line_of(claim)
        if line is None:
            return []
        if arrival is not None:
            current = line.claims.get(claim.id)
            if current is None or arrival(current) != arrival(first):
                return []  # the answer is about an entry that the claim no longer has
        asks = checked.asks
        asking = [] if asks is None else [key for key, one in line.claims.items() if asks(one)]
        self._expect(line, checked.ends_at, is_head=checked.is_head, now=now)
        return asking

    def watch(self, claim_id: str, *, now: float) -> None:
        """Record that a claim ahead of `claim_id` was admitted and may answer within a window.

        Each such message postpones the check, because no check is needed while claims ahead are
        admitted and leave.
        """
        waiter = self.waiting.get(claim_id)
        if waiter is None:
            return
        line = self._line_of(waiter.claim)
        if line is not None and next(iter(line.claims.values()), None) is waiter:
            moment = now + ADMISSION_WINDOW_SECONDS + CHECK_MIN_SECONDS
            line.steady_at = line.ends_at = line.watch_at = moment
            self._put(line)

    def missed(self, must_ask: Callable[[W], bool], *, now: float) -> list[str]:
        """Make up for notifications that may be lost; return the claims that should ask.

        Unless all claims ask, all names are checked. If they do, the next check is due as early as
        `notifies` says, which may have changed.
        """
        asking = [key for key, one in self.waiting.items() if must_ask(one)]
        check_at = now if len(asking) < len(self.waiting) else now + self._steady
        for line in self._lines():
            line.steady_at = min(line.steady_at, check_at)
            self._put(line)
        return asking

    def _line_of(self, claim: Claim) -> NameWaiters[W] | None:
        return self._names.get(claim.name, {}).get(claim.client)

    def _lines(self) -> list[NameWaiters[W]]:
        lines = [line for of_name in self._names.values() for line in of_name.values()]
        return [line for line in lines if line.claims]

    def _expect(self, line: NameWaiters[W], ends_at: float, *, is_head: bool, now: float) -> None:
        line.is_head = is_head
        line.ends_at = min(ends_at, line.watch_at)
        if is_head and not self.notifies:
            line.ends_at = min(line.ends_at, now + line.pause)
            line.pause = min(HEAD_POLL_LONGEST_SECONDS, line.pause * HEAD_POLL_GROWTH)
        self._put(line)

    def _put(self, line: NameWaiters[W]) -> None:
        moment = min(line.steady_at, line.ends_at)
        if moment != line.planned:
            line.planned = moment
            heappush(self._plan, (moment, next(self._numbers), line))
