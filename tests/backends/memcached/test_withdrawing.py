"""A withdrawn claim never comes back, even if its request was still on its way."""

from __future__ import annotations

from functools import partial

import pytest
from backends.memcached.claims import claim_to

from lockfast.errors import OutcomeUnknown
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.memcached import REPLY_TIMEOUT_SECONDS

ROUNDS, AT_ONCE = 5, 40


@pytest.mark.parametrize("was_there", [True, False], ids=["item was there", "item was absent"])
def test_of_two_hundred_withdrawn_claims_none_comes_back(backend, flavour, server, was_there):
    """Clients ask a frozen server, give up and withdraw on other connections; then it resumes.

    The server reads its connections in an order of its own, so some requests arrive before their
    withdrawal, and some after it.
    """
    looking = backend()
    askers = [backend() for _ in range(AT_ONCE)]

    def give_up(asker, claim):
        with pytest.raises(OutcomeUnknown):
            asker.call("try_acquire", claim, within=0.3)

    for number in range(ROUNDS):
        claims = [claim_to(f"{number}-{one}") for one in range(AT_ONCE)]
        for asker, claim in zip(askers, claims, strict=True):
            asker.call("inspect", claim.name)  # connect first, so that only the request is lost
            if was_there:
                grant = asker.call("try_acquire", claim_to(claim.name))
                assert asker.call("release", grant, tombstone=False)
        server.pause()
        for one in [*map(partial(flavour.start, give_up), askers, claims)]:
            one.result(REPLY_TIMEOUT_SECONDS)
        withdrawn = [
            flavour.start(asker.call, "withdraw", claim, tombstone=True)
            for asker, claim in zip(askers, claims, strict=True)
        ]
        server.resume()
        for one in withdrawn:
            one.result(REPLY_TIMEOUT_SECONDS)

        # Once the server has closed its end of an abandoned connection, it has read everything that
        # was sent on it.
        eventually(
            lambda: int(server.stat("curr_connections")) <= AT_ONCE + 4,
            what="the connections that were given up are gone",
        )
        held = [claim.name for claim in claims if looking.call("inspect", claim.name).holders]
        assert held == []


def test_a_request_that_comes_late_meets_another_version(backend, server, namespace):
    """The request arrives after its withdrawal, an order that a plain `add` does not survive."""
    mine, claim = backend(), claim_to("door")
    key = f"{namespace}=door".encode()
    assert mine.call("release", mine.call("try_acquire", claim_to("door")), tombstone=False)
    with server.talk() as late:
        seen = late(b"mg %b c\r\n" % key).split()[1]

        mine.call("withdraw", claim, tombstone=True)

        answer = late(b"ms %b 4 C%b T60\r\nlate\r\n" % (key, seen[1:]))
    assert answer == b"EX\r\n"
    assert not mine.call("inspect", "door").holders


@pytest.mark.parametrize("was_there", [True, False], ids=["item was there", "item was absent"])
def test_a_claim_that_is_withdrawn_while_it_asks_gets_nothing(backend, flavour, proxy, was_there):
    """Otherwise the claim would resume after its withdrawal, find the name free and take it."""
    mine, looking, claim = backend(proxy.url), backend(), claim_to("door")
    if was_there:
        assert mine.call("release", mine.call("try_acquire", claim_to("door")), tombstone=False)
        # this leaves a version that `mine` has not seen
        looking.call("withdraw", claim_to("door"), tombstone=True)
    held_up = proxy.hold_requests(b"mg ")
    asking = flavour.start(mine.call, "try_acquire", claim)
    assert held_up.wait(REPLY_TIMEOUT_SECONDS)

    withdrawing = flavour.start(mine.call, "withdraw", claim, tombstone=True)
    # A thread has a connection of its own; a task's request queues behind the other request.
    if flavour.name == "sync":
        withdrawing.result(REPLY_TIMEOUT_SECONDS)
    proxy.let_through()
    asking.result(REPLY_TIMEOUT_SECONDS)
    withdrawing.result(REPLY_TIMEOUT_SECONDS)

    assert not looking.call("inspect", "door").holders
