"""One run: clients contend while faults strike, one kind after the other, and all is judged."""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, cast

from lockfast.challenge.checker.judging import judge
from lockfast.challenge.checker.patience import LATENESS
from lockfast.challenge.checker.recent import recent
from lockfast.challenge.clients.fleet import ENDING, Fleet
from lockfast.challenge.clients.order import Order
from lockfast.challenge.contender import made_by
from lockfast.challenge.fault import DidNotStrike
from lockfast.challenge.keeping import keep, made_for_one
from lockfast.challenge.nemesis.choosing import chosen
from lockfast.challenge.nemesis.roles import Roles
from lockfast.challenge.nemesis.schedule import slices
from lockfast.challenge.outcome import Outcome, Strike
from lockfast.challenge.recorded import Recorded
from lockfast.challenge.resource import Resource
from lockfast.challenge.workloads import WORKLOADS
from lockfast.errors import LockError
from lockfast.runtime.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lockfast.challenge.contender import Surveys
    from lockfast.challenge.fault import Deployment, Fault
    from lockfast.challenge.history import Event
    from lockfast.challenge.nemesis.schedule import Planned
    from lockfast.challenge.outcome import Finding, Kind, Setting

LOCKFAST = "lockfast.challenge.clients.lockfast_locks:SyncContender"

TICK = 0.02
"""How often the clients are looked at."""
TOLD_EVERY = 0.2
RECENTLY = 20.0
"""How far back is judged while it runs: what is older has been judged before."""
BOUND = 2.5
"""How long after a ttl somebody has to be inside, on a machine that does little else."""
STARTING = 120.0
"""How long clients may take to begin."""
AIMING = 0.5
"""In ttls: how long somebody with the role is waited for, before anybody is struck."""


class NothingStarted(RuntimeError):
    """The clients did not come to ask for anything."""


class Enough(Exception):
    """Raised by whoever is told of the progress: the run ends, with what was found until then."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is."""

    seconds: float
    """Since it began."""
    doing: str
    """The kind of fault that strikes, or "quiet", or "starting", "ending"."""
    grants: int
    findings: int
    wrong: frozenset[Kind] = frozenset()
    """The kinds of those that are not documented."""


def run(
    setting: Setting,
    deployment: Deployment,
    *,
    folder: Path,
    make: str = LOCKFAST,
    progress: Callable[[Progress], None] | None = None,
    stops_at_first: bool = False,
    stops_at: Kind | None = None,
    clocks_ahead: Sequence[float] = (),
    bound: float = BOUND,
) -> Outcome:
    """Return what the run came to; the diaries of its clients stay in the folder.

    `make` is the class of contenders, as "module:name". `clocks_ahead` is by how much the wall
    clock of each client is wrong. A run that `stops_at_first` ends with the first thing that is
    wrong and not documented, one that `stops_at` a kind with the first of that kind, and one whose
    `progress` raises Enough with what it has.
    """
    one = _Run(
        setting,
        deployment,
        folder=folder,
        make=make,
        tell=progress or (lambda _: None),
        stops_at_first=stops_at_first,
        stops_at=stops_at,
        clocks_ahead=clocks_ahead,
        bound=bound,
    )
    return one.run()


class _Run:
    def __init__(
        self,
        setting: Setting,
        deployment: Deployment,
        *,
        folder: Path,
        make: str,
        tell: Callable[[Progress], None],
        stops_at_first: bool,
        stops_at: Kind | None,
        clocks_ahead: Sequence[float],
        bound: float,
    ) -> None:
        self._setting = setting
        self._deployment = deployment
        self._folder = folder
        self._make = make
        self._tell = tell
        self._stops_at_first = stops_at_first
        self._stops_at = stops_at
        self._clocks_ahead = clocks_ahead
        self._bound = bound
        self._workload = WORKLOADS[setting.workload]
        # Nobody else's name, whoever uses the same store.
        self._name = f"challenge-{secrets.token_hex(6)}"
        self._outcome = Outcome(setting)
        self._resource = Resource(self._workload)
        self._fleet = Fleet(
            setting.clients, folder, self._order, ending=ENDING + self._longest_turn
        )
        self._roles = Roles()
        self._under_way: Strike | None = None
        self._quiets: list[tuple[float, float]] = []
        self._left: list[str] = []
        made = made_by(make)
        self._surveyor = cast("Surveys", made) if hasattr(made, "left") else None
        self._is_fair = self._surveyor is not None and self._surveyor.is_fair(deployment.url)
        self._hiccups: list[tuple[float, float]] = []
        self._next_sweep = self._next_told = 0.0
        self._recent: list[Event] = []
        self._found: dict[tuple[str, float], Finding] = {}

    def run(self) -> Outcome:
        made_for_one(self._folder)
        outcome = self._outcome
        self._faults, outcome.not_made = chosen(
            self._setting.faults, fleet=self._fleet, deployment=self._deployment
        )
        outcome.began = Clock.now()
        failed: Exception | None = None
        try:
            with ExitStack() as stack:
                stack.enter_context(self._resource)
                stack.enter_context(self._fleet)
                self._play()
                self._end()
        except Enough:
            pass
        except Exception as error:  # noqa: BLE001 - told below, unless there is worse to tell
            failed = error
        finally:  # what was found is kept, whatever ended the run
            outcome.ended = Clock.now()
            self._judge()
            keep(self._recorded(), setting=self._setting, folder=self._folder)
        if failed is not None:
            was_enough = isinstance(failed.__context__, Enough)
            if outcome.verdict != "invalid" and not was_enough:
                raise failed
            outcome.cut_short = f"{type(failed).__name__}: {failed}"
        return outcome

    def _order(self, number: int, client: str, diary: Path, last_words: Path) -> Order:
        ahead = self._clocks_ahead
        return Order(
            client=client,
            make=self._make,
            url=self._deployment.url_for(number),
            names=(self._name,),
            workload=self._setting.workload,
            ttl=self._setting.ttl,
            seed=self._setting.seed,
            diary=str(diary),
            last_words=str(last_words),
            resource=self._resource.address,
            clock_ahead=ahead[number % len(ahead)] if ahead else 0.0,
        )

    # -- the course of a run ---------------------------------------------------------------

    def _play(self) -> None:
        setting = self._setting
        self._until_all_have_begun("starting")
        ends = Clock.now() + setting.seconds
        if all(fault.lacks for fault in self._faults):
            self._quiet(lasts=setting.seconds)
            return
        plan = slices(setting.seed, self._faults, ttl=setting.ttl, clients=setting.clients)
        while Clock.now() < ends:
            now = next(plan)
            exits = len(self._fleet.exits)
            for strike in now.strikes:
                if Clock.now() < ends:
                    self._wait(strike.gap, now.fault.kind)
                    self._strike(now.fault, strike)
            self._until_all_have_begun("quiet")
            # Who dies and has no claim is in nobody's way.
            lost = sum(self._roles.has_claim(one.client) for one in self._fleet.exits[exits:])
            self._settle(lost + (now.fault.role is None))
            self._quiet()

    def _strike(self, fault: Fault, planned: Planned) -> None:
        victim, is_aimed = self._victim(fault, planned)
        # Under way until it has ended: what its store forgives is forgiven from the first moment.
        begun = Strike(fault.kind, "", Clock.now(), inf, is_aimed=is_aimed)
        self._under_way, did_strike = begun, True
        self._fleet.was_struck = True
        try:
            struck = fault.begin(planned.draw, victim)
            begun = replace(begun, target=struck if is_aimed else f"{struck}, no {fault.role}")
            self._under_way = begun
            self._wait(planned.draw.length, fault.kind)
        except DidNotStrike as reason:
            did_strike = False
            self._outcome.not_made[fault.kind] = str(reason)
        finally:
            try:
                met = fault.end()
                begun = replace(begun, target=", ".join(filter(None, (begun.target, met))))
            finally:  # it struck, also where it cannot be ended
                self._under_way = None
                if did_strike:
                    self._outcome.strikes.append(replace(begun, ended=Clock.now()))

    def _victim(self, fault: Fault, planned: Planned) -> tuple[int | None, bool]:
        """Return who has the role, after a while anybody, and whether it has it.

        None where it is no client's matter.
        """
        if fault.role is None:
            return None, True
        deadline = Clock.now() + AIMING * self._setting.ttl
        while fault.role != "anybody" and Clock.now() < deadline:
            client = self._roles.who(fault.role, self._fleet.clients)
            if client is not None:
                return self._fleet.number(client), True
            self._tick(fault.kind)
            time.sleep(TICK / 10)
        return planned.draw.anybody, fault.role == "anybody"

    def _settle(self, losses: int) -> None:
        """Wait until all of them were let in once since the last strike, if that ever happens.

        The dead may still stand in line, each in front of the next, and servers that were away have
        to be found again: that takes its time, once for each loss, and is no stall.
        """
        since = Clock.now()
        deadline = since + losses * (self._setting.ttl + self._patience())
        while Clock.now() < deadline:
            if self._roles.were_let_in(self._fleet.clients, since=since):
                return
            self._wait(TICK, "quiet")

    def _quiet(self, lasts: float = 0.0) -> None:
        """Let nothing happen for so long that whoever stalls is seen to."""
        began = Clock.now()
        self._quiets.append((began, began))
        while Clock.now() < began + max(lasts, 1.1 * (self._setting.ttl + self._patience(began))):
            self._tick("quiet")
            before = Clock.now()
            time.sleep(TICK)
            now = Clock.now()
            if now - before > 2.0 * TICK:
                self._hiccups.append((now, now - before - TICK))
            self._quiets[-1] = (began, now)

    def _until_all_have_begun(self, doing: str) -> None:
        deadline = Clock.now() + STARTING
        while True:
            self._wait(TICK, doing)
            if self._fleet.have_all_begun:
                return
            if Clock.now() > deadline:
                raise NothingStarted(
                    f"not all clients came to ask for anything in {STARTING:.0f} s; what they "
                    f"said is in {self._folder}"
                )

    def _end(self) -> None:
        """Let all clients end in order, and look at what they left in the store."""
        self._progress("ending")
        self._fleet.end()
        # What has an end is over by then, also on a machine that was late with all of it.
        deadline = Clock.now() + 2.0 * (self._setting.ttl + self._patience())
        while self._surveyor is not None:
            try:
                self._left = self._surveyor.left(self._deployment.url, self._name)
            except LockError as error:
                self._left = [f"{self._name}, as far as anybody knows: {error}"]
            if not self._left or Clock.now() > deadline:
                return
            time.sleep(10 * TICK)

    # -- what goes on all the time ---------------------------------------------------------

    def _wait(self, seconds: float, doing: str) -> None:
        deadline = Clock.now() + seconds
        while True:
            self._tick(doing)
            left = deadline - Clock.now()
            if left <= 0.0:
                return
            time.sleep(min(left, TICK))

    def _tick(self, doing: str) -> None:
        new = self._fleet.look()
        self._roles.see(new)
        self._recent += new
        self._outcome.grants += sum(one.act == "acquire" and one.phase == "ok" for one in new)
        now = Clock.now()
        if now >= self._next_sweep:
            self._sweep(now)
            # It may take a tenth of the time, and no more.
            self._next_sweep = Clock.now() + max(TOLD_EVERY, 9.0 * (Clock.now() - now))
        is_enough = self._is_enough()
        if now >= self._next_told or is_enough:
            self._next_told = now + TOLD_EVERY
            self._progress(doing)
        if is_enough:
            raise Enough

    def _sweep(self, now: float) -> None:
        """Judge what is new; only at the end of the run is all of it judged."""
        ttl, patience = self._setting.ttl, self._patience()
        now_known = replace(
            self._recorded(), events=self._recent, writes=list(self._resource.writes)
        )
        since = now - max(RECENTLY, 2.0 * (ttl + patience))
        seen = recent(now_known, since=since, longest=self._longest_turn + patience)
        self._recent = list(seen.events)
        self._found |= {(one.kind, one.at): one for one in judge(seen)}
        self._outcome.findings = list(self._found.values())

    def _is_enough(self) -> bool:
        wrong = {one.kind for one in self._outcome.findings if not one.is_documented}
        return self._stops_at in wrong or (self._stops_at_first and bool(wrong))

    def _progress(self, doing: str) -> None:
        outcome = self._outcome
        seconds = Clock.now() - outcome.began
        found = outcome.findings
        wrong = frozenset(one.kind for one in found if not one.is_documented)
        self._tell(Progress(seconds, doing, outcome.grants, len(found), wrong))

    @property
    def _longest_turn(self) -> float:
        """How long a client may wait and then work, as it draws it."""
        return 1.0 + (3.0 + self._workload.longest) * self._setting.ttl

    def _patience(self, since: float = 0.0) -> float:
        """Return how long after a ttl somebody has to be inside, on this machine at its worst."""
        return self._bound + LATENESS * max(
            (late for at, late in self._hiccups if at >= since), default=0.0
        )

    # -- judging ---------------------------------------------------------------------------

    def _judge(self) -> None:
        outcome = self._outcome
        outcome.events = sorted(self._fleet.events, key=lambda event: event.at)
        outcome.grants = sum(one.act == "acquire" and one.phase == "ok" for one in outcome.events)
        outcome.writes = list(self._resource.writes)
        outcome.findings = judge(self._recorded())

    def _recorded(self) -> Recorded:
        strikes = [*self._outcome.strikes, *filter(None, [self._under_way])]
        kinds = {strike.kind for strike in strikes}
        return Recorded(
            events=self._outcome.events,
            writes=self._outcome.writes,
            strikes=strikes,
            quiets=self._quiets,
            exits=self._fleet.exits,
            left=self._left,
            ttl=self._setting.ttl,
            bound=self._bound,
            hiccups=self._hiccups,
            forgives={kind: self._deployment.forgives(kind) for kind in sorted(kinds)},
            is_guarded=self._workload.is_guarded,
            is_fair=self._is_fair,
            is_renewed=self._surveyor is not None and self._surveyor.is_renewed,
        )
