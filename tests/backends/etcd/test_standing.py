"""Keys, records and the line that they form, computed without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.backends.etcd import keys as etcd_keys
from lockfast.backends.etcd.keys import EtcdKeys, key_parts_of, twin
from lockfast.backends.etcd.line import EtcdLine, Orphans, in_line
from lockfast.backends.etcd.replies import Header, KeyValue
from lockfast.backends.sessions.records import SessionClaim, UnreadableRecord
from lockfast.model import ALL, Claim, Owner

KEYS = EtcdKeys(b"shop/lockfast/")
LEASE = 0x123456789


def claim(number: int, *, weight: int = 1, capacity: int = 1, **fields: Any) -> Claim:
    owner = Owner(host="h", pid=number).to_text()
    values = {"client": "c", "owner": owner, "ttl": 10.0, "weight": weight, "capacity": capacity}
    return Claim(id=f"{number:032x}", name="door", **{**values, **fields})


def stored(one: Claim, *, revision: int, hold: int = 0, is_there: bool = True) -> list[KeyValue]:
    """Return the keys of a claim created at `revision`, and of its hold if `hold` is given."""
    names = KEYS.of(one.name)
    record = etcd_keys.of_claim(one, at=1.0)
    held = etcd_keys.of_hold(record, ttl=one.ttl, lock_delay=one.lock_delay)
    found = [KeyValue(names.claim(one, LEASE), revision, revision, 1, record, LEASE)]
    kept = found if is_there else []
    return [*kept, *([KeyValue(names.hold(one, LEASE), hold, hold, 1, held)] if hold else [])]


def entered(one: Claim, *, token: int) -> SessionClaim:
    """Return the claim as its session keeps it, with the entry that the store reported."""
    own = SessionClaim(one)
    own.record_entry(KEYS.of(one.name).claim(one, LEASE).decode(), token=token)
    return own


NAMES = st.text(min_size=1).filter(lambda text: not any(0xD800 <= ord(c) < 0xE000 for c in text))


@given(NAMES, NAMES)
def test_no_name_stands_among_the_keys_of_another(one, other):
    first, second = KEYS.of(one), KEYS.of(other)

    assert KEYS.name_in(first.claim(claim(1), LEASE)) == one
    assert (first.prefix == second.prefix) == (one == other)
    if one != other:
        assert not first.all.begin <= second.claim(claim(1), LEASE) < first.all.end


@given(st.integers(1, ALL), st.integers(1, ALL), st.integers(0, 2**63 - 1))
def test_a_key_says_whose_it_is(capacity, weight, lease):
    one = claim(7, capacity=capacity, weight=weight)
    key = KEYS.of("door").claim(one, lease)

    place = key_parts_of(key.removeprefix(KEYS.of("door").prefix).decode())

    assert place == (capacity, "c", one.id, lease, weight)
    assert twin(key) == KEYS.of("door").hold(one, lease)
    assert twin(twin(key)) == key


@given(st.integers(1, ALL), st.integers(1, ALL))
def test_claims_of_another_capacity_stand_on_either_side(ours, theirs):
    key = KEYS.of("door").claim(claim(1, capacity=theirs), LEASE)

    beside = [begin <= key < end for begin, end in KEYS.of("door").other_capacities(ours)]

    assert beside == [theirs < ours, theirs > ours]


def test_holders_come_first_and_then_those_who_wait_in_their_order():
    keys = KEYS.of("door")
    found = [
        *stored(claim(1), revision=5),
        *stored(claim(2), revision=6, hold=9),
        *stored(claim(3), revision=7),
    ]

    line = in_line(sorted(found, key=lambda one: one.created), keys)

    assert [one.token for one in line] == [6, 5, 7]
    assert EtcdLine(line, keys=keys, revision=9).inside == 1


def test_a_hold_without_its_claim_keeps_the_name_closed_for_a_ttl_from_its_first_sight():
    keys, orphans = KEYS.of("door"), Orphans()
    left = stored(claim(1, lock_delay=2.0), revision=5, hold=6, is_there=False)
    waiting = stored(claim(2), revision=7)

    def seen(now: float):
        line = in_line([*left, *waiting], keys)
        return line, orphans.look(line, now=now)

    line, overdue = seen(100.0)
    told = EtcdLine(line, keys=keys, revision=9, own=entered(claim(2), token=line[1].token))

    assert overdue == []
    assert not told.is_admitted
    assert told.retry_in == pytest.approx(10.0 * 1.01 + 2.0)
    assert json.loads(line[0].seen().data)["closed_for"] == pytest.approx(12.1)
    assert seen(112.0)[1] == []
    assert [one.name for one in seen(112.2)[1]] == [line[0].name]


def test_a_hold_that_was_written_anew_begins_its_time_anew():
    """A hold that was written again, for example by an operator's break, counts as a new hold."""
    orphans, keys = Orphans(), KEYS.of("door")
    [hold] = stored(claim(1), revision=5, hold=6, is_there=False)
    orphans.look(in_line([hold], keys), now=0.0)
    broken = hold._replace(modified=8, value=etcd_keys.closed(hold.value, seconds=3.0))

    [one] = in_line([broken], keys)

    assert orphans.look([one], now=100.0) == []
    assert one.left == 3.0


def test_a_hold_that_was_put_under_a_lease_goes_on_with_its_time():
    """The first client that sees a left hold puts it under a lease; the hold's time goes on."""
    orphans, keys = Orphans(), KEYS.of("door")
    [hold] = stored(claim(1), revision=5, hold=6, is_there=False)
    orphans.look(in_line([hold], keys), now=0.0)

    [one] = in_line([hold._replace(modified=8, lease=7)], keys)

    assert orphans.look([one], now=10.0) == []
    assert one.left == pytest.approx(0.1)
    assert orphans.look([one], now=10.2) == [one]


def test_a_hold_that_will_go_by_itself_does_not_admit_its_claim():
    """A hold under a lease would expire before its claim ends, so the hold has to be put again."""
    keys = KEYS.of("door")
    one, hold = stored(claim(1), revision=5, hold=6)

    lines = [
        EtcdLine(line, keys=keys, revision=9, own=entered(claim(1), token=5))
        for line in (in_line(found, keys) for found in ([one, hold], [one, hold._replace(lease=7)]))
    ]

    assert [line.is_admitted for line in lines] == [True, True]
    assert [line.held_at for line in lines] == [6, None]


def test_a_key_that_was_made_again_is_not_the_place_of_our_claim():
    """The new key's creation revision is not our token: others may have held the name meanwhile."""
    keys = KEYS.of("door")
    line = in_line(stored(claim(1), revision=8, hold=9), keys)

    told = EtcdLine(line, keys=keys, revision=9, own=entered(claim(1), token=5))

    assert told.number is None
    assert not told.is_admitted
    assert told.held_at is None


@pytest.mark.parametrize("changed", ["cluster", "member", "term"])
def test_an_answer_confirms_only_what_its_own_leader_knew(changed):
    """A read confirms an earlier keep-alive only if both came from one member in one term."""
    kept = Header(cluster=1, member=2, revision=3, term=4)

    assert kept._replace(revision=9).confirms(kept)
    assert not kept._replace(**{changed: 9}).confirms(kept)


@pytest.mark.parametrize(
    ("tail", "value", "words"),
    [
        (b"notes", b"theirs", "another program"),
        (b"00000001/x/1-1-1", b"theirs", "another program"),
        (b"00000001/c/1-1-1", b"theirs", "another program"),
        (b"00000001/c/1-1-1", b'{"format": 2, "capacity": 1}', "newer Lockfast"),
    ],
)
def test_what_is_not_ours_is_refused_by_name(tail, value, words):
    keys = KEYS.of("door")

    with pytest.raises(UnreadableRecord, match=words):
        in_line([KeyValue(keys.prefix + tail, 1, 1, 1, value)], keys)
