"""The wall clock of nodes jumps: on one node, on a majority, forwards and backwards."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest
from both_flavours import number_waiting

from lockfast import LeaseLost, StaleToken
from lockfast_challenge.processes import eventually

HOUR = 3600.0


@pytest.fixture
def granted(name):
    """Return a function that tries to acquire until it succeeds.

    At first not all nodes may be connected. The function does not wait in line, because a waiting
    claim would be woken only at the deadline that the sound nodes report.
    """

    def lease_of(locks):
        leases = []
        eventually(lambda: leases.append(locks.lock(name).try_acquire()) or leases[-1])
        return leases[-1]

    return lease_of


def test_a_jump_on_one_node_does_no_harm(opened, nodes, name):
    lease = opened().lock(name).acquire()

    nodes[0].shift_clock(HOUR)

    assert opened().lock(name).try_acquire() is None
    lease.renew()
    lease.release()


def acquired_on(nodes, lock):
    """Acquire until all of these nodes have granted the lock.

    A node that grants the lock only after its clock has jumped would be unaffected by the jump.
    """
    leases = []

    def is_on_all() -> bool:
        leases.append(lock.acquire())
        if all(map(partial(has_hold, name=lock.name), nodes)):
            return True
        leases.pop().release()
        return False

    eventually(is_on_all)
    return leases[-1]


def has_hold(node, name) -> bool:
    with node.client() as client:
        return any(client.hexists(key, "hold") for key in client.keys(f"*{{{name}}}:hold"))


@pytest.mark.usefixtures("long_leases")
def test_a_jump_on_a_majority_is_beyond_the_promise_and_the_token_grows(
    opened, nodes, name, guarded, granted
):
    """After a jump on a majority two clients hold the lock, but only the second can write."""
    first = acquired_on(nodes[:3], opened().lock(name, renew=False))
    guarded.write(name, first.token)

    for one in nodes[:3]:
        one.shift_clock(HOUR)
    second = granted(opened())
    guarded.write(name, second.token)

    first.check()
    with pytest.raises(StaleToken):
        guarded.write(name, first.token)


def jump(node, _name):
    node.shift_clock(HOUR)


def lose_the_key(node, name):
    with node.client() as client:
        client.delete(*client.keys(f"*{{{name}}}:hold"))


@pytest.mark.usefixtures("long_leases")
@pytest.mark.parametrize("harm", [jump, lose_the_key])
def test_one_node_is_enough_where_a_bare_majority_has_the_lock(opened, ways, name, harm, granted):
    """If only three of five nodes have the lock, harm to one of them lets a second client in.

    The documentation says so, and the second token is larger.
    """
    for one in ways[3:]:
        one.refuse()
    first = opened(*ways).lock(name, renew=False).acquire()
    for one in ways[3:]:
        one.accept()

    harm(ways[2], name)
    second = granted(opened())

    first.check()
    assert second.token > first.token


def test_an_hour_back_keeps_a_dead_holders_lock_for_max_ttl_at_most(flavour, opened, nodes, name):
    dead = opened(ttl=2.0)
    dead.lock(name, renew=False).acquire()

    for one in nodes[:3]:
        one.shift_clock(-HOUR)

    assert opened().lock(name).acquire(timeout=25) is not None


@pytest.mark.usefixtures("short_leases")
@pytest.mark.parametrize("is_waiting", [False, True], ids=["asks later", "waits already"])
def test_an_hour_back_keeps_a_closed_name_closed_for_max_ttl_at_most(
    flavour, opened, nodes, name, *, is_waiting
):
    """A name closed by `min_hold` opens within max_ttl after the clocks went back an hour."""
    lease = opened().lock(name, min_hold=2.0).acquire()
    locks = opened()
    waiter = flavour.start(locks.lock(name).acquire, timeout=60) if is_waiting else None
    if is_waiting:
        eventually(lambda: number_waiting(locks) or waiter.done())

    with suppress(LeaseLost):  # if the machine stalled for as long as a lease
        lease.release()
    for one in nodes[:3]:
        one.shift_clock(-HOUR)
    waiter = waiter or flavour.start(locks.lock(name).acquire, timeout=60)

    assert waiter.result(60).token > lease.token


@pytest.mark.usefixtures("long_leases")
def test_what_is_held_can_be_seen_and_broken_after_the_clocks_were_put_back(opened, nodes, name):
    opened().lock(name, renew=False).acquire()
    for one in nodes:
        one.shift_clock(-HOUR)
    operator = opened()

    assert len(operator.inspect(name).holders) == 1
    assert operator.break_(name)
    assert operator.inspect(name).holders == ()


def test_tokens_grow_whatever_the_clocks_do(opened, nodes, name):
    lock = opened().lock(name)
    tokens = []
    for shifts in ([0, 0, 0, 0, 0], [HOUR, 0, 0, 0, 0], [0, 2, -3, 7, 0], [0, 0, 0, 0, HOUR]):
        for one, shift in zip(nodes, shifts, strict=True):
            one.shift_clock(shift)
        for _ in range(3):
            lease = lock.acquire(timeout=10)
            tokens.append(lease.token)
            lease.release()

    assert tokens == sorted(set(tokens))
