"""`lockfast run`: what the command inherits, and how its end is reported."""

from __future__ import annotations

import json
import os
import signal

import pytest

import lockfast
from lockfast_challenge.processes import EVENTUALLY_SECONDS

FORWARDED = ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2"]


def test_the_command_gets_the_name_and_the_token(cli):
    done = cli("run", "report", "--", "sh", "-c", 'echo "$LOCKFAST_NAME $LOCKFAST_TOKEN"')

    name, token = done.stdout.split()
    assert name == "report"
    assert int(token) == cli.json("show", "report")["last_token"]


def test_every_run_gets_a_larger_token(cli):
    runs = [cli("run", "report", "--", "sh", "-c", "echo $LOCKFAST_TOKEN") for _ in range(2)]

    first, second = [int(one.stdout) for one in runs]
    assert second > first


def test_input_and_output_pass_through_untouched(cli):
    done = cli("run", "report", "--", "cat", stdin="as it\tis\x00\n")

    assert done.stdout == "as it\tis\x00\n"
    assert done.stderr == ""
    assert done.returncode == 0


def test_the_commands_own_exit_code_is_ours(cli):
    assert cli("run", "report", "--", "sh", "-c", "exit 3").returncode == 3


def test_a_command_that_a_signal_ended_is_told_as_shells_do(cli):
    assert cli("run", "report", "--", "sh", "-c", "kill -KILL $$").returncode == 128 + 9


def test_a_command_that_is_not_there_is_told_as_shells_do(cli):
    done = cli("run", "report", "--", "no-such-command")

    assert done.returncode == 127
    assert done.stderr == "lockfast: no-such-command: No such file or directory\n"


def test_a_command_that_cannot_be_executed_is_told_as_shells_do(cli, tmp_path):
    assert cli("run", "report", "--", str(tmp_path)).returncode == 126


def test_the_options_of_the_command_are_its_own(cli):
    assert cli("run", "report", "--", "echo", "--ttl", "--", "-E").stdout == "--ttl -- -E\n"


def test_the_lock_is_free_after_a_command_that_failed(cli):
    cli("run", "report", "--", "false")

    assert cli("run", "report", "--no-wait", "--", "true").returncode == 0


@pytest.mark.parametrize("name", FORWARDED)
def test_a_signal_sent_to_lockfast_reaches_the_command_exactly_once(
    cli, name, tmp_path, eventually
):
    log, ready = tmp_path / "log", tmp_path / "ready"
    until_told = f"while [ ! -e {log} ]; do sleep 0.01; done; exit 0"
    script = f'trap "echo {name} >> {log}" {name}; touch {ready}; {until_told}'
    running = cli.start("run", "report", "--", "sh", "-c", script)
    eventually(ready.exists)

    running.send_signal(signal.Signals[f"SIG{name}"])

    assert running.wait(timeout=EVENTUALLY_SECONDS) == 0
    assert log.read_text() == f"{name}\n"


def test_the_whole_process_group_of_the_command_gets_the_signal(
    cli, tmp_path, eventually, is_running
):
    pids = tmp_path / "pids"
    script = f"sleep 600 & echo $! > {pids}.new; mv {pids}.new {pids}; wait"
    running = cli.start("run", "report", "--", "sh", "-c", script)
    eventually(pids.exists)

    running.terminate()

    assert running.wait(timeout=EVENTUALLY_SECONDS) == 128 + 15
    eventually(lambda: not is_running(int(pids.read_text())))


def test_a_command_that_ignores_term_keeps_its_lock(cli, tmp_path, eventually):
    """A command handles signals as it likes: the lock is free only when the command ends."""
    log, ready, go = tmp_path / "log", tmp_path / "ready", tmp_path / "go"
    script = (
        f'trap "touch {log}" TERM; touch {ready}; while [ ! -e {go} ]; do sleep 0.01; done; exit 0'
    )
    running = cli.start("run", "report", "--", "sh", "-c", script)
    eventually(ready.exists)

    running.terminate()
    eventually(log.exists)

    assert cli("run", "report", "--no-wait", "--", "true").returncode == 75
    go.touch()
    assert running.wait(timeout=EVENTUALLY_SECONDS) == 0


def test_what_the_caller_ignores_stays_ignored(cli, tmp_path, eventually):
    """`nohup lockfast run …` and its command both survive the loss of the terminal."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    script = f"touch {ready}; while [ ! -e {go} ]; do sleep 0.01; done"
    nohup = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh"]
    running = cli.start_program(nohup + cli.command("run", "report", "--", "sh", "-c", script))
    eventually(ready.exists)

    running.send_signal(signal.SIGHUP)
    go.touch()

    assert running.wait(timeout=EVENTUALLY_SECONDS) == 0


def _group_of(cli, tmp_path, eventually):
    """Start a command that has a child; return lockfast and the processes that it started."""
    pids = tmp_path / "pids"
    script = f"sleep 600 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait"
    running = cli.start("run", "report", "--", "sh", "-c", script)
    eventually(pids.exists)
    command, child = map(int, pids.read_text().split())
    return running, os.getpgid(command), command, child


def test_lockfast_killed_with_9_takes_the_command_with_it(cli, tmp_path, eventually, is_running):
    running, guard, command, child = _group_of(cli, tmp_path, eventually)

    running.kill()

    eventually(lambda: not any(map(is_running, (guard, command, child))))
    assert cli("run", "report", "--timeout", "10", "--", "true").returncode == 0


def test_lockfast_killed_together_with_its_guard_takes_the_command_with_it(
    cli, tmp_path, eventually, is_running
):
    """`pkill -9 -f lockfast` kills both; the kernel then ends the command, but not its children."""
    running, guard, command, child = _group_of(cli, tmp_path, eventually)

    os.kill(guard, signal.SIGKILL)
    running.kill()

    eventually(lambda: not is_running(command))
    os.kill(child, signal.SIGKILL)


def test_lockfast_killed_while_it_waits_leaves_no_process(
    cli, held, eventually, is_running, inspect
):
    held("report")
    waiting = cli.start("run", "report", "--", "true")
    eventually(lambda: inspect("report").line)
    processes = [int(one) for one in _children(waiting.pid)]

    waiting.kill()

    assert len(processes) == 2
    eventually(lambda: not any(map(is_running, processes)))


def _children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as children:  # noqa: PTH123 - a kernel file
        return children.read().split()


@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("INT", 130), ("HUP", 129)])
def test_a_signal_ends_the_wait_and_leaves_nothing_behind(  # noqa: PLR0917 - fixtures
    cli, held, eventually, name, code, inspect
):
    held("report")
    waiting = cli.start("run", "report", "--", "true")
    eventually(lambda: inspect("report").line)

    waiting.send_signal(signal.Signals[f"SIG{name}"])

    assert waiting.wait(timeout=EVENTUALLY_SECONDS) == code
    assert inspect("report").line == ()


def test_a_held_lock_is_told_with_its_holder(cli, held):
    holder = held("report")

    done = cli("run", "report", "--no-wait", "--", "true")

    assert done.returncode == 75
    assert done.stdout == ""
    assert f"pid {holder.pid} (sh)" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_program_and_a_command_with_the_same_environment_exclude_each_other(cli, monkeypatch):
    """The URL and the namespace select the lock, so program and command read the same variables."""
    monkeypatch.setenv("LOCKFAST_URL", cli.url)
    monkeypatch.setenv("LOCKFAST_NAMESPACE", "shop")
    shop = {"LOCKFAST_NAMESPACE": "shop"}

    with lockfast.Locks(label="a program") as locks, locks.lock("report"):
        inside = cli("run", "report", "--no-wait", "--", "true", env=shop)
        elsewhere = cli(
            "run", "report", "--no-wait", "--namespace", "other", "--", "true", env=shop
        )

    assert inside.returncode == 75
    assert "a program" in inside.stderr
    assert elsewhere.returncode == 0


def test_waiting_ends_after_the_timeout(cli, held):
    held("report")

    assert cli("run", "report", "--timeout", "0.1", "--", "true").returncode == 75


def test_the_exit_code_of_a_conflict_can_be_chosen(cli, held):
    held("report")

    assert cli("run", "report", "--no-wait", "-E", "0", "--", "true").returncode == 0


def test_a_waiter_runs_after_the_holder(cli, held, eventually, terminated, inspect):
    holder = held("report")
    waiting = cli.start("run", "report", "--", "true")
    eventually(lambda: inspect("report").line)

    assert terminated(holder) == 128 + 15

    assert waiting.wait(timeout=EVENTUALLY_SECONDS) == 0


def test_min_hold_keeps_the_lock_closed_after_a_quick_command(cli):
    cli("run", "report", "--min-hold", "60", "--", "true")

    assert cli("run", "report", "--no-wait", "--", "true").returncode == 75


def test_json_reports_the_run_on_stderr(cli):
    done = cli("run", "report", "--json", "--", "sh", "-c", "echo $LOCKFAST_TOKEN; exit 3")

    report = json.loads(done.stderr)
    assert report.pop("waited") >= 0
    assert report.pop("held") > 0
    assert report == {
        "name": "report",
        "token": int(done.stdout),
        "exit_code": 3,
        "error": None,
        "message": None,
    }


def test_json_reports_a_conflict_on_stderr(cli, held):
    held("report")

    done = cli("run", "report", "--no-wait", "--json", "--", "true")

    report = json.loads(done.stderr)
    assert (report["error"], report["exit_code"], report["token"]) == ("AcquireTimeout", 75, None)


def test_twenty_runs_of_one_name_never_overlap(cli, tmp_path):
    log = tmp_path / "log"
    script = f"echo begin $LOCKFAST_TOKEN >> {log}; sleep 0.01; echo end $LOCKFAST_TOKEN >> {log}"

    runs = [cli.start("run", "report", "--", "sh", "-c", script) for _ in range(20)]

    assert [one.wait(timeout=2 * EVENTUALLY_SECONDS) for one in runs] == [0] * 20
    lines = [line.split() for line in log.read_text().splitlines()]
    tokens = [int(token) for _, token in lines]
    assert [word for word, _ in lines] == ["begin", "end"] * 20
    assert tokens[::2] == tokens[1::2]
    assert tokens == sorted(tokens)
