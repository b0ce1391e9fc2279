"""A node that forgot its grants does not count until all of those grants must be over.

This is the first scenario in every text on Redlock: a client holds on A, B and C; C forgets; then
another client asks for the same name.
"""

from __future__ import annotations

import pytest

from lockfast import BackendUnavailable, ConfigurationError
from lockfast.backends.redlock import quarantine
from lockfast.backends.redlock._sync.backend import RedlockBackend
from lockfast.backends.redlock.round import Round
from lockfast.runtime.clock import Clock


def restart_empty(node):
    node.kill()
    node.start()


def flush(node):
    with node.client() as client:
        client.flushall()


def restart_from_an_older_file(node):
    """Restart the node from a file that was written before the lock was granted.

    The file contains the node's own record.
    """
    node.kill()
    node.options = (*node.options, "--dbfilename", "older.rdb")
    node.start()
    node.options = node.options[:-2]


FORGETTING = [restart_empty, flush, restart_from_an_older_file]


@pytest.fixture(params=FORGETTING, ids=lambda one: one.__name__)
def forget(request, nodes):
    """Return a function that makes C forget its grants."""
    return lambda: request.param(nodes[2])


@pytest.fixture
def settled(opened, nodes, namespace, name, eventually):
    """Wait until every node has recorded the terms that its clients agree on."""
    opened().lock(f"other-{name}").acquire(timeout=20).release()

    def is_known() -> bool:
        found = []
        for one in nodes:
            with one.client() as client:
                found.append(client.hget(f"{namespace}:redlock:node", "nodes"))
        return None not in found

    eventually(is_known)


@pytest.fixture
def older_file(nodes):
    """Make C save its data before the name is held."""
    third = nodes[2]
    with third.client() as client:
        client.save()
    written = third.directory / "dump.rdb"
    if written.exists():  # otherwise C runs from the older file, which is up to date
        written.rename(third.directory / "older.rdb")


@pytest.fixture
def held(long_leases, opened, ways, name, older_file):
    """Hold the name on A, B and C only."""
    for one in ways[3:]:
        one.refuse()
    lease = opened(*ways).lock(name, renew=False).acquire()
    for one in ways[3:]:
        one.accept()
    return lease


def test_nobody_else_is_let_in_by_a_node_that_forgot(opened, held, forget, name):
    """After C forgot the lock, both an old client and a new client are refused."""
    old = opened()
    assert old.lock(name).try_acquire() is None

    forget()

    assert old.lock(name).try_acquire() is None
    assert opened().lock(name).try_acquire() is None
    held.check()


def test_without_the_quarantine_two_hold_at_once(opened, held, forget, name, monkeypatch):
    """Without the quarantine a second client gets in, so the previous test can fail."""

    def at_once(*_: object, **__: object) -> quarantine.Admission:
        return quarantine.Admission(0.0, 0)

    monkeypatch.setattr(quarantine, "admission", at_once)
    opened().lock(name).try_acquire()

    forget()
    second = opened().lock(name).try_acquire()

    assert second is not None
    held.check()
    second.check()


def test_one_client_that_vouches_for_the_nodes_ends_no_quarantine_for_the_others(
    opened, settled, held, nodes, name
):
    """A client that alone says `durable=True` does not make a restarted node count at once."""
    restart_from_an_older_file(nodes[2])

    with pytest.raises(ConfigurationError, match=r"durable=False, and this client says durable=T"):
        opened(durable=True).lock(name).try_acquire()

    assert opened().lock(name).try_acquire() is None
    held.check()


def test_what_a_client_remembers_of_the_nodes_ends_no_quarantine(
    opened, held, forget, name, monkeypatch
):
    """A client that wrongly believes the nodes are an hour old does not end a quarantine.

    Such a client stalled before the nodes were first used.
    """
    monkeypatch.setattr(quarantine, "age", lambda _nodes: 3600.0)

    forget()

    assert opened().lock(name).try_acquire() is None
    held.check()


def test_who_counts_is_known_before_a_node_is_admitted_that_forgot(
    nodes, namespace, name, monkeypatch
):
    """Which nodes count is read from current replies before a forgetful node is admitted."""
    clock, known = Clock(), []
    backend = RedlockBackend(
        url=nodes.url,
        location=nodes.url,
        clock=clock,
        namespace=namespace,
        node_timeout=5.0,
        max_ttl=6.0,
    )
    asking = backend._asking
    asking.may_enrol()
    asking.ready(timeout=5.0, deadline=clock.now() + 30)
    for one in asking.nodes:
        one.counts = False  # as it was at the handshake, long ago

    def age(of_nodes) -> float:
        known.append([one.counts for one in of_nodes])
        return 0.0

    monkeypatch.setattr(quarantine, "age", age)
    flush(nodes[2])
    asking.ask([backend._questions.inspect(name)], decide=Round.is_over, timeout=5.0)
    backend.close()

    assert known == [[True, True, False, True, True]]


def test_a_node_counts_again_when_nobody_can_hold_what_it_forgot(opened, nodes, name, eventually):
    """Until the node counts again, two hung nodes stop all grants, and the error explains it."""
    locks = opened()
    locks.lock(name).acquire().release()
    restart_empty(nodes[2])
    for one in nodes[:2]:
        one.pause()
    with pytest.raises(BackendUnavailable, match="started or emptied lately"):
        opened(node_timeout=0.5).lock(name).acquire(timeout=0)
    for one in nodes[:2]:
        one.resume()

    def counts() -> bool:
        locks.lock("another").acquire(timeout=20).release()
        return locks_on(nodes[2], locks)

    eventually(counts, within=30)


def locks_on(node, locks):
    [found] = [
        one
        for one in getattr(locks, "_inner", locks)._client.backend._nodes.nodes
        if one.where.endswith(f":{node.port}")
    ]
    return found.counts


def test_a_clock_that_jumps_ends_no_quarantine(opened, held, nodes, name):
    """A restarted node whose clock jumps an hour ahead stays in quarantine."""
    restart_empty(nodes[2])
    assert opened().lock(name).try_acquire() is None

    nodes[2].shift_clock(3600.0)

    assert opened().lock(name).try_acquire() is None
    held.check()


def test_forgotten_scripts_are_no_forgotten_locks(opened, nodes, name):
    locks = opened()
    lease = locks.lock(name).acquire()
    for one in nodes:
        with one.client() as client:
            client.script_flush()

    assert opened().lock(name).try_acquire() is None
    lease.renew()
    lease.release()
    assert opened().lock(name).try_acquire() is not None


def test_nodes_that_nobody_used_before_count_when_they_have_been_there_for_long(
    flavour, fleet, name, eventually
):
    """Nodes that have run longer than max_ttl cannot have forgotten a lock that is still held."""
    options = {"namespace": f"unused-{name}", "node_timeout": 5.0, "request_timeout": 10.0}
    locks = flavour.locks(fleet.url, ttl=0.5, max_ttl=0.5, **options)

    def is_granted() -> bool:
        locks.lock(name).acquire(timeout=0).release()
        return True

    eventually(is_granted, despite=(BackendUnavailable,))


def test_new_nodes_count_when_they_have_been_there_for_long_enough(flavour, fleet, name):
    """Nodes started together grant nothing at first, and the error says how much time is left."""
    fresh = f"fresh-{name}"
    for one in fleet:
        one.kill()
        one.start()
    locks = flavour.locks(fleet.url, namespace=fresh, node_timeout=5.0, request_timeout=10.0)

    with pytest.raises(BackendUnavailable, match=r"counts again in \d+ s"):
        locks.lock(name).acquire(timeout=0)
