"""Which clients and servers are struck, with which faults, and when."""

from __future__ import annotations

import socket
from contextlib import closing
from itertools import islice

from servers.echo import EchoServer, asked

from lockfast_challenge.faults.fault import Draw
from lockfast_challenge.faults.on_clients import ClientFault
from lockfast_challenge.faults.on_network import NetworkFault, network_faults
from lockfast_challenge.faults.schedule import RETRIES, Roles, Turns, slices
from lockfast_challenge.history import HistoryEvent
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.proxy import Proxy


def event(client: str, act, phase, at: float) -> HistoryEvent:
    return HistoryEvent(at=at, client=client, act=act, phase=phase, number=1, hold=1, name="door")


def fault(kind: str) -> ClientFault:
    return ClientFault(kind, "holder", lengths=(1.0, 2.0), begins=lambda *_: None)


FAULTS = [fault("frozen"), fault("killed"), fault("late")]


def plan(seed: int):
    drawn = islice(slices(seed, FAULTS, ttl=0.5, clients=4), 9)
    return [(one.fault.kind, one.strikes) for one in drawn]


def test_a_seed_fixes_the_order_the_kinds_and_the_lengths():
    assert plan(3) == plan(3)
    assert plan(3) != plan(4)


def drawn(faults):
    return list(islice(slices(1, faults, ttl=0.5, clients=4), 9))


def test_a_seed_fixes_the_same_whatever_order_the_kinds_are_given_in():
    assert drawn(FAULTS) == drawn(FAULTS[::-1])


def test_a_kind_that_cannot_be_made_here_changes_nothing_of_the_others():
    made = [one for one in drawn(FAULTS) if one.fault.kind != "late"]
    lacking = ClientFault(
        "late", "holder", lengths=(1.0, 2.0), begins=lambda *_: None, lacks="something"
    )

    assert drawn([*FAULTS[:2], lacking])[: len(made)] == made
    assert drawn([lacking]) == []


def test_each_kind_has_its_turn_in_every_round():
    kinds = [kind for kind, _ in plan(5)]

    for start in (0, 3, 6):
        assert sorted(kinds[start : start + 3]) == ["frozen", "killed", "late"]


def test_strikes_are_as_long_as_their_kind_says():
    lengths = [one.draw.length for _, strikes in plan(6) for one in strikes]

    assert all(0.5 <= length <= 1.0 for length in lengths)


def test_who_acquired_holds_until_it_releases_or_is_told_that_it_is_over():
    roles = Roles()

    roles.record([event("1", "acquire", "ok", 1.0)])
    assert roles.client_with("holder", ["0", "1"]) == "1"

    roles.record([event("1", "check", "fail", 2.0)])
    assert roles.client_with("holder", ["0", "1"]) is None


def test_a_waiter_asks_while_another_holds():
    roles = Roles()

    roles.record([event("0", "acquire", "invoked", 1.0)])
    assert roles.client_with("waiter", ["0", "1"]) is None
    assert roles.client_with("asker", ["0", "1"]) == "0"

    roles.record([event("1", "acquire", "ok", 2.0)])
    assert roles.client_with("waiter", ["0", "1"]) == "0"


def test_the_dead_have_no_role():
    roles = Roles()

    roles.record([event("1", "acquire", "ok", 1.0)])

    assert roles.client_with("holder", ["0", "1.1"]) is None


def test_who_dies_with_a_claim_is_in_the_way_of_others_and_nobody_else_is():
    roles = Roles()

    roles.record([event("0", "acquire", "invoked", 1.0), event("1", "acquire", "ok", 1.0)])
    roles.record([event("1", "release", "invoked", 1.5), event("2", "acquire", "ok", 2.0)])
    roles.record([event("2", "release", "ok", 3.0), event("3", "acquire", "fail", 3.0)])

    assert [roles.has_claim(one) for one in "01234"] == [True, True, False, False, False]


def test_who_got_what_it_asked_for_is_known_by_when_it_last_did():
    roles = Roles()

    roles.record([event("0", "acquire", "ok", 1.0), event("1", "acquire", "ok", 2.0)])

    assert roles.were_granted(["0", "1"], since=1.0)
    assert not roles.were_granted(["0", "1"], since=1.5)
    assert not roles.were_granted(["0", "1", "2"], since=1.0)


UNREPORTED = {
    "asker-slow-then-cut",
    "delay",
    "holder-cut-off",
    "holder-slow-then-cut",
    "waiter-refused",
}
"""The faults that do not report whether they met a message."""


def test_a_fault_on_a_way_says_if_it_met_nobody():
    draw = Draw(length=0.1, strength=0.5, anybody=0)
    with EchoServer() as server, Proxy(server.port) as way:
        for fault in network_faults(lambda _: [way]):
            if fault.kind in UNREPORTED:
                continue
            with socket.create_connection(("127.0.0.1", way.port), timeout=20):
                assert fault.begin(draw, 0) == "the way of client 0"
                assert fault.end() == "met nobody", fault.kind
        assert asked(way.port, b"well") == b"well"


def test_a_brief_fault_lies_in_wait_until_a_message_comes_by():
    draw = Draw(length=0.1, strength=0.5, anybody=0)
    with EchoServer() as server, Proxy(server.port) as way:
        [fault] = [
            one for one in network_faults(lambda _: [way]) if one.kind == "asker-replies-held"
        ]
        with closing(socket.create_connection(("127.0.0.1", way.port), timeout=20)) as client:
            fault.begin(draw, 0)
            assert fault.lies_in_wait
            client.sendall(b"held\n")
            eventually(lambda: not fault.lies_in_wait, what="the message has come by")
            assert not fault.end()
            assert client.recv(100).startswith(b"held\n")


def slow_then_cut(way: Proxy) -> NetworkFault:
    [fault] = [one for one in network_faults(lambda _: [way]) if one.kind == "asker-slow-then-cut"]
    return fault


def test_a_slow_connection_is_cut_and_mended_afterwards():
    with EchoServer() as server, Proxy(server.port) as way:
        fault = slow_then_cut(way)
        fault.begin(Draw(length=0.3, strength=0.5, anybody=0), 0)

        eventually(lambda: way.is_refusing, what="the connection is cut")

        assert not fault.end()
        assert asked(way.port, b"well") == b"well"


def test_a_slow_connection_that_is_mended_early_is_not_cut_later():
    with EchoServer() as server, Proxy(server.port) as way:
        fault = slow_then_cut(way)
        fault.begin(Draw(length=1800.0, strength=0.5, anybody=0), 0)

        fault.end()

        assert way._cutting.cancelled()
        assert asked(way.port, b"well") == b"well"


# -- the turns of many names -----------------------------------------------------------


def turns(*, seed: int = 1) -> Turns:
    return Turns(slices(seed, FAULTS, ttl=0.5, clients=4), [one.kind for one in FAULTS])


def test_each_kind_has_a_turn_before_any_has_a_second_one():
    one = turns()
    for _ in range(2):
        kinds = [one.next().fault.kind for _ in FAULTS]
        assert sorted(kinds) == ["frozen", "killed", "late"]
        for kind in kinds:
            one.record(kind, has_met=True)


def test_a_kind_that_met_nobody_has_the_next_turn_but_not_for_ever():
    one = turns()
    for kind in [one.next().fault.kind for _ in FAULTS]:
        one.record(kind, has_met=kind != "late")

    for _ in range(RETRIES):
        assert one.next().fault.kind == "late"
        one.record("late", has_met=False)

    assert {one.next().fault.kind for _ in range(9)} == {"frozen", "killed", "late"}
