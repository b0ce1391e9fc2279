"""Requests that wait for each other go together, in one round trip and one commit.

A commit is the dear part of a request, and a shared one costs hardly more than one's own. So
whoever comes while enough is under way stands in a queue; when something has come back, one of
the queue carries all that stands there. Who comes while nothing is under way goes at once, by
the plain statement and in its own frames.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.backends.sql._async.flight import Flight, Member
from holdfast.backends.sql.deeds import Deed, What
from holdfast.errors import BackendUnavailable, OutcomeUnknown
from holdfast.runtime import aio as runtime
from holdfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.backends.sql._async.wire import AsyncWire
    from holdfast.backends.sql.statements import Statements
    from holdfast.model import Claim
    from holdfast.runtime.clock import Clock

MOST = 2
"""So many statements are under way at the same time: the other connections are for the doors."""

LATE = 0.05
"""What is under way for longer does not count: it may stand before a row that somebody has locked,
and the others need not."""

LOOK_AGAIN = 0.1
"""Nobody waits for longer without looking around: whoever was to call may have been interrupted."""


class AsyncTogether:
    """The uncontended cycle of one client: every request asks once, and never for the line."""

    def __init__(self, wire: AsyncWire[Any], statements: Statements, *, clock: Clock) -> None:
        self._wire = wire
        self._statements = statements
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._state = runtime.StateLock()
        # All three weakly. What is under way is kept by the frames of whoever carries it, and who
        # waits by its own: where an interrupt took them away, nobody is believed to be there.
        self._under_way: list[weakref.ref[Flight]] = []
        self._queue: list[weakref.ref[Member]] = []
        self._called: weakref.ref[Member] | None = None
        self._rounds = runtime.Rounds(LOOK_AGAIN)
        self._tasks: list[runtime.Task] = []

    # -- the verbs ---------------------------------------------------------------------

    async def take(self, claim: Claim, *, deadline: float, is_known: bool = True) -> int | None:
        """Return the token, None if it has to go through the door.

        So it has to, if it goes alone and its name `is_known` and yet unknown to the server.

        As its fellows, it raises BackendUnavailable if nothing was done, and OutcomeUnknown if
        something may have been.
        """
        [token] = await self._do([Deed(What.TAKE, claim, is_known)], deadline)
        return token

    async def give_back(self, claim: Claim, *, deadline: float) -> bool:
        """Whether the hold was ended; if not, it has to go through the door."""
        [token] = await self._do([Deed(What.RELEASE, claim)], deadline)
        return token is not None

    async def renew(self, claims: Sequence[Claim], *, deadline: float) -> list[bool]:
        """Whether each was renewed; the others have to go through their doors."""
        if not claims:
            return []
        # Of several at one name at most one stands in the name's own row, and which is not known.
        first = {claim.name: claim for claim in reversed(claims)}
        deeds = [Deed(What.RENEW, claim) for claim in first.values()]
        tokens = await self._do(deeds, deadline)
        done = {deed.claim.id for deed, token in zip(deeds, tokens, strict=True) if token}
        return [claim.id in done for claim in claims]

    async def _do(self, deeds: Sequence[Deed], deadline: float) -> list[int | None]:
        """Return the token of each that was done, None for each that was not."""
        flight = self._let_go_alone(deeds[0].claim.name)
        if flight is None:
            return await self._with_others(Member(deeds, deadline))
        try:
            return await self._plainly(deeds, deadline)
        finally:
            flight.is_over = True
            self._call_next()

    async def _plainly(self, deeds: Sequence[Deed], deadline: float) -> list[int | None]:
        [(what, claim, is_known), *others] = deeds
        if others or what is What.RENEW:
            return await self._in_one(deeds, deadline)
        if what is What.RELEASE:
            request = self._statements.release(claim)
        elif is_known:
            request = self._statements.take(claim)
        else:
            request = self._statements.take_new(claim)
        rows = await self._wire.ask(request, deadline=deadline)
        return [self._statements.token_in(rows)]

    async def _in_one(self, deeds: Sequence[Deed], deadline: float) -> list[int | None]:
        requests = self._statements.together(deeds)
        answers = await self._wire.ask_all(requests, deadline=deadline)
        return self._statements.done(deeds, answers)

    # -- in the queue ------------------------------------------------------------------

    async def _with_others(self, member: Member) -> list[int | None]:
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
                        runtime.undertake(work, name="holdfast-together", ended=member.woken)
                    )
                    del work
                left = self._time_of(member)
                is_soon = left <= LOOK_AGAIN
                await member.woken.wait(left if is_soon else self._rounds.minded(member.woken))
                member.woken.clear()
                may_go = True
        finally:
            self._leave(member)
        return member.answer()

    def _time_of(self, member: Member) -> float:
        """Return how long it may still wait; raise if its time is up."""
        left = member.patience - self._clock.now()
        if left <= 0:
            with self._state:
                if not member.is_told:
                    raise member.given_up(where=self._wire.where)
        return max(0.0, left)

    def _leave(self, member: Member) -> None:
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

    def _called_one(self) -> Member | None:
        """Return who was called and has not come yet: to that one newcomers leave their turn."""
        member = None if self._called is None else self._called()
        return member if member is not None and member.waits else None

    def _waiting(self) -> list[Member]:
        """Return who stands in the queue, in order, and forget who does no more."""
        members, refs = list[Member](), list[weakref.ref[Member]]()
        for ref in self._queue:
            one = ref()
            if one is not None and one.waits:
                members.append(one)
                refs.append(ref)
        self._queue = refs
        return members

    # -- under way ---------------------------------------------------------------------

    def _let_go_alone(self, name: str) -> Flight | None:
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
            flight = Flight(name, since=now, where=self._wire.where)
            self._under_way = [*map(weakref.ref, flights), weakref.ref(flight)]
        return flight

    def _boarded(self, carrier: Member) -> Flight | None:
        """Return a flight with the carrier and those who go with it, None if it may not go."""
        with self._state:
            called = self._called_one()
            is_its_turn = carrier.waits and (called is None or called is carrier)
            if not is_its_turn or (now := self._time_to_go()) is None or now >= carrier.deadline:
                return None
            flight = self._let_go(Flight(None, since=now, where=self._wire.where))
            flight.board(carrier, self._waiting())
            self._waiting()
        return flight

    def _time_to_go(self) -> float | None:
        """Return the time, None if enough is under way."""
        now, count = self._clock.now(), 0
        for ref in self._under_way:
            flight = ref()
            if flight is not None and not flight.is_over and now - flight.since < LATE:
                count += 1
        return now if count < MOST else None

    def _let_go(self, flight: Flight) -> Flight:
        under_way = [ref for ref in self._under_way if (one := ref()) and not one.is_over]
        self._under_way = [*under_way, weakref.ref(flight)]
        return flight

    async def _fly(self, flight: Flight) -> None:
        """Do what all of them want, and tell each."""
        deeds, deadline = flight.deeds, flight.deadline
        try:
            if flight.is_plain:
                flight.tell(await self._plainly(deeds, deadline))
            else:
                flight.tell(await self._in_one(deeds, deadline))
        except (BackendUnavailable, OutcomeUnknown) as error:
            flight.fail(error)
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            if flight.is_plain:
                flight.fail(error)
            else:
                self._part(flight)
        finally:
            flight.end()
            self._call_next()

    def _part(self, flight: Flight) -> None:
        """Let each go alone: the server has refused all of it, perhaps because of one."""
        with self._state:
            for one in flight.members:
                self._queue.append(weakref.ref(one))
                one.turn_back()

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
