"""Runs against a real server: correct locks stay valid under faults, broken ones are found."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from challenge.by_hand import ByHand
from challenge.one_fleet import order
from challenge.one_redis import one_redis
from puppets import environment

from lockfast_challenge.checker.judge import judge
from lockfast_challenge.clients import fleet as fleet_module
from lockfast_challenge.clients.fleet import Fleet
from lockfast_challenge.clients.fork_server import Order
from lockfast_challenge.clients.process import ClientFailed
from lockfast_challenge.faults.schedule import NoSuchFault
from lockfast_challenge.outcome import Setting
from lockfast_challenge.processes import eventually, family, is_dead
from lockfast_challenge.runs.archive import KeptAlready, kept
from lockfast_challenge.runs.run import Enough, run

CLIENTS = 3
SERVER = b"lockfast_challenge.clients"
LOCKFAST = "lockfast_challenge.clients.lockfast_locks"


@pytest.fixture(name="deployment")
def _deployment():
    with one_redis(CLIENTS) as one:
        yield one


def setting(*faults: str, workload: str = "guarded-counter", seconds: float = 2.0) -> Setting:
    return Setting("redis", "lockfast", workload, CLIENTS, 1, seconds, 1.0, faults)


@pytest.mark.parametrize(
    ("flavour", "fault", "workload"),
    [
        ("Sync", "holder-replies-held-then-killed", "guarded-counter"),
        ("Async", "holder-frozen", "guarded-set"),
        ("Sync", "holder-interrupted", "read-write"),
        ("Async", "waiter-interrupted", "semaphore"),
    ],
)
def test_a_correct_lock_is_valid_under_a_fault(deployment, tmp_path, flavour, fault, workload):
    asked = setting(fault, workload=workload)

    outcome = run(asked, deployment, make=f"{LOCKFAST}:{flavour}Contender", folder=tmp_path)

    assert outcome.verdict == "valid", outcome.findings
    assert outcome.grants > CLIENTS
    assert {strike.kind for strike in outcome.strikes} == {fault}
    assert bool(outcome.writes) == ("guarded" in workload)
    assert not any(write.is_lost for write in outcome.writes)
    assert judged_again(tmp_path) == (asked, outcome.events, outcome.writes, outcome.findings)


def judged_again(folder: Path):
    setting, recorded, _ = kept(folder)
    [one] = recorded.values()
    return setting, one.events, one.writes, judge(one)


def test_what_lets_two_in_is_found_and_ends_the_run_if_asked(deployment, tmp_path):
    seen = []

    outcome = run(
        setting(workload="counter", seconds=60.0),
        deployment,
        make="challenge.odd_contenders:LetsAllIn",
        folder=tmp_path,
        progress=seen.append,
        stops_at="overlap",
    )

    assert outcome.verdict == "invalid"
    assert "overlap" in {finding.kind for finding in outcome.findings}
    assert judged_again(tmp_path)[-1] == outcome.findings
    assert seen[-1].findings
    assert seen[-1].grants


def test_whoever_is_told_of_the_progress_can_end_the_run(deployment, tmp_path):
    def tell(now) -> None:
        if now.grants:
            raise Enough

    asked = setting(workload="lock", seconds=600.0)
    outcome = run(asked, deployment, folder=tmp_path, progress=tell)

    assert outcome.verdict == "valid"
    assert outcome.events


def test_a_lock_that_lets_nobody_in_has_stalled(deployment, tmp_path):
    outcome = run(
        setting(workload="lock", seconds=60.0),
        deployment,
        make="challenge.odd_contenders:NeverOpens",
        folder=tmp_path,
        stops_at="stall",
        bound=0.5,
    )

    assert "stall" in {finding.kind for finding in outcome.findings}


def test_a_lock_that_never_opened_has_stalled_also_when_its_time_is_over(deployment, tmp_path):
    outcome = run(
        setting(workload="lock", seconds=0.1),
        deployment,
        make="challenge.odd_contenders:NeverAnswers",
        folder=tmp_path,
        bound=0.1,
    )

    assert outcome.verdict == "invalid"
    assert {finding.kind for finding in outcome.findings} == {"stall"}


def test_a_client_that_a_signal_kills_in_its_first_operation_has_crashed(deployment, tmp_path):
    outcome = run(
        setting(workload="lock", seconds=60.0),
        deployment,
        make="challenge.odd_contenders:CrashesAtOnce",
        folder=tmp_path,
        stops_at="crash",
    )

    assert "crash" in {finding.kind for finding in outcome.findings}


class Breaks:
    """A deployment whose only fault cannot be ended."""

    kind, role, is_destructive, lacks, lengths = "breaks", None, False, "", (0.0, 0.0)
    lies_in_wait = False
    jumps = None
    exemptions = ()

    def __init__(self, deployment) -> None:
        self.has_begun = False
        self.store, self.url = deployment.store, deployment.url
        self.url_for, self.proxies_of = deployment.url_for, deployment.proxies_of

    def faults(self):
        return [self]

    def begin(self, *_: object) -> str:
        self.has_begun = True
        return "the server"

    def end(self) -> None:
        raise ConnectionRefusedError("it does not come back")


def test_what_was_found_is_told_though_a_fault_cannot_be_ended(deployment, tmp_path):
    outcome = run(
        setting("breaks", workload="lock", seconds=60.0),
        Breaks(deployment),
        make="challenge.odd_contenders:LetsAllIn",
        folder=tmp_path,
    )

    assert "overlap" in {finding.kind for finding in outcome.findings}
    assert "it does not come back" in outcome.cut_short
    assert [strike.kind for strike in outcome.strikes] == ["breaks"]
    assert judged_again(tmp_path)[-1] == outcome.findings


def test_a_fault_that_cannot_be_ended_ends_the_run_where_nothing_was_found(deployment, tmp_path):
    with pytest.raises(ConnectionRefusedError, match="it does not come back"):
        run(setting("breaks", seconds=60.0), Breaks(deployment), folder=tmp_path)

    [recorded] = kept(tmp_path)[1].values()
    assert recorded.strikes


def test_enough_is_enough_also_where_a_fault_cannot_be_ended(deployment, tmp_path):
    class BreaksLate(Breaks):
        lengths = (600.0, 600.0)

    broken = BreaksLate(deployment)

    def tell(_: object) -> None:
        if broken.has_begun:
            raise Enough

    outcome = run(setting("breaks", seconds=600.0), broken, folder=tmp_path, progress=tell)

    assert not outcome.findings
    assert "it does not come back" in outcome.cut_short


def test_the_run_can_be_ended_while_it_ends(deployment, tmp_path):
    def tell(now) -> None:
        if now.doing == "ending":
            raise Enough

    outcome = run(
        setting(workload="lock", seconds=0.1), deployment, folder=tmp_path, progress=tell, bound=0.1
    )

    assert outcome.verdict == "valid"


def test_no_client_is_left_where_starting_them_is_interrupted(tmp_path):
    def ordered(number: int, client: str, diary: Path, last_words: Path) -> Order:
        if number == 1:
            raise KeyboardInterrupt
        return order(client, diary, last_words)

    fleet = Fleet(2, tmp_path, ordered)
    with pytest.raises(KeyboardInterrupt), fleet:
        pass

    assert not fleet._lives
    assert not alive()


def test_no_client_is_left_where_ending_them_is_interrupted(tmp_path, monkeypatch):
    def ordered(_: int, client: str, diary: Path, last_words: Path) -> Order:
        return order(client, diary, last_words)

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    fleet = Fleet(3, tmp_path, ordered)
    with fleet:
        eventually(lambda: fleet.look() and fleet.have_begun(range(3)))
        monkeypatch.setattr(fleet_module, "noted", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fleet.end()

    assert not alive()


def alive() -> list[int]:
    """Return the clients of this process that are alive."""
    return [one for one in clients() if not is_dead(one)]


def clients() -> list[int]:
    """Return the processes that this process's fork server has forked."""
    servers = [one for one in family(os.getpid())[1:] if SERVER in commanded(one)]
    return [client for one in servers[:1] for client in family(one)[1:]]


def commanded(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # the process has ended meanwhile
        return b""


@pytest.mark.parametrize(("make", "is_aimed"), [("LetsAllIn", True), ("NeverAnswers", False)])
def test_a_strike_tells_whether_its_victim_had_the_role(deployment, tmp_path, make, is_aimed):
    outcome = run(
        setting("holder-frozen-briefly", workload="long-lock", seconds=0.5),
        deployment,
        make=f"challenge.odd_contenders:{make}",
        folder=tmp_path,
        bound=0.1,
        stops_at="stall",
    )

    assert {strike.is_aimed for strike in outcome.strikes} == {is_aimed}
    assert all(is_aimed != ("no holder" in strike.target) for strike in outcome.strikes)


def test_what_clients_did_not_give_back_is_told(deployment, tmp_path):
    outcome = run(
        setting(workload="lock", seconds=0.1),
        deployment,
        make="challenge.odd_contenders:Leaks",
        folder=tmp_path,
        bound=0.1,
    )

    left = "\n".join(one.message for one in outcome.findings if one.kind == "left behind")
    assert "descriptors" in left
    assert "threads" in left
    assert "nobody holds challenge-" in left


@pytest.mark.parametrize(("make", "is_found"), [("LeaksWithUse", True), ("OpensMany", False)])
def test_what_grows_with_use_is_told_though_it_is_given_back(tmp_path, make, is_found):
    """A client may open many connections, but not more and more of them."""

    def ordered(_: int, client: str, diary: Path, last_words: Path) -> Order:
        one = order(client, diary, last_words, make=f"challenge.odd_contenders:{make}")
        return replace(one, workload="short-lock", ttl=0.05)

    def has_had_many_turns() -> bool:
        fleet.look()
        return sum(one.act == "release" for one in fleet.events) > 200

    with Fleet(1, tmp_path, ordered) as fleet:
        eventually(has_had_many_turns)
        fleet.end()

    [ended] = fleet.exits
    found = [one.message for one in judge(ByHand().recorded(exits=[ended]))]
    assert ended.turns >= 100
    assert len(ended.in_use) == 4
    assert len(found) == is_found
    assert all("descriptors, and then " in one for one in found)


def test_a_client_that_crashes_is_followed_by_another_and_is_told(deployment, tmp_path):
    def tell(_: object) -> None:
        if any(diary.stat().st_size for diary in tmp_path.glob("0.1.jsonl")):
            raise Enough

    outcome = run(
        setting(seconds=600.0),
        deployment,
        make="challenge.odd_contenders:Crashes",
        folder=tmp_path,
        progress=tell,
    )

    assert {event.client for event in outcome.events} > {"0", "0.1"}
    assert "crash" in {finding.kind for finding in outcome.findings}


def test_one_that_cannot_begin_later_is_judged_and_ends_nothing(deployment, tmp_path, monkeypatch):
    monkeypatch.setenv("CRASHED", str(tmp_path / "crashed"))

    def tell(_: object) -> None:
        if list(tmp_path.glob("0.2.jsonl")):
            raise Enough

    outcome = run(
        replace(setting(seconds=600.0), clients=1),
        deployment,
        make="challenge.odd_contenders:CannotBeginAgain",
        folder=tmp_path,
        progress=tell,
    )

    crashed = {one.clients for one in outcome.findings if one.kind == "crash"}
    assert crashed >= {("0",), ("0.1",)}


def test_a_client_that_cannot_begin_ends_the_run_with_its_own_words(deployment, tmp_path):
    with pytest.raises(ClientFailed, match="nobody listens there"):
        run(setting(), deployment, make="challenge.odd_contenders:CannotBegin", folder=tmp_path)


def test_what_a_lock_must_never_raise_ends_the_run_with_its_own_words(deployment, tmp_path):
    class Misconfigured(type(deployment)):
        def url_for(self, client: int) -> str:
            return f"{super().url_for(client)}?no_such_option=1"

    deployment = Misconfigured(deployment.url, [*deployment.proxies])

    with pytest.raises(ClientFailed, match="no_such_option"):
        run(setting(), deployment, folder=tmp_path)


@pytest.mark.parametrize("left", ["0.jsonl", "run.json"])
def test_the_folder_of_another_run_is_refused(deployment, tmp_path, left):
    (tmp_path / left).touch()

    with pytest.raises(KeptAlready, match="holds the history of another run"):
        run(setting(), deployment, folder=tmp_path)


def test_a_fault_that_is_none_is_refused_with_those_that_are(deployment, tmp_path):
    with pytest.raises(NoSuchFault, match=r"earthquake.*holder-frozen"):
        run(setting("earthquake"), deployment, folder=tmp_path)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_all_clients_are_gone_when_the_run_is(tmp_path, number):
    script = Path(__file__).with_name("one_run.py")
    process = subprocess.Popen([sys.executable, str(script), str(tmp_path)], env=environment())
    try:
        eventually(lambda: len(list(tmp_path.glob("*.jsonl"))) == CLIENTS)
        eventually(lambda: all(one.stat().st_size for one in tmp_path.glob("*.jsonl")))
        started = family(process.pid)[1:]

        process.send_signal(number)
        process.wait()

        assert len(started) > CLIENTS + 1  # plus the fork server and the Redis server
        eventually(lambda: all(map(is_dead, started)), what="all that it started is dead")
    finally:
        process.kill()
        process.wait()


def test_a_client_without_descriptors_cannot_reach_the_store(deployment, tmp_path):
    """The client's existing connections fail too; otherwise the fault would have no effect."""

    def tell(_: object) -> None:
        if any("Too many open files" in one.read_text() for one in tmp_path.glob("*.jsonl")):
            raise Enough

    asked = setting("descriptors-used-up", seconds=60.0)
    outcome = run(asked, deployment, folder=tmp_path, progress=tell)

    assert outcome.verdict == "valid", outcome.findings
    assert any("Too many open files" in event.reason for event in outcome.events)


def test_the_url_of_a_client_is_not_on_its_command_line(deployment, tmp_path):
    """Any user of the machine can read a command line, and the URL may contain a password."""
    found, seen = [], []

    def tell(now) -> None:
        if now.grants:
            seen.extend(map(commanded, [*clients(), *family(os.getpid())]))
            found.extend(alive())
            raise Enough

    run(setting(seconds=600.0), deployment, folder=tmp_path, progress=tell)

    assert len(found) == CLIENTS
    assert not any(b"redis://" in line for line in seen)
