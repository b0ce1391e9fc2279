"""Each transaction on a real server: what has to be so for it to change anything."""

from __future__ import annotations

from typing import Any

import pytest

from lockfast.backends.etcd import keys as etcd_keys
from lockfast.backends.etcd import requests, transactions
from lockfast.backends.etcd.transactions import ClaimKeys, RevisionCheck
from lockfast.model import Claim

TTL = 60


class Party:
    """A session with one claim to a name."""

    def __init__(self, wire: Any, root: bytes, number: int) -> None:
        self._wire = wire
        self._names = etcd_keys.EtcdKeys(root)
        self.keys = self._names.of("door")
        self.claim = Claim(f"{number:032x}", "door", "c", '{"host": "h", "pid": 1}', 1, 1, TTL)
        lease = wire.ask(requests.grant(TTL)).lease
        guard = RevisionCheck(self._names.session(lease), 0, lease)
        opened = wire.ask(transactions.open_(guard))
        self.guard = guard._replace(generation=opened.header.revision)
        record = etcd_keys.of_claim(self.claim, at=0.0)
        self.ours = ClaimKeys(
            self.keys.claim(self.claim, lease),
            self.keys.hold(self.claim, lease),
            record,
            etcd_keys.of_hold(record, ttl=TTL, lock_delay=0.0),
        )
        self.token = 0

    def arrives(self) -> bool:
        """Join the line; return whether the claim holds."""
        asked = transactions.acquire(self.guard, self.keys, self.claim, self.ours, joins=True)
        answer = self._wire.ask(asked)
        self.token = answer.header.revision
        return answer.succeeded and answer.answers[0].succeeded

    def is_admitted_first(self) -> bool:
        asked = transactions.admit_first(
            self.guard, self.keys, self.claim, self.ours, token=self.token
        )
        return self._wire.ask(asked).succeeded

    def is_admitted(self) -> bool:
        asked = transactions.admit(self.guard, self.ours, token=self.token, touches=False)
        return self._wire.ask(asked).succeeded

    def leaves_its_hold(self) -> None:
        """End the claim as the end of its session does, which leaves the hold."""
        self._wire.ask(transactions.leave_hold(self.ours.claim, token=self.token))

    def loses_its_hold(self) -> None:
        self._wire.ask(requests.transaction([], [requests.delete(self.ours.hold)]))

    def moves_on(self) -> None:
        """Void the requests that were sent so far, as a withdrawal or a repeat does."""
        self._wire.ask(transactions.void_pending(self.guard))

    def holds(self) -> bool:
        return bool(self._wire.ask(requests.range_(self.ours.hold)).keys)


@pytest.fixture
def parties(wire_to, server, namespace) -> tuple[Party, Party]:
    """A holder, and a claim that waits behind it."""
    wire, root = wire_to(server.url), f"{namespace}/".encode()
    first, second = Party(wire, root, 1), Party(wire, root, 2)
    assert first.arrives()
    assert not second.arrives()
    return first, second


def test_the_first_in_line_is_admitted_once_nothing_is_in_front(parties):
    first, second = parties
    refused = second.is_admitted_first()
    first.leaves_its_hold()
    first.loses_its_hold()

    assert not refused
    assert second.is_admitted_first()
    assert second.holds()


def test_the_first_in_line_does_not_pass_a_hold_whose_claim_is_gone(parties):
    """Its holder may still trust it, if a leader revoked a lease that had just been renewed."""
    first, second = parties
    first.leaves_its_hold()

    assert not second.is_admitted_first()

    assert first.holds()
    assert not second.holds()


@pytest.mark.parametrize("verb", ["is_admitted_first", "is_admitted"])
def test_an_admission_that_comes_after_its_session_has_moved_on_changes_nothing(parties, verb):
    """The claim may have been withdrawn meanwhile, and nobody would end the hold."""
    first, second = parties
    first.leaves_its_hold()
    first.loses_its_hold()
    second.moves_on()

    assert not getattr(second, verb)()

    assert not second.holds()
