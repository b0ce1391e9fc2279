"""The quick judge and the slow one agree, and find what a person would."""

from __future__ import annotations

import random

import pytest
from challenge.by_hand import ByHand
from hypothesis import given, settings
from hypothesis import strategies as st

from lockfast_challenge.checker.exclusion import smallest, violations
from lockfast_challenge.checker.holds import AnsweredGrant, CertainHold, all_grants, definite_holds
from lockfast_challenge.checker.search import is_possible, settled, steps
from lockfast_challenge.history import HistoryEvent, operations

ALL = 1000


def hold(
    client: str, granted: float, until: float, *, token: int | None = None, **more: object
) -> CertainHold:
    options: dict[str, object] = {"weight": 1, "capacity": 1, "asked": granted - 0.1} | more
    released = options.pop("released", until + 0.1)
    return CertainHold(
        client=client, number=int(granted * 1000), name="door", token=token,
        granted=granted, until=until, released=released, **options,  # type: ignore[arg-type]
    )  # fmt: skip


def seen(*events: tuple[float, str, str, str, int]) -> list[CertainHold]:
    """Return the holds that these events prove: (at, client, act, phase, operation number)."""
    holds: dict[str, int] = {}
    found = []
    for at, client, act, phase, number in events:
        if act == "acquire":
            holds[client] = number
        found.append(HistoryEvent(at, client, act, phase, number, holds[client], "door"))  # type: ignore[arg-type]
    return definite_holds(operations(found))


# -- what is certain ------------------------------------------------------------------------


def test_a_hold_is_certain_until_its_last_check_was_asked_for():
    [one] = seen(
        (1.0, "a", "acquire", "invoked", 1), (1.1, "a", "acquire", "ok", 1),
        (2.0, "a", "check", "invoked", 2), (2.5, "a", "check", "ok", 2),
        (3.0, "a", "check", "invoked", 3), (3.5, "a", "check", "fail", 3),
    )  # fmt: skip

    assert (one.granted, one.until, one.released) == (1.1, 2.0, None)


def test_a_release_that_succeeded_was_asked_for_by_a_holder():
    [one] = seen(
        (1.0, "a", "acquire", "invoked", 1), (1.1, "a", "acquire", "ok", 1),
        (2.0, "a", "release", "invoked", 2), (2.5, "a", "release", "ok", 2),
    )  # fmt: skip

    assert (one.until, one.released) == (2.0, 2.5)


@pytest.mark.parametrize("phase", ["fail", "unknown"])
def test_one_that_did_not_succeed_proves_nothing(phase):
    """A client whose release did not succeed may have been frozen since its acquire."""
    assert not seen(
        (1.0, "a", "acquire", "invoked", 1), (1.1, "a", "acquire", "ok", 1),
        (2.0, "a", "release", "invoked", 2), (2.5, "a", "release", phase, 2),
    )  # fmt: skip


def test_an_acquire_that_nobody_knows_of_proves_nothing():
    assert not seen(
        (1.0, "a", "acquire", "invoked", 1), (1.1, "a", "acquire", "unknown", 1),
    )  # fmt: skip


def test_who_enters_again_proves_the_first_hold():
    """A client that re-enters keeps both holds until it has released both, in either order."""
    history = ByHand()
    outer = history.acquire("a", 1.0, 1.1)
    inner = history.acquire("a", 3.0, 3.1, within=outer)
    history.release("a", outer, 4.0, 4.1)
    history.check("a", inner, 5.0)
    history.release("a", inner, 6.0, 6.1)

    first, second = definite_holds(operations(history.events))

    assert (first.granted, first.until, first.released) == (1.1, 6.0, 6.1)
    assert (second.granted, second.until, second.released) == (3.1, 6.0, 6.1)


@pytest.mark.parametrize("apart", [1.0, 0.0], ids=["later", "by a clock that stood still"])
def test_a_second_hold_that_is_not_given_back_keeps_the_first(apart):
    history = ByHand()
    outer = history.acquire("a", 1.0, 1.0)
    middle = history.acquire("a", 1.0 + apart, 1.0 + apart, within=outer)
    inner = history.acquire("a", 1.0 + 2 * apart, 1.0 + 2 * apart, within=middle)
    history.check("a", inner, 5.0)

    holds = definite_holds(operations(history.events))

    assert [(hold.until, hold.released) for hold in holds] == [(5.0, None)] * 3


# -- what is wrong ----------------------------------------------------------------------------


def test_two_inside_at_once():
    [found] = violations([hold("a", 1.0, 3.0), hold("b", 2.0, 4.0)])

    assert (found.kind, found.at) == ("overlap", 2.0)
    assert [one.client for one in found.holds] == ["a", "b"]
    assert str(found).startswith("door: more inside than the door lets in at 2.000: client a from")


def test_one_after_the_other():
    assert not violations([hold("a", 1.0, 2.0), hold("b", 2.001, 4.0)])


def test_a_writer_beside_a_reader():
    reader = hold("a", 1.0, 3.0, capacity=ALL)

    assert not violations([reader, hold("b", 1.5, 4.0, capacity=ALL)])
    assert violations([reader, hold("b", 2.0, 4.0, weight=ALL, capacity=ALL)])


def test_more_than_the_capacity():
    three = [hold(name, 1.0 + number, 9.0, capacity=3) for number, name in enumerate("abc")]

    assert not violations(three)
    assert violations([*three, hold("d", 4.0, 9.0, capacity=3)])


@pytest.mark.parametrize("token", [6, 7])
def test_a_token_that_does_not_grow(token):
    [found] = violations([hold("a", 1.0, 2.0, token=7), hold("b", 3.0, 4.0, token=token)])

    assert found.kind == "token"


def test_a_hold_that_is_entered_again_needs_no_room():
    outer = hold("a", 1.0, 5.0)

    assert not violations([outer, hold("a", 2.0, 3.0, within=outer.number)])


def grant(client: str, asked: float, granted: float, token: int | None = None) -> AnsweredGrant:
    """Return a grant whose holder never showed that it held."""
    return AnsweredGrant(
        client=client, number=int(granted * 1000), name="door", weight=1, capacity=1,
        token=token, asked=asked, granted=granted,
    )  # fmt: skip


def test_the_token_of_a_grant_counts_whatever_became_of_its_holder():
    lost = grant("a", 1.0, 1.1, token=7)

    [found] = violations([lost, hold("b", 3.0, 4.0, token=6)])

    assert (found.kind, found.at, found.holds[0]) == ("token", 3.0, lost)
    assert str(found).endswith("client a at 1.100, token 7; client b from 3.000 to 4.000, token 6")
    assert not violations([lost, hold("b", 3.0, 4.0, token=8)])


def test_two_grants_that_were_requested_at_once_may_have_come_in_any_order():
    """Without a proof that it held, the later reply may have been the first grant."""
    assert not violations([grant("a", 1.0, 1.1, token=7), grant("b", 1.05, 3.0, token=6)])
    assert not violations([hold("a", 1.1, 1.2, token=7), grant("b", 1.0, 3.0, token=6)])


def test_two_grants_never_have_one_token():
    [found] = violations([grant("a", 1.0, 1.2, token=7), grant("b", 1.1, 1.3, token=7)])

    assert found.kind == "token"


def test_tokens_of_an_overlap_that_are_in_the_right_order_are_right():
    found = violations([hold("a", 1.0, 3.0, token=7), hold("b", 2.0, 4.0, token=8)])

    assert [one.kind for one in found] == ["overlap"]


def test_a_reader_may_get_any_token():
    readers = [hold(name, 1.0 + at, 2.0 + at, token=9 - at, capacity=ALL) for at, name in
               enumerate("abc")]  # fmt: skip

    assert not violations(readers)


def test_a_token_is_compared_with_the_latest_that_it_should_exceed():
    def wrong(*tokens: int) -> list[tuple[int | None, int | None]]:
        holds = [hold(str(at), 2.0 * at, 2.0 * at + 1, token=one) for at, one in enumerate(tokens)]
        return [(one.holds[0].token, one.holds[1].token) for one in violations(holds)]

    assert wrong(5, 100, 50, 40) == [(100, 50), (50, 40)]
    assert wrong(2, 3, 9, 4) == [(9, 4)]


def test_every_grant_is_judged_and_every_proof_is_kept():
    history = ByHand()
    dead = history.acquire("a", 0.0, 0.1, token=1)
    history.held("b", 1.0, 2.0, token=2)
    history.acquire("c", 2.5, 2.6, "unknown")
    outer = history.acquire("d", 3.0, 3.1, token=3)
    history.acquire("d", 3.2, 3.3, within=outer)

    found = all_grants(operations(history.events))

    assert [(one.client, type(one)) for one in found] == [
        ("a", AnsweredGrant), ("b", CertainHold), ("d", AnsweredGrant)
    ]  # fmt: skip
    assert (found[0].number, found[0].asked, found[0].granted) == (dead, 0.0, 0.1)


# -- both judges --------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> list[CertainHold]:
    """Draw few clients and few moments, so that some histories are wrong and many nearly so."""
    capacity = draw(st.sampled_from([1, 1, 2, ALL]))
    found = []
    for number in range(draw(st.integers(1, 6))):
        moments = draw(st.lists(st.integers(0, 40), min_size=4, max_size=4).map(sorted))
        asked, granted, until, released = (each + number / 100 for each in moments)
        found.append(
            CertainHold(
                client=str(number), number=number, name="door", capacity=capacity,
                weight=draw(st.sampled_from([1, capacity])),
                token=draw(st.one_of(st.none(), st.integers(0, 8))),
                asked=asked, granted=granted, until=until,
                released=draw(st.sampled_from([None, released])),
            )
        )  # fmt: skip
    return found


@settings(max_examples=600)
@given(histories())
def test_the_quick_judge_says_what_the_slow_one_says(holds):
    """Both judges agree, and ending open holds at once does not change the verdict.

    Both properties share one test, because drawing the histories takes most of the time.
    """
    possible = is_possible(steps(holds))

    assert bool(violations(holds)) == (not possible)
    assert is_possible(settled(steps(holds))) == possible


@st.composite
def grants(draw: st.DrawFn) -> list[AnsweredGrant]:
    """Draw histories of which some grants were never proved to be held."""
    return [
        one
        if draw(st.booleans())
        else AnsweredGrant(
            client=one.client, number=one.number, name=one.name, weight=one.weight,
            capacity=one.capacity, token=one.token, asked=one.asked, granted=one.granted,
        )
        for one in draw(histories())
    ]  # fmt: skip


@settings(max_examples=600)
@given(grants())
def test_whatever_became_of_a_holder_nobody_is_accused_falsely(found):
    """The quick judge says of less that it is wrong, if grants are without proof, never of more."""
    if violations(found):
        assert not is_possible(steps(found))


@settings(max_examples=300)
@given(grants())
def test_tokens_are_compared_by_the_order_of_grants(found):
    """The pass over the sorted grants finds what a comparison of all pairs finds."""
    exclusive = [one for one in found if one.is_exclusive and one.token is not None]
    wrong = {
        later
        for later in exclusive
        for one in exclusive
        if one is not later
        and (
            (one.token >= later.token and _is_before(one, later))
            or (one.token == later.token and one.granted < later.granted)
        )
    }

    accused = {one.holds[1] for one in violations(found) if one.kind == "token"}

    assert accused == wrong


def _is_before(one: AnsweredGrant, other: AnsweredGrant) -> bool:
    if one.granted < other.asked:
        return True
    are_certain = isinstance(one, CertainHold) and isinstance(other, CertainHold)
    return are_certain and one.until < other.granted


@st.composite
def nested_histories(draw: st.DrawFn) -> list[CertainHold]:
    """Draw few clients that re-enter what they hold, and leave in any order."""
    history, capacity = ByHand(), draw(st.sampled_from([1, 1, 2]))
    moments = st.integers(0, 40).map(float)
    for number in range(draw(st.integers(1, 3))):
        client, tick = str(number), number / 100
        times = sorted(draw(st.lists(moments, min_size=4, max_size=8)))
        asked, granted, *rest = (each + tick for each in times)
        outer = history.acquire(client, asked, granted, capacity=capacity)
        holds = [outer]
        for start, end in zip(rest[::2], rest[1::2], strict=False):
            within = draw(st.sampled_from(holds))
            match draw(st.sampled_from(["enter", "check", "release", "silence"])):
                case "enter":
                    more = {"capacity": capacity, "within": within}
                    holds.append(history.acquire(client, start, end, **more))
                case "check":
                    history.check(client, within, start)
                case "release" if within != outer:
                    history.release(client, within, start, end)
                    holds.remove(within)
        if draw(st.booleans()):
            history.release(client, outer, 41.0 + tick, 42.0 + tick)
    return definite_holds(operations(history.events))


@settings(max_examples=600)
@given(nested_histories())
def test_both_judges_agree_on_holds_that_are_entered_again(holds):
    assert bool(violations(holds)) == (not is_possible(settled(steps(holds))))
    assert bool(violations(holds)) == (not is_possible(steps(holds)))


def a_long_history(pairs: int, clients: int) -> list[CertainHold]:
    """Return a possible history of a lock, with overlapping requests and some missing releases."""
    draw = random.Random(7)  # noqa: S311 - the same each time
    now, found = 0.0, []
    for number in range(pairs):
        granted = now + draw.random()
        until = granted + draw.random()
        is_answered = draw.random() > 0.02
        found.append(
            CertainHold(
                client=str(number % clients), number=number, name="door", weight=1, capacity=1,
                token=number, asked=max(0.0, granted - draw.random() * clients / 2),
                granted=granted, until=until,
                released=until + draw.random() if is_answered else None,
            )
        )  # fmt: skip
        now = until + 0.001
    return found


def test_a_long_history_is_judged_alike():
    good = a_long_history(1000, 20)
    bad = [*good, hold("x", 500.0, 510.0, token=10**9)]

    assert not violations(good)
    assert is_possible(steps(good)) is True
    assert violations(bad)
    assert is_possible(settled(steps(bad))) is False


def test_the_search_gives_up_rather_than_never_end():
    holds = [hold(str(n), 1.0, 2.0, asked=0.0, capacity=99, released=None) for n in range(40)]

    assert (
        is_possible(steps([*holds, hold("x", 3.0, 4.0, weight=100, capacity=99)]), most=500) is None
    )


# -- the smallest part ---------------------------------------------------------------------------


def test_two_of_two_thousand_are_shown():
    holds = a_long_history(2000, 5)
    middle = holds[1000]
    wrong = hold("x", middle.granted, middle.until)
    tried = []

    def is_wrong(part: object) -> bool:
        tried.append(part)
        return bool(violations(part))  # type: ignore[arg-type]

    found = smallest([*holds[:1001], wrong, *holds[1001:]], is_wrong)

    assert found == [middle, wrong]
    assert len(tried) < 100


@given(st.sets(st.integers(0, 50), min_size=1, max_size=4), st.integers(51, 200))
def test_none_of_what_is_left_can_be_spared(needed, number):
    found = smallest(range(number), lambda part: needed <= set(part))

    assert found == sorted(needed)
