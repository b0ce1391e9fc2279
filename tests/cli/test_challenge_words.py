"""What `lockfast challenge` prints before, during and after a run; no test here needs a run."""

from __future__ import annotations

import io
import os
import signal
from dataclasses import dataclass, replace

import pytest
from histories import held
from rich.console import Console

from lockfast import ConfigurationError
from lockfast_challenge.cli.command import stopping
from lockfast_challenge.cli.play import (
    ChallengeRequest,
    ProgressDisplay,
    allowed,
    check_workload,
    is_here,
    mixed_workloads,
    progress_sentence,
)
from lockfast_challenge.cli.summary import show
from lockfast_challenge.deployments.catalog import STORES
from lockfast_challenge.outcome import MIXED, WORKLOADS, Outcome, RunFinding, Setting, Strike
from lockfast_challenge.runs.run import RunProgress

SETTING = Setting("redis", "lockfast", "counter", 2, 7, 60.0, 1.0, ("holder-frozen", "way-cut"))


COMMAND = f"lockfast challenge --start redis --seed 7 --faults {'a-kind,' * 20}last"


@pytest.fixture
def invalid() -> Outcome:
    events = [*held("0", 0.0, 0.1, 2.0, token=1), *held("1", 0.2, 1.0, 3.0, token=2)]
    found = [
        RunFinding("overlap", 1.0, "two were inside at once", ("0", "1"), example=tuple(events)),
        RunFinding("overlap", 5.0, "two again", ("0", "1"), is_documented=True),
    ]
    return Outcome(
        SETTING,
        ended=60.0,
        events=events,
        findings=found,
        strikes=[Strike("holder-frozen", "client 0", 2.0, 3.0)],
        not_made={"clock-jump": "it needs a program that is not here: apt install faketime"},
        grants=2,
    )


def shown(outcome: Outcome, *, width: int) -> str:
    screen = io.StringIO()
    show(Console(file=screen, width=width, highlight=False, markup=False), outcome, command=COMMAND)
    return screen.getvalue()


NODES = "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"


@pytest.mark.parametrize(
    ("url", "workloads"),
    [
        ("memory://words", MIXED),
        ("memcached://127.0.0.1:1", ("short-lock", "long-lease", "lock")),
        (f"{NODES}?max_ttl=2", ("guarded-counter", "short-lock", "guarded-set", "lock")),
        (NODES, ("guarded-counter", "short-lock", "long-lease", "guarded-set", "lock")),
    ],
)
def test_names_take_in_turn_what_the_store_offers(url, workloads):
    assert mixed_workloads(url, ttl=2.0) == workloads


def asked(workload: str | None, *, url: str | None = None, start: str = "") -> ChallengeRequest:
    return ChallengeRequest(
        url=url, start=start, workload=workload, clients=2, names=1, seed=1, seconds=1.0, ttl=1.0,
        faults=(), may_break=False,
    )  # fmt: skip


NOT_OFFERED = {
    "redlock": {"read-write", "semaphore", "long-lease"},
    "memcached": {"read-write", "semaphore", "guarded-counter", "guarded-set"},
}


@pytest.mark.parametrize("store", STORES)
def test_a_workload_that_the_store_does_not_offer_is_refused(store):
    """Nothing is started: the store's program need not be there."""
    refused = NOT_OFFERED.get(store, set())

    for workload in WORKLOADS.keys() - refused:
        check_workload(asked(workload, start=store))

    for workload in refused:
        with pytest.raises(ConfigurationError) as error:
            check_workload(asked(workload, start=store))
        assert f"--workload {workload} cannot be run: {store} has no " in str(error.value)
        assert "it offers lock, long-lock, short-lock, counter, " in str(error.value)


def test_a_url_shows_what_its_store_offers_without_a_server():
    check_workload(asked("semaphore", url="redis://127.0.0.1:1"))
    check_workload(asked(None, url="memcached://127.0.0.1:1"))

    with pytest.raises(ConfigurationError, match="memcached has no tokens, which the resource"):
        check_workload(asked("guarded-counter", url="memcached://127.0.0.1:1"))


@pytest.mark.parametrize("workload", [None, "lock"])
def test_a_ttl_that_the_url_does_not_accept_is_refused(workload):
    with pytest.raises(ConfigurationError, match=r"redlock has no leases of 1 s \(its max_ttl is"):
        check_workload(asked(workload, url=f"{NODES}?max_ttl=0.5"))


# -- afterwards ------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 80, 100_000])
def test_the_summary_says_it_all_at_every_width(invalid, width):
    text = " ".join(shown(invalid, width=width).split())

    for part in (
        "invalid 1 finding; the first after 1.0 s: overlap",
        "hand-overs",
        "unfenced overlap 1, as documented",
        "1. overlap, after 1.0 s two were inside at once",
        "acquire ok (token 2)",
        "could not be made here clock-jump",
        "lockfast challenge --start redis --seed 7",
        "It cannot fix how the clients interleave",
        "1 of 2 kinds met nobody; a longer --time",
    ):
        assert part in text, part
    assert "two again" not in text  # this finding is counted, but is not the lock's fault


@pytest.mark.parametrize("width", [40, 80])
def test_no_line_of_the_summary_is_wider_than_the_terminal(invalid, width):
    lines = shown(invalid, width=width).splitlines()

    # The command may be wider, because it is meant to be copied.
    assert max(len(line) for line in lines if "lockfast challenge" not in line) <= width


def test_in_a_pipe_no_line_is_filled_up_with_blanks(invalid):
    assert max(map(len, shown(invalid, width=100_000).splitlines())) <= len(COMMAND) + 2


def test_of_many_findings_the_first_are_shown(invalid):
    many = replace(invalid, findings=invalid.findings[:1] * 10)

    text = shown(many, width=80)

    assert text.count("two were inside at once") == 3
    assert "and 7 more; --report FILE shows them" in text


# -- meanwhile -------------------------------------------------------------------------


def test_progress_says_how_long_still_what_strikes_and_what_was_found():
    now = RunProgress(seconds=12.0, doing="way-cut", grants=1234, findings=1)
    later = replace(now, seconds=13.0, wrong=frozenset({"stall", "overlap"}))

    # A documented finding does not count as wrong.
    assert (
        progress_sentence(now, seconds=60.0)
        == "48 s left, nothing wrong, 1,234 grants; fault way-cut"
    )
    assert "47 s left, found: overlap, stall, 1,234 grants" in progress_sentence(
        later, seconds=60.0
    )


def test_a_run_that_takes_longer_is_nearly_done():
    now = RunProgress(seconds=70.0, doing="ending", grants=1, findings=0)

    assert progress_sentence(now, seconds=60.0) == "nearly done, nothing wrong, 1 grant; ending"


def test_in_a_pipe_a_line_is_written_now_and_then_and_at_every_finding():
    stream = io.StringIO()
    display = ProgressDisplay(seconds=60.0, stream=stream)

    for tenth in range(250):
        wrong = frozenset({"stall"} if tenth >= 120 else ())
        display(RunProgress(tenth / 10, "quiet", tenth, len(wrong), wrong))

    lines = stream.getvalue().splitlines()
    assert [line.partition(" left")[0] for line in lines] == [
        "lockfast: 1 min",
        "lockfast: 50 s",
        "lockfast: 48 s",
        "lockfast: 38 s",
    ]
    assert "\x1b" not in stream.getvalue()


# -- before ----------------------------------------------------------------------------


@dataclass
class Known:
    """The part of a fault that is needed before a run."""

    is_destructive: bool = False
    lacks: str = ""


FAULTS = {
    "holder-frozen": Known(),
    "way-cut": Known(),
    "server-killed": Known(is_destructive=True),
}


def test_all_faults_strike_servers_that_are_ours():
    assert allowed(FAULTS, (), may_break=True) == (tuple(FAULTS), {})


def test_servers_of_others_are_not_struck_and_that_is_said():
    kinds, barred = allowed(FAULTS, (), may_break=False)

    assert kinds == ("holder-frozen", "way-cut")
    assert "--yes-break-it" in barred["server-killed"]


def test_whoever_asks_to_strike_servers_of_others_is_told_what_it_takes():
    with pytest.raises(ConfigurationError, match="--yes-break-it"):
        allowed(FAULTS, ("server-killed",), may_break=False)


def test_a_run_of_nothing_but_faults_that_cannot_be_made_is_refused():
    """A run without any fault would count as valid."""
    there = FAULTS | {"clock-jump": Known(lacks="it needs root")}

    with pytest.raises(ConfigurationError, match="clock-jump: it needs root"):
        allowed(there, ("clock-jump",), may_break=True)

    assert allowed(there, ("clock-jump", "way-cut"), may_break=True)[0] == ("clock-jump", "way-cut")


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [("way-cutt", "did you mean 'way-cut'"), ("xyz", "there are: holder-frozen, server-killed")],
)
def test_an_unknown_fault_is_answered_by_those_that_are_known(asked, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        allowed(FAULTS, ("way-cut", asked), may_break=True)


@pytest.mark.parametrize(
    ("url", "is_ours"),
    [
        ("redis://localhost", True),
        ("redis://127.0.0.1:6380/0", True),
        ("redis://:secret@127.0.0.1,[::1]:7/0", True),
        ("sqlite:///srv/locks.db", True),
        ("unix:///run/redis.sock", True),
        ("redis://192.0.2.7", False),
        ("redlock://127.0.0.1:1,192.0.2.7:2", False),
        ("redis://nobody.invalid", False),
    ],
)
def test_only_what_is_on_this_machine_is_ours(url, is_ours):
    assert is_here(url) is is_ours


def test_a_password_that_was_not_encoded_is_not_shown_as_a_host():
    with pytest.raises(ConfigurationError, match="a # is written %23") as refused:
        is_here("redis://:s3cret#s3cret@127.0.0.1")

    assert "s3cret" not in str(refused.value)


# -- Ctrl-C ----------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_a_run_is_noted_and_the_second_ends_it_at_once(number):
    with stopping() as end, end.held_back():
        os.kill(os.getpid(), number)
        assert (end.by, end.exit_code) == (number, 128 + number)

        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)


def test_a_signal_while_servers_start_ends_that():
    with stopping(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)


def test_afterwards_signals_do_what_they_did_before():
    before = signal.getsignal(signal.SIGTERM)

    with stopping():
        assert signal.getsignal(signal.SIGTERM) != before

    assert signal.getsignal(signal.SIGTERM) == before
