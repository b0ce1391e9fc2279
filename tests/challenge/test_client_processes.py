"""Clients come from a fork server, behave as if started directly, and none is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from challenge.one_fleet import order
from puppets import environment

from lockfast_challenge.clients import __main__ as clients_main
from lockfast_challenge.clients import process as process_module
from lockfast_challenge.clients.fleet import Fleet
from lockfast_challenge.clients.process import ClientFailed, end_clients, start_client
from lockfast_challenge.processes import eventually, family, is_dead, state_of


@pytest.fixture(name="start")
def _start(tmp_path):
    """Start a client of that class; its diary is `0.jsonl`, and its log `0.log`."""
    started = []

    def start(make: str = "challenge.odd_contenders:LetsAllIn"):
        told = order("0", tmp_path / "0.jsonl", tmp_path / "0.json", make=make)
        started.append(start_client(told, log=tmp_path / "0.log", fleet=str(tmp_path)))
        return started[-1]

    yield start
    end_clients(str(tmp_path))
    for one in started:
        one.close()


def has_begun(folder: Path) -> bool:
    diary = folder / "0.jsonl"
    return diary.exists() and bool(diary.stat().st_size)


# -- one client ------------------------------------------------------------------------------


def test_a_client_that_is_told_to_end_ends_well(start, tmp_path):
    client = start()
    eventually(lambda: has_begun(tmp_path))
    assert client.poll() is None

    client.send_signal(signal.SIGTERM)

    assert client.ended() == 0
    assert client.poll() == 0


@pytest.mark.parametrize(
    ("make", "status", "words"),
    [
        ("CrashesAtOnce", -signal.SIGABRT, "Fatal Python error: Aborted"),
        ("CannotBegin", 1, "ConnectionRefusedError: nobody listens there"),
        ("NoSuchLock", 1, "AttributeError"),
    ],
)
def test_what_a_client_dies_of_is_its_status_and_stands_in_its_log(
    start, tmp_path, make, status, words
):
    """The status and the log show the cause of death, even if the client's import fails.

    The fork server tries the import first, but the client reports the failure.
    """
    client = start(f"challenge.odd_contenders:{make}")

    assert client.ended() == status
    assert words in (tmp_path / "0.log").read_text()


def test_the_end_of_a_client_is_seen_although_a_child_of_it_lives_on(start, tmp_path):
    client = start("challenge.odd_contenders:LeavesAChild")
    eventually(lambda: has_begun(tmp_path))
    child = int((tmp_path / "0.log").read_text())

    client.kill()

    try:
        eventually(lambda: client.poll() is not None)
        assert client.poll() == -signal.SIGKILL
        assert not is_dead(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_client_is_in_its_own_session_with_what_the_run_has_by_then(start, tmp_path, monkeypatch):
    monkeypatch.setenv("SAID_LATER", "yes")
    monkeypatch.chdir(tmp_path)

    client = start("challenge.odd_contenders:TellsWhereItIs")

    assert client.ended() == 0
    told = json.loads((tmp_path / "0.log").read_text())
    assert told["session"] == told["pid"] == client.pid
    assert told["SAID_LATER"] == "yes"
    assert told["directory"] == str(tmp_path)
    assert not any("socket" in one for one in told["descriptors"])


def test_a_client_that_is_frozen_stands_still_and_goes_on(start, tmp_path):
    client = start()
    eventually(lambda: has_begun(tmp_path))

    client.freeze()
    assert state_of(client.pid) == "T"
    client.freeze()  # freezing twice does no harm

    client.send_signal(signal.SIGCONT)
    client.send_signal(signal.SIGTERM)
    assert client.ended() == 0


def test_one_that_does_not_end_in_time_is_told_from_one_that_has(start, tmp_path):
    client = start()
    eventually(lambda: has_begun(tmp_path))
    client.freeze()

    assert client.wait(0.01) is None

    client.kill()
    assert client.ended() == -signal.SIGKILL


def test_the_number_of_a_dead_client_is_nobody_elses_until_the_run_knows(start, tmp_path):
    """If the pid were reused before the run knows, a signal could hit another process."""
    client = start()
    eventually(lambda: has_begun(tmp_path))

    os.kill(client.pid, signal.SIGKILL)
    eventually(lambda: state_of(client.pid) == "Z")
    client.send_signal(signal.SIGINT)

    assert client.poll() == -signal.SIGKILL
    assert state_of(client.pid) == "gone"
    client.send_signal(signal.SIGINT)


# -- none is left ----------------------------------------------------------------------------


def test_a_client_whose_start_was_interrupted_is_not_left(tmp_path, monkeypatch):
    """An interrupted start leaves no client, although the run has not received the client's pid."""
    started = []

    def hear(way):
        started.append(heard(way))
        raise KeyboardInterrupt

    heard = process_module.hear
    monkeypatch.setattr(process_module, "hear", hear)

    def ordered(_: int, client: str, diary: Path, last_words: Path):
        return order(client, diary, last_words)

    with pytest.raises(KeyboardInterrupt), Fleet(1, tmp_path, ordered):
        pass

    [(pid, _)] = started
    eventually(lambda: is_dead(pid))


def test_whoever_lost_the_server_is_told_and_the_next_has_another(start, tmp_path):
    client = start()
    eventually(lambda: has_begun(tmp_path))
    server = int(Path(f"/proc/{client.pid}/stat").read_text().rpartition(")")[2].split()[1])

    os.kill(server, signal.SIGKILL)

    with pytest.raises(ClientFailed, match="server has ended"):
        client.ended()
    eventually(lambda: is_dead(client.pid))
    client.kill()  # signals nothing, because the pid may have been reused
    start("challenge.odd_contenders:CrashesAtOnce").ended()


def test_no_client_is_left_by_a_run_that_is_killed_though_a_child_of_it_lives(tmp_path):
    """The clients end although a child of the killed run keeps the run's inherited sockets open."""
    script = Path(__file__).with_name("one_fleet.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)], env=environment(), stdout=subprocess.PIPE
    )
    child = None
    try:
        child = int(process.stdout.readline())
        eventually(lambda: has_begun(tmp_path))
        others = [one for one in family(process.pid)[1:] if one != child]

        process.kill()
        process.wait()

        assert len(others) == 2  # the client, and its server
        eventually(lambda: all(map(is_dead, others)), what="server and client are dead")
        assert not is_dead(child)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        if child is not None:
            os.kill(child, signal.SIGKILL)


def test_whatever_is_imported_for_a_client_starts_no_thread():
    """A forked client has only the thread that forked; all other threads would be missing."""
    program = (
        "import os, threading\n"
        "from lockfast_challenge.broken.registry import FLAWS\n"
        "from lockfast_challenge.clients import __main__\n"
        "from lockfast_challenge.clients.lockfast_locks import AsyncContender, SyncContender\n"
        "from lockfast_challenge.contender import made_by\n"
        "from lockfast.urls import schemes\n"
        "for scheme in schemes():\n"
        "    SyncContender.imports(f'{scheme}://')\n"
        "    AsyncContender.imports(f'{scheme}://')\n"
        "for flaw in FLAWS: made_by(flaw.lock), made_by(flaw.control)\n"
        "print(threading.active_count(), len(os.listdir('/proc/self/task')))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["1", "1"]


def test_an_interrupt_of_a_client_that_is_exiting_does_not_count_as_its_crash():
    """Python restores the default handlers, which end the process, before it is gone."""
    program = """
import os, signal
from lockfast_challenge.clients.player import ClientSignals

class Late:
    def __del__(self, kill=os.kill, me=os.getpid(), number=signal.SIGINT):
        kill(me, number)

late = Late()
ClientSignals().ignore_interrupts()
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# -- what a client counts ------------------------------------------------------------------------


def test_each_quarter_of_the_turns_has_its_least_and_its_largest_count(monkeypatch):
    """Also of many turns, of which only the least and the largest of each stretch are kept."""
    in_use = clients_main.OpenInUse()
    for turn in range(1000):
        monkeypatch.setattr(clients_main, "open_counts", lambda turn=turn: (10 + turn % 7, 2))
        in_use.look()

    assert in_use.turns == 1000
    assert in_use.quarters() == [((10, 2), (16, 2))] * 4


def test_of_very_few_turns_nothing_is_told():
    in_use = clients_main.OpenInUse()
    for _ in range(3):
        in_use.look()

    assert in_use.quarters() == []
