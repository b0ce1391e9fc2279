"""The operations of the `sessions` recipe as etcd transactions, each in one step; pure.

Every transaction that adds a claim to the line or lets it hold is guarded by its session, namely by
the revision at which the session's key was last written. So a request that arrives after its
session has ended, or after one of the session's claims was withdrawn, changes nothing.

The repeat of an unanswered request *supersedes* the first copy by writing the session's key in the
same step. The first copy may be stuck at another member. Without that write, the first copy could
take effect long after the grant was broken, and recreate the same keys for a holder that has lost
them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lockfast.backends.etcd import requests
from lockfast.backends.etcd.keys import twin
from lockfast.backends.etcd.requests import Is, Of, compare

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockfast.backends.etcd.keys import KeyRange, NameKeys
    from lockfast.backends.etcd.replies import KeyValue, Put, Ranged, Transacted
    from lockfast.backends.etcd.requests import Request
    from lockfast.model import Claim


class RevisionCheck(NamedTuple):
    """The key of a session, and the revision at which it was last written, as far as we know."""

    key: bytes
    generation: int
    lease: int

    @property
    def condition(self) -> bytes:
        """The condition that the session's key has not been written since revision `generation`."""
        return compare(self.key, Of.MODIFIED, Is.EQUAL, self.generation)

    def outdating(self, *, supersedes: bool) -> list[Request[Put]]:
        """With `supersedes`, return the write that voids all requests of this generation."""
        return [requests.put(self.key, b"", lease=self.lease)] if supersedes else []


class ClaimKeys(NamedTuple):
    """One claim of a session: its two keys, and their records."""

    claim: bytes
    hold: bytes
    claim_record: bytes
    hold_record: bytes


@lru_cache(256)
def everything(keys: NameKeys) -> Request[Ranged]:
    """Read all keys of a name, in the order of their creation."""
    return requests.range_(*keys.all, by_creation=True)


@lru_cache(1024)
def _none(span: KeyRange) -> bytes:
    return compare(span.begin, Of.CREATED, Is.EQUAL, 0, end=span.end)


def _created(key: bytes, revision: int) -> bytes:
    return compare(key, Of.CREATED, Is.EQUAL, revision)


def acquire(
    guard: RevisionCheck,
    keys: NameKeys,
    claim: Claim,
    ours: ClaimKeys,
    *,
    joins: bool,
    supersedes: bool = False,
) -> Request[Transacted]:
    """Join the line, and hold at once if it is empty; otherwise return the line.

    A claim that is already in line stays as it is, so a repeat changes only the generation. Without
    `joins`, a claim that cannot hold at once is not added and only gets the line.
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
    guard: RevisionCheck,
    keys: NameKeys,
    claim: Claim,
    ours: ClaimKeys,
    *,
    token: int,
    supersedes: bool = False,
) -> Request[Transacted]:
    """Hold if no claim holds and no claim is in front of ours; otherwise return the line."""
    claims, holds = keys.claims(claim.capacity), keys.holds(claim.capacity)
    in_front = compare(claims.begin, Of.CREATED, Is.GREATER, token - 1, end=claims.end)
    return requests.transaction(
        [guard.condition, _created(ours.claim, token), in_front, _none(holds)],
        [requests.put(ours.hold, ours.hold_record), *guard.outdating(supersedes=supersedes)],
        [requests.range_(guard.key), everything(keys)],
    )


def admit(
    guard: RevisionCheck, ours: ClaimKeys, *, token: int, touches: bool, supersedes: bool = False
) -> Request[Transacted]:
    """Put the hold, as decided from a line read before; `touches` notifies the claim's watchers."""
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
    """End a claim and its hold; if the claim is already gone, end only the hold that we put.

    The transaction only deletes, so it works on a server that is out of space.
    """
    left = requests.transaction(
        [compare(hold, Of.MODIFIED, Is.EQUAL, held_at)], [requests.delete(hold)]
    )
    return requests.transaction(
        [_created(claim, token)],
        [requests.delete(claim), requests.delete(hold)],
        [left] if held_at else [],
    )


def open_(guard: RevisionCheck) -> Request[Transacted]:
    """Open a session; return its key if an unanswered request has already opened the session."""
    return requests.transaction(
        [_created(guard.key, 0)],
        [requests.put(guard.key, b"", lease=guard.lease)],
        [requests.range_(guard.key)],
    )


def void_pending(guard: RevisionCheck) -> Request[Transacted]:
    """Void all unanswered requests of a session; does nothing if the session has ended."""
    return requests.transaction(
        [compare(guard.key, Of.CREATED, Is.GREATER, 0)],
        guard.outdating(supersedes=True),
    )


def withdraw(guard: RevisionCheck, claim: bytes, hold: bytes) -> Request[Transacted]:
    """End a claim and its hold, and void all unanswered requests of the session."""
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

    If the claim is gone, the reply contains the hold. A repeat can tell by the hold's lease whether
    its first copy took effect. A claim without a hold closes nothing.
    """
    close = requests.transaction(
        [compare(hold, Of.CREATED, Is.GREATER, 0)], [requests.put(hold, record, lease=lease)]
    )
    return requests.transaction(
        [_created(claim, token)], [requests.delete(claim), close], [requests.range_(hold)]
    )


def leave_hold(claim: bytes, *, token: int) -> Request[Transacted]:
    """End a claim but leave its hold, as if the holder had failed.

    The transaction only deletes, so a server accepts it even when it is out of space.
    """
    return requests.transaction([_created(claim, token)], [requests.delete(claim)])


def remove(
    claim: KeyValue,
    hold: KeyValue,
    *,
    closing: Request[Put] | None = None,
    leaves_hold: bool = False,
) -> Request[Transacted]:
    """Delete a claim and its hold if both are still as they were read; one of them may be missing.

    With `closing`, the hold is not deleted but replaced by that put. With `leaves_hold`, the hold
    stays as it is.
    """
    ending = [] if leaves_hold else [closing or requests.delete(hold.key)]
    return requests.transaction(
        [
            _created(claim.key, claim.created),
            compare(hold.key, Of.MODIFIED, Is.EQUAL, hold.modified),
        ],
        [requests.delete(claim.key), *ending],
    )


def clear(hold: KeyValue) -> Request[Transacted]:
    """Remove a hold whose time is up, if it is unchanged and still without its claim."""
    return requests.transaction(_left(hold), [requests.delete(hold.key)])


def let_go(holds: Iterable[KeyValue], *, lease: int) -> Request[Transacted]:
    """Put each hold under a lease, if the hold is unchanged and still without its claim."""
    return requests.transaction(
        [],
        [
            requests.transaction(_left(one), [requests.put(one.key, one.value, lease=lease)])
            for one in holds
        ],
    )


def nothing(root: bytes) -> Request[Transacted]:
    """Check permissions; the request is refused if this user may not read and write our keys.

    The request changes nothing, because its condition is never true. But the server checks the
    permissions for both branches first.
    """
    return requests.transaction(
        [compare(root, Of.VERSION, Is.LESS, 0)],
        [requests.put(root, b"")],
        [requests.range_(root, requests.prefix_end(root), limit=1)],
    )


def _left(hold: KeyValue) -> list[bytes]:
    return [compare(hold.key, Of.MODIFIED, Is.EQUAL, hold.modified), _created(twin(hold.key), 0)]
