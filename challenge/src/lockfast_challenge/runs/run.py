"""One run: contests side by side while faults strike; then what everybody saw is judged."""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, cast

from lockfast.errors import LockError
from lockfast.runtime.clock import Clock
from lockfast_challenge.checker.judge import judge
from lockfast_challenge.clients.fleet import END_TIMEOUT_SECONDS, Fleet
from lockfast_challenge.clients.fork_server import Order
from lockfast_challenge.contender import made_by
from lockfast_challenge.faults.fault import DidNotStrike
from lockfast_challenge.faults.schedule import (
    STRIKES_PER_SLICE,
    Turns,
    all_faults,
    check_kinds,
    faults_of_clients,
    slices,
)
from lockfast_challenge.outcome import ClockMove, Outcome, Strike
from lockfast_challenge.resource import Resource
from lockfast_challenge.runs.archive import keep, prepare_folder
from lockfast_challenge.runs.contest import QUIET, TICK_SECONDS, Contest, Promises, Shared
from lockfast_challenge.runs.plan import plans

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path

    from lockfast_challenge.contender import Surveys
    from lockfast_challenge.faults.fault import Deployment, Fault
    from lockfast_challenge.faults.schedule import Planned, Slice
    from lockfast_challenge.outcome import Kind, Recorded, RunFinding, Setting

LOCKFAST = (
    "lockfast_challenge.clients.lockfast_locks:SyncContender",
    "lockfast_challenge.clients.lockfast_locks:AsyncContender",
)
"""Both flavours, which contend with each other."""

PROGRESS_INTERVAL_SECONDS = 0.2
GRANT_BOUND_SECONDS = 2.5
"""Maximum time from the end of a ttl to the next grant, in seconds.

This is the time on a machine that does little else.
"""
START_TIMEOUT_SECONDS = 120.0
"""Timeout for the clients to begin, in seconds."""
STRIKES_AMONG_MANY = 2
"""Number of strikes of one kind before a quiet stretch, where many names have turns of their own.

So each kind strikes early, and on several names.
"""


class NothingStarted(RuntimeError):
    """Not all clients made a request in time."""


class Enough(Exception):
    """Ends the run with the findings so far; the progress callback may raise it.

    A message says what cut the run short, so that the run is not called valid.
    """


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
    strikes: int = 0
    """The number of strikes that have ended."""


def run(
    setting: Setting,
    deployment: Deployment,
    *,
    folder: Path,
    make: str | Sequence[str] = LOCKFAST,
    progress: Callable[[RunProgress], None] | None = None,
    stops_at_first: bool = False,
    stops_at: Kind | None = None,
    clocks_ahead: Sequence[float] = (),
    bound: float = GRANT_BOUND_SECONDS,
) -> Outcome:
    """Return the outcome of the run; the diaries of its clients stay in the folder.

    `make` is the class of contenders, as "module:name", or several classes, which the clients of
    each name take in turn. `clocks_ahead` is the error of each client's wall clock, in seconds.
    With `stops_at_first` the run ends at the first finding that is not documented; with `stops_at`
    it ends at the first such finding of that kind. If `progress` raises Enough, the run ends with
    its findings so far.
    """
    one = _Run(
        setting,
        deployment,
        folder=folder,
        makes=(make,) if isinstance(make, str) else tuple(make),
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
        makes: tuple[str, ...],
        tell: Callable[[RunProgress], None],
        stops_at_first: bool,
        stops_at: Kind | None,
        clocks_ahead: Sequence[float],
        bound: float,
    ) -> None:
        self._setting = setting
        self._deployment = deployment
        self._folder = folder
        self._makes = makes
        self._tell = tell
        self._stops_at_first = stops_at_first
        self._stops_at = stops_at
        self._clocks_ahead = clocks_ahead
        self._outcome = Outcome(setting)
        made = made_by(makes[0])
        self._surveyor = cast("Surveys", made) if hasattr(made, "left") else None
        self._promises = Promises(
            exemptions=tuple(deployment.exemptions),
            is_fair=self._surveyor is not None and self._surveyor.is_fair(deployment.url),
            is_renewed=self._surveyor is not None and self._surveyor.is_renewed,
        )
        # The names are random, so that no other user of the same store has them.
        self._plans = plans(setting, name=f"challenge-{secrets.token_hex(6)}")
        self._resources = [Resource(plan.workload) for plan in self._plans]
        longest = max(plan.longest_turn for plan in self._plans)
        self._fleet = Fleet(
            setting.names * setting.clients,
            folder,
            self._order,
            ending=END_TIMEOUT_SECONDS + longest,
        )
        self._shared = Shared(setting, self._fleet, bound)
        self._contests: list[Contest] = []
        self._server_faults: list[Fault] = []
        self._next_judgement = self._next_progress = 0.0
        self._judged = 0
        self._stage = "starting"
        """What the run does before and after the faults; empty while faults may strike."""
        self._found: dict[tuple[str, float, str], RunFinding] = {}

    def run(self) -> Outcome:
        prepare_folder(self._folder)
        outcome = self._outcome
        self._choose_faults()
        outcome.not_made = self._shared.not_made
        outcome.began = Clock.now()
        failed: Exception | None = None
        try:
            with ExitStack() as stack:
                for each in self._resources:
                    stack.enter_context(each)
                stack.enter_context(self._fleet)
                self._play()
                self._end()
        except Enough as enough:
            outcome.cut_short = str(enough)
        except KeyboardInterrupt as interrupt:
            outcome.cut_short = type(interrupt).__name__
            raise
        except Exception as error:  # noqa: BLE001 - reported below, unless something worse follows
            failed = error
        finally:  # whatever ended the run, keep the findings
            outcome.ended = Clock.now()
            if failed is not None:
                outcome.cut_short = f"{type(failed).__name__}: {failed}"
            self._judge()
            keep(
                self._recorded(),
                setting=self._setting,
                folder=self._folder,
                cut_short=outcome.cut_short,
            )
        if failed is not None and outcome.verdict != "invalid" and not _followed_enough(failed):
            raise failed
        return outcome

    def _choose_faults(self) -> None:
        """Give each contest its own faults, and let one order of turns serve all of them."""
        setting, fleet, deployment = self._setting, self._fleet, self._deployment
        there = all_faults(fleet, deployment)
        check_kinds(setting.faults, there, store=deployment.store)
        self._shared.not_made.update(
            {kind: there[kind].lacks for kind in setting.faults if there[kind].lacks}
        )
        of_clients = [
            there[kind] for kind in setting.faults if kind in faults_of_clients(fleet, deployment)
        ]
        self._server_faults = [
            there[kind] for kind in setting.faults if there[kind] not in of_clients
        ]
        strikes = STRIKES_PER_SLICE if setting.names == 1 else STRIKES_AMONG_MANY
        possible = [fault.kind for fault in of_clients if not fault.lacks]
        turns = Turns(self._slices(of_clients, strikes), possible)
        for plan, resource in zip(self._plans, self._resources, strict=True):
            own = faults_of_clients(fleet, deployment)
            self._contests.append(
                Contest(
                    plan,
                    self._shared,
                    faults={kind: own[kind] for kind in possible},
                    turns=turns,
                    resource=resource,
                )
            )

    def _slices(self, faults: Sequence[Fault], strikes: int) -> Iterator[Slice]:
        setting = self._setting
        return slices(
            setting.seed, faults, ttl=setting.ttl, clients=setting.clients, strikes=strikes
        )

    def _order(self, number: int, client: str, diary: Path, last_words: Path) -> Order:
        plan, ahead = self._plans[number // self._setting.clients], self._clocks_ahead
        return Order(
            client=client,
            make=self._makes[number % self._setting.clients % len(self._makes)],
            url=self._deployment.url_for(number),
            names=(plan.name,),
            workload=plan.workload_name,
            ttl=plan.ttl,
            seed=self._setting.seed,
            diary=str(diary),
            last_words=str(last_words),
            resource=self._resources[plan.number].address,
            clock_ahead=ahead[number % len(ahead)] if ahead else 0.0,
        )

    # -- the course of a run ---------------------------------------------------------------

    def _play(self) -> None:
        """Run all contests and the faults of the servers until the time is over."""
        self._until_all_have_begun()
        self._shared.ends = Clock.now() + self._setting.seconds
        self._stage = ""
        with ExitStack() as stack:
            wake = dict.fromkeys([self._strikes(), *(one.play() for one in self._contests)], 0.0)
            for playing in wake:
                stack.callback(playing.close)  # which ends the fault that is under way
            while wake:
                self._tick()
                now = Clock.now()
                for playing in [one for one, at in wake.items() if at <= now]:
                    try:
                        wake[playing] = next(playing)
                    except StopIteration:
                        del wake[playing]
                self._sleep(until=min(wake.values(), default=0.0))

    def _sleep(self, until: float) -> None:
        before = Clock.now()
        pause = min(max(until - before, 0.0), TICK_SECONDS)
        time.sleep(pause)
        late = Clock.now() - before - pause
        if late > TICK_SECONDS:
            self._shared.hiccups.append((before + pause + late, late))

    def _strikes(self) -> Generator[float, None, None]:
        """Let the faults of the servers strike, which strike all contests.

        After each slice, every contest has a quiet stretch before the servers are struck again.
        """
        shared, contests = self._shared, self._contests
        strikes = 1 if any(one.has_faults for one in contests) else STRIKES_PER_SLICE
        for each in self._slices(self._server_faults, strikes):
            for planned in each.strikes:
                yield Clock.now() + planned.gap
                if shared.is_over:
                    return
                yield from self._strike(each.fault, planned)
            since = Clock.now()
            while any(one.quiet_since < since for one in contests):
                if shared.is_over:
                    return
                yield Clock.now() + TICK_SECONDS

    def _strike(self, fault: Fault, planned: Planned) -> Iterator[float]:
        shared = self._shared
        begun = shared.server_strike = Strike(fault.kind, "", Clock.now(), inf)
        shared.fleet.was_struck, did_strike = True, True
        jump = fault.jumps(planned.draw) if fault.jumps is not None else 0.0
        try:
            begun = replace(begun, target=fault.begin(planned.draw, None))
            begun = shared.server_strike = _with_clock_set(begun, jump, since=begun.began)
            yield Clock.now() + planned.draw.length
        except DidNotStrike as reason:
            did_strike = False
            shared.not_made[fault.kind] = str(reason)
        finally:
            ending = Clock.now()
            try:
                fault.end()
            finally:  # the fault struck, even if it cannot be ended
                shared.server_strike = None
                if did_strike:
                    ended = _with_clock_set(begun, -jump, since=ending)
                    shared.server_strikes.append(replace(ended, ended=Clock.now()))

    def _until_all_have_begun(self) -> None:
        deadline = Clock.now() + START_TIMEOUT_SECONDS
        while not self._fleet.have_begun(range(self._fleet.size)):
            self._tick()
            time.sleep(TICK_SECONDS)
            if Clock.now() > deadline:
                raise NothingStarted(
                    f"not all clients came to ask for anything in {START_TIMEOUT_SECONDS:.0f} s; "
                    f"what they said is in {self._folder}"
                )

    def _end(self) -> None:
        """End all clients cleanly, and check what they left in the store."""
        self._stage = "ending"
        self._progress()
        self._fleet.end()
        # By this deadline everything that can expire has expired, even on a machine that was slow
        # throughout.
        longest = max(plan.ttl for plan in self._plans)
        deadline = Clock.now() + 2.0 * (longest + self._shared.patience())
        unclear = list(self._contests)
        while self._surveyor is not None and unclear:
            for one in unclear:
                one.left = self._left_of(one.plan.name, self._surveyor)
            unclear = [one for one in unclear if one.left]
            if Clock.now() > deadline:
                return
            time.sleep(10 * TICK_SECONDS if unclear else 0.0)

    def _left_of(self, name: str, surveyor: Surveys) -> list[str]:
        try:
            return surveyor.left(self._deployment.url, name)
        except LockError as error:
            return [f"{name}, as far as anybody knows: {error}"]

    # -- polling, judging and progress -----------------------------------------------------

    def _tick(self) -> None:
        for one in self._contests:
            one.look()
        self._outcome.grants = sum(one.grants for one in self._contests)
        now = Clock.now()
        if now >= self._next_judgement:
            self._judge_recent()
            # Spend at most a tenth of the time on judging.
            pause = PROGRESS_INTERVAL_SECONDS / len(self._contests)
            self._next_judgement = Clock.now() + max(pause, 9.0 * (Clock.now() - now))
        is_enough = self._is_enough()
        if now >= self._next_progress or is_enough:
            self._next_progress = now + PROGRESS_INTERVAL_SECONDS
            self._progress()
        if is_enough:
            raise Enough

    def _judge_recent(self) -> None:
        """Judge the recent events of one contest, in turn."""
        self._judged = (self._judged + 1) % len(self._contests)
        one = self._contests[self._judged]
        name = one.plan.name
        self._found |= {
            (each.kind, each.at, name): each for each in one.judge_recent(self._promises)
        }
        self._outcome.findings = list(self._found.values())

    def _is_enough(self) -> bool:
        wrong = {one.kind for one in self._outcome.findings if not one.is_documented}
        return self._stops_at in wrong or (self._stops_at_first and bool(wrong))

    def _progress(self) -> None:
        outcome = self._outcome
        seconds = Clock.now() - outcome.began
        found = outcome.findings
        wrong = frozenset(one.kind for one in found if not one.is_documented)
        strikes = len(self._shared.server_strikes) + sum(len(one.strikes) for one in self._contests)
        self._tell(RunProgress(seconds, self._doing, outcome.grants, len(found), wrong, strikes))

    @property
    def _doing(self) -> str:
        if self._stage:
            return self._stage
        if (strike := self._shared.server_strike) is not None:
            return strike.kind
        return next((one.doing for one in self._contests if one.doing != QUIET), QUIET)

    # -- the verdict -----------------------------------------------------------------------

    def _judge(self) -> None:
        outcome, recorded = self._outcome, self._recorded()
        outcome.events = sorted(self._fleet.events, key=lambda event: event.at)
        outcome.grants = sum(one.act == "acquire" and one.phase == "ok" for one in outcome.events)
        outcome.writes = [write for one in recorded.values() for write in one.writes]
        outcome.strikes = sorted(
            [*self._shared.server_strikes, *(s for one in self._contests for s in one.strikes)],
            key=lambda strike: strike.began,
        )
        outcome.findings = sorted(
            (finding for one in recorded.values() for finding in judge(one)),
            key=lambda finding: finding.at,
        )

    def _recorded(self) -> dict[str, Recorded]:
        """Return the record of each contest, by its name."""
        events = sorted(self._fleet.events, key=lambda event: event.at)
        return {
            one.plan.name: one.recorded(
                [event for event in events if event.name == one.plan.name], self._promises
            )
            for one in self._contests
        }


def _with_clock_set(strike: Strike, seconds: float, *, since: float) -> Strike:
    """Return the strike with a move of a server's clock between `since` and now, if there was one.

    The clock may have been set at any time in between.
    """
    if not seconds:
        return strike
    move = ClockMove(since, Clock.now(), seconds)
    return replace(strike, clock_moves=(*strike.clock_moves, move))


def _followed_enough(error: BaseException) -> bool:
    """Return whether the error was raised while the run was being ended."""
    before = error.__context__
    return before is not None and (isinstance(before, Enough) or _followed_enough(before))
