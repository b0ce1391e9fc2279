"""Requests that wait for each other, and how one of them carries the others.

Whoever comes while enough is under way stands in a queue; when something has come back, one of
the queue carries all that stands there. One that comes while nothing is under way goes at once,
in its own frames.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from lockfast.backends.sql._async.flight import ENOUGH, Errand, Flight, Member
from lockfast.backends.sql.turns import Progress, Turn
from lockfast.errors import BackendUnavailable, OutcomeUnknown
from lockfast.runtime import aio as runtime
from lockfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.runtime.clock import Clock

LOOK_AGAIN = 0.1
"""Nobody waits for longer without looking around: whoever was to call may have been interrupted."""

FEW = 32
"""In a longer queue each looks around less often, so that all of them together do not do so more
often: thousands of tasks that wake up ten times a second leave no time for what they wait for."""

E = TypeVar("E", bound=Errand)
A = TypeVar("A")


class AsyncCarrying(Generic[E, A]):
    """One queue. Whoever inherits this says how errands are done, and how many at a time."""

    _enough: int = ENOUGH
    """How many errands go together at most."""

    def __init__(self, *, where: str, clock: Clock) -> None:
        self._where = where
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._state = runtime.StateLock()
        # All three weakly. What is under way is kept by the frames of whoever carries it, and who
        # waits by its own: where an interrupt took them away, nobody is believed to be there.
        self._under_way: list[weakref.ref[Flight[E, A]]] = []
        self._queue: list[weakref.ref[Member[E, A]]] = []
        self._called: weakref.ref[Member[E, A]] | None = None
        self._progress = Progress()
        self._rounds = runtime.Rounds(LOOK_AGAIN)
        self._tasks: list[runtime.Task] = []

    # -- what a kind of errand brings --------------------------------------------------

    @property
    def _most(self) -> int:
        """How many flights are under way at the same time."""
        raise NotImplementedError

    @property
    def _late(self) -> float:
        """For how long one that is under way counts."""
        raise NotImplementedError

    @property
    def _patience(self) -> float | None:
        """How long a request may take once it has its turn; see `turns`."""
        raise NotImplementedError

    async def _plainly(self, deeds: Sequence[E], deadline: float, turn: Turn) -> list[A]:
        """Do what one of them wants."""
        raise NotImplementedError

    async def _in_one(self, deeds: Sequence[E], deadline: float, turn: Turn) -> list[A]:
        """Do what several want, all of it or nothing."""
        raise NotImplementedError

    async def _do(self, deeds: Sequence[E], deadline: float, turn: Turn | None = None) -> list[A]:
        """Return the answer to each; then the turn tells when they were asked for."""
        turn = turn or Turn(self._patience)
        flight = self._let_go_alone(deeds[0].claim.name, turn)
        if flight is None:
            since = self._clock.now()
            return await self._with_others(Member(deeds, deadline, since=since, turn=turn))
        try:
            answers = await self._plainly(deeds, deadline, turn)
        except (BackendUnavailable, OutcomeUnknown):
            self._progress.failed(self._clock.now())
            raise
        else:
            self._progress.answered(self._clock.now())
            return answers
        finally:
            flight.is_over = True
            self._call_next()

    # -- in the queue ------------------------------------------------------------------

    async def _with_others(self, member: Member[E, A]) -> list[A]:
        with self._state:
            may_go = not self._queue  # else somebody looks, who would have gone
            self._queue.append(weakref.ref(member))
        try:
            while not member.is_told:
                flight = self._boarded(member) if may_go else None
                if flight is not None:
                    work = partial(self._fly, flight)
                    del flight  # from here on it belongs to the work alone
                    self._keep(
                        runtime.undertake(work, name="lockfast-together", ended=member.woken)
                    )
                    del work
                left = self._time_of(member)
                look_in = LOOK_AGAIN * max(1.0, len(self._queue) / FEW)
                if left > look_in == LOOK_AGAIN:
                    await member.woken.wait(self._rounds.minded(member.woken))
                else:
                    await member.woken.wait(min(left, look_in))
                member.woken.clear()
                may_go = True
        finally:
            self._leave(member)
        return member.answer()

    def _time_of(self, member: Member[E, A]) -> float:
        """Return how long it may still wait; raise if its time is up."""
        ends_at = member.patience
        if not member.is_under_way:
            ends_at = self._progress.ends_at(
                since=member.since, patience=self._patience, deadline=member.deadline
            )
        left = ends_at - self._clock.now()
        if left <= 0:
            with self._state:
                if not member.is_told:
                    raise member.given_up(where=self._where)
        return max(0.0, left)

    def _leave(self, member: Member[E, A]) -> None:
        if member.is_told:
            return  # so it was carried, and stands nowhere
        with self._state:
            is_carried = member.is_under_way
            member.has_left = True
        if not is_carried:
            self._call_next()  # it stood in the queue, and may have been called

    def _call_next(self) -> None:
        """Let one of the queue carry it, if that may go: the one who can wait the longest."""
        if not self._queue:
            return
        with self._state:
            members = self._waiting()
            if members and self._called_one() is None and self._time_to_go() is not None:
                chosen = max(members, key=lambda one: one.deadline)
                self._called = weakref.ref(chosen)
                chosen.woken.set()

    def _called_one(self) -> Member[E, A] | None:
        """Return who was called and has not come yet: to that one newcomers leave their turn."""
        member = None if self._called is None else self._called()
        return member if member is not None and member.waits else None

    def _waiting(self) -> list[Member[E, A]]:
        """Return who stands in the queue, in order, and forget who does no more."""
        members, refs = list[Member[E, A]](), list[weakref.ref[Member[E, A]]]()
        for ref in self._queue:
            one = ref()
            if one is not None and one.waits:
                members.append(one)
                refs.append(ref)
        self._queue = refs
        return members

    # -- under way ---------------------------------------------------------------------

    def _let_go_alone(self, name: str, turn: Turn) -> Flight[E, A] | None:
        """Return its flight, None if it has to wait: for others, or for one of ours at its name."""
        with self._state:
            if self._queue:
                return None
            now = self._clock.now()
            flights = [one for ref in self._under_way if (one := ref()) and not one.is_over]
            if flights:
                is_full = self._time_to_go() is None
                if is_full or name in [one.name for one in flights]:
                    return None
            flight = Flight[E, A](name, since=now, where=self._where, turn=turn)
            self._under_way = [*map(weakref.ref, flights), weakref.ref(flight)]
        return flight

    def _boarded(self, carrier: Member[E, A]) -> Flight[E, A] | None:
        """Return a flight with the carrier and those who go with it, None if it may not go."""
        with self._state:
            called = self._called_one()
            is_its_turn = carrier.waits and (called is None or called is carrier)
            if not is_its_turn or (now := self._time_to_go()) is None or now >= carrier.deadline:
                return None
            turn = Turn(self._patience)
            flight = self._let_go(Flight(None, since=now, where=self._where, turn=turn))
            flight.board(carrier, self._waiting(), enough=self._enough)
            self._waiting()
        return flight

    def _time_to_go(self) -> float | None:
        """Return the time, None if enough is under way."""
        now, count = self._clock.now(), 0
        for ref in self._under_way:
            flight = ref()
            if flight is not None and not flight.is_over and now - flight.since < self._late:
                count += 1
        return now if count < self._most else None

    def _let_go(self, flight: Flight[E, A]) -> Flight[E, A]:
        under_way = [ref for ref in self._under_way if (one := ref()) and not one.is_over]
        self._under_way = [*under_way, weakref.ref(flight)]
        return flight

    async def _fly(self, flight: Flight[E, A]) -> None:
        """Do what all of them want, and tell each."""
        deeds, deadline, turn = flight.deeds, flight.deadline, flight.turn
        try:
            if flight.is_plain:
                flight.tell(await self._plainly(deeds, deadline, turn))
            else:
                flight.tell(await self._in_one(deeds, deadline, turn))
            self._progress.answered(self._clock.now())
        except BackendUnavailable as error:
            self._progress.failed(self._clock.now())
            self._turn_back(flight, error)
        except OutcomeUnknown as error:
            self._progress.failed(self._clock.now())
            flight.fail(error)
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            if flight.is_plain:
                flight.fail(error)
            else:
                self._part(flight)
        finally:
            flight.end()
            self._call_next()

    def _part(self, flight: Flight[E, A]) -> None:
        """Let each go alone: the server has refused all of it, perhaps because of one."""
        with self._state:
            for one in flight.members:
                self._queue.append(weakref.ref(one))
                one.turn_back(alone=True)
            flight.members = []  # another may carry them before this one ends

    def _turn_back(self, flight: Flight[E, A], error: BackendUnavailable) -> None:
        """Let those wait again who have time for it, once: nothing was done.

        One request that a busy machine could not finish would otherwise fail all who went with it.
        """
        with self._state:
            for one in flight.members:
                if self._patience is None or one.was_turned_back:
                    one.fail(error)
                else:
                    self._queue.append(weakref.ref(one))
                    one.turn_back(alone=False)
            flight.members = []  # as above

    def _keep(self, task: runtime.Task | None) -> None:
        if task is not None:
            self._tasks = [*(one for one in self._tasks if one.is_alive()), task]

    # -- ending ------------------------------------------------------------------------

    async def close(self) -> None:
        """End what is under way in a task of its own; those who wait for it are told."""
        for task in self._tasks:
            task.cancel()
            await task.join()

    def after_fork_in_child(self) -> None:
        """Leave what is under way to the parent: nobody carries it here."""
        forking.leak((self._tasks, [ref() for ref in self._under_way], self._waiting()))
        self._begin()
