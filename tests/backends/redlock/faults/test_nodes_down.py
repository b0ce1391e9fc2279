"""How many nodes may be dead, hang or reply late, and what such nodes leave behind."""

from __future__ import annotations

import pytest

from lockfast import BackendUnavailable
from lockfast.backends.redlock._async import reconnect as async_tending
from lockfast.backends.redlock._sync import reconnect as sync_tending

CYCLES = 20
HOUR = 3600.0


def left_on(nodes, name):
    """Return the number of nodes on which the name is held."""
    found = 0
    for one in nodes:
        with one.client() as client:
            keys = client.keys(f"*{{{name}}}:hold")
            found += any(client.hexists(key, "hold") for key in keys)
    return found


@pytest.fixture
def rounds(opened, monkeypatch):
    """Return a function that opens a client and records each round's verb and timeout."""

    def watched(**options: float):
        locks = opened(**options)
        nodes, seen = getattr(locks, "_inner", locks)._client.backend._nodes, []
        ask = nodes.ask

        def told(questions, *, timeout, patience=0.0, **others: object):
            seen.append((questions[0].verb, max(timeout, patience)))
            return ask(questions, timeout=timeout, patience=patience, **others)

        monkeypatch.setattr(nodes, "ask", told)
        return locks, seen

    return watched


def test_when_a_majority_is_down_it_is_said_at_once_and_nothing_is_left(opened, nodes, name):
    locks = opened(node_timeout=HOUR)
    locks.lock(name).acquire().release()
    for one in nodes[:3]:
        one.kill()

    with pytest.raises(BackendUnavailable) as caught:
        locks.lock(name).acquire()

    for one in nodes[:3]:
        assert one.address in str(caught.value)
    assert left_on(nodes[3:], name) == 0


def test_when_a_majority_hangs_it_is_said_within_the_node_timeout(rounds, nodes, name, eventually):
    """One round waits for the hung nodes; the round that cleans up does not wait for them."""
    locks, seen = rounds(node_timeout=0.5)
    locks.lock(name).acquire(timeout=20).release()
    for one in nodes[:3]:
        one.pause()
    seen.clear()

    with pytest.raises(BackendUnavailable, match="did not answer") as caught:
        locks.lock(name).acquire()

    assert seen == [("acquire", 0.5), ("withdraw", 0.5)]
    for one in nodes[:3]:
        assert one.address in str(caught.value)
    assert left_on(nodes[3:], name) == 0
    for one in nodes[:3]:
        one.resume()
    eventually(lambda: left_on(nodes, name) == 0)


def test_two_hung_nodes_cost_nobody_a_timeout(opened, nodes, name):
    """Neither a granted nor a refused claim waits until the timeout of two hung nodes."""
    first, second = opened(node_timeout=HOUR), opened(node_timeout=HOUR)
    for one in (first, second):
        one.lock("other").acquire(timeout=20).release()
    for one in nodes[1:3]:
        one.pause()

    holder = first.lock(name).acquire(timeout=20)
    assert second.lock(name).try_acquire() is None
    holder.release()
    assert second.lock(name).try_acquire() is not None

    for one in nodes[1:3]:
        one.resume()


def test_nodes_that_open_one_after_the_other_cost_nobody_a_timeout(
    opened, rounds, nodes, ways, name
):
    """A waiter asks once a majority can be open: an earlier request would wait for hung nodes."""
    patient = {"node_timeout": 30.0}
    holder, (other, seen) = opened(*ways, **patient), rounds(**patient)
    for one in (holder, other):
        one.lock("other").acquire(timeout=20).release()
    for one in nodes[1:3]:
        one.pause()

    ways[4].delay(0.1)
    holder.lock(name, min_hold=1.0).acquire(timeout=20).release()

    seen.clear()
    assert other.lock(name).acquire(timeout=20).is_trusted

    # Only the first attempt, which included the hung nodes, may be undone: no later attempt won
    # just a minority of the nodes.
    assert [verb for verb, _ in seen].count("withdraw") <= 1
    for one in nodes[1:3]:
        one.resume()


def test_a_client_can_be_closed_while_it_connects_to_a_node_that_hangs(
    flavour, opened, nodes, name, monkeypatch
):
    """Closing ends an attempt to connect that would otherwise last for an hour."""
    for one in (sync_tending, async_tending):
        monkeypatch.setattr(one, "CONNECT_TIMEOUT_SECONDS", HOUR)
    nodes[1].pause()
    locks = opened(node_timeout=0.5)
    locks.lock(name).acquire(timeout=20).release()

    (locks.close if flavour.name == "sync" else locks.aclose)()

    nodes[1].resume()


def test_what_hung_nodes_were_asked_is_undone_when_they_are_back(opened, nodes, name, eventually):
    """At most one acquire and its withdrawal wait for a hung node, however many were made."""
    locks = opened(node_timeout=0.3)
    lock = locks.lock(name)
    lock.acquire(timeout=20).release()
    for one in nodes[1:3]:
        one.pause()
    for _ in range(CYCLES):
        lock.acquire(timeout=20).release()

    for one in nodes[1:3]:
        one.resume()

    eventually(lambda: left_on(nodes, name) == 0)


def test_a_release_that_is_lost_on_the_way_is_said_again(opened, nodes, ways, name, eventually):
    """A lost release is repeated with the client's next request at the latest."""
    locks = opened(*ways)
    lease = locks.lock(name).acquire(timeout=20)
    eventually(lambda: left_on(nodes, name) == 5)
    lost = [one.reset_on(b"}:hold") for one in ways[3:]]

    lease.release()
    assert all(one.wait(20) for one in lost)

    locks.lock("other").acquire(timeout=20).release()
    eventually(lambda: left_on(nodes, name) == 0)


def test_a_late_grant_joins_the_hold(opened, nodes, name, eventually):
    locks = opened(node_timeout=2.0)
    locks.lock("other").acquire(timeout=20).release()
    for one in nodes[:2]:
        one.pause()
    lease = locks.lock(name).acquire(timeout=20)
    for one in nodes[:2]:
        one.resume()

    eventually(lambda: left_on(nodes, name) == 5)
    lease.release()
    eventually(lambda: left_on(nodes, name) == 0)


def test_a_renewal_is_won_by_a_majority(opened, nodes, name, diary):
    locks = opened(ttl=3.0, on_event=diary, node_timeout=1.0)
    lease = locks.lock(name).acquire()
    for one in nodes[:2]:
        one.kill()

    diary.until_renewed(2)

    lease.check()
    lease.release()


def test_a_lease_that_only_a_minority_keeps_is_lost_in_time(opened, nodes, name, diary):
    locks = opened(ttl=3.0, on_event=diary, node_timeout=0.5)
    lease = locks.lock(name).acquire()
    for one in nodes[:3]:
        one.kill()

    assert lease.lost.wait(20)
    assert lease.lost.reason == "expired"


def test_a_grant_that_leaves_too_little_time_is_none(opened, nodes, ways, name):
    """A quorum that leaves less time than `min_validity` does not grant the lock."""
    locks = opened(*ways, ttl=3.0, min_validity=2.5)
    locks.lock("other").acquire().release()
    for one in ways[3:]:
        one.delay(0.5)
    for one in nodes[:2]:
        one.pause()

    assert locks.lock(name).try_acquire() is None

    for one in nodes[:2]:
        one.resume()
