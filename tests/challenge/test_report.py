"""What is reported about a run: figures, the page, and the JSON document."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from histories import held, told

from lockfast_challenge.history import HistoryEvent
from lockfast_challenge.outcome import Outcome, RunFinding, Setting, Strike, Write
from lockfast_challenge.report.figures import figures
from lockfast_challenge.report.page import WINDOWS_MAX, page, windows
from lockfast_challenge.report.wording import (
    NO_PROOF,
    again,
    fields,
    headline,
    message,
    some,
    too_short,
    unmet,
)

SETTING = Setting(
    store="redis",
    lock="lockfast",
    workload="counter",
    clients=2,
    seed=7,
    seconds=60.0,
    ttl=1.0,
    faults=("holder-frozen", "way-cut"),
)


def outcome(events: list[HistoryEvent], *, ended: float = 10.0, **more: Any) -> Outcome:
    grants = sum(one.act == "acquire" and one.phase == "ok" for one in events)
    return Outcome(SETTING, began=0.0, ended=ended, events=events, grants=grants, **more)


@pytest.fixture
def handed_over() -> list[HistoryEvent]:
    """Client 0 holds, then client 1 after waiting, then client 0 again after a long gap."""
    return [
        *held("0", 0.0, 0.1, 2.0, token=1),
        *held("1", 0.2, 2.5, 4.0, token=2),
        *held("0", 3.0, 7.0, 8.0, token=3, first=4),
    ]


@pytest.fixture
def wrong(handed_over) -> Outcome:
    found = [
        RunFinding("overlap", 2.5, "two inside", ("0", "1"), example=tuple(handed_over[:12])),
        RunFinding("overlap", 5.0, "two inside after the failover", ("0", "1"), is_documented=True),
    ]
    return outcome(handed_over, findings=found, strikes=[Strike("way-cut", "all ways", 3.5, 5.0)])


# -- figures ---------------------------------------------------------------------------


def test_grants_hand_overs_and_waits_are_counted(handed_over):
    counted = figures(outcome(handed_over))

    assert (counted.grants, counted.hand_overs) == (3, 2)
    assert counted.hand_overs_per_second == pytest.approx(0.2)
    assert counted.longest_wait == pytest.approx(4.0)
    assert counted.median_wait == pytest.approx(2.3)


def test_a_fault_costs_as_long_as_somebody_waits_and_nobody_is_inside(handed_over):
    strike = Strike("way-cut", "all ways", 3.5, 5.0)

    [cost] = figures(outcome(handed_over, strikes=[strike])).costs

    assert cost.unavailable == pytest.approx(3.0)  # from 4.0, when client 1 left, to 7.0
    assert cost.recovered == pytest.approx(2.0)
    assert cost.grants == 0


def test_an_ordinary_hand_over_is_no_outage_of_a_later_fault(handed_over):
    strike = Strike("way-cut", "all ways", 8.5, 9.0)

    [cost] = figures(outcome(handed_over, strikes=[strike])).costs

    assert (cost.unavailable, cost.recovered) == (0.0, None)


def test_faults_are_summed_up_by_kind(handed_over):
    strikes = [
        Strike("holder-frozen", "client 0", 1.0, 2.0),
        Strike("way-cut", "all ways", 3.0, 3.5),
        Strike("holder-frozen", "client 0", 6.0, 6.5),
    ]

    frozen, cut = figures(outcome(handed_over, strikes=strikes)).by_kind

    assert (frozen.kind, frozen.strikes, cut.kind) == ("holder-frozen", 2, "way-cut")
    assert frozen.seconds == pytest.approx(1.5)
    assert frozen.recovered == frozen.recovered_last == pytest.approx(0.5)


def test_after_a_fault_that_ends_all_there_is_no_longest_recovery(handed_over):
    strikes = [Strike("way-cut", "all", 1.0, 2.0), Strike("way-cut", "all", 8.0, 9.0)]

    [cut] = figures(outcome(handed_over, strikes=strikes)).by_kind

    assert cut.recovered == pytest.approx(0.5)
    assert cut.recovered_last is None


def test_refusals_silence_and_ends_are_counted_apart():
    events = [
        *told("0", "acquire", 0.0, 1.0, 1, phase="fail"),
        *told("0", "acquire", 1.0, 2.0, 2, phase="unknown"),
        HistoryEvent(3.0, "0", "acquire", "invoked", 3, 3, "door"),
        *told("1", "acquire", 0.0, 1.0, 1, token=1),
        *told("1", "check", 2.0, 2.0, 2, hold=1, phase="fail"),
    ]

    counted = figures(outcome(events))

    assert (counted.refused, counted.unanswered, counted.told_to_stop) == (1, 2, 1)


def test_what_is_documented_is_counted_apart(wrong):
    writes = [Write(1.0, "0", 1, 1, False, False), Write(2.0, "0", 1, 1, True, True)]

    counted = figures(replace(wrong, writes=writes))

    assert (counted.overlaps, counted.unfenced_overlaps) == (1, 1)
    assert (counted.writes, counted.turned_away, counted.lost_updates) == (2, 1, 1)


def test_nothing_at_all_has_figures_too():
    counted = figures(Outcome(SETTING))

    assert (counted.grants, counted.hand_overs_per_second, counted.longest_wait) == (0, 0.0, 0.0)


# -- words -----------------------------------------------------------------------------


def test_the_headline_says_what_it_comes_to(wrong, handed_over):
    assert headline(wrong) == "1 finding; the first after 2.5 s: overlap"
    assert headline(outcome(handed_over)) == (
        "nothing wrong in 10 s: 0 of 2 kinds of fault possible on redis struck, 3 grants"
    )
    assert headline(outcome([])) == "nothing was granted in 10 s, so nothing was shown"


def test_what_met_nobody_is_said(wrong):
    """A short run with many kinds of faults must not look like one in which every kind struck."""
    assert unmet(wrong) == ("holder-frozen",)
    assert too_short(wrong) == (
        "1 of 2 kinds met nobody; a longer --time gives them more turns: holder-frozen"
    )
    assert too_short(wrong) in page(wrong)


def test_the_same_seed_can_be_run_again():
    broken = replace(SETTING, lock="bare-delete")

    assert again(SETTING) == (
        "lockfast challenge --start redis --seed 7 --time 60 --names 1 --clients 2 --ttl 1 "
        "--workload counter --faults holder-frozen,way-cut"
    )
    assert "challenge redis://staging --seed 7" in again(SETTING, where="redis://staging")
    assert again(broken) == "lockfast challenge --lock bare-delete --seed 7 --time 60"
    assert "--faults" not in again(SETTING, all_faults=True)


def test_of_many_kinds_some_are_named():
    assert some(()) == "none"
    assert some(("a", "b")) == "a, b"
    assert some(tuple("abcdefghijkl")) == "a, b, c, d, e, f, g and 5 more"


def test_a_message_counts_from_the_beginning():
    """A message gives times from the beginning of the run, like the axis on the page."""
    run = Outcome(SETTING, began=50000.0, ended=50060.0)
    found = RunFinding(
        "overlap", 50001.5, "two from 50001.500 to 50002.250, token 50001500, in 3.250"
    )

    assert message(found, run) == "two from 1.500 to 2.250, token 50001500, in 3.250"


# -- the document for programs ---------------------------------------------------------


def test_the_document_is_json_with_times_since_the_beginning(wrong):
    later = replace(wrong, began=-100.0)

    told_all = json.loads(json.dumps(fields(later)))

    assert told_all["verdict"] == "invalid"
    assert [one["at"] for one in told_all["findings"]] == [102.5, 105.0]
    assert [one["documented"] for one in told_all["findings"]] == [False, True]
    assert told_all["findings"][0]["events"][0]["at"] == 100.0
    assert told_all["figures"]["unfenced_overlaps"] == 1
    assert told_all["faults"][0]["kind"] == "way-cut"


# -- windows ---------------------------------------------------------------------------


def test_a_short_run_is_drawn_whole(handed_over):
    shown = windows(outcome(handed_over))

    assert (shown[0].start, shown[-1].end) == (0.0, 10.0)
    assert [one.end for one in shown[:-1]] == [one.start for one in shown[1:]]


def test_of_a_long_run_is_drawn_what_is_wrong_and_each_kind_of_fault():
    strikes = [Strike(f"kind-{at % 3}", "x", float(at), at + 1.0) for at in range(0, 3600, 10)]
    found = [
        RunFinding("stall", 3000.0, "nobody was let in"),
        *(RunFinding("overlap", float(at), "two", is_documented=True) for at in range(2000, 2900)),
    ]

    shown = windows(outcome([], ended=3600.0, strikes=strikes, findings=found))

    assert len(shown) == WINDOWS_MAX
    for at in (0.0, 10.0, 20.0, 2000.0, 3000.0):
        assert any(one.start <= at <= one.end for one in shown), at


# -- the page --------------------------------------------------------------------------


class Tags(HTMLParser):
    """Checks that every tag is closed, and collects everything loaded from elsewhere."""

    EMPTY = frozenset({"meta", "br", "link", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.asked_for: list[str] = []
        self.said: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.asked_for += [f"{tag} {key}" for key, _ in attrs if key in {"src", "href"}]
        if tag == "script":
            self.asked_for.append(tag)
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Ignore the tag: it is already closed."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def test_the_page_is_whole_and_asks_for_nothing(wrong):
    text = page(wrong)
    tags = Tags(text)

    assert tags.open == []
    assert tags.asked_for == []
    assert not re.search(r"@import|url\(|https?://(?!www\.w3\.org/2000/svg)", text)


def test_the_page_tells_what_the_run_came_to(wrong):
    wrong.not_made["server-clock-jump"] = "it needs root"
    said = " ".join(Tags(page(wrong)).said)

    for part in (
        "invalid",
        "1. overlap, after 2.5 s",
        "two inside",
        "2. overlap, as documented",
        "1, as documented",
        "server-clock-jump",
        "it needs root",
        "--seed 7",
        "cannot fix how the clients interleave",
        "12 events that show it",
    ):
        assert part in said, part


def test_only_a_valid_run_is_said_to_be_no_proof(wrong, handed_over):
    assert NO_PROOF in page(outcome(handed_over))
    assert NO_PROOF not in page(wrong)


def test_nothing_that_a_run_says_becomes_markup():
    evil = "<script>alert(1)</script>"
    events = held(evil, 0.0, 1.0, 2.0, token=1)
    found = [RunFinding("crash", 1.0, evil, (evil,), example=tuple(events))]
    strikes = [Strike(evil, evil, 1.0, 2.0)]

    tags = Tags(page(outcome(events, findings=found, strikes=strikes, not_made={evil: evil})))

    assert tags.open == []
    assert "script" not in tags.asked_for


def test_a_page_stays_bounded_however_long_the_run_was():
    events = [
        event
        for number in range(6_000)
        for event in held(
            str(number % 5),
            number / 10,
            number / 10 + 0.025,
            number / 10 + 0.075,
            token=number,
            first=3 * number + 1,
        )
    ]
    found = [
        RunFinding("overlap", at / 2, "two", ("0",), example=tuple(events[at * 6 : at * 6 + 60]))
        for at in range(1000)
    ]
    strikes = [Strike("way-cut", "all ways", at / 2, at / 2 + 0.3) for at in range(1200)]

    text = page(outcome(events, ended=600.0, findings=found, strikes=strikes))

    assert len(text) < 4_000_000
    assert "And 996 more of the same kinds, not shown." in text


def test_a_run_in_which_nothing_happened_has_a_page():
    assert Tags(page(Outcome(SETTING))).open == []
