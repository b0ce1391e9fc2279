"""Records which claims wait for which name, and when each name is probed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from lockfast.core.door import ADMISSION_WINDOW_SECONDS, ADMITTED, CLOSING
from lockfast.core.naming import storage_key
from lockfast.model import FOREVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sql.dialect import StoreStatements
    from lockfast.backends.sql.steps import Query, Rows
    from lockfast.core.door import Entry
    from lockfast.model import Claim, Held

# The lines in which a client's claims wait, and when each line is probed next; no I/O.
#
# Only the client's first claim at each name is probed, to find out whether its entry still waits
# and when the entries inside end. So a probe costs one row per name however many claims wait, and
# one statement covers all names. Callers that change the schedule hold a lock.


SAFETY_POLL_SECONDS = 5.0
"""Probe interval of a line where releases notify, in seconds. The probes replace notifications that
are never sent because the holder or an admitted claim's client has died."""

POLL_TOGETHER_SECONDS = SAFETY_POLL_SECONDS / 2
"""A line that is due within this time is probed along with the others."""

HEAD_POLL_FIRST_SECONDS, HEAD_POLL_LONGEST_SECONDS, HEAD_POLL_GROWTH = 0.02, 0.1, 1.5
"""Poll interval of a claim that is the first in a line without notifications, in seconds: its first
value, its longest value, and its growth factor."""

BEHIND_POLL_SECONDS = 1.05
"""Poll interval of all other claims, which share one probe, in seconds. It is well below the
admission window, because an admitted claim that does not answer within the window loses its place.
"""

POLL_MIN_SECONDS = 0.02
"""Minimum time until the next probe, however soon a hold ends."""


class Probe(NamedTuple):
    """What to probe: one of our claims, at its arrival."""

    name: str
    claim_id: str
    arrived: int


class ProbeResult(NamedTuple):
    """The result of a probe.

    `is_head` says whether the claim is the first in line. `ends_in` is the time in seconds until
    the first entry inside ends, and `window_ends_in` the time until the first unanswered admission
    window ends; each is None if there is none.
    """

    is_waiting: bool
    is_head: bool
    ends_in: float | None
    window_ends_in: float | None


@dataclass(slots=True, eq=False)
class NameWaiters:
    """The client's claims that wait for one name, with their arrivals, in order."""

    name: str
    claims: dict[str, int] = field(default_factory=dict)
    probe_at: float = FOREVER
    watch_at: float = FOREVER
    """When to check whether a claim that was admitted ahead of ours has answered; an older probe
    result cannot postpone this check."""
    pause: float = HEAD_POLL_FIRST_SECONDS
    is_head: bool = False
    """Whether our first claim was the first in line at the last probe."""

    @property
    def first(self) -> str:
        """The claim that is probed."""
        return next(iter(self.claims))

    @property
    def last(self) -> int:
        """The arrival of our last claim in the line."""
        return next(reversed(self.claims.values()), 0)


class PollSchedule:
    """All lines in which a client's claims wait; `notifies` says whether releases notify us."""

    def __init__(self, *, notifies: bool = True) -> None:
        self.notifies = notifies
        self.by_name: dict[str, NameWaiters] = {}
        """The lines by name; a name at which no claim of ours waits is not in this dict."""
        self._names: dict[str, str] = {}
        self._sharing: set[str] = set()

    @property
    def sharing(self) -> list[str]:
        """Claims that may share a hold, and so may be admitted wherever they are in line."""
        return list(self._sharing)

    @property
    def waiting(self) -> list[str]:
        """All waiting claims."""
        return list(self._names)

    @property
    def has_waiters(self) -> bool:
        """Whether any claim waits."""
        return bool(self._names)

    def __contains__(self, claim_id: object) -> bool:
        return claim_id in self._names

    def is_first(self, claim: Claim) -> bool:
        """Return whether the claim is the first of our claims at its name."""
        line = self.by_name.get(claim.name)
        return line is None or line.first == claim.id

    def arrival_of(self, claim: Claim) -> int | None:
        """Return the arrival of the claim; None if the claim does not wait."""
        line = self.by_name.get(claim.name)
        return None if line is None else line.claims.get(claim.id)

    def stands(self, claim: Claim, arrived: int, result: ProbeResult, *, now: float) -> None:
        """Record that the claim waits; `result` comes from the answer that put it in line."""
        line = self.by_name.setdefault(claim.name, NameWaiters(claim.name))
        if line.claims.get(claim.id) != arrived:
            is_last = claim.id not in line.claims and arrived > line.last
            line.claims[claim.id] = arrived
            if not is_last:  # rare, which is good, because sorting a large crowd is slow
                line.claims = dict(sorted(line.claims.items(), key=lambda one: one[1]))
        self._names[claim.id] = claim.name
        if claim.party is not None:
            self._sharing.add(claim.id)
        if line.first == claim.id:
            self._plan(line, result, now=now)

    def forget(self, claim_id: str, *, now: float) -> None:
        """Record that the claim no longer waits; our next claim at the name is probed instead."""
        name = self._names.pop(claim_id, None)
        self._sharing.discard(claim_id)
        if name is None:
            return
        line = self.by_name[name]
        was_first = line.first == claim_id
        del line.claims[claim_id]
        if not line.claims:
            del self.by_name[name]
        elif was_first:
            line.probe_at = min(
                line.probe_at,
                now + (SAFETY_POLL_SECONDS if self.notifies else HEAD_POLL_FIRST_SECONDS),
            )
            line.pause = HEAD_POLL_FIRST_SECONDS
            line.is_head = False

    def behind(self, claim: Claim) -> list[str]:
        """Return our other claims at the claim's name."""
        line = self.by_name.get(claim.name)
        return [] if line is None else [one for one in line.claims if one != claim.id]

    def make_all_due(self, *, now: float) -> None:
        """Make every line due now, because a notification may have been lost."""
        for line in self.by_name.values():
            line.probe_at = min(line.probe_at, now)

    def watch(self, claim_id: str, *, now: float) -> None:
        """Record that a claim ahead of `claim_id` was admitted and may answer within a window.

        Each such message postpones the probe, because no probe is needed while claims ahead are
        admitted and leave.
        """
        name = self._names.get(claim_id)
        if name is not None and self.by_name[name].first == claim_id:
            line = self.by_name[name]
            line.probe_at = line.watch_at = now + ADMISSION_WINDOW_SECONDS + POLL_MIN_SECONDS

    def due_at(self) -> float:
        """Return when the next probe is due."""
        return min((one.probe_at for one in self.by_name.values()), default=FOREVER)

    def take_due(self, now: float, *, most: int) -> list[Probe]:
        """Return the probes that are due, at most `most`, and reschedule each of them."""
        ahead = POLL_TOGETHER_SECONDS if self.notifies else 0.0
        due = [one for one in self.by_name.values() if one.probe_at <= now + ahead]
        if not self.notifies and any(not one.is_head for one in due):
            # Probe all lines in which our claim is not the first together, so that there is one
            # statement per interval, however many names there are.
            due += [one for one in self.by_name.values() if not one.is_head and one.probe_at > now]
        del due[most:]
        for line in due:
            if line.watch_at <= now:
                line.watch_at = FOREVER
            line.probe_at = now + (SAFETY_POLL_SECONDS if self.notifies else BEHIND_POLL_SECONDS)
        return [Probe(one.name, one.first, one.claims[one.first]) for one in due]

    def learn(self, probe: Probe, result: ProbeResult | None, *, now: float) -> Sequence[str]:
        """Apply a probe result (None: no such name); return the claims that should ask again."""
        line = self.by_name.get(probe.name)
        if line is None or line.claims.get(probe.claim_id) != probe.arrived:
            return ()
        if result is None:
            return [*line.claims]
        if not result.is_waiting:
            # Usually the claim was admitted, and our other claims still wait. If the claim was
            # turned away, our other claims were too, and the claim finds out when it asks. If all
            # our claims asked after each admission, they would do nothing else.
            return (probe.claim_id,)
        if result.ends_in is None or result.ends_in <= 0:
            return (probe.claim_id,)
        self._plan(line, result, now=now)
        return ()

    def _plan(self, line: NameWaiters, result: ProbeResult, *, now: float) -> None:
        # The first claim in line is probed when a hold ends. Any other claim is probed when an
        # admission window ends, because the admitted claim may not have answered.
        moment = result.ends_in if result.is_head else result.window_ends_in
        ends_in = FOREVER if moment is None else max(POLL_MIN_SECONDS, moment)
        line.is_head = result.is_head
        if self.notifies:
            line.probe_at = min(now + min(SAFETY_POLL_SECONDS, ends_in), line.watch_at)
        elif result.is_head:
            line.probe_at = now + min(line.pause, ends_in)
            line.pause = min(HEAD_POLL_LONGEST_SECONDS, line.pause * HEAD_POLL_GROWTH)
        else:
            line.probe_at = now + min(BEHIND_POLL_SECONDS, ends_in)


# One statement that probes many lines: does our claim still wait, and when do the entries inside
# end?


class LineProbe:
    """The probes of lines in one namespace."""

    def __init__(self, statements: StoreStatements, *, namespace: str) -> None:
        self._statements = statements
        self._namespace = namespace

    def request(self, probes: Sequence[Probe]) -> Query:
        """Return the query for these probes."""
        wanted = [
            {
                "number": number,
                "key": storage_key(self._namespace, one.name).hex(),
                "id": one.claim_id,
                "arrived": one.arrived,
            }
            for number, one in enumerate(probes)
        ]
        return self._statements.look(json.dumps(wanted))

    def results_in(self, probes: Sequence[Probe], rows: Rows) -> list[ProbeResult | None]:
        """Return the result of each probe; None if the name does not exist."""
        seen = {number: ProbeResult(*rest) for number, *rest in rows}
        return [seen.get(number) for number in range(len(probes))]


def probe_result_of(places: Sequence[Entry], held: Held, *, now: float) -> ProbeResult:
    """Return the probe result implied by the answer to a claim that was put in line."""
    ends = [one.until - now for one in places if one.state <= CLOSING]
    windows = [one.until - now for one in places if one.state is ADMITTED]
    return ProbeResult(
        is_waiting=True,
        is_head=held.place == 1,
        ends_in=min(ends, default=None),
        window_ends_in=min(windows, default=None),
    )
