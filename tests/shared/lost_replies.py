"""Statements whose replies were lost after the server executed them, or that arrived too late."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pytest

from lockfast import BackendUnavailable, OutcomeUnknown
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.proxy import Message

TTL = 60.0
"""Longer than any test, so that a hold that is gone did not expire."""


@dataclass(frozen=True)
class Said:
    """Byte patterns that identify requests: acquire of a known or a new name, and release."""

    take: bytes
    take_new: bytes
    release: bytes

    def takes(self, request: Message) -> bool:
        """Whether the request may grant the name."""
        return self.take in request.data or self.take_new in request.data


class LostReplies:
    """Lost replies, for a SQL store; `proxied` is the URL through `proxy`, which `door` bypasses.

    `buried` returns whether the door has a tombstone and nothing else.
    """

    @pytest.fixture
    def locks(self, flavour, door, proxied, diary):
        found = flavour.locks(proxied, ttl=TTL, on_event=diary, request_timeout=20)
        found.lock(f"{door.name} warm").acquire().release()
        flavour.give_up_after(1.5)
        return found

    @pytest.fixture(params=["new", "known"])
    def taking(self, request, locks, door, said) -> bytes:
        """The pattern of the request that takes the name, known or new."""
        if request.param == "new":
            return said.take_new
        locks.lock(door.name).acquire().release()
        return said.take

    @pytest.fixture
    def asked(self, flavour, locks, door) -> Callable[..., Future[Any]]:
        """Return a function that acquires in the background, and returns once a reply is lost.

        The short timeout is for that reply only: later requests get a long one, for busy machines.
        """

        def ask(lost: threading.Event, *, timeout: float = 60) -> Future[Any]:
            asking = flavour.start(locks.lock(door.name).acquire, timeout=timeout)
            eventually(lambda: lost.is_set() or asking.done(), what="an answer is lost")
            flavour.give_up_after(20)
            return asking

        return ask

    def test_a_reply_lost_on_acquire_costs_a_moment(self, locks, proxy, door, said, asked):
        """The repeated request is answered with the same grant: one hold, one token."""
        lost = proxy.lose_reply_to(said.take_new)

        lease = asked(lost).result(60)

        assert lost.is_set()
        assert door.line() == ([lease.token], 0)
        assert locks.inspect(door.name).last_token == lease.token
        lease.release()
        assert door.line() == ([], 0)

    @pytest.mark.parametrize("after", [0, 1, 20], ids="{} bytes".format)
    def test_a_connection_cut_before_the_answer_costs_a_moment(
        self, proxy, door, taking, after, asked
    ):
        """The request was executed, but its reply was incomplete: half a token is no token."""
        cut = proxy.cut_reply_to(taking, after=after)

        lease = asked(cut).result(60)

        assert cut.is_set()
        assert door.line() == ([lease.token], 0)

    def test_when_no_acquire_is_answered_nothing_is_left_behind(self, proxy, door, said, asked):
        """The server granted the request; the caller gets an error, and the grant is withdrawn."""
        lost = proxy.lose_reply_to(said.takes, times=9)

        with pytest.raises(BackendUnavailable, match="withdrawn"):
            asked(lost, timeout=0.4).result(60)

        assert door.line() == ([], 0)

    def test_a_reply_lost_on_release_is_said_and_can_be_repeated(
        self, flavour, locks, proxy, door, said
    ):
        """A release sent while the lease is trusted is clean, whatever its repeat finds."""
        lease = locks.lock(door.name).acquire()
        proxy.lose_reply_to(said.release)

        with pytest.raises(OutcomeUnknown):
            lease.release()
        door.until([], 0)
        flavour.give_up_after(20)
        lease.release()

        assert lease.lost.reason is None

    def test_a_lost_request_to_release_goes_on_in_the_background(self, locks, proxy, door, said):
        """The release is lost on its way, but the background frees the name long before the ttl."""
        lease = locks.lock(door.name).acquire()
        proxy.hold_requests(said.release)

        with pytest.raises(OutcomeUnknown):
            lease.release()

        assert door.elsewhere().acquire(timeout=20).token > lease.token

    def test_an_acquire_that_comes_after_its_withdrawal_is_refused(
        self, locks, proxy, door, taking, buried
    ):
        """Law 6: a request that was delayed on its way leaves nothing behind when it arrives."""
        held = proxy.hold_requests(taking)
        with pytest.raises((BackendUnavailable, OutcomeUnknown)):
            locks.lock(door.name).acquire(timeout=0.2)
        assert held.is_set()
        # At an empty door, the tombstone is in the name's own row.
        eventually(lambda: buried(door.name), what="the withdrawal came through")

        before = proxy.connections
        proxy.let_through()

        eventually(
            lambda: proxy.connections < before, what="it was delivered, and its client is gone"
        )
        assert door.line() == ([], 0)
        assert door.elsewhere().acquire(timeout=20).token > 0

    def test_renewals_that_are_never_answered_extend_nothing(
        self, flavour, proxy, proxied, door, diary
    ):
        """The server may have renewed each time; the holder cannot know that, and stops in time."""
        locks = flavour.locks(proxied, ttl=1.5, on_event=diary)
        lease = locks.lock(door.name).acquire()
        flavour.give_up_after(0.2)
        proxy.lose_reply_to(lambda _: True, times=999)

        assert lease.lost.wait(10)

        assert lease.lost.reason == "expired"
        following = door.elsewhere().acquire(timeout=20)
        assert following.token > lease.token
