"""What a single real node does with requests, in whichever order they come."""

from __future__ import annotations

import pytest
from servers.redlock import shared_nodes

from lockfast import AcquireTimeout, Locks
from lockfast.backends.redlock.node import SET_TERMS
from lockfast.backends.redlock.requests import NODE_KEYS, source

BIRTH = "of-this-test"
MAX_TTL = 10_000_000
DAY = 86_400_000


class OneNode:
    """A node that counts, with its scripts by verb."""

    def __init__(self, client, namespace) -> None:
        self.client = client
        self.about_door = [f"{namespace}:{{door}}:{one}" for one in NODE_KEYS]
        self.node, self.seen = (f"{namespace}:redlock:{one}" for one in ("node", "seen"))
        self.tell(birth=BIRTH, counts=1, max=MAX_TTL, origin="new")

    def tell(self, **known: object):
        self.client.hset(self.node, mapping=known)

    def ask(self, verb, *arguments: object):
        keys = (*self.about_door, self.node)
        return self._run(verb, keys, arguments)

    def ask_of_nodes(self, verb, *arguments: object):
        return self._run(verb, (self.seen, self.node), arguments)

    def enrol(self, run_id, *, durable):
        terms = (MAX_TTL, int(durable), 5)
        return self._run("enrol", (self.node,), (run_id, "new-birth", *terms, SET_TERMS))

    def _run(self, verb, keys, arguments):
        text = source(verb).replace("@birth@", BIRTH)
        return self.client.eval(text, len(keys), *keys, *arguments)


@pytest.fixture
def node(namespace):
    with shared_nodes()[0].client() as client:
        yield OneNode(client, namespace)


def test_a_node_that_was_taught_teaches_that_too(node):
    node.tell(ceiling=5)
    node.ask_of_nodes("admit", 9)

    assert node.ask_of_nodes("witness", "another", 0, 1)[3] == 9


def test_since_when_a_birth_is_known_outlives_the_longest_quarantine(node):
    """The record of when a birth was first seen is kept as long as clients ask about it."""
    week = 7 * DAY
    node.tell(max=week * 1000)
    node.ask_of_nodes("witness", "another", 0, 1)
    assert node.client.pttl(node.seen) > 2 * week

    node.client.pexpire(node.seen, DAY)
    node.ask_of_nodes("witness", "another", 0, 1)

    assert node.client.pttl(node.seen) > 2 * week


def test_a_restarted_node_counts_only_if_all_vouched_for_it_before(node):
    """A later client's word is not enough: an older file may lack locks that others hold."""
    node.tell(run="first")

    assert node.enrol("second", durable=True)[:2] == [b"new-birth", 0]

    node.tell(birth=BIRTH, counts=1)
    assert node.enrol("third", durable=True)[:2] == [BIRTH.encode(), 1]


def test_one_who_vouches_alone_changes_nothing(node):
    node.tell(run="first", durable=0)
    before = node.client.hgetall(node.node)

    assert node.enrol("second", durable=True)[5] == 0
    assert node.client.hgetall(node.node) == before | {b"nodes": b"5"}


def acquire(node, claim, *, attempt):
    return node.ask("acquire", claim, attempt, 5_000_000, 0, 0, "", 0, 0, "owner")


@pytest.mark.parametrize("is_released", [True, False], ids=["released", "over"])
def test_a_deadline_that_the_clock_cut_is_written_by_the_request_that_it_refuses(
    node, *, is_released
):
    """The cut deadline is stored: if each request cut it again, `min_hold` would last too long.

    The name would stay closed for as long as the clock was set back.
    """
    hour = 3_600_000_000
    node.tell(max=2 * hour)
    ttl = hour if is_released else 1
    before = node.ask("acquire", "mine", 1, ttl, hour, 0, "", 0, 0, "owner")[0]
    if is_released:
        assert node.ask("release", "mine", "")[2] == 1
    node.tell(max=MAX_TTL)  # the deadline is now beyond max_ttl, as if the clock had been put back

    first, second = (acquire(node, "other", attempt=n) for n in (1, 2))

    assert first[2] == second[2] == 0
    assert before < first[8] == second[8] <= first[0] + MAX_TTL


@pytest.mark.parametrize(("verb", "argument"), [("release", ""), ("renew", 9_000_000)])
def test_a_claim_that_has_lost_the_name_changes_nothing_of_its_successors(node, verb, argument):
    """Not even a late request for the earlier claim ends the later hold, or extends it."""
    acquire(node, "earlier", attempt=1)
    node.ask("release", "earlier", "")
    acquire(node, "later", attempt=1)
    before = node.client.hgetall(node.about_door[0])

    assert node.ask(verb, "earlier", argument)[2] == 0

    assert node.client.hgetall(node.about_door[0]) == before


def test_a_late_raise_lowers_no_token(node):
    token = acquire(node, "mine", attempt=1)[3]

    node.ask("raise", "mine", token + 10)
    node.ask("raise", "mine", token + 5)

    assert node.ask("inspect")[5] == token + 10


def test_a_late_withdrawal_lets_no_attempt_in_that_is_over(node):
    node.ask("withdraw", "mine", 9, 1, "")
    node.ask("withdraw", "mine", 3, 1, "")

    assert acquire(node, "mine", attempt=5)[2] == 0
    assert acquire(node, "mine", attempt=10)[2] == 1


def test_who_was_broken_stays_so_whatever_comes_late(node):
    acquire(node, "mine", attempt=1)
    node.ask("break", "mine")

    node.ask("withdraw", "mine", 1, 1, "")

    assert node.ask("renew", "mine", 5_000_000)[2] == 2


def test_a_client_of_a_single_redis_touches_nothing_that_a_node_keeps(node, namespace):
    """A plain Redis client with the same name and namespace leaves a node's keys untouched."""
    acquire(node, "mine", attempt=1)
    node.ask("acquire", "other", 1, 5_000_000, 0, 0, "inbox", 0, 0, "owner")
    node.ask("withdraw", "third", 3, 1, "")
    before = {key: node.client.dump(key) for key in node.about_door}

    with (
        Locks(shared_nodes()[0].url, namespace=namespace) as locks,
        locks.lock("door"),
        Locks(shared_nodes()[0].url, namespace=namespace) as others,
        pytest.raises(AcquireTimeout),
    ):
        others.lock("door").acquire(timeout=0.05)

    assert all(before.values())
    assert {key: node.client.dump(key) for key in node.about_door} == before
