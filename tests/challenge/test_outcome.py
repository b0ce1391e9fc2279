"""The outcome of a run in which nothing is wrong: valid only if the run has shown something."""

from __future__ import annotations

from dataclasses import replace

from challenge.by_hand import ByHand

from lockfast_challenge.outcome import Outcome, RunFinding, Setting, Strike, Write
from lockfast_challenge.report.wording import fields, headline

GUARDED = Setting("memcached", "lockfast", "guarded-counter", 2, 1, 10.0, 1.0, ("a", "b"))


def came_to(setting: Setting, *, token: int | None = None, **more: object) -> Outcome:
    history = ByHand()
    history.held("0", 1.0, 2.0, token=token)
    return Outcome(setting, ended=10.0, events=history.events, grants=1, **more)


def written(*, is_accepted: bool) -> list[Write]:
    return [Write(1.5, "0", 1, 7, is_accepted, is_lost=False)]


def test_a_run_behind_the_token_check_that_wrote_nothing_shows_nothing():
    refused = came_to(GUARDED, token=7, writes=written(is_accepted=False))

    assert refused.verdict == "unknown"
    assert headline(refused).startswith("no write came through the token check in 10 s")


def test_a_store_without_tokens_is_told_what_to_try_instead():
    assert came_to(GUARDED).verdict == "unknown"
    assert "no tokens for the check (--workload lock needs none)" in headline(came_to(GUARDED))


def test_one_write_is_enough_and_without_the_check_none_is_needed():
    assert came_to(GUARDED, token=7, writes=written(is_accepted=True)).verdict == "valid"
    assert came_to(replace(GUARDED, workload="lock")).verdict == "valid"


def test_a_kind_that_was_asked_for_by_name_and_never_struck_was_not_shown():
    named = replace(GUARDED, workload="lock", are_named=True)
    struck = [Strike("a", "x", 1.0, 2.0)]

    outcome = came_to(named, strikes=struck, not_made={"b": "it needs a program"})

    assert outcome.verdict == "unknown"
    assert headline(outcome).startswith("b never struck in 10 s")
    assert came_to(named, strikes=[*struck, Strike("b", "x", 3.0, 4.0)]).verdict == "valid"


def test_a_run_that_was_cut_short_shows_nothing_wrong_and_is_not_valid():
    cut = came_to(replace(GUARDED, workload="lock"), cut_short="SIGINT")

    assert cut.verdict == "unknown"
    assert headline(cut).startswith("nothing wrong in 10 s: ")
    assert headline(cut).endswith("; the run was cut short by SIGINT")
    assert fields(cut)["cut_short"] == "SIGINT"


def test_a_run_that_was_cut_short_stays_invalid_if_something_was_wrong():
    wrong = [RunFinding("overlap", 1.0, "two inside")]

    cut = came_to(replace(GUARDED, workload="lock"), cut_short="SIGINT", findings=wrong)

    assert cut.verdict == "invalid"


def test_of_all_kinds_that_there_are_some_may_never_strike():
    assert came_to(replace(GUARDED, workload="lock")).verdict == "valid"
