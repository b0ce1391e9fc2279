"""Orders of events in which other memcached locks delete another client's lock.

Each test replays one order of events on our backend. The only difference is in the commands at the
critical point: those libraries look and then delete, or delete without looking, whereas our command
names the version that it may change.
"""

from __future__ import annotations

import pytest
from backends.memcached.claims import claim_to

from lockfast import LeaseLost
from lockfast.model import Grant, Held
from lockfast_challenge.servers.memcached import REPLY_TIMEOUT_SECONDS


@pytest.fixture
def key(namespace):
    return f"{namespace}=door".encode()


def test_an_expiry_between_looking_and_deleting_frees_nobody_elses_lock(
    backend, proxy, server, key
):
    """In Tooz and sherlock, the lock may expire and be taken over between `get` and `delete`.

    Our release is delayed at the same point: it has read its own claim, and its change is on the
    way.
    """
    first, second, third = backend(proxy.url), backend(), backend()
    mine = first.call("try_acquire", claim_to("door"))
    held_up = proxy.hold_requests(lambda one: b"1 free" in one.data)
    releasing = first.flavour.start(first.call, "release", mine, tombstone=False)
    assert held_up.wait(REPLY_TIMEOUT_SECONDS)

    server.say(b"md %b\r\n" % key)  # as the item's expiry would
    successor = second.call("try_acquire", claim_to("door", label="second"))
    proxy.let_through()

    assert isinstance(successor, Grant)
    assert releasing.result(REPLY_TIMEOUT_SECONDS) is False
    [holder] = third.call("inspect", "door").holders
    assert holder.owner.label == "second"
    assert isinstance(third.call("try_acquire", claim_to("door")), Held)


def test_a_holder_whose_time_was_over_frees_nobody_elses_lock(flavour, server, key):
    """In dogpile, a holder whose lock has expired deletes the key that another client now owns."""
    first, second, third = (flavour.locks(server.url, namespace=ns(key)) for _ in range(3))
    late = first.lock("door", renew=False).acquire()
    server.say(b"md %b\r\n" % key)  # as the item's expiry would
    successor = second.lock("door").acquire(timeout=0)

    with pytest.raises(LeaseLost):
        late.release()

    assert third.lock("door").try_acquire() is None
    successor.check()
    successor.release()


def test_a_renewal_between_two_commands_of_another_takes_nothing_from_it(backend, server, key):
    """A watchdog that touches the key by its name alone would extend its successor's lock."""
    first, second = backend(), backend()
    mine = first.call("try_acquire", claim_to("door"))
    server.say(b"md %b\r\n" % key)
    successor = second.call("try_acquire", claim_to("door", ttl=5.0))

    [outcome] = first.call("renew", [mine])

    assert outcome.value == "lost"
    assert second.call("inspect", "door").holders[0].remaining <= 5.0
    assert [one.value for one in second.call("renew", [successor])] == ["renewed"]


def test_a_cas_value_of_a_server_that_is_gone_is_worth_nothing(backend, server, key):
    """A restarted server counts from 1 again: our number now belongs to another client's lock."""
    first, second = backend(), backend()
    mine = first.call("try_acquire", claim_to("door"))
    was = server.say(b"mg %b c\r\n" % key)
    server.kill()
    server.start()
    successor = second.call("try_acquire", claim_to("door"))
    assert server.say(b"mg %b c\r\n" % key) == was

    assert first.insist("release", mine, tombstone=False) is False
    assert [one.value for one in first.insist("renew", [mine])] == ["lost"]

    assert [one.value for one in second.call("renew", [successor])] == ["renewed"]


def ns(key: bytes) -> str:
    return key.decode().partition("=")[0]
