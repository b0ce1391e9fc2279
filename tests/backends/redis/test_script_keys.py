"""What the scripts leave in a name's keys: tokens, expiry times, and what survives damage."""

from __future__ import annotations

import pytest
from backends.redis.scripted import NAME, Scripted, claim

from lockfast.backends.redis import requests
from lockfast.model import Grant, Renewal


def test_tokens_grow_when_the_clock_is_put_back(scripted: Scripted) -> None:
    """After the clock goes back an hour, the next token is still one larger than the last."""
    scripted.now += 3600
    first = scripted.arrive(claim(1))
    scripted.release(claim(1), tombstone=False)
    scripted.now -= 3600

    second = scripted.arrive(claim(2))

    assert second.token == first.token + 1


def test_a_name_is_remembered_a_day_beyond_its_last_token(scripted: Scripted) -> None:
    """The day counts from the last token: a clock that jumped ahead must not make tokens repeat."""
    scripted.now += 3600
    scripted.arrive(claim(1))
    scripted.release(claim(1), tombstone=False)
    scripted.now -= 3600
    scripted.arrive(claim(2))
    scripted.release(claim(2), tombstone=False)

    vanishes_at = scripted.ask("PEXPIRETIME", scripted.keys.door(NAME)) / 1000

    assert vanishes_at >= scripted.now + 3600 + 24 * 3600
    assert vanishes_at <= scripted.now + 3600 + 26 * 3600


def test_a_name_is_remembered_while_it_is_held_and_renewed(scripted: Scripted) -> None:
    """A name must not expire while a lease is renewed for a week with its first token."""
    holder, waiter = claim(1, ttl=600.0), claim(2)
    scripted.arrive(holder)
    scripted.arrive(waiter)

    for _ in range(7 * 24 * 8):
        scripted.now += 3600 / 8
        assert scripted.renew(holder) is Renewal.RENEWED

    for what in ("door", "ends", "line"):
        assert scripted.ask("PEXPIRETIME", scripted.key(what)) / 1000 > scripted.now + 24 * 3600


def test_every_key_of_a_name_vanishes_by_itself(scripted: Scripted) -> None:
    """All keys of a name have an expiry time, including those that dead clients left behind."""
    scripted.arrive(claim(1, party="saga"))
    scripted.arrive(claim(2))
    scripted.arrive(claim(3, party="other"))
    scripted.withdraw(claim(4), tombstone=True)

    lives = {what: scripted.ask("PEXPIRETIME", scripted.key(what)) for what in requests.DOOR_KEYS}

    assert all(moment > 0 for moment in lives.values()), lives


@pytest.mark.parametrize("verb", ["release", "break_", "expire"])
def test_times_beyond_all_counting_leave_no_key_without_an_end(
    verb: str, scripted: Scripted
) -> None:
    """Absurdly long times, which our clients never send, must not make a script stop halfway."""
    holder = claim(1, client="holder", ttl=1.0, lock_delay=1e16, min_hold=1e16)
    scripted.arrive(holder)
    scripted.arrive(claim(2))

    if verb == "release":
        assert scripted.release(holder, tombstone=True)
    elif verb == "break_":
        scripted.break_()
    scripted.now += 2
    scripted.arrive(claim(2))

    there = [what for what in requests.DOOR_KEYS if scripted.ask("EXISTS", scripted.key(what))]
    assert {"door", "ends", "line"} <= set(there)
    assert all(scripted.ask("PEXPIRETIME", scripted.key(what)) > 0 for what in there)


def test_a_clock_put_back_does_not_keep_a_dead_holder_for_ever(scripted: Scripted) -> None:
    """After the clock goes back an hour, a dead holder's name is free after its ttl."""
    scripted.arrive(claim(1, ttl=90.0))
    scripted.now -= 3600
    scripted.arrive(claim(2))
    scripted.now += 90

    assert isinstance(scripted.arrive(claim(2)), Grant)


@pytest.mark.parametrize("evicted", requests.DOOR_KEYS)
def test_a_name_survives_the_eviction_of_any_of_its_keys(evicted: str, scripted: Scripted) -> None:
    """An evicted key may lose a lock, but never blocks its name."""
    scripted.arrive(claim(0, party="saga"))
    scripted.arrive(claim(1, party="saga"))
    for n in (2, 3):
        scripted.arrive(claim(n, client=f"client{n}"))
    scripted.withdraw(claim(4), tombstone=True)
    scripted.ask("DEL", scripted.key(evicted))

    for _ in range(3):
        for n in range(4):
            scripted.arrive(claim(n, client=f"client{n}"))
            scripted.renew(claim(n))
            scripted.beat(f"client{n}")
            scripted.release(claim(n), tombstone=n == 2)
        scripted.inspect()
        scripted.now += 61
    for n in range(4):
        scripted.withdraw(claim(n), tombstone=False)

    assert isinstance(scripted.arrive(claim(9)), Grant)


@pytest.mark.parametrize("is_withdrawn", [False, True])
def test_an_owner_comes_in_anew_where_the_door_was_evicted_alone(
    scripted: Scripted, *, is_withdrawn: bool
) -> None:
    """Other keys still list the owner's claim, but without the door the claim is not inside."""
    scripted.arrive(claim(0, party="saga"))
    scripted.ask("DEL", scripted.key("door"))
    if is_withdrawn:
        scripted.withdraw(claim(1), tombstone=True)  # the withdrawal creates a new door

    assert isinstance(scripted.arrive(claim(2, party="saga")), Grant)


def test_a_newer_format_is_refused(scripted: Scripted) -> None:
    """A door written by a newer Lockfast is left alone."""
    scripted.arrive(claim(0))
    scripted.ask("HSET", scripted.keys.door(NAME), "format", 2)

    with pytest.raises(AssertionError, match="LOCKFAST_FORMAT 2"):
        scripted.arrive(claim(1))
