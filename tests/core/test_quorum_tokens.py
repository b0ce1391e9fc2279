"""Every way in which N nodes can give tokens, explored exhaustively: tokens only grow.

The model: each node has a last token and at most one claim, and a clock that stands still or
differs arbitrarily from the others. A request may arrive late, repeatedly, or never; a reply may be
lost; a client may give up or crash anywhere. A node may drop an ended claim at any time, by its
withdrawal or by its ttl, and the claim's requests may arrive even after that. The clients decide
with the shipped functions.

To stay finite, the model lets a node give an ended claim only one more token, for a late request. A
tombstone would only prevent that grant.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from lockfast.core.quorum import allotted, majority, may_agree, nodes_to_end

ASKING, RAISING, HOLDING, OVER, REPEATING = range(5)


class Node(NamedTuple):
    last: int = 0
    claim: int = -1
    given: int = 0
    late: frozenset[int] = frozenset()
    counts: bool = True
    least: int = 0


class Claim(NamedTuple):
    phase: int = ASKING
    tokens: tuple[int, ...] = ()
    raised: frozenset[int] = frozenset()
    token: int = 0


class State(NamedTuple):
    nodes: tuple[Node, ...]
    claims: tuple[Claim, ...]
    used: int = 0
    forgets: int = 0


class Model(NamedTuple):
    """The rules; `floors` are the claims' minimum tokens, `clocks` the times that the nodes show.

    `before` has the last token that each node gave before the start; the largest of these tokens
    was used.
    """

    clocks: tuple[int, ...]
    floors: tuple[int, ...]
    raises: bool = True
    late: bool = False
    forgets: int = 0
    teachers: int | None = None
    allots_anew: bool = True
    passes_on: bool = True
    before: tuple[int, ...] = ()
    repeats: bool = False
    hears_others: bool = True

    def start(self) -> State:
        before = self.before or (0,) * len(self.clocks)
        claim = Claim(tokens=(0,) * len(before))
        return State(
            tuple(map(Node, before)), (claim,) * len(self.floors), max(before), self.forgets
        )

    def steps(self, state: State) -> Iterator[State]:
        for number, claim in enumerate(state.claims):
            yield from self._of_client(state, number, claim)
            for i in range(len(state.nodes)):
                yield from self._at_node(state, number, claim, i)
        yield from self._forgetting(state)

    # -- what a client does ------------------------------------------------------------

    def _of_client(self, state: State, number: int, claim: Claim) -> Iterator[State]:
        nodes = len(state.nodes)
        if claim.phase != OVER:
            yield _with_claim(state, number, Claim(OVER, (0,) * nodes))  # on purpose, or in a crash
        given = [token for token in claim.tokens if token]
        if claim.phase == ASKING and len(given) >= majority(nodes):
            found = allotted(given, nodes=nodes)
            counted = tuple(int(bool(one)) for one in claim.tokens)
            decided = Claim(RAISING, counted, token=found.token)
            if found.is_settled or not self.raises:
                yield self._hold(state, number, decided)
            else:
                yield _with_claim(state, number, decided)
        if claim.phase == RAISING and len(claim.raised) >= majority(nodes):
            yield self._hold(state, number, claim)
        if claim.phase == HOLDING and self.repeats:
            yield _with_claim(state, number, Claim(REPEATING, (0,) * nodes, token=claim.token))
        if claim.phase == REPEATING and len(given) >= majority(nodes):
            waiting = nodes - len(given) if self.hears_others else 0
            if not may_agree(given, nodes=nodes, waiting=waiting):
                is_same = allotted(given, nodes=nodes).token == claim.token
                again = Claim(HOLDING, claim.tokens, token=claim.token)
                yield _with_claim(state._replace(used=state.used if is_same else -1), number, again)

    def _hold(self, state: State, number: int, claim: Claim) -> State:
        """Use the claim's token; `used` becomes -1 if the token is not larger than all before."""
        used = claim.token if claim.token > state.used >= 0 else -1
        # Drop the token of a claim that does not ask again, so that there are fewer states.
        token = claim.token if self.repeats else 0
        held = Claim(HOLDING, claim.tokens, claim.raised, token)
        return _with_claim(state, number, held)._replace(used=used)

    # -- what comes to a node: each request of a claim, at any time and any number of times ----

    def _at_node(self, state: State, number: int, claim: Claim, i: int) -> Iterator[State]:
        node = state.nodes[i]
        if claim.phase == OVER:
            if node.claim == number:
                yield _with_node(state, i, node._replace(claim=-1, given=0))
            elif self.late and node.claim == -1 and number not in node.late:
                token = self._allotted_by(i, node, number)
                late = node._replace(claim=number, last=token, late=node.late | {number})
                yield _with_node(state, i, late)
        elif node.claim == -1:
            token = self._allotted_by(i, node, number)
            # The reply may be lost: then the reply to a repeated request has the token.
            yield _with_node(state, i, node._replace(claim=number, given=token, last=token))
        elif claim.phase == ASKING and self.allots_anew and node.given <= node.least:
            # The grant was recorded before the node was taught: a repeated request must not find
            # it.
            token = self._allotted_by(i, node, number)
            if node.claim == number:
                yield _with_node(state, i, node._replace(given=token, last=token))
        elif node.claim == number and node.counts:
            if claim.phase in (ASKING, REPEATING) and claim.tokens[i] != node.given:
                tokens = (*claim.tokens[:i], node.given, *claim.tokens[i + 1 :])
                yield _with_claim(state, number, claim._replace(tokens=tokens))
            if claim.phase == RAISING and i not in claim.raised:
                raised = node._replace(given=claim.token, last=max(node.last, claim.token))
                after = _with_node(state, i, raised)
                yield after
                yield _with_claim(after, number, claim._replace(raised=claim.raised | {i}))

    def _allotted_by(self, i: int, node: Node, number: int) -> int:
        return max(node.last + 1, self.clocks[i], self.floors[number], node.least + 1)

    # -- a node that forgets: it counts again once it was taught, and its claims have ended ------

    def _forgetting(self, state: State) -> Iterator[State]:
        for i, node in enumerate(state.nodes):
            if node.counts and state.forgets:
                empty = Node(counts=self.teachers is None)
                yield _with_node(state, i, empty)._replace(forgets=state.forgets - 1)
            elif not node.counts and self.teachers is not None:
                # The quarantine is longer than any ttl: every claim that counted on the node has
                # ended.
                if any(claim.tokens[i] or i in claim.raised for claim in state.claims):
                    continue
                others = [
                    max(one.last, one.least) if self.passes_on else one.last
                    for j, one in enumerate(state.nodes)
                    if j != i and one.counts
                ]
                for taught in _subsets(others, self.teachers):
                    least = max(taught, default=0)
                    yield _with_node(state, i, node._replace(counts=True, least=least))


def _with_node(state: State, i: int, node: Node) -> State:
    return state._replace(nodes=(*state.nodes[:i], node, *state.nodes[i + 1 :]))


def _with_claim(state: State, number: int, claim: Claim) -> State:
    return state._replace(claims=(*state.claims[:number], claim, *state.claims[number + 1 :]))


def _subsets(items: list[int], size: int) -> set[tuple[int, ...]]:
    if size == 0:
        return {()}
    return {
        (one, *rest) for k, one in enumerate(items) for rest in _subsets(items[k + 1 :], size - 1)
    }


def walked(model: Model, *, most: int = 3_000_000) -> tuple[int, bool]:
    """Return the number of states, and whether tokens grew in all of them."""
    start = model.start()
    seen, todo = {start}, [start]
    while todo:
        for state in model.steps(todo.pop()):
            if state.used < 0:
                return len(seen), False
            if state not in seen:
                seen.add(state)
                todo.append(state)
        assert len(seen) < most, "too many for a test"
    return len(seen), True


def strolled(model: Model, *, walks: int, length: int, seed: int) -> bool:
    """Return whether tokens grew on this many random walks, for models with too many states."""
    chance = random.Random(seed)  # noqa: S311 - the same walks each time
    for _ in range(walks):
        state = model.start()
        for _ in range(length):
            following = list(model.steps(state))
            if not following:
                break
            # Giving up is possible at each step, and would end most walks before they begin.
            busy = [one for one in following if _ended(one) == _ended(state)]
            state = chance.choice(busy if busy and chance.random() < 0.9 else following)
            if state.used < 0:
                return False
    return True


def _ended(state: State) -> int:
    return sum(claim.phase == OVER for claim in state.claims)


CLOCKS = [(3, 3, 3), (0, 5, 9), (9, 5, 0), (5, 5, 0), (0, 0, 9)]
UNEQUAL = [clocks for clocks in CLOCKS if len(set(clocks)) > 1]


@pytest.mark.parametrize("clocks", CLOCKS, ids=str)
@pytest.mark.parametrize("floors", [(0, 0), (7, 0), (4, 12)], ids=str)
def test_tokens_grow_over_two_claims_of_three_nodes(clocks, floors):
    states, grew = walked(Model(clocks, floors))

    assert grew
    assert states > 500


def test_tokens_grow_over_three_claims_of_three_nodes():
    assert walked(Model((3, 3, 3), (0, 0, 0)))[1]


def test_tokens_grow_although_requests_come_after_their_claim_is_over():
    assert walked(Model((3, 3, 3), (0, 0), late=True))[1]


@pytest.mark.parametrize("clocks", UNEQUAL, ids=str)
def test_without_raising_it_the_token_repeats_or_falls(clocks):
    """The model can fail, and the second round, which raises the token, prevents exactly this."""
    assert not walked(Model(clocks, (0, 0), raises=False))[1]


def test_when_a_node_forgets_and_counts_at_once_the_token_falls():
    assert not walked(Model((0, 5, 9), (0, 0), forgets=1))[1]


def test_when_a_node_that_forgot_is_taught_by_too_few_the_token_falls():
    too_few = nodes_to_end(3) - 1

    assert not walked(Model((0, 5, 9), (0, 0), forgets=1, teachers=too_few))[1]


def test_when_a_node_that_forgot_is_taught_by_enough_the_token_grows():
    """The tokens grow although the clocks differ by more than the quarantine."""
    assert walked(Model((0, 5, 9), (0, 0), forgets=1, teachers=nodes_to_end(3)))[1]


def test_what_a_node_gave_before_it_was_taught_must_not_count_afterwards():
    """A repeated request must not find a grant that was recorded while the node did not count."""
    taught = Model((0, 5, 9), (0, 0), forgets=1, teachers=nodes_to_end(3), allots_anew=False)

    assert not walked(taught)[1]


TWO_FORGET = Model((0, 5, 9), (0,), forgets=2, teachers=nodes_to_end(3), before=(0, 9, 9))
"""Two nodes forget, one after the other, after the use of a token that two of three nodes know."""


def test_when_two_forget_one_after_the_other_the_token_grows():
    assert walked(TWO_FORGET)[1]


def test_when_one_that_was_taught_does_not_pass_it_on_the_token_falls():
    assert not walked(TWO_FORGET._replace(passes_on=False))[1]


@pytest.mark.parametrize("clocks", CLOCKS, ids=str)
def test_whoever_asks_again_finds_the_token_that_was_given(clocks):
    """A repeated request finds its token, even if other nodes have since granted it larger ones."""
    assert walked(Model(clocks, (0, 7), repeats=True))[1]


def test_whoever_asks_again_and_does_not_hear_the_others_finds_another_token():
    """The model can fail: the first two nodes to reply may not be the two with the grant."""
    assert not walked(Model((0, 0, 9), (0,), repeats=True, hears_others=False))[1]


# Five nodes have too many states to explore: these are random walks.


@pytest.mark.parametrize("clocks", [(3, 3, 3, 3, 3), (0, 5, 9, 2, 7)], ids=str)
def test_tokens_grow_on_random_ways_of_five_nodes(clocks):
    model = Model(clocks, (0, 6, 0), late=True, forgets=1, teachers=nodes_to_end(5))

    assert strolled(model, walks=300, length=120, seed=5)


@pytest.mark.parametrize("clocks", [(3, 3, 3, 4, 5), (0, 5, 9, 2, 7)], ids=str)
def test_whoever_asks_again_finds_the_token_on_random_ways_of_five_nodes(clocks):
    assert strolled(Model(clocks, (0, 6), repeats=True), walks=300, length=120, seed=5)


def test_random_ways_of_five_nodes_find_what_goes_wrong_without_raising():
    careless = Model((0, 5, 9, 2, 7), (0, 0), raises=False)

    assert not strolled(careless, walks=3000, length=60, seed=5)
