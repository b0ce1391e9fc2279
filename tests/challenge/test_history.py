"""A history is read as it was written, and an impossible one is refused."""

from __future__ import annotations

import pytest

from lockfast_challenge.history import HistoryEvent, NotAHistory, begun_since, operations, read


def event(
    at: float, phase: str, number: int = 1, act: str = "acquire", **more: object
) -> HistoryEvent:
    return HistoryEvent(at, "a", act, phase, number, 1, "door", **more)  # type: ignore[arg-type]


def test_what_is_written_is_read():
    events = [
        event(1.0, "invoked", weight=2, capacity=5),
        event(1.5, "ok", token=7),
        event(2.0, "fail", 2, "release", reason="expired"),
    ]

    assert list(read(one.line() for one in events)) == events


def test_a_line_leaves_out_what_is_as_usual():
    assert event(1.0, "invoked").line() == (
        '{"at":1.0,"client":"a","act":"acquire","phase":"invoked","number":1,"hold":1,"name":"door"}'
    )


def test_a_line_that_a_kill_has_cut_off_is_left_out():
    assert len(list(read([event(1.0, "invoked").line(), '{"at":1.5,"cli']))) == 1


@pytest.mark.parametrize("line", ["[]", "{}", '{"at":1,"colour":"red"}', "7"])
def test_a_line_that_is_no_event_is_refused(line):
    with pytest.raises(NotAHistory, match="line 1"):
        list(read([line]))


def test_a_broken_line_in_the_middle_is_refused():
    with pytest.raises(NotAHistory, match="line 1 is not JSON"):
        list(read(["{", event(1.0, "invoked").line()]))


def test_both_events_are_one_operation():
    [one] = operations([event(1.0, "invoked", weight=2, capacity=3), event(1.5, "ok", token=7)])

    assert (one.invoked, one.answered, one.is_ok) == (1.0, 1.5, True)
    assert (one.weight, one.capacity, one.token) == (2, 3, 7)


@pytest.mark.parametrize("rest", [[], [event(1.5, "unknown")]])
def test_nobody_knows_what_became_of_one_without_an_answer(rest):
    [one] = operations([event(1.0, "invoked"), *rest])

    assert one.answered is None
    assert not one.is_ok


@pytest.mark.parametrize(
    "events",
    [
        [event(1.0, "ok")],
        [event(1.0, "invoked"), event(1.1, "invoked")],
        [event(1.0, "invoked"), event(1.1, "ok"), event(1.2, "ok")],
        [event(1.0, "invoked"), event(1.1, "ok", act="release")],
        [event(1.0, "invoked"), event(0.9, "ok")],
    ],
)
def test_what_no_client_can_have_seen_is_refused(events):
    with pytest.raises(NotAHistory, match="client a"):
        operations(events)


def test_what_was_begun_before_a_time_is_left_out_with_its_answer():
    events = [
        event(1.0, "invoked", 1),
        event(3.0, "ok", 1),
        event(3.0, "invoked", 2, "check"),
        event(4.0, "ok", 2, "check"),
    ]

    assert begun_since(events, 2.0) == events[2:]
    assert begun_since(events, 0.0) == events
