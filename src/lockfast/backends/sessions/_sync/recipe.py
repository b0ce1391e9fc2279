# Generated from src/lockfast/backends/sessions/_async/recipe.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How a claim comes into line, is admitted, and goes; on one session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.sessions import telling
from lockfast.backends.sessions.claims import NEVER, CarriedClaim
from lockfast.errors import BackendUnavailable, LockError, OutcomeUnknown
from lockfast.model import Grant

if TYPE_CHECKING:
    from lockfast.backends.sessions._sync.session import Session
    from lockfast.backends.sessions.line import Line
    from lockfast.model import Claim, Held
    from lockfast.runtime.clock import Clock

NAMED = 8
"""So many holders are named to somebody who waits; `inspect` names them all."""


class Recipe:
    """Brings claims into line on one session."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self.session = session
        self._wire = session.wire
        self._clock = clock

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """Grant, or say who holds it, and watch whoever has to go first."""
        session = self.session
        one = session.carried.get(claim.id)
        if one is None:
            one = CarriedClaim(claim)
            session.carry(one)
            if claim.queues:
                session.wakeups.expect(claim.id)
        try:
            return self._stand_in_line(one, deadline)
        except LockError:
            if one.key is None and not one.is_unanswered:
                session.forget(claim.id)  # nothing stands for it, nor will
            raise

    def release(self, claim: Claim, *, deadline: float) -> bool:
        """End the claim; true if it was there."""
        session, one = self.session, self.session.carried.get(claim.id)
        if one is None or one.key is None:
            return False
        stays_until = one.granted_at + claim.min_hold
        left = stays_until - self._clock.now()
        if claim.min_hold and (left > 0 or one.key in session.closing):
            return self._close_for(one, max(0.0, left), deadline)
        was_there = self._delete(one, deadline)
        session.forget(claim.id)
        return was_there

    def withdraw(self, claim: Claim, *, deadline: float) -> None:
        """Make sure that nothing stands for the claim."""
        one = self.session.carried.get(claim.id)
        if one is None:
            return
        if claim.lock_delay and claim.id in self.session.held:
            self._close_for(one, claim.lock_delay, deadline)  # its holder has failed
            return
        if one.key is not None or one.is_unanswered:
            self._wire.delete(one, deadline=deadline)
        self.session.forget(claim.id)

    def _close_for(self, one: CarriedClaim, seconds: float, deadline: float) -> bool:
        """End the claim and keep its name closed for so long; true if it was there.

        Others see that nobody holds it. It is this session that opens it again.
        """
        session, key = self.session, str(one.key)
        until = self._clock.now() + seconds
        session.touching.pop(key, None)
        try:
            was_there = self._wire.close_for(one, seconds, deadline=deadline)
        except BaseException:
            session.closing[key] = until  # it may be done, and has to end as well
            raise
        if was_there:
            session.closing[key] = until
        session.forget(one.claim.id)
        session.kick()
        return was_there

    def _stand_in_line(self, one: CarriedClaim, deadline: float) -> Grant | Held:
        session, claim = self.session, one.claim
        while True:
            line = self._wire.arrive(one, deadline=deadline)
            if line.confirmed_at is not None:
                session.confirmed(sent_at=line.confirmed_at)
            if line.is_admitted:
                session.prove_for_grant(deadline=deadline)
                if self._wire.admit(one, line, deadline=deadline):
                    return self._granted(one, line)
                continue
            if line.number is None and one.key is not None:
                # An operator broke it while nobody looked: it begins at the end.
                one.begin_anew()
                continue
            if not claim.queues:
                return self._refused(one, line, deadline)
            held = self._watching(one, line, deadline)
            if held is not None:
                return held

    def _delete(self, one: CarriedClaim, deadline: float) -> bool:
        """End a claim, asking another member if this one does not answer in half the time."""
        wire, half = self._wire, (self._clock.now() + deadline) / 2
        try:
            return wire.delete(one, deadline=half)
        except BackendUnavailable:
            return wire.delete(one, deadline=deadline)  # nothing was sent: one may listen yet
        except OutcomeUnknown:
            if self._clock.now() >= half:
                wire.hang_up()
        try:
            wire.delete(one, deadline=deadline)
        except OutcomeUnknown:
            raise
        except LockError as error:
            # The first request went out, so nobody can say that nothing was done.
            raise OutcomeUnknown(str(error)) from error
        return True  # if it is gone now, it was by the first request

    def _granted(self, one: CarriedClaim, line: Line) -> Grant:
        session, claim = self.session, one.claim
        if one.granted_at == NEVER:
            one.granted_at = self._clock.now()
        session.held.add(claim.id)
        if line.must_touch():
            session.touch(one)
        if claim.queues:
            session.wakeups.forget(claim.id)
            session.watches.forget(claim.id)
        return Grant(claim, one.token, session.ttl, counted_from=session.counted_from)

    def _refused(self, one: CarriedClaim, line: Line, deadline: float) -> Held:
        """Leave again, since the claim does not queue."""
        named = line.entries[: line.inside][:NAMED]
        keys = [line.key_of(entry) for entry in named]
        seen = self._wire.leave(one, keys, line=line, deadline=deadline)
        self.session.forget(one.claim.id)
        return telling.held(named, seen, retry_in=line.retry_in)

    def _watching(self, one: CarriedClaim, line: Line, deadline: float) -> Held | None:
        """Watch whoever has to go first; None if the line has moved meanwhile."""
        watches, claim_id = self.session.watches, one.claim.id
        targets, inside = line.to_watch(), line.entries[: line.inside]
        named = [entry for entry in inside[:NAMED] if entry not in targets]
        watched = [line.key_of(entry) for entry in targets]
        seen = self._wire.read(
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
                has_moved = True  # it was admitted, and has said so before we watched it
        if has_moved:
            return None
        told = [
            (entry, found)
            for entry, found in zip([*targets, *named], seen, strict=True)
            if entry in inside
        ]
        return telling.held(
            [entry for entry, _ in told],
            [found for _, found in told],
            place=line.place,
            retry_in=line.retry_in,
        )
