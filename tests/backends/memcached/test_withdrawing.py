"""A claim that was withdrawn while a request of it was on its way never comes back."""

from __future__ import annotations

from functools import partial

import pytest
from backends.memcached.claims import claim_to

from lockfast.challenge.eventually import eventually
from lockfast.challenge.servers.memcached import PATIENCE
from lockfast.errors import OutcomeUnknown

ROUNDS, AT_ONCE = 5, 40


@pytest.mark.parametrize("was_there", [True, False], ids=["item was there", "item was absent"])
def test_of_two_hundred_withdrawn_claims_none_comes_back(backend, flavour, server, was_there):
    """The server is frozen, all ask, give up and withdraw on other connections, and it goes on.

    It then reads the connections in an order of its own: some requests come before the
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
            asker.call("inspect", claim.name)  # it is connected: what is lost is a request
            if was_there:
                grant = asker.call("try_acquire", claim_to(claim.name))
                assert asker.call("release", grant, tombstone=False)
        server.pause()
        for one in [*map(partial(flavour.start, give_up), askers, claims)]:
            one.result(PATIENCE)
        withdrawn = [
            flavour.start(asker.call, "withdraw", claim, tombstone=True)
            for asker, claim in zip(askers, claims, strict=True)
        ]
        server.resume()
        for one in withdrawn:
            one.result(PATIENCE)

        # What was given up was read by the server once it has closed its end of it.
        eventually(
            lambda: int(server.stat("curr_connections")) <= AT_ONCE + 4,
            what="the connections that were given up are gone",
        )
        held = [claim.name for claim in claims if looking.call("inspect", claim.name).holders]
        assert held == []


def test_a_request_that_comes_late_meets_another_version(backend, server, namespace):
    """By hand, in the one order that a plain `add` does not survive: it comes last of all."""
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
    """Its steps go on after the withdrawal, and would find the name free, in a version to take."""
    mine, looking, claim = backend(proxy.url), backend(), claim_to("door")
    if was_there:
        assert mine.call("release", mine.call("try_acquire", claim_to("door")), tombstone=False)
        looking.call("withdraw", claim_to("door"), tombstone=True)  # another version than it knew
    held_up = proxy.hold_requests(b"mg ")
    asking = flavour.start(mine.call, "try_acquire", claim)
    assert held_up.wait(PATIENCE)

    withdrawing = flavour.start(mine.call, "withdraw", claim, tombstone=True)
    if flavour.name == "sync":  # by a connection of its own; a task's stands behind the other
        withdrawing.result(PATIENCE)
    proxy.let_through()
    asking.result(PATIENCE)
    withdrawing.result(PATIENCE)

    assert not looking.call("inspect", "door").holders
