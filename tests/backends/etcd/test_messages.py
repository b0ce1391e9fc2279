"""Packed messages can be read back, nonsense is refused, and a real server agrees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.backends.etcd import protobuf, replies, requests
from lockfast.backends.etcd.http2.grpc import GrpcError
from lockfast.backends.etcd.protobuf import (
    UnreadableMessage,
    bytes_field,
    fields,
    message_field,
    number_field,
    signed,
)
from lockfast.backends.etcd.replies import KeyValue, read_reply
from lockfast.backends.etcd.requests import Is, Of
from lockfast_challenge.processes import eventually

INT64 = st.integers(-(2**63), 2**63 - 1)
FIELD = st.integers(1, 2**29 - 1)

ANSWERS = [
    kind for kind in vars(replies).values() if isinstance(kind, type) and kind in replies._FIELDS
]


@given(st.lists(st.tuples(FIELD, INT64 | st.binary(max_size=300))))
def test_what_is_packed_is_read_again(given):
    packed = b"".join(
        number_field(field, value) if isinstance(value, int) else message_field(field, value)
        for field, value in given
    )

    read = [
        (field, signed(value) if isinstance(value, int) else value)
        for field, value in fields(packed)
    ]

    assert read == [(field, value) for field, value in given if value or value == b""]


def test_numbers_are_packed_as_the_protocol_has_them():
    """In the protocol's own documentation, 150 is packed as 96 01."""
    assert number_field(1, 150) == bytes.fromhex("089601")
    assert bytes_field(2, b"testing") == bytes.fromhex("120774657374696e67")
    assert number_field(1, -1) == b"\x08" + b"\xff" * 9 + b"\x01"


@given(st.sampled_from(ANSWERS), st.binary(max_size=200))
def test_nonsense_is_refused_by_name_and_by_nothing_else(kind, data):
    try:
        read_reply(kind, data)
    except UnreadableMessage:
        return


@given(st.sampled_from(ANSWERS), st.lists(st.tuples(st.integers(100, 200), st.binary())))
def test_fields_of_a_newer_server_are_passed_over(kind, unknown):
    data = b"".join(message_field(field, value) for field, value in unknown)

    assert read_reply(kind, data) == kind()


@pytest.mark.parametrize("data", [b"\x08", b"\x0a\x05abc", b"\x0b", b"\x08" + b"\xff" * 11])
def test_a_message_that_was_cut_off_is_refused(data):
    with pytest.raises(UnreadableMessage):
        list(fields(data))


@given(st.binary(min_size=1))
def test_the_end_of_a_prefix_is_after_all_keys_with_it_and_before_the_others(prefix):
    end = requests.prefix_end(prefix)

    if end == requests.EVERYTHING_AFTER:
        assert set(prefix) == {0xFF}
    else:
        assert prefix + b"\xff" * 9 < end
        assert not end.startswith(prefix)


# -- a real server -------------------------------------------------------------------------


@pytest.fixture
def transport(wire_to, server):
    return wire_to(server.url)


def test_a_key_is_kept_found_and_deleted(transport, key):
    put = transport.ask(requests.put(key, b"value"))
    found = transport.ask(requests.range_(key))
    deleted = transport.ask(requests.delete(key, tell=True))

    revision = put.header.revision
    assert found.keys == (KeyValue(key, revision, revision, 1, b"value", 0),)
    assert deleted.deleted == 1
    assert deleted.keys == found.keys
    assert deleted.header.revision == revision + 1
    assert transport.ask(requests.range_(key)).keys == ()


def test_a_range_is_ordered_by_creation_and_limited(transport, key):
    """A name's line needs this order: the first to arrive comes first, whatever its key."""
    for name in (b"/c", b"/a", b"/b"):
        transport.ask(requests.put(key + name, b""))
    end = requests.prefix_end(key)

    found = transport.ask(requests.range_(key, end, limit=2, by_creation=True, keys_only=True))

    assert [one.key for one in found.keys] == [key + b"/c", key + b"/a"]
    assert found.more
    assert found.total == 3


def test_an_older_revision_and_a_read_of_this_member_alone(transport, key):
    revision = transport.ask(requests.put(key, b"1")).header.revision
    transport.ask(requests.put(key, b"2"))

    [older] = transport.ask(requests.range_(key, revision=revision)).keys
    [newer] = transport.ask(requests.range_(key, serializable=True)).keys

    assert (older.value, newer.value) == (b"1", b"2")
    assert newer.version == 2


@pytest.mark.parametrize(
    ("condition", "is_true"),
    [
        ((Of.CREATED, Is.EQUAL, 0), True),
        ((Of.CREATED, Is.GREATER, 0), False),
        ((Of.MODIFIED, Is.LESS, 1), True),
        ((Of.VERSION, Is.GREATER, 0), False),
    ],
)
def test_a_condition_on_a_key_that_is_not_there(transport, key, condition, is_true):
    """In a condition, all numbers of a missing key count as zero."""
    asked = requests.transaction([requests.compare(key, *condition)])

    assert transport.ask(asked).succeeded is is_true


def test_a_condition_on_a_range(transport, key):
    end = requests.prefix_end(key)
    nobody = requests.compare(key, Of.CREATED, Is.EQUAL, 0, end=end)
    assert transport.ask(requests.transaction([nobody])).succeeded

    transport.ask(requests.put(key + b"/x", b""))

    assert not transport.ask(requests.transaction([nobody])).succeeded


def test_a_transaction_inside_another(transport, key):
    inner = requests.transaction(
        [requests.compare(key, Of.CREATED, Is.GREATER, 0)],
        otherwise=[requests.put(key, b"made"), requests.range_(key)],
    )

    outer = transport.ask(requests.transaction([], [inner, requests.delete(key + b"/x")]))

    answered, deleted = outer.answers
    assert outer.succeeded
    assert not answered.succeeded
    assert [one.value for one in answered.answers[1].keys] == [b"made"]
    assert deleted.deleted == 0


def test_a_lease_from_its_grant_to_its_end(transport, key):
    granted = transport.ask(requests.grant(60))
    transport.ask(requests.put(key, b"", lease=granted.lease))

    kept = transport.ask(requests.keep_alive(granted.lease))
    left = transport.ask(requests.time_to_live(granted.lease, with_keys=True))
    transport.ask(requests.revoke(granted.lease))

    assert granted.ttl == kept.ttl == left.granted == 60
    assert 0 < left.ttl <= 60
    assert left.keys == (key,)
    assert transport.ask(requests.range_(key)).keys == ()


def test_a_lease_that_is_over(transport, key):
    lease = transport.ask(requests.grant(60, lease=int.from_bytes(key[-7:], "big"))).lease
    transport.ask(requests.revoke(lease))

    assert transport.ask(requests.keep_alive(lease)).ttl == 0
    assert transport.ask(requests.time_to_live(lease)).ttl == -1
    for asked in (requests.revoke(lease), requests.put(key, b"", lease=lease)):
        assert transport.ask(asked) == GrpcError(
            "NOT_FOUND", "etcdserver: requested lease not found"
        )


def test_what_members_say_of_themselves(transport, server):
    state, members = transport.ask(requests.state()), transport.ask(requests.members())

    assert state.version.startswith("3.")
    assert state.leader == state.header.member == server.id
    [member] = members.members
    assert (member.id, member.name) == (server.id, server.name)
    assert member.clients == (f"http://{server.address}",)
    assert transport.ask(requests.alarms()).alarms == ()


def test_a_term_and_a_cluster_are_told_with_every_answer(transport, server, key):
    headers = [
        transport.ask(one).header
        for one in (requests.range_(key), requests.put(key, b""), requests.grant(60))
    ]

    assert {(one.cluster, one.member, one.term) for one in headers} == {
        (headers[0].cluster, server.id, int(server.state()["raftTerm"]))
    }
    assert headers[0].cluster


# -- watching ------------------------------------------------------------------------------


def test_a_watch_tells_of_deletions_alone_and_from_the_revision_on(transport, key):
    revision = transport.ask(requests.put(key, b"")).header.revision
    transport.ask(requests.delete(key))
    watcher = transport.watch()

    watcher.send(requests.watch(7, key, since=revision, deletions=True))
    heard = watcher.until(lambda heard: any(one.changes for one in heard))

    [change] = [change for one in heard for change in one.changes]
    assert heard[0].is_created
    assert heard[0].watch == 7
    assert change.is_deletion
    assert (change.key.key, change.key.modified) == (key, revision + 1)
    watcher.close()


def test_a_watch_of_a_range_and_its_end(transport, key):
    watcher = transport.watch()
    watcher.send(requests.watch(1, key, requests.prefix_end(key), since=0, deletions=False))
    watcher.until(lambda heard: heard)
    transport.ask(requests.put(key + b"/x", b"value"))
    watcher.until(lambda heard: any(one.changes for one in heard))

    watcher.send(requests.unwatch(1))
    heard = watcher.until(lambda heard: heard[-1].is_canceled)

    [change] = [change for one in heard for change in one.changes]
    assert not change.is_deletion
    assert (change.key.key, change.key.value) == (key + b"/x", b"value")
    watcher.close()


def test_a_watch_from_a_revision_that_was_forgotten(transport, server, key):
    """The server reports from which revision on the key can be watched again."""
    old = transport.ask(requests.put(key, b"1")).header.revision
    new = transport.ask(requests.put(key, b"2")).header.revision
    server.ask("kv/compaction", revision=str(new))
    watcher = transport.watch()

    watcher.send(requests.watch(1, key, since=old, deletions=True))
    heard = watcher.until(lambda heard: heard and heard[-1].is_canceled)

    assert heard[-1].compacted == new
    assert heard[-1].reason == ""
    watcher.close()


def test_a_number_that_is_watched_under_already(transport, key):
    watcher = transport.watch()
    watcher.send(requests.watch(3, key, since=0, deletions=True))
    watcher.send(requests.watch(3, key, since=0, deletions=True))

    heard = watcher.until(lambda heard: len(heard) > 1)

    assert heard[1].watch == -1
    assert heard[1].is_canceled
    assert "duplicate watch ID" in heard[1].reason
    watcher.close()


def test_a_stream_ends_when_it_is_closed(transport, server, key):
    """The server ends the watches of a closed stream."""
    eventually(lambda: not _watches(server), what="nobody of an earlier test is left")
    watcher = transport.watch()
    watcher.send(requests.watch(3, key, since=0, deletions=True))
    watcher.until(lambda heard: heard)
    assert _watches(server) == 1

    watcher.close()

    eventually(lambda: not _watches(server), what="it is watched no more")


def _watches(server) -> int:
    return server.figure("etcd_debugging_mvcc_watcher_total")


def test_all_that_reads_a_value_minds_what_it_is():
    for read in (protobuf.whole, protobuf.signed, protobuf.truth):
        with pytest.raises(UnreadableMessage):
            read(b"")
    for read in (protobuf.raw, protobuf.text):
        with pytest.raises(UnreadableMessage):
            read(1)
