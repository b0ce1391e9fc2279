"""What an item contains, and what is refused because memcached could not keep it."""

from __future__ import annotations

import re
import time

import pytest
from backends.memcached.claims import claim_to

from lockfast import ConfigurationError, TokenUnavailable
from lockfast.backends.memcached.records import (
    ItemRecord,
    ItemState,
    record_of,
    seconds_for,
    unheld,
)
from lockfast.options import LONGEST_TTL
from lockfast.urls import STORES, backend_class

THIRTY_DAYS = 30 * 86_400


@pytest.mark.parametrize(("ttl", "asked"), [(0.05, 2), (1.0, 2), (1.01, 3), (30.0, 31)])
def test_the_server_is_asked_for_a_second_more(ttl, asked):
    """The server counts whole seconds, and may end an item up to one second early."""
    assert seconds_for(ttl) == asked


def test_an_item_never_ends_before_its_ttl(backend):
    """Ten items begin at different moments of the server's second; each is watched for its ttl."""
    one = backend()
    ends: dict[str, float] = {}
    for number in range(10):
        claim = claim_to(f"door-{number}", ttl=1.0)
        asked_at = time.monotonic()
        one.call("try_acquire", claim)
        ends[claim.name] = asked_at + 1.0
        while time.monotonic() < asked_at + 0.1:
            look(one, ends)
    while ends:
        look(one, ends)


def look(backend, ends):
    """Check that every item is there until its time is over, which may happen while we look."""
    for name in list(ends):
        if not backend.call("inspect", name).holders:
            assert time.monotonic() >= ends[name]
        if time.monotonic() >= ends[name]:
            del ends[name]


@pytest.mark.parametrize("option", ["ttl", "min_hold"])
def test_more_than_thirty_days_are_refused(flavour, server, option):
    """The server takes a longer time for a date in 1970, and would end the item at once."""
    locks = flavour.locks(server.url)

    with pytest.raises(ConfigurationError, match=rf"{option}=2592000"):
        locks.lock("door", **{option: THIRTY_DAYS})


def test_the_longest_ttl_is_no_date_to_the_server(flavour, server, namespace):
    lock = flavour.locks(server.url, namespace=namespace).lock("door", ttl=LONGEST_TTL)

    lock.acquire()

    [answer] = server.say(f"mg {namespace}=door t\r\n".encode())
    assert LONGEST_TTL - 60 < int(answer.split()[1][1:]) <= LONGEST_TTL + 1


def test_a_record_reads_as_it_was_written():
    claim = claim_to('a\n"name"', label="who", ttl=1.5)
    record = unheld(claim.name).held_by(claim, token=7)

    assert record_of(record.to_bytes(), key=b"k") == record
    assert record.is_of(claim)
    assert not record.freed().is_of(claim)
    assert record_of(record.freed(broken=claim.id).to_bytes(), key=b"k").broken == claim.id
    assert record_of(unheld("x").to_bytes(), key=b"k") == ItemRecord(ItemState.FREE, "x")


@pytest.mark.parametrize(
    ("value", "words"),
    [(b"hello", "not of Lockfast"), (b"", "not of Lockfast"), (b"2 later", "Upgrade")],
)
def test_an_item_of_another_is_refused_and_left_alone(flavour, server, namespace, value, words):
    """An item of another program is refused with an error that names its key, and is unchanged."""
    key = f"{namespace}=door".encode()
    server.say(b"ms %b %d T0\r\n%b\r\n" % (key, len(value), value))

    with pytest.raises(ConfigurationError, match=words) as told:
        flavour.locks(server.url, namespace=namespace).lock("door").acquire(timeout=1)

    assert key.decode() in str(told.value)
    assert server.say(b"mg %b v\r\n" % key)[0].endswith(value + b"\r\n")


def outlives_a_process(scheme):
    """Return whether the store has tokens by which another process can be refused."""
    quality = backend_class(scheme, flavour="_sync").capabilities.token_quality
    return quality not in {"none", "process"}


def test_there_is_no_token_and_the_error_names_who_has_one(flavour, server):
    lease = flavour.locks(server.url).lock("door").acquire()

    with pytest.raises(TokenUnavailable) as told:
        _ = lease.token

    named = re.search(r"\((.*)\)", str(told.value))[1].split(", ")
    assert named == [one for one in STORES if outlives_a_process(one)]
    lease.release()


def test_unsafe_tokens_grow_while_the_item_is_there(flavour, server):
    """Unsafe tokens have to be enabled explicitly, because they come from this machine's clock."""
    locks = flavour.locks(f"{server.url}?unsafe_clock_tokens=true")
    tokens = []
    for _ in range(3):
        lease = locks.lock("door").acquire()
        tokens.append(lease.token)
        lease.release()

    assert tokens == sorted(set(tokens))
    assert tokens[0] > 10**15
    assert locks.inspect("door").last_token == tokens[-1]


def test_the_age_of_a_hold_is_told_without_any_clock_of_the_server(backend):
    """The age comes from the holder's own count and from how long the server will keep the item."""
    holder, other = backend(), backend()
    grant = holder.call("try_acquire", claim_to("door"))
    began = time.monotonic()
    while time.monotonic() < began + 1.2:
        holder.call("renew", [grant])

    [seen] = other.call("inspect", "door").holders

    assert 1.0 <= seen.age <= time.monotonic() - began + 1.0
    assert seen.remaining <= grant.ttl
