"""The picture of a history: its contents, its tooltips, and its maximum size."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from histories import held, told

from lockfast_challenge.history import HistoryEvent
from lockfast_challenge.outcome import RunFinding, Strike, Write
from lockfast_challenge.report.figures import rows
from lockfast_challenge.report.timeline import MOST_ROWS, timeline

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def overlap() -> tuple[list[HistoryEvent], RunFinding]:
    events = [*held("0", 0.0, 0.1, 2.0, token=1), *held("1", 0.2, 1.0, 3.0, token=2)]
    return events, RunFinding("overlap", 1.0, "two inside", ("0", "1"), example=tuple(events))


def read(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - our own


def shapes(svg: str, look: str) -> list[ET.Element]:
    return [one for one in read(svg).iter() if look in one.get("class", "").split()]


def tips(svg: str) -> list[str]:
    return [one.text or "" for one in read(svg).iter(f"{SVG}title")]


def words(svg: str) -> list[str]:
    return [one.text or "" for one in read(svg).iter(f"{SVG}text")]


def test_a_hold_tells_its_client_its_time_and_its_token():
    svg = timeline(held("3", 0.0, 0.5, 2.0, token=7))

    assert "client 3" in words(svg)
    assert "client 3 waits for 'door', from 0.000 s to 0.500 s" in tips(svg)
    assert "client 3 holds 'door', from 0.500 s to 2.000 s, token 7" in tips(svg)
    assert len(shapes(svg, "check")) == 1


def test_the_holds_that_show_a_violation_are_red_and_numbered(overlap):
    events, finding = overlap

    svg = timeline(events, findings=[finding])

    assert len(shapes(svg, "wrong")) == 5  # both holds, the time after their last proof, the number
    assert "1. overlap: two inside" in tips(svg)


def test_what_the_store_documents_is_not_red(overlap):
    events, finding = overlap
    documented = RunFinding(
        "overlap", 1.0, finding.message, finding.clients, is_documented=True, example=tuple(events)
    )

    svg = timeline(events, findings=[documented])

    assert not shapes(svg, "wrong")
    assert shapes(svg, "noted")


def test_faults_and_the_quiet_between_them_are_named():
    strikes = [Strike("holder-frozen", "client 0", 1.0, 2.0), Strike("way-cut", "all", 6.0, 7.0)]

    svg = timeline(held("0", 0.0, 0.5, 9.0, token=1), strikes)

    assert {"holder-frozen", "way-cut", "quiet"} <= set(words(svg))
    assert "holder-frozen: client 0, from 1.000 s for 1.00 s" in tips(svg)
    assert len(shapes(svg, "struck")) == 1


def test_refusals_and_being_told_to_stop_are_marked():
    events = [
        *told("0", "acquire", 0.0, 0.1, 1, token=1),
        *told("0", "check", 0.2, 0.2, 2, hold=1),
        *told("0", "check", 1.5, 1.5, 3, hold=1, phase="fail", reason="expired"),
        *told("1", "acquire", 0.0, 1.0, 1, phase="fail", reason="timeout"),
    ]

    svg = timeline(events)

    assert "client 0 was told to stop, at 1.500 s: expired" in tips(svg)
    assert "client 1 was refused, at 1.000 s: timeout" in tips(svg)


def test_what_was_never_answered_is_not_drawn_as_a_hold():
    events = [
        HistoryEvent(0.0, "0", "acquire", "invoked", 1, 1, "door"),
        *held("1", 0, 1, 4, token=1),
    ]

    svg = timeline(events)

    [line] = shapes(svg, "unanswered")
    assert "client 0 asked, and was never told, for 'door'" in line[0].text


def test_a_hold_without_a_proof_is_pale_and_lasts_a_ttl_at_most():
    events = [*told("0", "acquire", 0.0, 1.0, 1, token=1), *held("1", 0.0, 5.0, 9.0, token=2)]

    [row, _] = rows(events, end=9.0, ttl=2.0)

    assert [(one.doing, one.begin, one.end) for one in row.stretches] == [
        ("waiting", 0.0, 1.0),
        ("perhaps", 1.0, 3.0),
    ]


def test_whoever_comes_in_the_place_of_a_killed_client_has_its_row():
    killed = told("2", "acquire", 0.0, 1.0, 1, token=1)
    waiting = [HistoryEvent(1.0, "2", "acquire", "invoked", 2, 2, "door")]

    [row] = rows([*killed, *waiting, *held("2.1", 4.0, 5.0, 6.0, token=2)], end=9.0)

    assert (row.client, {one.client for one in row.stretches}) == ("2", {"2", "2.1"})
    assert max(one.end for one in row.stretches if one.client == "2") == 4.0


def test_what_the_resource_turned_away_is_seen():
    writes = [Write(1.0, "0", 1, 7, is_accepted=False, is_lost=False)]

    svg = timeline(held("0", 0.0, 0.5, 2.0, token=7), writes=writes)

    assert "client 0 was turned away by the token check at 1.000 s, token 7" in tips(svg)


def test_a_name_cannot_leave_its_place():
    svg = timeline(held("<b>", 0.0, 0.5, 2.0, token=1), [Strike("</svg>", "&", 0.0, 1.0)])

    assert "client <b>" in words(svg)  # the name was parsed as text
    assert len(list(read(svg).iter(f"{SVG}svg"))) == 1


def test_a_picture_stays_small_however_much_happened():
    events = [
        event
        for number in range(5_000)
        for event in held(
            "0",
            number / 1000,
            number / 1000 + 0.0002,
            number / 1000 + 0.0008,
            token=number,
            first=3 * number + 1,
        )
    ]

    svg = timeline(events)

    assert len(svg) < 200_000
    assert any("times" in one for one in tips(svg))


def test_of_many_clients_those_in_a_finding_are_drawn(overlap):
    events, finding = overlap
    others = [one for client in range(100, 150) for one in held(str(client), 0, 1, 2, token=1)]

    svg = timeline([*others, *events], findings=[finding])

    assert {"client 0", "client 1", f"and {52 - MOST_ROWS} more clients, not drawn"} <= set(
        words(svg)
    )


def test_clients_stand_in_the_order_of_their_numbers():
    events = [one for client in ("10", "9", "2") for one in held(client, 0, 1, 2, token=1)]

    assert [row.client for row in rows(events, end=2.0)] == ["2", "9", "10"]


def test_a_client_whose_diary_is_wrong_does_not_hide_the_others():
    answer_to_nothing = HistoryEvent(1.0, "0", "acquire", "ok", 1, 1, "door")

    svg = timeline([answer_to_nothing, *held("1", 0.0, 0.5, 2.0, token=1)])

    assert "client 1" in words(svg)


def test_nothing_at_all_is_a_picture_too():
    assert read(timeline([])).tag == f"{SVG}svg"
