"""Which node a request belongs to, and what becomes of it; tested without a server."""

from __future__ import annotations

import pytest

from lockfast.backends.redis import requests
from lockfast.backends.redis.cluster_map import SlotMap
from lockfast.backends.redis.resp import ErrorReply, packed
from lockfast.backends.redis.routing import (
    ASKING,
    REDIRECTS_MAX,
    RoutedRequest,
    by_node,
    learn,
    slot_of,
    slot_of_key,
)
from lockfast.core.descriptor import Endpoint
from lockfast.errors import (
    BackendMisbehaved,
    BackendUnavailable,
    ConfigurationError,
    OutcomeUnknown,
)

A, B, C = Endpoint("a", 1), Endpoint("b", 2), Endpoint("c", 3)
REQUEST = requests.inspect(requests.RedisKeys("app").of("door"), requests.Cursor())
SLOT = slot_of_key(b"door")


def same(address: Endpoint) -> Endpoint:
    return address


@pytest.mark.parametrize(
    ("key", "slot"),
    [
        (b"123456789", 12739),  # the specification's own example
        (b"foo", 12182),
        (b"{user1000}.following", slot_of_key(b"user1000")),
        (b"foo{}{bar}", 8363),
        (b"foo{{bar}}zap", slot_of_key(b"{bar")),
    ],
)
def test_a_key_has_the_slot_that_the_server_gives_it(key, slot):
    assert slot_of_key(key) == slot


@pytest.mark.parametrize("name", ["door", "{x}", "a\r\n$3\r\nb", "\U0001f512"])
def test_a_request_has_the_slot_of_its_keys(name):
    keys = requests.RedisKeys("app")

    assert slot_of(requests.inspect(keys.of(name), requests.Cursor())) == slot_of_key(
        keys.door(name)
    )


@pytest.mark.parametrize("request_", [packed(b"PING"), requests.load("acquire")])
def test_a_request_without_a_key_has_no_slot(request_):
    assert slot_of(request_) is None


def heard(text: str, *, before: tuple[bytes, ...] = ()) -> RoutedRequest:
    route = RoutedRequest.for_request(REQUEST)
    route.before = before
    route.deliver([*(b"OK" for _ in before), ErrorReply(text)], asked=A, remap=same)
    return route


def test_what_has_moved_is_followed_and_remembered():
    slots = SlotMap([A] * 16384, [A], frozenset({A}))
    route = heard(f"MOVED {SLOT} b:2")

    assert learn([route], slots)

    assert (route.node, route.before, route.must_pause) == (B, (), False)
    assert slots.owners[SLOT] == B
    assert slots.masters == [A, B]
    assert by_node([route], slots) == {B: [route]}


def test_what_is_on_its_way_is_asked_there_and_not_remembered():
    slots = SlotMap([A] * 16384, [A], frozenset({A}))
    route = heard(f"ASK {SLOT} b:2")

    assert not learn([route], slots)

    assert (route.node, route.before, route.must_pause) == (B, (ASKING,), False)
    assert slots.owners[SLOT] == A


def test_a_pointer_without_a_host_means_the_same_host():
    assert heard(f"MOVED {SLOT} :7").node == Endpoint("a", 7)


def test_a_node_without_a_name_is_looked_for_on_another_map():
    """A redirection to host `?` names no node, so the client needs another node's map."""
    route = RoutedRequest.for_request(REQUEST)

    is_doubtful = route.deliver([ErrorReply(f"MOVED {SLOT} ?:7")], asked=A, remap=same)

    assert is_doubtful
    assert (route.node, route.must_pause, route.is_over) == (None, True, False)


def test_an_ipv6_address_is_read():
    assert heard(f"MOVED {SLOT} 2001:db8::1:6379").node == Endpoint("2001:db8::1", 6379)


def test_an_unknown_script_is_loaded_where_it_is_missing():
    route = heard("NOSCRIPT No matching script", before=(ASKING,))

    assert route.node == A
    assert route.before == (requests.load("inspect"), ASKING)


def test_a_script_that_may_not_be_loaded_is_the_answer():
    route = RoutedRequest.for_request(REQUEST)
    route.before = (requests.load("inspect"),)

    route.deliver([ErrorReply("NOPERM script|load"), ErrorReply("NOSCRIPT")], asked=A, remap=same)

    assert route.is_over
    assert route.outcome == ErrorReply("NOPERM script|load")


@pytest.mark.parametrize(
    "text", ["MOVED", "MOVED 1", "MOVED 1 nowhere", "ASK x a:1", "MOVED 1 a:x"]
)
def test_a_pointer_that_points_nowhere_is_the_end(text):
    route = heard(text)

    assert route.is_over
    assert isinstance(route.outcome, BackendMisbehaved)


@pytest.mark.parametrize(
    ("code", "is_doubted"),
    [("CLUSTERDOWN", True), ("LOADING", True), ("READONLY", True), ("TRYAGAIN", False)],
)
def test_who_refuses_as_if_replaced_is_doubted(code, is_doubted):
    """Errors of a replaced node cast doubt on the map; TRYAGAIN during a migration does not."""
    route = RoutedRequest.for_request(REQUEST)

    assert route.deliver([ErrorReply(f"{code} for now")], asked=A, remap=same) is is_doubted


@pytest.mark.parametrize("code", ["CLUSTERDOWN", "TRYAGAIN", "LOADING", "READONLY"])
def test_what_passes_is_asked_again_after_a_pause(code):
    route = heard(f"{code} for now")

    assert not route.is_over
    assert route.must_pause


def test_two_nodes_that_point_at_each_other_do_not_spin():
    route = RoutedRequest.for_request(REQUEST)
    pauses = 0
    for i in range(2 * REDIRECTS_MAX):
        route.deliver([ErrorReply(f"MOVED {SLOT} {'ab'[i % 2]}:1")], asked=A, remap=same)
        pauses += route.must_pause

    assert pauses == 2


def test_a_lost_reply_is_not_repeated():
    """A request whose reply was lost is not repeated, as the node may have executed it."""
    route, lost = RoutedRequest.for_request(REQUEST), OutcomeUnknown("no answer")

    assert route.deliver([lost], asked=A, remap=same)

    assert route.is_over
    assert route.outcome is lost


def test_what_was_not_sent_is_tried_again_unless_it_never_could():
    outage, mistake = RoutedRequest.for_request(REQUEST), RoutedRequest.for_request(REQUEST)

    outage.fail(BackendUnavailable("away"))
    mistake.fail(ConfigurationError("wrong password"))

    assert (outage.is_over, outage.must_pause) == (False, True)
    assert mistake.is_over
