"""One name of a run: its clients, what they contend with, and the faults that strike them in turn.

A contest runs as a generator that yields the time at which it wants to go on, so that one loop can
run many contests side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from lockfast.runtime.clock import Clock
from lockfast_challenge.checker.judge import judge, recent
from lockfast_challenge.checker.progress import LATENESS_FACTOR
from lockfast_challenge.clients.fleet import number_of
from lockfast_challenge.faults.fault import DidNotStrike
from lockfast_challenge.faults.on_network import MESSAGE_WAIT_SECONDS
from lockfast_challenge.faults.schedule import Roles
from lockfast_challenge.outcome import Recorded, Strike

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from lockfast_challenge.clients.fleet import Fleet
    from lockfast_challenge.faults.fault import Fault
    from lockfast_challenge.faults.schedule import Planned, Turns
    from lockfast_challenge.history import HistoryEvent
    from lockfast_challenge.outcome import Exemption, RunFinding, Setting
    from lockfast_challenge.resource import Resource
    from lockfast_challenge.runs.plan import ContestPlan

QUIET = "quiet"
"""What a contest does while no fault strikes its clients."""
TICK_SECONDS = 0.02
"""Interval at which the clients are polled, in seconds."""
AIM_SECONDS = 0.002
"""Interval at which a client with the role is looked for, in seconds."""
AIM_TIMEOUT_TTLS = 0.5
"""How long to wait for a client with the role before striking a random client, in ttls."""
RECENT_SECONDS = 20.0
"""Length of the latest part of the run that is judged while the run continues, in seconds."""


@dataclass(slots=True)
class Shared:
    """What all contests of a run have in common, and what happened to all of them."""

    setting: Setting
    fleet: Fleet
    bound: float
    ends: float = inf
    """When faults stop, on the clock of the run."""
    not_made: dict[str, str] = field(default_factory=dict)
    server_strikes: list[Strike] = field(default_factory=list)
    server_strike: Strike | None = None
    """The strike on the servers that is under way."""
    hiccups: list[tuple[float, float]] = field(default_factory=list)
    """When the run itself was late, and by how many seconds."""

    @property
    def is_over(self) -> bool:
        """Whether no further fault may begin."""
        return Clock.now() >= self.ends

    @property
    def is_struck(self) -> bool:
        """Whether a strike on the servers is under way."""
        return self.server_strike is not None

    def patience(self, since: float = 0.0) -> float:
        """Return how long after a ttl a grant may take, in seconds, on a machine this slow."""
        return self.bound + LATENESS_FACTOR * max(
            (late for at, late in self.hiccups if at >= since), default=0.0
        )


@dataclass(frozen=True, slots=True)
class Promises:
    """What the store and its locks promise, according to their documentation."""

    exemptions: Sequence[Exemption]
    """What the page of the store allows for, as in `Deployment.exemptions`."""
    is_fair: bool
    is_renewed: bool


class Contest:
    """The clients that contend for one name."""

    def __init__(
        self,
        plan: ContestPlan,
        shared: Shared,
        *,
        faults: Mapping[str, Fault],
        turns: Turns,
        resource: Resource,
    ) -> None:
        self.plan = plan
        self.resource = resource
        self.roles: Roles = Roles()
        self.strikes: list[Strike] = []
        self.quiets: list[tuple[float, float]] = []
        self.left: list[str] = []
        self.grants: int = 0
        self.doing: str = QUIET
        """The kind of fault that strikes its clients in turn, or QUIET."""
        self.quiet_since: float = -inf
        """When the last quiet stretch began that lasted long enough."""
        self._shared = shared
        self._faults = faults
        self._turns = turns
        self._under_way: Strike | None = None
        self._recent: list[HistoryEvent] = []

    @property
    def numbers(self) -> range:
        """The numbers of its clients in the fleet."""
        clients = self._shared.setting.clients
        return range(self.plan.number * clients, (self.plan.number + 1) * clients)

    @property
    def has_faults(self) -> bool:
        """Whether faults strike its clients, and not only the servers."""
        return bool(self._faults)

    def look(self) -> None:
        """Read what its clients have written since the last call; replace those that have died."""
        new = self._shared.fleet.look(self.numbers)
        self.roles.record(new)
        self._recent += new
        self.grants += sum(one.act == "acquire" and one.phase == "ok" for one in new)

    # -- the course of the contest ---------------------------------------------------------

    def play(self) -> Generator[float, None, None]:
        """Let faults strike, one kind after another, with a quiet stretch after each kind."""
        shared = self._shared
        while True:
            exits, strikes = len(shared.fleet.exits), len(shared.server_strikes)
            if self._faults:
                yield from self._take_turn()
            while not shared.fleet.have_begun(self.numbers):
                yield Clock.now() + TICK_SECONDS
            yield from self._recover(exits, strikes)
            if shared.is_over:
                return

    def _take_turn(self) -> Iterator[float]:
        turn = self._turns.next()
        scale = self.plan.unit / self._shared.setting.ttl
        for planned in turn.strikes:
            if not self._shared.is_over:
                yield Clock.now() + scale * planned.gap
                yield from self._strike(self._faults[turn.fault.kind], planned.scaled(scale))
        has_met = any(one.kind == turn.fault.kind and one.has_met for one in self.strikes)
        self._turns.record(turn.fault.kind, has_met=has_met)

    def _strike(self, fault: Fault, planned: Planned) -> Iterator[float]:
        victim, is_aimed = yield from self._victim(fault, planned)
        # Report the strike as under way before it begins and until it has ended, so that whatever
        # the store documents for this fault is excused from the first moment.
        begun = Strike(fault.kind, "", Clock.now(), inf, is_aimed=is_aimed, name=self.plan.name)
        self._under_way, did_strike = begun, True
        self._shared.fleet.was_struck = True
        self.doing = fault.kind
        try:
            struck = fault.begin(planned.draw, victim)
            begun = replace(begun, target=struck if is_aimed else f"{struck}, no {fault.role}")
            self._under_way = begun
            patience = Clock.now() + MESSAGE_WAIT_SECONDS
            while fault.lies_in_wait and Clock.now() < patience:
                yield Clock.now() + AIM_SECONDS
            yield Clock.now() + planned.draw.length
        except DidNotStrike as reason:
            did_strike = False
            self._shared.not_made[fault.kind] = str(reason)
        finally:
            try:
                met = fault.end()
                begun = replace(
                    begun,
                    target=", ".join(filter(None, (begun.target, met))),
                    has_met=is_aimed and not met,
                )
            finally:  # the fault struck, even if it cannot be ended
                self._under_way = None
                if did_strike:
                    self.strikes.append(replace(begun, ended=Clock.now()))

    def _victim(
        self, fault: Fault, planned: Planned
    ) -> Generator[float, None, tuple[int | None, bool]]:
        """Return the client to strike, and whether this client has the role.

        If no client has the role for a while, a random client is struck.
        """
        deadline = Clock.now() + AIM_TIMEOUT_TTLS * self.plan.unit
        while fault.role not in {None, "anybody"} and Clock.now() < deadline:
            self.look()
            client = self.roles.client_with(fault.role, self._clients)
            if client is not None:
                return number_of(client), True
            yield Clock.now() + AIM_SECONDS
        return self.numbers[planned.draw.anybody], fault.role == "anybody"

    def _recover(self, exits: int, strikes: int) -> Iterator[float]:
        """Go on after a quiet stretch, which starts again if the servers are struck in it.

        `exits` and `strikes` are how many deaths and strikes on the servers are not to be counted.
        """
        shared, self.doing = self._shared, QUIET
        while True:
            while shared.is_struck:
                yield Clock.now() + TICK_SECONDS
            # A client that dies without a claim blocks nobody.
            losses = sum(
                self.roles.has_claim(one.client)
                for one in shared.fleet.exits[exits:]
                if self.has(one.client)
            )
            losses += len(shared.server_strikes) - strikes
            yield from self._settle(losses)
            if (yield from self._quiet()):
                return

    def _settle(self, losses: int) -> Iterator[float]:
        """Wait until every client was granted the lock after the last strike, up to a deadline.

        The entries of several dead clients may still be in line, and clients have to reconnect to
        servers that were down. The wait takes time for each loss, and is not a stall.
        """
        since = Clock.now()
        deadline = since + losses * (self.plan.ttl + self._shared.patience())
        while Clock.now() < deadline and not self._shared.is_struck:
            if self.roles.were_granted(self._clients, since=since):
                return
            yield Clock.now() + TICK_SECONDS

    def _quiet(self) -> Generator[float, None, bool]:
        """Make no fault for so long that a stall would be noticed, if the leases are short.

        Stalls under long leases are left to the other contests. Without faults on its clients, a
        contest stays quiet until the servers are struck or the time is over. Returns whether the
        stretch was long enough, and not cut short by a strike on the servers.
        """
        shared, began = self._shared, Clock.now()
        struck = len(shared.server_strikes)
        self.quiets.append((began, began))
        while True:
            now = Clock.now()
            if shared.is_struck or len(shared.server_strikes) > struck:
                return False
            self.quiets[-1] = (began, now)
            if now >= began + 1.1 * (self.plan.unit + shared.patience(began)):
                self.quiet_since = began
                if self._faults or shared.is_over:
                    return True
            yield now + TICK_SECONDS

    # -- judging ---------------------------------------------------------------------------

    def has(self, client: str) -> bool:
        """Return whether this life of a client belongs to this contest."""
        return number_of(client) in self.numbers

    @property
    def _clients(self) -> list[str]:
        """The names of the current lives of its clients."""
        return self._shared.fleet.clients_of(self.numbers)

    def recorded(self, events: Sequence[HistoryEvent], rest: Promises) -> Recorded:
        """Return the record of this contest with these events."""
        shared = self._shared
        strikes = [*shared.server_strikes, *self.strikes]
        strikes += filter(None, [shared.server_strike, self._under_way])
        strikes.sort(key=lambda strike: strike.began)
        return Recorded(
            events=events,
            writes=list(self.resource.writes),
            strikes=strikes,
            quiets=list(self.quiets),
            exits=[one for one in shared.fleet.exits if self.has(one.client)],
            left=self.left,
            ttl=self.plan.ttl,
            bound=shared.bound,
            hiccups=list(shared.hiccups),
            exemptions=rest.exemptions,
            is_guarded=self.plan.workload.is_guarded,
            is_fair=rest.is_fair,
            is_renewed=rest.is_renewed,
        )

    def judge_recent(self, rest: Promises) -> list[RunFinding]:
        """Return the findings in the recent past; all events are judged only at the end."""
        patience = self._shared.patience()
        since = Clock.now() - max(RECENT_SECONDS, 2.0 * (self.plan.ttl + patience))
        longest = self.plan.longest_turn + patience
        seen = recent(self.recorded(self._recent, rest), since=since, longest=longest)
        self._recent = list(seen.events)
        return judge(seen)
