"""One run: clients contend while faults strike, one kind after another; then the run is judged."""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, cast

from lockfast.errors import LockError
from lockfast.runtime.clock import Clock
from lockfast_challenge.checker.judge import judge, recent
from lockfast_challenge.checker.progress import LATENESS_FACTOR
from lockfast_challenge.clients.fleet import END_TIMEOUT_SECONDS, Fleet
from lockfast_challenge.clients.fork_server import Order
from lockfast_challenge.contender import made_by
from lockfast_challenge.faults.fault import DidNotStrike
from lockfast_challenge.faults.schedule import Roles, chosen, slices
from lockfast_challenge.outcome import WORKLOADS, Outcome, Recorded, Strike
from lockfast_challenge.resource import Resource
from lockfast_challenge.runs.archive import keep, prepare_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lockfast_challenge.contender import Surveys
    from lockfast_challenge.faults.fault import Deployment, Fault
    from lockfast_challenge.faults.schedule import Planned
    from lockfast_challenge.history import HistoryEvent
    from lockfast_challenge.outcome import Kind, RunFinding, Setting

LOCKFAST = "lockfast_challenge.clients.lockfast_locks:SyncContender"

TICK_SECONDS = 0.02
"""Interval at which the clients are polled, in seconds."""
PROGRESS_INTERVAL_SECONDS = 0.2
RECENT_SECONDS = 20.0
"""Length of the latest part of the run that is judged while the run continues, in seconds."""
GRANT_BOUND_SECONDS = 2.5
"""Maximum time from the end of a ttl to the next grant, in seconds.

This is the time on a machine that does little else.
"""
START_TIMEOUT_SECONDS = 120.0
"""Timeout for the clients to begin, in seconds."""
AIM_TIMEOUT_TTLS = 0.5
"""How long to wait for a client with the role before striking a random client, in ttls."""


class NothingStarted(RuntimeError):
    """Not all clients made a request in time."""


class Enough(Exception):
    """Ends the run with the findings so far; the progress callback may raise it."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run has come."""

    seconds: float
    """Seconds since the run began."""
    doing: str
    """The kind of fault that strikes, or "quiet", "starting" or "ending"."""
    grants: int
    findings: int
    wrong: frozenset[Kind] = frozenset()
    """The kinds of the findings that are not documented."""


def run(
    setting: Setting,
    deployment: Deployment,
    *,
    folder: Path,
    make: str = LOCKFAST,
    progress: Callable[[RunProgress], None] | None = None,
    stops_at_first: bool = False,
    stops_at: Kind | None = None,
    clocks_ahead: Sequence[float] = (),
    bound: float = GRANT_BOUND_SECONDS,
) -> Outcome:
    """Return the outcome of the run; the diaries of its clients stay in the folder.

    `make` is the class of contenders, as "module:name". `clocks_ahead` is the error of each
    client's wall clock, in seconds. With `stops_at_first` the run ends at the first finding that is
    not documented; with `stops_at` it ends at the first such finding of that kind. If `progress`
    raises Enough, the run ends with its findings so far.
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
        tell: Callable[[RunProgress], None],
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
        # The name is random, so that no other user of the same store has it.
        self._name = f"challenge-{secrets.token_hex(6)}"
        self._outcome = Outcome(setting)
        self._resource = Resource(self._workload)
        self._fleet = Fleet(
            setting.clients, folder, self._order, ending=END_TIMEOUT_SECONDS + self._longest_turn
        )
        self._roles = Roles()
        self._under_way: Strike | None = None
        self._quiets: list[tuple[float, float]] = []
        self._left: list[str] = []
        made = made_by(make)
        self._surveyor = cast("Surveys", made) if hasattr(made, "left") else None
        self._is_fair = self._surveyor is not None and self._surveyor.is_fair(deployment.url)
        self._hiccups: list[tuple[float, float]] = []
        self._next_judgement = self._next_progress = 0.0
        self._recent: list[HistoryEvent] = []
        self._found: dict[tuple[str, float], RunFinding] = {}

    def run(self) -> Outcome:
        prepare_folder(self._folder)
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
        except Exception as error:  # noqa: BLE001 - reported below, unless something worse follows
            failed = error
        finally:  # whatever ended the run, keep the findings
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
            # A client that dies without a claim blocks nobody.
            lost = sum(self._roles.has_claim(one.client) for one in self._fleet.exits[exits:])
            self._settle(lost + (now.fault.role is None))
            self._quiet()

    def _strike(self, fault: Fault, planned: Planned) -> None:
        victim, is_aimed = self._victim(fault, planned)
        # Report the strike as under way before it begins and until it has ended, so that whatever
        # the store documents for this fault is excused from the first moment.
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
            finally:  # the fault struck, even if it cannot be ended
                self._under_way = None
                if did_strike:
                    self._outcome.strikes.append(replace(begun, ended=Clock.now()))

    def _victim(self, fault: Fault, planned: Planned) -> tuple[int | None, bool]:
        """Return the client to strike, and whether this client has the role.

        If no client has the role for a while, a random client is struck. For a fault that strikes
        no client, the first result is None.
        """
        if fault.role is None:
            return None, True
        deadline = Clock.now() + AIM_TIMEOUT_TTLS * self._setting.ttl
        while fault.role != "anybody" and Clock.now() < deadline:
            client = self._roles.client_with(fault.role, self._fleet.clients)
            if client is not None:
                return self._fleet.number(client), True
            self._tick(fault.kind)
            time.sleep(TICK_SECONDS / 10)
        return planned.draw.anybody, fault.role == "anybody"

    def _settle(self, losses: int) -> None:
        """Wait until every client was granted the lock after the last strike, up to a deadline.

        The entries of several dead clients may still be in line, and clients have to reconnect to
        servers that were down. The wait takes time for each loss, and is not a stall.
        """
        since = Clock.now()
        deadline = since + losses * (self._setting.ttl + self._patience())
        while Clock.now() < deadline:
            if self._roles.were_granted(self._fleet.clients, since=since):
                return
            self._wait(TICK_SECONDS, "quiet")

    def _quiet(self, lasts: float = 0.0) -> None:
        """Make no fault for so long that a stall would be noticed."""
        began = Clock.now()
        self._quiets.append((began, began))
        while Clock.now() < began + max(lasts, 1.1 * (self._setting.ttl + self._patience(began))):
            self._tick("quiet")
            before = Clock.now()
            time.sleep(TICK_SECONDS)
            now = Clock.now()
            if now - before > 2.0 * TICK_SECONDS:
                self._hiccups.append((now, now - before - TICK_SECONDS))
            self._quiets[-1] = (began, now)

    def _until_all_have_begun(self, doing: str) -> None:
        deadline = Clock.now() + START_TIMEOUT_SECONDS
        while True:
            self._wait(TICK_SECONDS, doing)
            if self._fleet.have_all_begun:
                return
            if Clock.now() > deadline:
                raise NothingStarted(
                    f"not all clients came to ask for anything in {START_TIMEOUT_SECONDS:.0f} s; "
                    f"what they said is in {self._folder}"
                )

    def _end(self) -> None:
        """End all clients cleanly, and check what they left in the store."""
        self._progress("ending")
        self._fleet.end()
        # By this deadline everything that can expire has expired, even on a machine that was slow
        # throughout.
        deadline = Clock.now() + 2.0 * (self._setting.ttl + self._patience())
        while self._surveyor is not None:
            try:
                self._left = self._surveyor.left(self._deployment.url, self._name)
            except LockError as error:
                self._left = [f"{self._name}, as far as anybody knows: {error}"]
            if not self._left or Clock.now() > deadline:
                return
            time.sleep(10 * TICK_SECONDS)

    # -- polling, judging and progress -----------------------------------------------------

    def _wait(self, seconds: float, doing: str) -> None:
        deadline = Clock.now() + seconds
        while True:
            self._tick(doing)
            left = deadline - Clock.now()
            if left <= 0.0:
                return
            time.sleep(min(left, TICK_SECONDS))

    def _tick(self, doing: str) -> None:
        new = self._fleet.look()
        self._roles.record(new)
        self._recent += new
        self._outcome.grants += sum(one.act == "acquire" and one.phase == "ok" for one in new)
        now = Clock.now()
        if now >= self._next_judgement:
            self._judge_recent(now)
            # Spend at most a tenth of the time on judging.
            self._next_judgement = Clock.now() + max(
                PROGRESS_INTERVAL_SECONDS, 9.0 * (Clock.now() - now)
            )
        is_enough = self._is_enough()
        if now >= self._next_progress or is_enough:
            self._next_progress = now + PROGRESS_INTERVAL_SECONDS
            self._progress(doing)
        if is_enough:
            raise Enough

    def _judge_recent(self, now: float) -> None:
        """Judge recent events; all events are judged only at the end of the run."""
        ttl, patience = self._setting.ttl, self._patience()
        now_known = replace(
            self._recorded(), events=self._recent, writes=list(self._resource.writes)
        )
        since = now - max(RECENT_SECONDS, 2.0 * (ttl + patience))
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
        self._tell(RunProgress(seconds, doing, outcome.grants, len(found), wrong))

    @property
    def _longest_turn(self) -> float:
        """The longest time for which a client may wait and then work, in seconds."""
        return 1.0 + (3.0 + self._workload.longest) * self._setting.ttl

    def _patience(self, since: float = 0.0) -> float:
        """Return how long after a ttl a grant may take, in seconds, on a machine this slow."""
        return self._bound + LATENESS_FACTOR * max(
            (late for at, late in self._hiccups if at >= since), default=0.0
        )

    # -- the verdict -----------------------------------------------------------------------

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
