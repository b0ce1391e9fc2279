"""The command line on a terminal: the live line, the keyboard, Ctrl-C and Ctrl-Z, colours."""

from __future__ import annotations

import os
import select
import shlex
import sys
import time

import pytest
from servers.postgresql import shared_server

import lockfast
from lockfast_challenge.processes import EVENTUALLY_SECONDS

# Makes the terminal on stdin the controlling one, as a terminal emulator does for its shell.
AS_SESSION = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


class Screen:
    """The other side of a terminal: what a person sees, and the keys they press."""

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self.seen = ""

    def press(self, keys: str) -> None:
        os.write(self._keys, keys.encode())

    def read_until(self, text: str) -> None:
        deadline = time.monotonic() + EVENTUALLY_SECONDS
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} is not in {self.seen!r}"
            self._read()

    def read_to_the_end(self, process) -> str:
        while process.poll() is None or select.select([self._keys], [], [], 0)[0]:
            if not self._read():
                break
        return self.seen

    def _read(self) -> bool:
        if select.select([self._keys], [], [], 0.05)[0]:
            try:
                self.seen += os.read(self._keys, 4096).decode(errors="replace")
            except OSError:  # Linux raises this when no process has the terminal open any more
                return False
        return True


@pytest.fixture
def on_terminal(cli):
    """Start a program on a terminal of 80 columns; return the program and its screen."""
    keys, terminal = os.openpty()
    os.set_inheritable(terminal, True)

    def start(command):
        process = cli.start_program(
            [sys.executable, "-c", AS_SESSION, *command],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
        )
        return process, Screen(keys)

    yield start
    os.close(keys)
    os.close(terminal)


def test_a_waiter_sees_its_place_and_the_holder(cli, held, on_terminal, terminated):
    holder = held("report")

    waiting, screen = on_terminal(cli.command("run", "report", "--", "echo", "it ran"))
    screen.read_until("1st in line for report; held by ")
    screen.read_until(f"pid {holder.pid} (sh) for ")
    screen.read_until(", token ")
    terminated(holder)

    screen.read_until("it ran")
    assert waiting.wait(timeout=EVENTUALLY_SECONDS) == 0


def test_in_a_pipe_a_waiter_is_quiet(cli, held, eventually, terminated, inspect):
    holder = held("report")
    waiting = cli.start("run", "report", "--", "echo", "it ran")
    eventually(lambda: inspect("report").line)

    terminated(holder)

    assert waiting.communicate(timeout=20) == (b"it ran\n", b"")


def test_the_command_can_read_the_keyboard(cli, on_terminal):
    script = 'read line; echo "got $line"'
    running, screen = on_terminal(cli.command("run", "report", "--", "sh", "-c", script))

    screen.press("hello\n")

    screen.read_until("got hello")
    assert running.wait(timeout=EVENTUALLY_SECONDS) == 0


def test_ctrl_c_reaches_the_command_exactly_once(cli, on_terminal, tmp_path):
    log = tmp_path / "log"
    script = f'trap "echo INT >> {log}; exit 5" INT; echo ready; while :; do sleep 0.01; done'
    running, screen = on_terminal(cli.command("run", "report", "--", "sh", "-c", script))
    screen.read_until("ready")

    screen.press("\x03")

    assert running.wait(timeout=EVENTUALLY_SECONDS) == 5
    assert log.read_text() == "INT\n"


def test_ctrl_c_ends_a_wait(cli, held, on_terminal):
    held("report")
    waiting, screen = on_terminal(cli.command("run", "report", "--", "true"))
    screen.read_until("1st in line")

    screen.press("\x03")

    assert waiting.wait(timeout=EVENTUALLY_SECONDS) == 130


def test_a_stopped_command_gives_the_shell_back_and_goes_on_in_the_foreground(cli, on_terminal):
    shell, screen = on_terminal(["bash", "--norc", "--noprofile", "-i"])
    program = shlex.join(cli.command("run", "report", "--ttl", "60", "--", "sh", "-c"))
    screen.press(f"{program} 'echo rea''dy; read line; echo \"got-$line\"'\n")
    screen.read_until("ready")

    screen.press("\x1a")
    screen.read_until("Stopped")
    screen.press("fg\n")
    screen.press("hello\n")

    screen.read_until("got-hello")
    screen.press("exit\n")
    assert shell.wait(timeout=EVENTUALLY_SECONDS) == 0


def test_a_command_stopped_for_longer_than_its_lease_is_not_continued(cli, on_terminal, tmp_path):
    after = tmp_path / "after"
    shell, screen = on_terminal(["bash", "--norc", "--noprofile", "-i"])
    program = shlex.join(cli.command("run", "report", "--ttl", "2", "--", "sh", "-c"))
    screen.press(f"{program} 'echo rea''dy; read line; touch {after}'\n")
    screen.read_until("ready")

    screen.press("\x1a")
    screen.read_until("Stopped")
    assert cli("run", "report", "--timeout", "20", "--", "true").returncode == 0
    screen.press("fg\n")
    screen.read_until("lost: it was not renewed in time")
    screen.press("\necho code-$?\n")

    screen.read_until("code-73")
    assert not after.exists()
    screen.press("exit\n")
    shell.wait(timeout=EVENTUALLY_SECONDS)


@pytest.fixture
def in_use(cli):
    """A store with a lock that is held."""
    with lockfast.Locks(cli.url, label="a worker") as locks, locks.lock("report"):
        yield


@pytest.mark.parametrize("command", [("ls",), ("show", "report"), ("doctor",)])
def test_there_are_colours_on_a_terminal_and_none_in_a_pipe(cli, in_use, on_terminal, command):
    shown, screen = on_terminal(cli.command(*command))

    assert "\x1b[" in screen.read_to_the_end(shown)
    assert "\x1b" not in cli(*command).stdout


@pytest.mark.parametrize("command", [("ls",), ("show", "report"), ("doctor",)])
def test_no_line_is_longer_than_80_columns_on_a_terminal(cli, in_use, on_terminal, command):
    narrow = ["sh", "-c", 'stty cols 80; exec "$@"', "sh"]

    shown, screen = on_terminal(narrow + cli.command(*command))

    lines = _without_colours(screen.read_to_the_end(shown)).splitlines()
    assert max(map(len, lines)) <= 80


def _without_colours(text: str) -> str:
    parts = text.split("\x1b[")
    return parts[0] + "".join(part.partition("m")[2] for part in parts[1:])


def test_watching_shows_what_changes_until_ctrl_c(cli, held, on_terminal, terminated):
    holder = held("report")
    watching, screen = on_terminal(cli.command("ls", "--watch"))
    screen.read_until("report")

    terminated(holder)
    screen.read_until("no locks in use at")
    screen.press("\x03")

    screen.read_to_the_end(watching)
    assert watching.wait(timeout=EVENTUALLY_SECONDS) == 0


def test_ctrl_c_ends_a_challenge_and_shows_what_it_saw(cli, on_terminal):
    options = ("--start", "sqlite", "--time", "600", "--clients", "2", "--ttl", "1")
    running, screen = on_terminal(cli.command("challenge", *options))
    screen.read_until(" left, nothing wrong, ")

    screen.press("\x03")

    screen.read_until("to run it again")
    screen.read_to_the_end(running)
    assert running.wait(timeout=EVENTUALLY_SECONDS) == 130


def test_whoever_comes_while_the_operator_thinks_is_not_broken(cli, on_terminal):
    """Only the lease that the question named is broken."""
    with lockfast.Locks(cli.url) as locks:
        lock = locks.lock("report")
        old = lock.acquire()
        breaking, screen = on_terminal(cli.command("break", "report"))
        screen.read_until(f"token {old.token}. Break it?")
        old.release()

        with lock as successor:
            screen.press("y\n")
            screen.read_until("nobody holds 'report'")
            assert breaking.wait(timeout=EVENTUALLY_SECONDS) == 1
            successor.renew()


def test_the_operator_is_asked_before_tables_are_dropped(cli, on_terminal):
    server, schema = shared_server(), f"s{os.urandom(4).hex()}"
    url = f"{server.url()}?schema={schema}"
    assert cli("init", url).returncode == 0
    try:
        for answer, code, left in (("n", 1, 2), ("y", 0, 0)):
            asking, screen = on_terminal(cli.command("init", "--drop", url))
            screen.read_until("of all namespaces?")
            screen.press(f"{answer}\n")
            screen.read_to_the_end(asking)

            assert asking.wait(timeout=EVENTUALLY_SECONDS) == code
            tables = server.run("SELECT 1 FROM pg_tables WHERE schemaname = %s", schema)
            assert len(tables) == left
    finally:
        server.run(f"DROP SCHEMA {schema} CASCADE")
