"""What the nodes' replies mean, and when a node counts again; tested without servers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lockfast.backends.redis.resp import ErrorReply
from lockfast.backends.redlock import errors, quarantine, replies
from lockfast.backends.redlock._sync.acquire import RedlockAcquire
from lockfast.backends.redlock._sync.backend import RedlockBackend, _renewals
from lockfast.backends.redlock._sync.quorum_call import QuorumCalls
from lockfast.backends.redlock._sync.waiting import RefusedClaim
from lockfast.backends.redlock.address import RedlockOptions
from lockfast.backends.redlock.node import Node, NodeTerms
from lockfast.backends.redlock.quarantine import Witness
from lockfast.backends.redlock.requests import NodeRequests, Scripts
from lockfast.backends.redlock.round import Round
from lockfast.errors import BackendUnavailable, ConfigurationError
from lockfast.model import Claim, Grant, Held, Owner, Renewal
from lockfast.testing import ManualClock

MAX_TTL = 10.0
LONG = MAX_TTL * 2


def admission(*others: Witness, own: float = LONG, nodes: int = 5):
    witnesses = {0: Witness(counts=False, known_for=own, ceiling=0)}
    witnesses |= dict(enumerate(others, 1))
    return quarantine.admission(0, witnesses, nodes=nodes, max_ttl=MAX_TTL)


def test_enough_of_those_who_remember_have_to_teach():
    teacher = Witness(counts=True, known_for=LONG, ceiling=7)

    assert admission(teacher, teacher) is None
    assert admission(teacher, teacher, teacher) == quarantine.Admission(0.0, 7)
    assert admission(teacher, nodes=3) is None
    assert admission(teacher, teacher, nodes=3) == quarantine.Admission(0.0, 7)


def test_one_that_forgot_too_teaches_nobody():
    teacher = Witness(counts=True, known_for=LONG, ceiling=7)
    forgetful = Witness(counts=False, known_for=LONG, ceiling=0)

    assert admission(teacher, teacher, forgetful) is None
    assert admission(teacher, teacher, forgetful, teacher) == quarantine.Admission(0.0, 7)


def test_no_single_clock_ends_it():
    early = Witness(counts=True, known_for=1.0, ceiling=7)
    jumped = Witness(counts=True, known_for=3600.0, ceiling=7)

    found = admission(early, early, early, jumped)

    assert found is not None
    assert 9.0 < found.left <= MAX_TTL
    assert admission(jumped, jumped, jumped, own=1.0) != quarantine.Admission(0.0, 7)


def test_where_a_majority_forgot_time_has_to_do():
    forgetful = Witness(counts=False, known_for=LONG, ceiling=0)

    assert admission(forgetful, forgetful) == quarantine.Admission(0.0, 0)
    assert admission(forgetful) is None


def test_half_of_an_even_number_is_no_majority_that_forgot():
    """If half of the nodes count, every majority that granted a token includes one of them."""
    teacher = Witness(counts=True, known_for=LONG, ceiling=7)
    forgetful = Witness(counts=False, known_for=LONG, ceiling=0)

    assert admission(teacher, forgetful, nodes=4) is None
    assert admission(teacher, teacher, forgetful, nodes=4) == quarantine.Admission(0.0, 7)
    assert admission(teacher, forgetful, forgetful, nodes=4) == quarantine.Admission(0.0, 7)


def test_it_is_taught_the_largest_of_all():
    taught = [Witness(counts=True, known_for=LONG, ceiling=one) for one in (3, 9, 5, 4)]

    assert admission(*taught) == quarantine.Admission(0.0, 9)


# -- what is seen of a name ------------------------------------------------------------------


def seen(claim: str, token: int = 5, shut: float = 0.0) -> replies.SeenHold:
    owner = Owner("host", 1).to_text()
    return replies.SeenHold(100.0, claim, owner, token, 90.0, 110.0 if claim else 0.0, shut)


FREE = seen("")


@pytest.mark.parametrize(
    ("found", "holders"),
    [
        ([seen("a")] * 3 + [FREE] * 2, 1),
        ([seen("a")] * 2 + [FREE] * 3, 0),
        ([seen("a")] * 2 + [FREE] * 2, 1),  # one did not reply
        ([seen("a")] * 2 + [seen("b")] * 2 + [FREE], 0),
        ([FREE] * 3, 0),
    ],
)
def test_somebody_holds_a_name_whom_a_majority_may_have(found, holders):
    told = replies.inspection("door", dict(enumerate(found)), nodes=5)

    assert len(told.holders) == holders


def test_the_token_is_what_most_of_them_say():
    found = [seen("a", token) for token in (5, 5, 5, 9)]

    [holder] = replies.inspection("door", dict(enumerate(found)), nodes=5).holders

    assert holder.token == 5


def test_a_name_is_closed_until_a_majority_has_opened():
    found = [seen("", shut=100.0 + one) for one in (1, 2, 3, 4, 5)]

    [closing] = replies.inspection("door", dict(enumerate(found)), nodes=5).closing

    assert closing.remaining == 3.0


def test_a_node_that_was_not_heard_is_not_taken_for_an_open_one():
    """A silent node does not count as open: the next attempt would depend on its reply."""
    refusals = [seen("", shut=100.0 + one) for one in (1, 2, 3)]

    [closing] = replies.held(refusals, nodes=5, look_again=60.0).closing
    [sooner] = replies.held(refusals, nodes=5, granted=1, look_again=60.0).closing

    assert (closing.remaining, sooner.remaining) == (3.0, 2.0)


def test_a_renewal_at_a_node_that_does_not_count_is_none():
    assert replies.renewed([1, 0, 1]) is Renewal.LOST
    assert replies.renewed([1, 0, 2]) is Renewal.BROKEN
    assert replies.renewed([1, 1, 1]) is Renewal.RENEWED


# -- requesting a claim ------------------------------------------------------------------------


class StandIns:
    """Five nodes that reply in the order of `tokens`; nodes without a token do not reply."""

    def __init__(self, tokens: dict[int, int], *, had: bool = True) -> None:
        self.uncounted: set[int] = set()
        self.nodes = [Node(number, f"redis://h{number}") for number in range(5)]
        self.tokens = tokens
        self.granted = 2 if had else 1
        self.asked: list[str] = []
        self.told: set[int] = set()
        """The nodes that were sent the last request, or would have been."""

    def retry_while_nodes_join(self, work, **_: float):
        return work()

    def may_enrol(self) -> None:
        """Do nothing, because no node has to be enrolled."""

    def check_mismatches(self) -> None:
        """Do nothing, because all nodes are on the same terms."""

    def is_cut_short(self, _found) -> bool:
        return False

    def ask(self, questions, *, decide, among=None, **_: float) -> Round:
        verbs = [one.verb for one in questions]
        self.asked += verbs
        self.told = set(range(5) if among is None else among)
        found = Round(self.nodes, decide)
        for node in self.nodes:
            found.asked[node.number] = node.number in self.told and not node.is_slow
        for number, token in self.tokens.items():
            if found.asked[number]:
                counts = int(number not in self.uncounted)
                found.deliver(number, [[1_000_000, counts, self.granted, token] for _ in verbs])
        if not found.is_decided:
            found.end()
        return found


class NoInbox:
    """Stands in for an inbox, with or without a waiting claim."""

    channel = ""

    def __init__(self, *, waits: bool) -> None:
        self._waiting = RefusedClaim(CLAIM, since=999.0, looked_at=999.0) if waits else None

    def waiter(self, _claim_id) -> RefusedClaim | None:
        return self._waiting

    def left(self, _claim_id) -> None:
        return None

    def joined(self, waiting: RefusedClaim) -> None:
        self._waiting = waiting


CLAIM = Claim("mine", "door", "client", "owner", weight=1, capacity=1, ttl=10.0)


def claimed(nodes: StandIns, *, waits: bool = False) -> Grant | Held:
    inbox: Any = NoInbox(waits=waits)
    asking: Any = nodes
    claiming = RedlockAcquire(asking, NodeRequests("space"), inbox, RedlockOptions(), ManualClock())
    return claiming.claim(CLAIM, deadline=2000.0)


def token_of(nodes: StandIns) -> int:
    granted = claimed(nodes)
    assert isinstance(granted, Grant)
    return granted.token


def test_a_repeat_that_hears_late_joiners_first_finds_the_token_of_the_majority():
    """Nodes 0, 1 and 2 granted the claim; nodes 3 and 4 joined later with larger tokens."""
    nodes = StandIns({0: 5, 3: 8, 4: 9, 1: 5, 2: 5})

    assert token_of(nodes) == 5
    assert nodes.asked == ["acquire"]


def test_a_repeat_waits_for_no_node_that_is_known_to_hang():
    nodes = StandIns({0: 5, 3: 8, 4: 9})
    nodes.nodes[1].is_slow = nodes.nodes[2].is_slow = True

    assert token_of(nodes) == 9
    assert nodes.asked == ["acquire", "raise"]


def test_a_grant_that_is_no_repeat_waits_for_nobody():
    """No majority granted the claim before, so all nodes are raised to the largest token."""
    nodes = StandIns({0: 5, 3: 8, 4: 9, 1: 5, 2: 5}, had=False)

    assert token_of(nodes) == 9
    assert nodes.asked == ["acquire", "raise"]


def test_a_first_node_that_does_not_answer_is_told_that_the_attempt_is_over():
    """The request to the node that was asked first may still arrive, so it is withdrawn too."""
    nodes = StandIns({1: 5, 2: 5})
    for one in nodes.nodes:
        one.counts, one.scripts = True, Scripts("a birth")
    nodes.nodes[3].trouble = nodes.nodes[4].trouble = BackendUnavailable("away")

    with pytest.raises(BackendUnavailable):
        claimed(nodes, waits=True)

    assert nodes.asked == ["acquire", "acquire", "withdraw"]
    assert 0 in nodes.told


def test_a_first_node_that_does_not_count_any_more_decides_nothing():
    """A first node that was just restarted does not count, so waiters ask the other nodes."""
    nodes = StandIns(dict.fromkeys(range(5), 5))
    nodes.uncounted = {0}
    for one in nodes.nodes:
        one.counts, one.scripts = True, Scripts("a birth")

    assert isinstance(claimed(nodes, waits=True), Grant)
    assert nodes.asked == ["acquire", "acquire"]


def test_no_renewal_is_waited_for_longer_than_the_shortest_lease_can_bear():
    """A lease whose nodes hang must not hold up other leases of its batch until those expire."""
    clock, url = ManualClock(), "redlock://h1,h2,h3"
    backend = RedlockBackend(url=url, location=url, clock=clock)
    backend._asking = Patience()  # type: ignore[assignment]
    grants = [Grant(replace(CLAIM, ttl=ttl), 1, ttl) for ttl in (30.0, 0.6)]

    backend.renew(grants, deadline=clock.now() + 10.0)

    assert backend._asking.given == [pytest.approx(0.1)]


class Patience:
    """Stands in for nodes that do not reply; records how long they were waited for."""

    def __init__(self) -> None:
        self.given: list[float] = []

    def ready(self, **_: float) -> None:
        """Do nothing, because nothing has to be prepared."""

    def ask(self, _questions, *, decide, patience, **_: float) -> Round:
        self.given.append(patience)
        return Round([Node(number, "") for number in range(3)], decide)


class Strangers:
    """Three nodes without our scripts; the first completes another handshake meanwhile."""

    def __init__(self) -> None:
        self.nodes = [Node(number, "") for number in range(3)]
        self.transports: list[object] = []
        self.greeted: list[int] = []
        self.asked = 0
        for one in self.nodes:
            one.scripts = Scripts("old")

    def ask(self, _questions, *, decide, among, **_: object) -> Round:
        found = Round(self.nodes, decide)
        self.asked += 1
        for number in among or range(3):
            found.asked_by[number] = self.nodes[number].scripts
            unknown = self.asked == 1
            found.put(number, [ErrorReply("NOSCRIPT") if unknown else [1, 1, 1]])
        if self.asked == 1:
            self.nodes[0].scripts = Scripts("new")
        return found

    def greet(self, node: Node, *, deadline: float) -> None:
        del deadline
        self.greeted.append(node.number)
        node.scripts, node.counts = Scripts("new"), True


def test_a_node_that_was_greeted_meanwhile_is_not_made_a_stranger_again():
    nodes: Any = Strangers()
    asking = QuorumCalls(
        nodes, NodeTerms(NodeRequests("space"), 60.0, durable=False), ManualClock()
    )
    nodes.nodes[0].counts = True

    found = asking.ask([NodeRequests("space").inspect("door")], decide=Round.is_over, timeout=1.0)

    assert sorted(nodes.greeted) == [1, 2]
    assert len(found.answers) == 3


# -- replies that cannot be used ---------------------------------------------------------------


def test_a_name_that_cannot_be_read_costs_no_other_lease_of_its_batch_anything():
    """If another program overwrote one name, the other leases of the batch are still renewed."""
    replies = [[1, 1, 1], ErrorReply("WRONGTYPE Operation against a key"), [1, 1, 0]]

    assert renewals_of(*[replies] * 3) == [Renewal.RENEWED, Renewal.UNKNOWN, Renewal.LOST]


def test_nothing_is_believed_of_a_node_that_forgot_in_the_middle_of_a_batch():
    """A node that forgot in mid-batch may also have forgotten leases that it renewed before."""
    good, forgot = [[1, 1, 1]] * 2, [[1, 1, 1], [-1]]

    assert renewals_of(good, forgot, forgot) == [Renewal.UNKNOWN] * 2
    assert renewals_of(good, good, forgot) == [Renewal.RENEWED] * 2


def renewals_of(*replies: list[Any]) -> list[Renewal]:
    found = Round([Node(number, "") for number in range(len(replies))], lambda _: False)
    for number, one in enumerate(replies):
        found.deliver(number, one)
    return _renewals(found, len(replies[0]))


def test_no_two_callers_are_given_the_same_error():
    """Each caller gets its own error, because raising an error records the lock's name in it."""
    found = Round([Node(number, "") for number in range(3)], lambda _: False)
    for number in range(3):
        found.deliver(number, ConfigurationError(f"{number} wants a password"))

    first, second = (errors.too_few(found).about(name) for name in ("door", "gate"))

    assert isinstance(first, ConfigurationError)
    assert (first.name, second.name) == ("door", "gate")
    assert str(first) == "0 wants a password"
    assert first.__cause__ is found.replies[0]
