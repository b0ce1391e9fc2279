"""`lockfast run` when its lease ends before the command does."""

from __future__ import annotations

import mmap
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time

import pytest

from lockfast.cli import run_process as guards
from lockfast.cli.run_process import Guard
from lockfast.runtime.clock import Clock
from lockfast_challenge.processes import EVENTUALLY_SECONDS, freeze

# A script that ignores TERM but records it, and keeps recording when it was last alive.
STUBBORN = """
    import os, signal, sys, time
    folder = sys.argv[1]
    def note(*_):
        open(f"{folder}/told", "w").close()
    signal.signal(signal.SIGTERM, note)
    alive = os.open(f"{folder}/alive", os.O_CREAT | os.O_WRONLY)
    with open(f"{folder}/pid.new", "w") as new:
        new.write(str(os.getpid()))
    os.rename(f"{folder}/pid.new", f"{folder}/pid")
    while True:
        os.pwrite(alive, b"%20.6f" % time.clock_gettime(time.CLOCK_BOOTTIME), 0)
        time.sleep(0.001)
"""


@pytest.fixture
def stubborn(cli, tmp_path, eventually):
    """Run a command that only KILL can end, under a lock."""

    def start(*options: str):
        program = [sys.executable, "-c", textwrap.dedent(STUBBORN), str(tmp_path)]
        running = cli.start("run", "report", *options, "--", *program)
        eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "alive").exists())
        return running

    return start


def _last_sign_of_life(tmp_path):
    return float((tmp_path / "alive").read_bytes())


@pytest.fixture
def frozen_store(tmp_path, inspect):
    """Return a function that locks all writers out of the store and returns when the lease ends."""

    def freeze(name: str):
        database.execute("BEGIN EXCLUSIVE")
        [holder] = inspect(name).holders
        return time.clock_gettime(time.CLOCK_BOOTTIME) + holder.remaining

    database = sqlite3.connect(tmp_path / "locks.db", isolation_level=None, timeout=10)
    yield freeze
    database.close()


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_guard_that_struck_first_is_no_error(error):
    """Lockfast and its guard watch one deadline; if the guard acts first, a send may fail."""

    class Line:
        def send(self, _words, _flags):
            raise error

    guard = Guard(pid=0, line=Line(), moment=mmap.mmap(-1, 8))

    guard.kill_at(1.0)


@pytest.fixture
def guarded():
    """A sleeping process in its own process group, and its guard."""
    sleeper = subprocess.Popen(["sleep", "600"], process_group=0)
    guard = guards.post(sleeper.pid)
    yield sleeper, guard
    sleeper.kill()
    sleeper.wait()
    guard.dismiss()


def test_a_guard_that_is_stopped_keeps_nobody_waiting_and_acts_on_the_last_word(guarded):
    """An old deadline must not end a healthy command, however many were sent to the guard."""
    sleeper, guard = guarded
    os.kill(guard.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, guard.pid, os.WSTOPPED | os.WNOWAIT)
    for moment in range(20_000):
        guard.kill_at(moment / 1_000_000)
    ends_at = Clock().now() + 0.5
    guard.kill_at(ends_at)

    os.kill(guard.pid, signal.SIGCONT)

    assert sleeper.wait(timeout=EVENTUALLY_SECONDS) == -signal.SIGKILL
    assert Clock().now() >= ends_at
    assert guard.has_struck()


def test_a_command_whose_group_is_stopped_for_long_goes_on_when_it_is_continued(
    cli, tmp_path, eventually, inspect
):
    """An operator pauses a job: lockfast keeps renewing, and neither reports nor ends anything."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    told = f"echo $$ > {ready}.new; mv {ready}.new {ready}"
    script = f"{told}; until [ -e {go} ]; do sleep 0.01; done; exit 7"
    running = cli.start("run", "report", "--ttl", "1.5", "--", "sh", "-c", script)
    eventually(ready.exists)
    group = os.getpgid(int(ready.read_text()))
    os.killpg(group, signal.SIGSTOP)

    eventually(lambda: inspect("report").holders[0].age > 3.0)
    go.touch()
    os.killpg(group, signal.SIGCONT)

    assert running.wait(timeout=EVENTUALLY_SECONDS) == 7
    assert running.stderr.read() == b""


def test_a_command_that_is_killed_while_its_group_is_stopped_ends_the_run(
    cli, tmp_path, eventually, inspect
):
    ready = tmp_path / "ready"
    # The command is one process: another one would be stopped too, and outlive the killed command.
    script = f"echo $$ > {ready}; exec sleep 600"
    running = cli.start("run", "report", "--ttl", "1.5", "--", "sh", "-c", script)
    eventually(lambda: ready.exists() and ready.read_text().endswith("\n"))
    os.killpg(os.getpgid(int(ready.read_text())), signal.SIGSTOP)

    os.kill(int(ready.read_text()), signal.SIGKILL)

    assert running.wait(timeout=EVENTUALLY_SECONDS) == 128 + signal.SIGKILL
    assert not inspect("report").holders


def test_a_broken_lock_ends_the_command(cli, stubborn, tmp_path):
    """The command gets TERM and then KILL, as soon as a renewal reports the break."""
    running = stubborn("--ttl", "3")

    assert cli("break", "report", "--yes").returncode == 0

    assert running.wait(timeout=EVENTUALLY_SECONDS) == 73
    assert (tmp_path / "told").exists()
    assert b"an operator broke it" in running.stderr.read()


def test_a_frozen_store_ends_the_command_before_its_lease(stubborn, tmp_path, frozen_store):
    running = stubborn("--ttl", "3")
    lease_ends = frozen_store("report")

    assert running.wait(timeout=EVENTUALLY_SECONDS) == 73

    assert (tmp_path / "told").exists()
    assert _last_sign_of_life(tmp_path) < lease_ends
    assert b"is not being renewed" in running.stderr.read()


def test_a_frozen_lockfast_ends_the_command_before_its_lease(
    stubborn, tmp_path, eventually, is_running, inspect
):
    """The process can neither renew nor send TERM, but its guard still watches the deadline."""
    running = stubborn("--ttl", "3")
    freeze(running)
    remaining = inspect("report").holders[0].remaining
    lease_ends = time.clock_gettime(time.CLOCK_BOOTTIME) + remaining

    eventually(lambda: not is_running(int((tmp_path / "pid").read_text())))

    assert _last_sign_of_life(tmp_path) < lease_ends
    running.send_signal(signal.SIGCONT)
    assert running.wait(timeout=EVENTUALLY_SECONDS) == 73


def test_max_hold_ends_the_command(cli, stubborn, tmp_path):
    running = stubborn("--ttl", "3", "--max-hold", "2")

    assert running.wait(timeout=EVENTUALLY_SECONDS) == 73
    assert (tmp_path / "told").exists()
    assert b"held for max_hold" in running.stderr.read()
    assert cli("run", "report", "--no-wait", "--", "true").returncode == 0


def test_what_the_command_started_is_ended_with_it(cli, tmp_path, eventually, is_running):
    """A child that outlives TERM must not go on writing without the lock."""
    pid = tmp_path / "pid"
    child = f'trap "" TERM; echo $$ > {pid}.new; mv {pid}.new {pid}; while :; do sleep 0.01; done'
    script = f"sh -c '{child}' & wait"
    running = cli.start("run", "report", "--ttl", "3", "--", "sh", "-c", script)
    eventually(pid.exists)

    cli("break", "report", "--yes")

    assert running.wait(timeout=EVENTUALLY_SECONDS) == 73
    eventually(lambda: not is_running(int(pid.read_text())))


def test_a_command_that_obeys_is_ended_by_term_alone(cli, tmp_path, eventually):
    ready, tidy = tmp_path / "ready", tmp_path / "tidy"
    script = f'trap "touch {tidy}; exit 0" TERM; touch {ready}; while :; do sleep 0.01; done'
    running = cli.start("run", "report", "--ttl", "3", "--", "sh", "-c", script)
    eventually(ready.exists)

    cli("break", "report", "--yes")

    assert running.wait(timeout=EVENTUALLY_SECONDS) == 73
    assert tidy.exists()


def test_a_long_command_keeps_its_lock_by_renewal(cli, held, terminated):
    """The command holds the lock for longer than one renewal would last, without any message."""
    holder = held("report", "--ttl", "1.5")
    ages = [0.0]
    deadline = time.monotonic() + 20

    while ages[-1] < 2.2 and time.monotonic() < deadline:
        [one] = cli.json("show", "report")["holders"]
        ages.append(one["age"])

    assert ages == sorted(ages)
    assert terminated(holder) == 128 + 15
    assert holder.stderr.read() == b""
