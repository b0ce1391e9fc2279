"""`lockfast run` in cron and CI: what it reports in a log, and when it is silent."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from lockfast.cli import run
from lockfast.cli.text import state_since
from lockfast.model import Closing, Holder, Inspection, Owner
from lockfast_challenge.processes import EVENTUALLY_SECONDS


def test_a_long_wait_is_told_once_by_whom_and_since_when(cli, held):
    """The wait is logged once: in a log, a line per second would add up to thousands of lines."""
    holder = held("report")
    waiting_run = cli.start("run", "report", "--", "true")

    line = waiting_run.stderr.readline().decode()

    assert re.fullmatch(
        rf"lockfast: waiting for report, held by \S+ pid {holder.pid} \(sh\) "
        r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}\n",
        line,
    )
    holder.send_signal(signal.SIGTERM)
    assert waiting_run.wait(timeout=EVENTUALLY_SECONDS) == 0
    assert waiting_run.stderr.read() == b""


class Looked:
    """A client that counts inspections, and ends the wait at the third."""

    def __init__(self) -> None:
        self.times = 0
        self.is_enough = run.threading.Event()

    def inspect(self, name: str) -> Inspection:
        self.times += 1
        if self.times == 3:
            self.is_enough.set()
        return Inspection(name, 1, (), ())


def test_the_line_is_repeated_rarely(monkeypatch, capsys):
    monkeypatch.setattr(run, "FIRST_LINE_SECONDS", 0.01)
    monkeypatch.setattr(run, "NEXT_LINE_SECONDS", 0.01)
    monkeypatch.setattr(run, "is_live_terminal", lambda: False)
    locks = Looked()

    with run.waiting_reported(locks, "report", is_quiet=False):
        assert locks.is_enough.wait(EVENTUALLY_SECONDS)

    told = capsys.readouterr().err.splitlines()
    assert set(told) == {"lockfast: waiting for report, held by nobody at the moment"}
    assert len(told) >= 2


OWNER = Owner("web-1", 4711, label="sh")
NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (
            Inspection("a", 1, (Holder(OWNER, 7, 1, 30.0, 8.0),), ()),
            "held by web-1 pid 4711 (sh) since 2026-03-01 12:00:00 +0000",
        ),
        (
            Inspection("a", 3, (Holder(OWNER, 7, 1, 30.0, 8.0), Holder(OWNER, 8, 1, 1.0, 8.0)), ()),
            "held by web-1 pid 4711 (sh) and 1 more since 2026-03-01 12:00:00 +0000",
        ),
        (
            Inspection("a", 1, (), (), closing=(Closing(OWNER, 1, 30.0),)),
            "closed for 30 s more after web-1 pid 4711 (sh)",
        ),
    ],
    ids=["held", "by several", "closed"],
)
def test_a_log_is_told_a_moment_and_no_age(seen, said):
    """A log shows when a wait began and not how long ago, because it is read hours later."""
    assert state_since(seen, now=NOW) == said


@pytest.mark.parametrize("options", [("--quiet",), ("-q", "-E", "9"), ("-E", "0")])
def test_a_conflict_can_be_told_by_the_exit_code_alone(cli, held, options):
    """A conflict prints nothing, because cron mails every line; `-E 0` declares it no failure."""
    held("report")

    done = cli("run", "report", "--no-wait", *options, "--", "true")

    assert (done.stdout, done.stderr) == ("", "")
    assert done.returncode == {"--quiet": 75, "-q": 9, "-E": 0}[options[0]]


def test_a_quiet_run_still_tells_what_went_wrong(cli, tmp_path):
    done = cli("run", "report", "--quiet", "--url", f"sqlite://{tmp_path}/no/such.db", "--", "true")

    assert done.returncode == 78
    assert "is not a directory" in done.stderr


def test_a_quiet_run_says_nothing_while_it_waits(cli, held, eventually, inspect, terminated):
    holder = held("report")
    quiet = cli.start("run", "report", "--quiet", "--", "true")
    eventually(lambda: inspect("report").line and inspect("report").line[0].age > 3)

    terminated(holder)

    assert quiet.wait(timeout=EVENTUALLY_SECONDS) == 0
    assert quiet.stderr.read() == b""


def test_it_starts_without_rich():
    """Cron starts the command every minute, and importing rich takes longer than the lock."""
    program = "import sys; sys.modules['rich'] = None\nimport lockfast.cli.run, lockfast.cli.app\n"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
