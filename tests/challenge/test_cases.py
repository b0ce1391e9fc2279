"""Short histories, and what the checker says of each, in a table that a person can dispute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from challenge.by_hand import ByHand

from lockfast.model import ALL
from lockfast_challenge.checker.judge import judge
from lockfast_challenge.outcome import ClockMove, Exemption, Strike

LOSES = Exemption("failover", "overlap", "a failover loses the last writes")
EMPTIED = Exemption("server-emptied", "overlap", "a server without its data forgets locks")
AHEAD = Exemption("clock-jump", "overlap", "a jump ahead ends leases early", clock="ahead")
BEHIND = Exemption("server-emptied", "token", "tokens can go back", clock="back")
FAILOVER: dict[str, Any] = {"strikes": [Strike("failover", "m", 1.0, 1.9)], "exemptions": [LOSES]}


def jump(seconds: float, began: float, ended: float) -> Strike:
    """Return a jump of the server's clock, which is put right at the end."""
    moves = ClockMove(began, began + 0.01, seconds), ClockMove(ended - 0.01, ended, -seconds)
    return Strike("clock-jump", "the server's clock", began, ended, clock_moves=moves)


def jumped(seconds: float, began: float, ended: float, *, emptied: float = 0.0) -> dict[str, Any]:
    strikes = [jump(seconds, began, ended)]
    if emptied:
        strikes.append(Strike("server-emptied", "the server", emptied, emptied + 0.2))
    return {"strikes": strikes, "exemptions": [EMPTIED, AHEAD, BEHIND]}


# -- overlaps ------------------------------------------------------------------------------------


def overlap_by_1_ms(h: ByHand) -> None:
    a = h.acquire("a", 0, 0.01)
    h.check("a", a, 1.001)
    b = h.acquire("b", 0.9, 1.0)
    h.check("b", b, 1.0005)
    h.release("b", b, 1.2, 1.21)


def touch_at_the_same_instant(h: ByHand) -> None:
    h.held("a", 0.0, 1.0)
    h.held("b", 1.0, 2.0)


def overlap_seen_by_a_check_where_the_release_is_refused(h: ByHand) -> None:
    a = h.acquire("a", 0, 0.01)
    h.check("a", a, 0.5)
    h.release("a", a, 0.6, 0.7, "fail")
    b = h.acquire("b", 0.4, 0.45)
    h.check("b", b, 0.46)


def writer_beside_reader(h: ByHand) -> None:
    a = h.acquire("a", 0, 0.01, weight=1, capacity=ALL)
    h.check("a", a, 1.0)
    b = h.acquire("b", 0.4, 0.5, weight=ALL, capacity=ALL)
    h.check("b", b, 0.7)


def semaphore_of_two_with_three_inside(h: ByHand) -> None:
    for client in "abc":
        hold = h.acquire(client, 0, 0.01, weight=1, capacity=2)
        h.check(client, hold, 1.0)


def unknown_acquire_then_another(h: ByHand) -> None:
    h.acquire("a", 0, 0.5, "unknown")
    h.held("b", 1, 2)


def release_never_answered_next_comes_in(h: ByHand) -> None:
    a = h.acquire("a", 0, 0.01)
    h.release("a", a, 0.5, None)
    h.held("b", 0.6, 1)


def overlap_of_what_was_granted_after_a_failover(h: ByHand) -> dict[str, Any]:
    """It was requested under the failover, but the reply came too long after it."""
    a = h.acquire("a", 1.8, 2.4)
    h.check("a", a, 2.8)
    h.held("b", 2.5, 2.7)
    return FAILOVER


def overlap_where_the_reply_was_held_back(h: ByHand) -> dict[str, Any]:
    """The first was granted under the failover and lost in it, and then its client was struck."""
    held = Strike("asker-replies-held", "client a", 1.85, 2.35, name="door")
    a = h.acquire("a", 1.8, 2.4)
    h.check("a", a, 2.8)
    h.held("b", 2.3, 2.7)
    return FAILOVER | {"strikes": [*FAILOVER["strikes"], held]}


# -- tokens ------------------------------------------------------------------------------------


def token_equal(h: ByHand) -> None:
    h.held("a", 0, 1, token=5)
    h.held("b", 2, 3, token=5)


def token_smaller(h: ByHand) -> None:
    h.held("a", 0, 1, token=5)
    h.held("b", 2, 3, token=4)


def token_smaller_after_a_holder_died_before_its_first_check(h: ByHand) -> None:
    h.acquire("a", 0, 0.01, token=5)
    h.held("b", 2, 3, token=4)


def token_of_a_request_that_was_under_way_before_a_holder_died(h: ByHand) -> None:
    """The second may have been granted first: its reply came late, or its holder lost it."""
    h.acquire("a", 0, 0.01, token=5)
    h.acquire("b", 0.005, 3, token=4)


def same_token_for_two_who_overlap(h: ByHand) -> None:
    a = h.acquire("a", 0, 0.01, token=5)
    h.check("a", a, 0.02)
    h.check("a", a, 4.0)
    b = h.acquire("b", 2, 2.1, token=5)
    h.check("b", b, 2.5)


def same_token_where_only_the_overlap_is_documented(h: ByHand) -> dict[str, Any]:
    a = h.acquire("a", 0, 0.01, token=5)
    h.check("a", a, 0.02)
    h.check("a", a, 2.4)
    b = h.acquire("b", 2, 2.1, token=5)
    h.check("b", b, 2.3)
    return FAILOVER


def token_back_after_a_failover_that_may_lose_locks_only(h: ByHand) -> dict[str, Any]:
    h.held("a", 0.5, 1.5, token=9)
    h.held("b", 3, 4, token=4)
    return FAILOVER


def tokens_that_are_right_if_the_failover_let_two_in(h: ByHand) -> dict[str, Any]:
    """The second came in first, lost its hold in the failover, and got its reply late."""
    a = h.acquire("a", 0.5, 1.95, token=9)
    h.release("a", a, 2.0, 2.1)
    b = h.acquire("b", 0.4, 2.05, token=4)
    h.check("b", b, 2.3)
    return FAILOVER


def the_same_without_a_failover(h: ByHand) -> dict[str, Any]:
    tokens_that_are_right_if_the_failover_let_two_in(h)
    return {"exemptions": [LOSES]}


# -- the clock of the server -----------------------------------------------------------------------


def two_inside(h: ByHand, at: float) -> None:
    """Make the first hold from 0.01 on overlap a second one, which is granted at `at`."""
    a = h.acquire("a", 0, 0.01)
    h.check("a", a, 0.02)
    h.check("a", a, at + 0.3)
    b = h.acquire("b", at - 0.1, at)
    h.check("b", b, at + 0.2)


def overlap_when_the_clock_jumps_ahead(h: ByHand) -> dict[str, Any]:
    two_inside(h, 0.6)
    return jumped(4.0, 0.1, 2.5)


def overlap_a_ttl_after_the_clock_jumped_ahead(h: ByHand) -> dict[str, Any]:
    """No lease from before the jump is trusted for so long."""
    two_inside(h, 1.3)
    return jumped(4.0, 0.1, 2.5)


def overlap_of_what_was_granted_after_the_clock_jumped_ahead(h: ByHand) -> dict[str, Any]:
    two_inside(h, 0.6)
    return jumped(4.0, -2.0, 2.5)


def overlap_while_the_clock_is_back(h: ByHand) -> dict[str, Any]:
    two_inside(h, 0.4)
    return jumped(-4.0, 0.1, 0.55)


def overlap_when_a_clock_that_was_back_is_put_right(h: ByHand) -> dict[str, Any]:
    """To be put right, the clock jumps ahead: what was granted or renewed meanwhile ends early."""
    two_inside(h, 0.6)
    return jumped(-4.0, 0.1, 0.55)


def overlap_when_a_clock_that_was_ahead_is_put_right(h: ByHand) -> dict[str, Any]:
    two_inside(h, 0.6)
    return jumped(4.0, -1.5, 0.5)


def token_back_19_s_after_a_jump(h: ByHand) -> dict[str, Any]:
    h.held("a", 0, 0.5, token=9)
    h.held("b", 20, 20.5, token=4)
    return jumped(-4.0, 0.4, 0.7)


def token_back_after_a_jump_ahead_that_lost_nothing(h: ByHand) -> dict[str, Any]:
    h.held("a", 0.5, 0.9, token=9)
    h.held("b", 1.5, 2.5, token=4)
    return jumped(4.0, 0.1, 1.0)


def token_back_after_a_loss_without_a_jump(h: ByHand) -> dict[str, Any]:
    h.held("a", 0.5, 0.9, token=9)
    h.held("b", 2.5, 3.5, token=4)
    return {
        "strikes": [Strike("server-emptied", "the server", 2.0, 2.2)],
        "exemptions": [EMPTIED, BEHIND],
    }


def token_back_after_a_loss_while_the_clock_catches_up(h: ByHand) -> dict[str, Any]:
    h.held("a", 0.5, 0.9, token=9)
    h.held("b", 4.9, 5.5, token=4)
    return jumped(4.0, 0.1, 1.0, emptied=2.0)


def token_still_back_when_the_clock_has_caught_up(h: ByHand) -> dict[str, Any]:
    h.held("a", 0.5, 0.9, token=9)
    h.held("b", 5.1, 6.1, token=4)
    return jumped(4.0, 0.1, 1.0, emptied=2.0)


def token_back_for_good(h: ByHand) -> dict[str, Any]:
    """After a loss, a plain counter stays behind for any time."""
    h.held("a", 0.5, 0.9, token=99)
    for number in range(6):
        h.held("b", 3.0 + number, 3.5 + number, token=1 + number)
    return jumped(4.0, 0.1, 1.0, emptied=2.0)


def token_from_before_the_jump(h: ByHand) -> dict[str, Any]:
    """The clock was right when the first token was given, so it is no reason."""
    h.held("a", 0.5, 0.9, token=9)
    h.held("b", 4.9, 5.5, token=4)
    return jumped(4.0, 1.5, 1.9, emptied=2.0)


def tokens_from_after_the_loss(h: ByHand) -> dict[str, Any]:
    h.held("a", 2.5, 2.9, token=9)
    h.held("b", 4.5, 4.9, token=4)
    return jumped(4.0, 0.1, 1.0, emptied=2.0)


def token_back_while_the_clock_is_still_ahead(h: ByHand) -> dict[str, Any]:
    h.held("a", 0.5, 0.9, token=9)
    h.held("b", 3.0, 3.5, token=4)
    return jumped(4.0, 0.1, 5.0, emptied=2.0)


def token_back_before_the_end_of_a_jump_is_known(h: ByHand) -> dict[str, Any]:
    token_back_while_the_clock_is_still_ahead(h)
    more = jumped(4.0, 0.1, 5.0, emptied=2.0)
    ahead, emptied = more["strikes"]
    under_way = replace(ahead, ended=inf, clock_moves=ahead.clock_moves[:1])
    return more | {"strikes": [under_way, emptied]}


# -- deadlines and stalls --------------------------------------------------------------------------


def told_late_by_100_ms(h: ByHand) -> None:
    a = h.acquire("a", 0, 0.01)
    h.check("a", a, 0.5, deadline=0.4)


def told_at_the_deadline(h: ByHand) -> None:
    a = h.acquire("a", 0, 0.01)
    h.check("a", a, 0.5, deadline=0.5)


def the_lock_of_a_dead_holder_never_ends(h: ByHand) -> dict[str, Any]:
    a = h.acquire("a", 0, 0.01)
    h.check("a", a, 0.02)
    h.acquire("b", 0.1, 9.9, "fail")
    return {"quiets": [(0.05, 10.0)]}


def a_hiccup_excuses_a_longer_wait(h: ByHand) -> dict[str, Any]:
    a = h.acquire("a", 0, 0.01)
    h.check("a", a, 0.02)
    b = h.acquire("b", 0.1, 4.0)
    h.check("b", b, 4.1)
    return {"quiets": [(0.05, 4.2)], "hiccups": [(1.0, 0.2)]}


def two_leases_in_a_row_are_lost(h: ByHand) -> dict[str, Any]:
    for at in (0.0, 3.0):
        a = h.acquire("a", at, at + 0.01)
        h.check("a", a, at + 1.2, "fail")
        h.release("a", a, at + 1.3, at + 1.31, "fail")
    return {"quiets": [(-1.0, 10.0)], "is_renewed": True}


CASES = [
    (overlap_by_1_ms, ["overlap"]),
    (touch_at_the_same_instant, []),
    (overlap_seen_by_a_check_where_the_release_is_refused, ["overlap"]),
    (writer_beside_reader, ["overlap"]),
    (semaphore_of_two_with_three_inside, ["overlap"]),
    (unknown_acquire_then_another, []),
    (release_never_answered_next_comes_in, []),
    (overlap_of_what_was_granted_after_a_failover, ["overlap"]),
    (overlap_where_the_reply_was_held_back, ["overlap(doc)"]),
    (token_equal, ["token"]),
    (token_smaller, ["token"]),
    (token_smaller_after_a_holder_died_before_its_first_check, ["token"]),
    (token_of_a_request_that_was_under_way_before_a_holder_died, []),
    (same_token_for_two_who_overlap, ["overlap", "token"]),
    (same_token_where_only_the_overlap_is_documented, ["overlap(doc)", "token"]),
    (token_back_after_a_failover_that_may_lose_locks_only, ["token"]),
    (tokens_that_are_right_if_the_failover_let_two_in, ["token(doc)"]),
    (the_same_without_a_failover, ["token"]),
    (overlap_when_the_clock_jumps_ahead, ["overlap(doc)"]),
    (overlap_a_ttl_after_the_clock_jumped_ahead, ["overlap"]),
    (overlap_of_what_was_granted_after_the_clock_jumped_ahead, ["overlap"]),
    (overlap_while_the_clock_is_back, ["overlap"]),
    (overlap_when_a_clock_that_was_back_is_put_right, ["overlap(doc)"]),
    (overlap_when_a_clock_that_was_ahead_is_put_right, ["overlap"]),
    (token_back_19_s_after_a_jump, ["token"]),
    (token_back_after_a_jump_ahead_that_lost_nothing, ["token"]),
    (token_back_after_a_loss_without_a_jump, ["token"]),
    (token_back_after_a_loss_while_the_clock_catches_up, ["token(doc)"]),
    (token_still_back_when_the_clock_has_caught_up, ["token"]),
    (token_back_for_good, ["token"] * 3 + ["token(doc)"] * 3),
    (token_from_before_the_jump, ["token"]),
    (tokens_from_after_the_loss, ["token"]),
    (token_back_while_the_clock_is_still_ahead, ["token"]),
    (token_back_before_the_end_of_a_jump_is_known, ["token"]),
    (told_late_by_100_ms, ["told late"]),
    (told_at_the_deadline, []),
    (the_lock_of_a_dead_holder_never_ends, ["stall"]),
    (a_hiccup_excuses_a_longer_wait, []),
    (two_leases_in_a_row_are_lost, []),
]
"""Each history with the kinds of its findings; "(doc)" marks those that a page allows for."""


@pytest.mark.parametrize(("write", "expected"), CASES, ids=[one.__name__ for one, _ in CASES])
def test_a_case_is_judged_as_a_person_would(
    write: Callable[[ByHand], dict[str, Any] | None], expected: list[str]
):
    history = ByHand()
    more = write(history) or {}

    found = judge(history.recorded(**more))

    assert sorted(one.kind + "(doc)" * one.is_documented for one in found) == expected
