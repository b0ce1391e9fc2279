"""What is asked in one step: the verbs of the recipe as transactions; pure.

Whatever brings a claim into line or lets it hold is guarded by its session: by the revision at
which the session's key was last written. So what arrives after its session has ended, or after
somebody has withdrawn something of it, changes nothing.

The repeat of a request that was not answered *supersedes* the first copy: it writes the session's
key in the same step. The first copy may be stuck at another member, and without that it could come
true long after the grant was broken, and recreate the same keys for a holder that has lost them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lockfast.backends.etcd import requests
from lockfast.backends.etcd.keys import twin
from lockfast.backends.etcd.requests import Is, Of, compare

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockfast.backends.etcd.answers import KeyValue, Put, Ranged, Transacted
    from lockfast.backends.etcd.keys import NameKeys, Span
    from lockfast.backends.etcd.requests import Request
    from lockfast.model import Claim


class Guard(NamedTuple):
    """The key of a session, and the revision at which it was last written, as far as we know."""

    key: bytes
    generation: int
    lease: int

    @property
    def condition(self) -> bytes:
        """That it is still so."""
        return compare(self.key, Of.MODIFIED, Is.EQUAL, self.generation)

    def outdating(self, *, supersedes: bool) -> list[Request[Put]]:
        """Return the write that voids all requests sent under this generation, if it is wanted."""
        return [requests.put(self.key, b"", lease=self.lease)] if supersedes else []


class Ours(NamedTuple):
    """One claim of a session: its two keys, and what is kept there."""

    claim: bytes
    hold: bytes
    claim_record: bytes
    hold_record: bytes


@lru_cache(256)
def everything(keys: NameKeys) -> Request[Ranged]:
    """Ask for all that stands at a name, in the order of its creation."""
    return requests.range_(*keys.all, by_creation=True)


@lru_cache(1024)
def _none(span: Span) -> bytes:
    return compare(span.begin, Of.CREATED, Is.EQUAL, 0, end=span.end)


def _created(key: bytes, revision: int) -> bytes:
    return compare(key, Of.CREATED, Is.EQUAL, revision)


def acquire(
    guard: Guard, keys: NameKeys, claim: Claim, ours: Ours, *, joins: bool, supersedes: bool = False
) -> Request[Transacted]:
    """Come into line, and hold at once where nobody is there; tell the line otherwise.

    Whether it is there already is looked at: a repeat changes nothing but the generation. What
    does not join is only told the line.
    """
    smaller, larger = keys.other_capacities(claim.capacity)
    put = requests.put(ours.claim, ours.claim_record, lease=guard.lease)
    join = [requests.transaction([_created(ours.claim, 0)], [put])] if joins else []
    take = requests.transaction(
        [_none(keys.all)],
        [put, requests.put(ours.hold, ours.hold_record)],
        [*join, everything(keys)],
    )
    return requests.transaction(
        [guard.condition, _none(smaller), _none(larger)],
        [take, *guard.outdating(supersedes=supersedes)],
        [requests.range_(guard.key), everything(keys)],
    )


def admit_first(
    guard: Guard,
    keys: NameKeys,
    claim: Claim,
    ours: Ours,
    *,
    token: int,
    supersedes: bool = False,
) -> Request[Transacted]:
    """Hold, if nobody holds and nobody stands in front of us; tell the line otherwise."""
    claims, holds = keys.claims(claim.capacity), keys.holds(claim.capacity)
    in_front = compare(claims.begin, Of.CREATED, Is.GREATER, token - 1, end=claims.end)
    return requests.transaction(
        [guard.condition, _created(ours.claim, token), in_front, _none(holds)],
        [requests.put(ours.hold, ours.hold_record), *guard.outdating(supersedes=supersedes)],
        [requests.range_(guard.key), everything(keys)],
    )


def admit(
    guard: Guard, ours: Ours, *, token: int, touches: bool, supersedes: bool = False
) -> Request[Transacted]:
    """Hold, by a line that was read before; `touches` tells who watches the claim."""
    touch = requests.put(ours.claim, ours.claim_record, lease=guard.lease)
    return requests.transaction(
        [guard.condition, _created(ours.claim, token)],
        [
            requests.put(ours.hold, ours.hold_record),
            *([touch] if touches else []),
            *guard.outdating(supersedes=supersedes),
        ],
        [requests.range_(guard.key)],
    )


def release(claim: bytes, hold: bytes, *, token: int, held_at: int) -> Request[Transacted]:
    """End a claim and its hold, or what we put of the hold if the claim is gone already.

    It only deletes: so it works where a server is out of space.
    """
    left = requests.transaction(
        [compare(hold, Of.MODIFIED, Is.EQUAL, held_at)], [requests.delete(hold)]
    )
    return requests.transaction(
        [_created(claim, token)],
        [requests.delete(claim), requests.delete(hold)],
        [left] if held_at else [],
    )


def open_(guard: Guard) -> Request[Transacted]:
    """Begin a session; tell of it if it was begun before, by a request that was not answered."""
    return requests.transaction(
        [_created(guard.key, 0)],
        [requests.put(guard.key, b"", lease=guard.lease)],
        [requests.range_(guard.key)],
    )


def outdate(guard: Guard) -> Request[Transacted]:
    """Let nothing that is under way for a session do anything; not if the session is over."""
    return requests.transaction(
        [compare(guard.key, Of.CREATED, Is.GREATER, 0)],
        guard.outdating(supersedes=True),
    )


def withdraw(guard: Guard, claim: bytes, hold: bytes) -> Request[Transacted]:
    """End a claim and its hold, and let none of its requests that are under way do anything."""
    return requests.transaction(
        [compare(guard.key, Of.CREATED, Is.GREATER, 0)],
        [
            requests.delete(claim),
            requests.delete(hold),
            *guard.outdating(supersedes=True),
        ],
        [requests.delete(claim), requests.delete(hold)],
    )


def close_for(
    claim: bytes, hold: bytes, record: bytes, *, token: int, lease: int
) -> Request[Transacted]:
    """End a claim, and let its hold keep the name closed until the lease ends.

    Tell of the hold if the claim is gone: a repeat knows its own deed by the lease. A claim that
    holds nothing closes nothing.
    """
    close = requests.transaction(
        [compare(hold, Of.CREATED, Is.GREATER, 0)], [requests.put(hold, record, lease=lease)]
    )
    return requests.transaction(
        [_created(claim, token)], [requests.delete(claim), close], [requests.range_(hold)]
    )


def leave_hold(claim: bytes, *, token: int) -> Request[Transacted]:
    """End a claim and leave its hold as it is, like that of a holder that failed; only deletes."""
    return requests.transaction([_created(claim, token)], [requests.delete(claim)])


def remove(
    claim: KeyValue,
    hold: KeyValue,
    *,
    closing: Request[Put] | None = None,
    leaves_hold: bool = False,
) -> Request[Transacted]:
    """Delete a claim and its hold, if both are still as they were seen, also where one is not.

    With a closing the hold is not deleted but put so; or it is left as it is.
    """
    ending = [] if leaves_hold else [closing or requests.delete(hold.key)]
    return requests.transaction(
        [
            _created(claim.key, claim.created),
            compare(hold.key, Of.MODIFIED, Is.EQUAL, hold.modified),
        ],
        [requests.delete(claim.key), *ending],
    )


def clear(claim: bytes, hold: bytes, *, held_at: int) -> Request[Transacted]:
    """Remove a hold whose time is up, if it is still that one and still without its claim."""
    return requests.transaction(_left(claim, hold, held_at), [requests.delete(hold)])


def let_go(holds: Iterable[KeyValue], *, lease: int) -> Request[Transacted]:
    """Put holds under a lease as they are, each if it is still that one and without its claim."""
    return requests.transaction(
        [],
        [
            requests.transaction(
                _left(twin(one.key), one.key, one.modified),
                [requests.put(one.key, one.value, lease=lease)],
            )
            for one in holds
        ],
    )


def nothing(root: bytes) -> Request[Transacted]:
    """Ask for what is never done: whoever may not read and write our keys is refused all the same.

    The rights to both branches are looked at before the condition.
    """
    return requests.transaction(
        [compare(root, Of.VERSION, Is.LESS, 0)],
        [requests.put(root, b"")],
        [requests.range_(root, requests.prefix_end(root), limit=1)],
    )


def _left(claim: bytes, hold: bytes, held_at: int) -> list[bytes]:
    return [compare(hold, Of.MODIFIED, Is.EQUAL, held_at), _created(claim, 0)]
