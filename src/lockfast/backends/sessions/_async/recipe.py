"""How a claim joins a line, is admitted, and leaves the line again, on one session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.sessions import line as sessions_line
from lockfast.backends.sessions.records import SessionClaim
from lockfast.errors import BackendUnavailable, LockError, OutcomeUnknown
from lockfast.model import FOREVER, Grant, Inspection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sessions._async.session import AsyncSession
    from lockfast.backends.sessions.line import LineEntry, LineView
    from lockfast.backends.sessions.records import SeenEntry
    from lockfast.model import Claim, Held, Holder
    from lockfast.runtime.clock import Clock

HOLDERS_NAMED_MAX = 8
"""Maximum number of holders named to a waiter; `inspect` names them all."""


class AsyncRecipe:
    """Adds claims to the lines of their names, on one session."""

    def __init__(self, session: AsyncSession, clock: Clock) -> None:
        self.session = session
        self._transport = session.transport
        self._lines = session.transport.lines
        self._clock = clock

    async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """Return a grant, or the holders after watching the entries that have to leave first."""
        session = self.session
        one = session.carried.get(claim.id)
        if one is None:
            one = SessionClaim(claim)
            session.carry(one)
            if claim.queues:
                session.wakeups.expect(claim.id)
        try:
            return await self._join_line(one, deadline)
        except LockError:
            if one.key is None and not one.is_unanswered:
                session.forget(claim.id)  # the claim has no entry and will not get one
            raise

    async def release(self, claim: Claim, *, deadline: float) -> bool:
        """End the claim; return whether its entry was still in the store."""
        session, one = self.session, self.session.carried.get(claim.id)
        if one is None or one.key is None:
            return False
        stays_until = one.granted_at + claim.min_hold
        left = stays_until - self._clock.now()
        if claim.min_hold and (left > 0 or one.key in session.closing):
            return await self._close_for(one, max(0.0, left), deadline)
        was_there = await self._delete(one, deadline)
        session.forget(claim.id)
        return was_there

    async def withdraw(self, claim: Claim, *, deadline: float) -> None:
        """Make sure that the claim has no entry."""
        one = self.session.carried.get(claim.id)
        if one is None:
            return
        if claim.lock_delay and claim.id in self.session.held:
            # The holder failed without a release, so its lock_delay applies.
            await self._close_for(one, claim.lock_delay, deadline)
            return
        if one.key is not None or one.is_unanswered:
            await self._transport.delete(one, deadline=deadline)
        self.session.forget(claim.id)

    async def _close_for(self, one: SessionClaim, seconds: float, deadline: float) -> bool:
        """End the claim and keep its name closed for `seconds`; return whether it was in the store.

        Other clients see that nobody holds the name. This session opens the name again when the
        time is up.
        """
        session, key = self.session, str(one.key)
        until = self._clock.now() + seconds
        session.touching.pop(key, None)
        try:
            was_there = await self._transport.close_for(one, seconds, deadline=deadline)
        except BaseException:
            # The store may have closed the name. If it has, this session has to open the name
            # again.
            session.closing[key] = until
            raise
        if was_there:
            session.closing[key] = until
        session.forget(one.claim.id)
        session.kick()
        return was_there

    async def _join_line(self, one: SessionClaim, deadline: float) -> Grant | Held:
        session, claim = self.session, one.claim
        while True:
            line = await self._lines.arrive(one, deadline=deadline)
            if line.confirmed_at is not None:
                session.confirmed(sent_at=line.confirmed_at)
            if line.is_admitted:
                await session.prove_for_grant(deadline=deadline)
                if await self._lines.admit(one, line, deadline=deadline):
                    return self._granted(one, line)
                continue
            if line.number is None and one.key is not None:
                # An operator broke the waiting claim, so the claim starts again at the end of the
                # line.
                one.forget_entry()
                continue
            if not claim.queues:
                return await self._refused(one, line, deadline)
            held = await self._watch_line(one, line, deadline)
            if held is not None:
                return held

    async def _delete(self, one: SessionClaim, deadline: float) -> bool:
        """End a claim, trying another member if this one does not reply in half the time."""
        transport, half = self._transport, (self._clock.now() + deadline) / 2
        try:
            return await transport.delete(one, deadline=half)
        except BackendUnavailable:
            # Nothing was sent. Try again, because a member may still become reachable.
            return await transport.delete(one, deadline=deadline)
        except OutcomeUnknown:
            if self._clock.now() >= half:
                transport.hang_up()
        try:
            await transport.delete(one, deadline=deadline)
        except OutcomeUnknown:
            raise
        except LockError as error:
            # The first request was sent and may have taken effect.
            raise OutcomeUnknown(str(error)) from error
        return True  # if the entry was gone, the first request deleted it

    def _granted(self, one: SessionClaim, line: LineView) -> Grant:
        session, claim = self.session, one.claim
        if one.granted_at == FOREVER:
            one.granted_at = self._clock.now()
        session.held.add(claim.id)
        if line.must_touch():
            session.touch(one)
        if claim.queues:
            session.wakeups.forget(claim.id)
            session.watches.forget(claim.id)
        return Grant(claim, one.token, session.ttl, counted_from=session.counted_from)

    async def _refused(self, one: SessionClaim, line: LineView, deadline: float) -> Held:
        """Leave the line, because the claim does not queue; return the refusal."""
        named = line.entries[: line.inside][:HOLDERS_NAMED_MAX]
        keys = [line.key_of(entry) for entry in named]
        seen = await self._transport.leave(one, keys, line=line, deadline=deadline)
        self.session.forget(one.claim.id)
        return sessions_line.held(named, seen, retry_in=line.retry_in)

    async def _watch_line(self, one: SessionClaim, line: LineView, deadline: float) -> Held | None:
        """Watch the entries that have to leave first; return None if the line moved meanwhile."""
        watches, claim_id = self.session.watches, one.claim.id
        targets, inside = line.to_watch(), line.entries[: line.inside]
        named = [entry for entry in inside[:HOLDERS_NAMED_MAX] if entry not in targets]
        watched = [line.key_of(entry) for entry in targets]
        seen = await self._transport.read(
            [
                *((key, watches.on(key, claim_id)) for key in watched),
                *((line.key_of(entry), None) for entry in named),
            ],
            line=line,
            deadline=deadline,
        )
        has_moved = False
        for key, target, found in zip(watched, targets, seen, strict=False):
            if found is None:
                watches.drop(key)
                has_moved = True
            elif found.was_touched and target not in inside:
                has_moved = True  # the claim was admitted and touched before we watched it
        if has_moved:
            return None
        reported = [
            (entry, found)
            for entry, found in zip([*targets, *named], seen, strict=True)
            if entry in inside
        ]
        return sessions_line.held(
            [entry for entry, _ in reported],
            [found for _, found in reported],
            place=line.place,
            retry_in=line.retry_in,
        )


# Inspects lines, and breaks holds for an operator, on one session.


class AsyncInspector(AsyncRecipe):
    """Inspects lines; each result includes every change made before the request."""

    async def inspect(self, name: str, *, confirm: bool = False, deadline: float) -> Inspection:
        """Return the holders and waiters; with `confirm`, as confirmed by a quorum."""
        line = await self._lines.look(name, confirm=confirm, deadline=deadline)
        seen = await self._read(line, line.entries, deadline)
        inside, waiting = line.entries[: line.inside], line.entries[line.inside :]
        read, rest = seen[: line.inside], seen[line.inside :]
        return Inspection(
            name=name,
            capacity=line.capacity,
            holders=sessions_line.holders_of(inside, read),
            line=sessions_line.waiters_of(waiting, rest),
            last_token=max((one.token for one in read if one is not None), default=None),
            closing=sessions_line.closing_of(inside, read),
        )

    async def names(self, prefix: str, *, deadline: float) -> list[str]:
        """Return the names in the store that start with the prefix, in byte order."""
        names = await self._lines.names(deadline=deadline)
        return sorted((name for name in names if name.startswith(prefix)), key=str.encode)

    async def break_(self, name: str, *, token: int | None, deadline: float) -> tuple[Holder, ...]:
        """Delete the entries of all holders, or of the holder with `token`; return these holders.

        Only an operator deletes an entry of a living session, so a holder whose entry is missing at
        its next renewal learns that the hold was broken. An entry is deleted only if its key and
        token are the same as when it was read.
        """
        line = await self._lines.look(name, confirm=False, deadline=deadline)
        inside = line.entries[: line.inside]
        found = [
            (entry, one)
            for entry, one in zip(inside, await self._read(line, inside, deadline), strict=True)
            if one is not None
            if sessions_line.holders_of([entry], [one]) and token in (None, one.token)
        ]
        if not found:
            return ()
        deleted = await self._transport.remove(
            [(line.key_of(entry), one.token) for entry, one in found], deadline=deadline
        )
        broken = [pair for pair, was_there in zip(found, deleted, strict=True) if was_there]
        return sessions_line.holders_of([entry for entry, _ in broken], [one for _, one in broken])

    async def _read(
        self, line: LineView, entries: Sequence[LineEntry], deadline: float
    ) -> Sequence[SeenEntry | None]:
        asked = [(line.key_of(entry), None) for entry in entries]
        return await self._transport.read(asked, line=line, deadline=deadline)
