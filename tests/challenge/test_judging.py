"""A recorded run is judged as a person would, and only documented faults excuse a finding."""

from __future__ import annotations

import signal

import pytest
from challenge.by_hand import ByHand

from lockfast_challenge.checker.judge import judge, recent
from lockfast_challenge.outcome import Exemption, Exit, Strike, Write

ALL = {"is_fair": True, "is_renewed": True}
FAILOVER = (Exemption("failover", "overlap", "a failover forgets what was not replicated"),)
COUNTER = (Exemption("failover", "token", "a failover forgets the last tokens"),)


@pytest.fixture
def history() -> ByHand:
    return ByHand()


def overlap(history: ByHand) -> None:
    """Make two clients hold at once from 2 to 3, among holds that do not matter."""
    for number in range(5):
        history.held("c", 10.0 + number, 10.5 + number)
    history.held("a", 1.0, 3.0)
    history.held("b", 2.0, 4.0)


def test_nothing_is_found_where_nothing_is_wrong(history):
    for number in range(20):
        history.held("ab"[number % 2], number + 1.0, number + 1.5, token=number)

    assert judge(history.recorded(quiets=[(1.0, 21.0)], is_guarded=True, **ALL)) == []


def test_nothing_is_found_where_nothing_happened(history):
    assert judge(history.recorded(quiets=[(0.0, 100.0)])) == []


# -- exclusion -----------------------------------------------------------------------------------


def test_an_overlap_is_shown_by_the_fewest_events(history):
    overlap(history)

    [found] = judge(history.recorded())

    assert (found.kind, found.at, found.clients) == ("overlap", 2.0, ("a", "b"))
    assert not found.is_documented
    assert found.message.startswith("door: more inside than the door lets in at 2.000: client a")
    assert [(event.client, event.act, event.phase) for event in found.example] == [
        ("a", "acquire", "invoked"), ("a", "acquire", "ok"),
        ("b", "acquire", "invoked"), ("b", "acquire", "ok"),
        ("a", "release", "invoked"), ("a", "release", "ok"),
        ("b", "release", "invoked"), ("b", "release", "ok"),
    ]  # fmt: skip


def test_of_a_semaphore_only_those_are_shown_who_are_too_many(history):
    for number, client in enumerate("abc"):
        history.held(client, 1.0 + number, 9.0, capacity=4, weight=2)

    [found] = judge(history.recorded())

    assert found.clients == ("a", "b", "c")


def test_a_reader_beside_a_writer_is_shown_without_the_other_readers(history):
    for number, client in enumerate("abcd"):
        history.held(client, 1.0 + number, 6.0 + number, capacity=1000)
    history.held("w", 7.5, 8.5, capacity=1000, weight=1000)

    [found] = judge(history.recorded())

    assert len(found.clients) == 2
    assert "w" in found.clients


@pytest.mark.parametrize(
    ("began", "ended"),
    [(1.5, 2.5), (0.5, 1.0), (-2.0, 1.5)],
    ids=["meanwhile", "while its lease may last", "granted under it"],
)
def test_an_overlap_that_a_page_foresees_is_counted(history, began, ended):
    overlap(history)

    [found] = judge(
        history.recorded(
            strikes=[Strike("failover", "the master", began, ended)], exemptions=FAILOVER
        )
    )

    assert found.is_documented
    assert found.message.endswith("as documented: a failover forgets what was not replicated")


@pytest.mark.parametrize(
    ("kind", "began", "ended"),
    [("failover", -9.0, -1.5), ("failover", -2.0, 0.5), ("failover", 2.5, 3.0), ("frozen", 1, 3)],
)
def test_another_fault_or_another_time_excuses_nothing(history, kind, began, ended):
    overlap(history)

    [found] = judge(
        history.recorded(strikes=[Strike(kind, "x", began, ended)], exemptions=FAILOVER)
    )

    assert not found.is_documented


def test_what_was_granted_after_a_fault_is_not_excused_by_it(history):
    """A fault excuses no later grant, even if the run allows long waits or was late itself."""
    history.held("a", 3.0, 4.0)
    history.held("b", 3.2, 4.0)

    [found] = judge(
        history.recorded(
            strikes=[Strike("failover", "x", 1.0, 2.5)], exemptions=FAILOVER, bound=100.0
        )
    )

    assert not found.is_documented


def test_what_a_fault_ended_early_is_believed_in_for_a_ttl_and_no_longer(history):
    history.held("a", 1.0, 9.0)
    history.held("b", 4.0, 5.0)

    [found] = judge(
        history.recorded(
            strikes=[Strike("failover", "x", 2.0, 2.5)], exemptions=FAILOVER, bound=100.0
        )
    )

    assert not found.is_documented


def test_what_was_granted_under_a_fault_may_be_heard_of_when_it_is_over(history):
    history.acquire("a", 2.4, 2.6)
    history.check("a", 1, 3.2)
    history.held("b", 3.1, 3.3)

    [found] = judge(
        history.recorded(strikes=[Strike("failover", "x", 2.0, 2.5)], exemptions=FAILOVER)
    )

    assert found.is_documented


def test_a_store_that_counts_is_behind_for_long_where_its_page_says_so(history):
    history.held("a", 1.0, 2.0, token=100)
    for number in range(10):
        history.held("b", 60.0 + number, 60.5 + number, token=1 + number)

    found = judge(history.recorded(strikes=[Strike("failover", "x", 2.0, 2.5)], exemptions=COUNTER))

    assert [(one.kind, one.is_documented) for one in found] == [("token", True)] * 10


def test_a_token_that_falls_back_once_more_has_no_excuse(history):
    """Each token is compared with the latest that it should exceed, not with the largest."""
    history.held("a", 1.0, 2.0, token=100)
    history.held("b", 3.0, 3.5, token=2)
    history.held("b", 20.0, 21.0, token=1)

    found = judge(history.recorded(strikes=[Strike("failover", "x", 2.0, 2.5)], exemptions=COUNTER))

    assert [one.is_documented for one in found] == [True, False]


def test_of_what_is_no_lock_at_all_the_first_are_shown(history):
    for number in range(100):
        history.held(f"c{number}", 1.0 + number / 100, 5.0)

    found = judge(history.recorded())

    assert len(found) == 99
    assert found[0].example
    assert not found[-1].example


# -- told in time --------------------------------------------------------------------------------


def test_a_lease_that_outlives_its_own_deadline_is_found(history):
    hold = history.acquire("a", 1.0, 1.1, deadline=2.0)
    history.check("a", hold, 1.9, deadline=2.9)
    history.check("a", hold, 3.0, deadline=2.9)

    [found] = judge(history.recorded())

    assert (found.kind, found.at, found.clients) == ("told late", 3.0, ("a",))
    assert "0.100 s after the deadline" in found.message
    assert len(found.example) == 2


def test_a_lease_that_says_no_after_its_deadline_is_right(history):
    hold = history.acquire("a", 1.0, 1.1, deadline=2.0)
    history.check("a", hold, 3.0, "fail")

    assert judge(history.recorded()) == []


# -- liveness --------------------------------------------------------------------------------------


def dead_holder(history: ByHand, waits_until: float) -> None:
    """Make a holder die at 1, and another client ask from 2 on."""
    history.acquire("a", 0.9, 1.0)
    history.acquire("b", 2.0, waits_until, "fail")


def test_a_name_that_stays_closed_in_a_quiet_stretch_is_found(history):
    dead_holder(history, 9.0)

    [found] = judge(history.recorded(quiets=[(3.0, 9.0)]))

    assert (found.kind, found.at, found.clients) == ("stall", 3.0, ("b",))
    assert "for 6.0 s" in found.message


def test_a_hold_from_before_what_is_judged_just_now_is_still_one(history):
    history.held("a", 1.0, 9.0)
    history.acquire("b", 2.0, 9.5, "fail")

    now_known = history.recorded(quiets=[(3.0, 9.0)])

    assert judge(recent(now_known, since=1.5, longest=2.0)) == []
    assert judge(recent(now_known, since=8.0, longest=2.0)) == []


def test_what_stands_still_just_now_is_found(history):
    dead_holder(history, 9.0)

    [found] = judge(recent(history.recorded(quiets=[(3.0, 9.0)]), since=2.5, longest=1.0))

    assert found.kind == "stall"


@pytest.mark.parametrize("at", [3.5, 8.9, 0.5])
def test_a_machine_that_is_late_is_given_more_time(history, at):
    dead_holder(history, 9.0)

    assert judge(history.recorded(quiets=[(3.0, 9.0)], hiccups=[(at, 0.4)])) == []


def test_what_comes_late_at_another_time_excuses_nothing(history):
    dead_holder(history, 9.0)
    history.held("c", 9.1, 30.0)

    [found] = judge(history.recorded(quiets=[(3.0, 40.0)], hiccups=[(12.0, 5.0), (35.0, 5.0)]))

    assert (found.kind, found.at) == ("stall", 3.0)
    assert "no more than 3.0 s may pass" in found.message


def test_nobody_says_so_while_faults_strike(history):
    dead_holder(history, 9.0)

    assert judge(history.recorded(quiets=[(0.0, 1.5), (8.0, 9.0)])) == []


def test_a_name_may_stay_closed_for_a_ttl_and_the_bound(history):
    dead_holder(history, 5.9)

    assert judge(history.recorded(quiets=[(3.0, 9.0)])) == []


def test_a_name_that_is_held_for_long_is_not_closed(history):
    hold = history.acquire("a", 0.9, 1.0)
    history.acquire("b", 2.0, 20.0, "fail")
    history.check("a", hold, 19.0)

    assert judge(history.recorded(quiets=[(1.0, 20.0)])) == []


def test_who_is_refused_again_and_again_asks_all_the_time(history):
    history.acquire("a", 0.9, 1.0)
    for number in range(40):
        history.acquire("b", 2.0 + number / 5, 2.1 + number / 5, "unknown")

    [found] = judge(history.recorded(quiets=[(1.0, 12.0)]))

    assert found.kind == "stall"


def test_who_never_heard_again_asks_to_this_day(history):
    dead_holder(history, 9.0)
    history.events.pop()

    [found] = judge(history.recorded(quiets=[(3.0, 20.0)]))

    assert "for 17.0 s" in found.message


def test_who_was_killed_while_it_asked_asks_no_more(history):
    dead_holder(history, 9.0)
    history.events.pop()

    killed = Exit("b", 2.1, -signal.SIGKILL, was_killed=True)

    assert judge(history.recorded(quiets=[(3.0, 20.0)], exits=[killed])) == []


def passed_over(history: ByHand) -> None:
    """Make one client ask for ten seconds while two others get in ten times a second."""
    history.acquire("slow", 1.0, 11.0, "fail")
    for number in range(100):
        history.held("ab"[number % 2], 1.1 + number / 10, 1.15 + number / 10)


def test_who_is_passed_over_for_ever_is_found_where_there_is_a_line(history):
    passed_over(history)

    [found] = judge(history.recorded(quiets=[(1.0, 11.0)], **ALL))

    assert (found.kind, found.clients) == ("stall", ("slow",))
    assert "others came in 99 times before it" in found.message


def test_a_lock_without_a_line_may_pass_anybody_over(history):
    passed_over(history)

    assert judge(history.recorded(quiets=[(1.0, 11.0)])) == []


def long_holds(history: ByHand, outcomes: str, client: str = "a") -> None:
    """Make a client hold for two seconds per outcome: `k` is kept, `l` is lost after the ttl."""
    for number, outcome in enumerate(outcomes):
        start = 1.0 + 3 * number
        hold = history.acquire(client, start, start + 0.1)
        history.check(client, hold, start + 0.9)
        phase = "ok" if outcome == "k" else "fail"
        history.check(client, hold, start + 2.0, phase)
        history.release(client, hold, start + 2.0, start + 2.1, phase)


@pytest.mark.parametrize("outcomes", ["lll", "klkklll", "klllk"])
def test_leases_that_are_lost_again_and_again_for_no_reason_are_found(history, outcomes):
    long_holds(history, outcomes)

    [found] = judge(history.recorded(quiets=[(0.0, 99.0)], **ALL))

    assert (found.kind, found.clients) == ("stall", ("a",))
    assert "nothing renews" in found.message


@pytest.mark.parametrize("outcomes", ["llkllk", "kkk", "ll"])
def test_a_lease_may_be_lost_now_and_then_on_a_machine_that_stands_still(history, outcomes):
    long_holds(history, outcomes)

    assert judge(history.recorded(quiets=[(0.0, 99.0)], **ALL)) == []


def test_leases_may_be_lost_while_faults_strike_or_where_nothing_renews(history):
    long_holds(history, "llll")

    assert judge(history.recorded(quiets=[(0.0, 5.0), (9.0, 99.0)], **ALL)) == []
    assert judge(history.recorded(quiets=[(0.0, 99.0)])) == []


# -- writes ----------------------------------------------------------------------------------------


def write(at: float, *, is_accepted: bool = True, is_lost: bool = False) -> Write:
    return Write(at, "a", 1, 7, is_accepted, is_lost)


@pytest.mark.parametrize("is_guarded", [True, False])
def test_a_lost_update_is_a_fault_only_behind_the_token_check(history, is_guarded):
    history.held("a", 1.0, 3.0, token=7)

    [found] = judge(
        history.recorded(
            writes=[write(1.5), write(2.0, is_lost=True), write(2.5, is_accepted=False)],
            is_guarded=is_guarded,
        )
    )

    assert (found.kind, found.at, found.clients) == ("lost update", 2.0, ("a",))
    assert found.is_documented is not is_guarded


def test_behind_the_token_check_no_fault_excuses_a_lost_update(history):
    strike = Strike("failover", "x", 1.0, 3.0)

    [found] = judge(
        history.recorded(
            writes=[write(2.0, is_lost=True)],
            is_guarded=True,
            strikes=[strike],
            exemptions=FAILOVER,
        )
    )

    assert not found.is_documented


# -- the end ---------------------------------------------------------------------------------------


def test_a_name_that_is_still_held_is_left_behind(history):
    history.held("a", 1.0, 3.0)

    [found] = judge(history.recorded(left=["'door' by host:1, for 12 s more"]))

    assert (found.kind, found.at) == ("left behind", 3.01)
    assert "'door' by host:1" in found.message


def test_descriptors_and_threads_that_add_up_are_left_behind(history):
    found = judge(
        history.recorded(
            exits=[
                Exit("a", 9.0, 0, descriptors=(12, 212), threads=(3, 4)),
                Exit("b", 9.0, 0, descriptors=(12, 12), threads=(3, 2)),
                Exit("c", 9.0, -9, was_killed=True),
            ]
        )
    )

    assert [(one.kind, one.clients) for one in found] == [("left behind", ("a",))] * 2
    assert "a had 12 descriptors, and 212 after it was closed" in found[0].message
    assert "3 threads" in found[1].message


def in_use(*descriptors: tuple[int, int], turns: int = 100) -> Exit:
    """Return a client that closed all that it had opened; its threads did not grow."""
    quarters = [((least, 6), (most, 6)) for least, most in descriptors]
    return Exit("a", 9.0, 0, descriptors=(12, 12), threads=(3, 3), in_use=quarters, turns=turns)


def test_descriptors_that_grow_with_use_are_left_behind(history):
    """Closing a client would release all descriptors, but a service never closes its client."""
    [found] = judge(history.recorded(exits=[in_use((14, 38), (39, 63), (64, 88), (89, 113))]))

    assert (found.kind, found.clients) == ("left behind", ("a",))
    assert "a had 12 descriptors, and then 14 to 38, 39 to 63, 64 to 88" in found.message


def test_threads_that_grow_with_use_are_left_behind(history):
    quarters = [((14, 4 + grown), (14, 12 + grown)) for grown in (0, 8, 16, 24)]
    one = Exit("a", 9.0, 0, descriptors=(12, 12), threads=(3, 3), in_use=quarters, turns=32)

    [found] = judge(history.recorded(exits=[one]))

    assert "3 threads, and then 4 to 12, 12 to 20" in found.message


@pytest.mark.parametrize(
    ("descriptors", "turns"),
    [
        ([(42, 42), (42, 42), (42, 42), (42, 42)], 100),
        ([(14, 32), (32, 42), (42, 42), (42, 42)], 100),
        ([(14, 14), (14, 14), (14, 14), (14, 42)], 100),
        ([(14, 14), (14, 14), (42, 42), (60, 60)], 100),
        ([(36, 41), (11, 40), (31, 39), (39, 42)], 63),
        ([(10, 36), (20, 36), (30, 36), (40, 42)], 63),
        ([(14, 17), (18, 21), (22, 25), (26, 29)], 16),
        ([(14, 20), (24, 30), (34, 40), (44, 50)], 10_000),
        ([], 3),
    ],
    ids=[
        "many all the time", "more by and by", "more at the end", "more in the second half",
        "lost and opened again", "opened again more slowly", "few turns", "rarely one more",
        "not counted",
    ],
)  # fmt: skip
def test_a_client_may_keep_as_many_connections_as_it_needs(history, descriptors, turns):
    assert judge(history.recorded(exits=[in_use(*descriptors, turns=turns)])) == []


@pytest.mark.parametrize(
    ("returncode", "told"), [(-11, "SIGSEGV"), (1, "exit status 1"), (-200, "signal 200")]
)
def test_an_end_that_nobody_caused_is_a_crash(history, returncode, told):
    [found] = judge(history.recorded(exits=[Exit("a", 9.0, returncode)]))

    assert (found.kind, found.at) == ("crash", 9.0)
    assert told in found.message


def test_who_ends_well_and_was_not_told_to_has_crashed(history):
    [found] = judge(history.recorded(exits=[Exit("a", 9.0, 0, was_asked=False)]))

    assert (found.kind, found.clients) == ("crash", ("a",))
    assert "exit status 0, which nobody caused" in found.message


def test_who_does_not_end_when_it_is_told_to_is_said_to_have_hung(history):
    [found] = judge(history.recorded(exits=[Exit("a", 9.0, -9, hung_for=70.0)]))

    assert found.message == "client a did not end in 70 s after it was told to, and was killed"


def test_an_end_that_the_run_caused_is_none(history):
    assert judge(history.recorded(exits=[Exit("a", 9.0, -9, was_killed=True)])) == []


def test_a_diary_that_no_client_can_have_written_is_said_to_be_one(history):
    history.held("a", 1.0, 2.0)
    history.events.append(history.events[-1])

    found = judge(history.recorded(exits=[Exit("a", 9.0, 1)]))

    assert [one.kind for one in found] == ["not a history", "crash"]
