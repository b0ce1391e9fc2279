# Generated from src/lockfast/backends/etcd/_async/leaving.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How a claim goes: released, withdrawn, closed for a while, or removed by somebody else."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lockfast.backends.etcd import records, refusals, requests, transactions
from lockfast.backends.etcd._sync.arriving import Arriving
from lockfast.backends.etcd.answers import KeyValue
from lockfast.backends.etcd.keys import CLAIM, place_of, twin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.etcd.answers import Transacted
    from lockfast.backends.sessions.claims import CarriedClaim


class Leaving(Arriving):
    """Ends claims, and what they hold."""

    def delete(self, one: CarriedClaim, *, deadline: float) -> bool:
        """See the protocol."""
        claim_id = one.claim.id
        is_doubtful = claim_id in self._doubtful
        if one.key is None and not is_doubtful:
            return False
        keys, guard = self._keys.of(one.claim.name), self._guard
        claim, hold = keys.claim(one.claim, guard.lease), keys.hold(one.claim, guard.lease)
        if is_doubtful:
            was_there = self._withdraw(claim, hold, deadline)
        else:
            held_at = self._held_at.get(claim_id, 0)
            # Once: a repeat could not tell its own deed from somebody else's.
            answer = self.ask_once(
                transactions.release(claim, hold, token=one.token, held_at=held_at),
                deadline=deadline,
            )
            was_there = answer.succeeded
        self._doubtful.pop(claim_id, None)
        self._held_at.pop(claim_id, None)
        return was_there

    def _withdraw(self, claim: bytes, hold: bytes, deadline: float) -> bool:
        try:
            asked = transactions.withdraw(self._guard, claim, hold)
            answer = self.ask(asked, deadline=deadline)
        except refusals.OutOfSpace:
            # The session's key cannot be written, but deleting works. What is under way is
            # refused too; should it come true when there is space again, the sweep finds it.
            asked = requests.transaction([], [requests.delete(claim), requests.delete(hold)])
            answer = self.ask(asked, deadline=deadline)
            return bool(answer.answers[0].deleted)
        self.outdated(answer)
        return bool(answer.answers[0].deleted)

    def close_for(self, one: CarriedClaim, seconds: float, *, deadline: float) -> bool:
        """See the protocol: the hold outlives the session, and etcd removes it in the end.

        A server that is full takes no such hold, but deletes: then the hold stays as it is, and
        the session removes it in time. Should that fail, it keeps the name closed for a ttl from
        when somebody finds it, as after a crash.
        """
        try:
            return self._closed_for(one, seconds, deadline)
        except refusals.OutOfSpace:
            claim = self._keys.of(one.claim.name).claim(one.claim, self._guard.lease)
            answer, was_repeated = self.ask_twice(
                transactions.leave_hold(claim, token=one.token), deadline=deadline
            )
        for known in (self._doubtful, self._closing, self._held_at):
            known.pop(one.claim.id, None)
        return answer.succeeded or was_repeated

    def _closed_for(self, one: CarriedClaim, seconds: float, deadline: float) -> bool:
        claim_id = one.claim.id
        if claim_id in self._doubtful:
            # What is under way of it must not bring it back beside the hold.
            self.outdated(self.ask(transactions.outdate(self._guard), deadline=deadline))
            self._doubtful.pop(claim_id, None)
        keys, guard = self._keys.of(one.claim.name), self._guard
        claim, hold = keys.claim(one.claim, guard.lease), keys.hold(one.claim, guard.lease)
        record = records.of_closing(one.claim, seconds=seconds, at=time.time())
        lease = self._closing.get(claim_id, 0)
        was_asked = bool(lease)
        answer: Transacted | None = None
        while answer is None:
            if not lease:
                lease = self.lease_for(seconds, deadline=deadline)
                self._closing[claim_id] = lease  # by it a repeat knows what it has done itself
            asked = transactions.close_for(claim, hold, record, token=one.token, lease=lease)
            try:
                told = self.ask_twice(asked, deadline=deadline, is_beside=True)
                answer, was_asked = told[0], was_asked or told[1]
            except refusals.LeaseGone:
                lease = 0
        self._closing.pop(claim_id, None)
        self._held_at.pop(claim_id, None)
        # Gone: by our own request that was not answered, unless somebody else has closed it.
        return answer.succeeded or (
            was_asked and all(found.lease == lease for found in answer.answers[0].keys)
        )

    def touch(self, key: str, one: CarriedClaim, heard: Callable[[bool], None]) -> None:
        """See the protocol: its hold was put together with that."""
        del key, one
        heard(True)

    def remove(self, asked: Sequence[tuple[str, int | None]], *, deadline: float) -> Sequence[bool]:
        """See the protocol; a hold with a lock_delay keeps its name closed for that long.

        On a server that is full it does so for a ttl more: it is left as it is, as above.
        """
        return [self._remove(key.encode(), token, deadline) for key, token in asked]

    def _remove(self, key: bytes, token: int | None, deadline: float) -> bool:
        claim_key, hold_key = key, twin(key)
        if place_of("/".join(key.decode().rsplit("/", 3)[1:])).kind != CLAIM:
            claim_key, hold_key = hold_key, key
        is_full = False
        while True:
            looked = self.ask(
                requests.transaction([], [requests.range_(claim_key), requests.range_(hold_key)]),
                deadline=deadline,
            )
            claims, holds = (one.keys for one in looked.answers)
            claim = claims[0] if claims else KeyValue(claim_key)
            hold = holds[0] if holds else KeyValue(hold_key)
            if not (claims or holds) or token not in (None, claim.created):
                return False
            closing = None
            delay = records.lock_delay_in(hold.value) if claims else 0.0
            try:
                if delay and not is_full:
                    record = records.closed(hold.value, seconds=delay)
                    lease = self.lease_for(delay, deadline=deadline)
                    closing = requests.put(hold_key, record, lease=lease)
                answer = self.ask_once(
                    transactions.remove(
                        claim, hold, closing=closing, leaves_hold=bool(delay) and is_full
                    ),
                    deadline=deadline,
                    is_beside=True,
                )
            except refusals.LeaseGone:
                continue
            except refusals.OutOfSpace:
                if is_full:
                    raise
                is_full = True
                continue
            if answer.succeeded:
                return True
