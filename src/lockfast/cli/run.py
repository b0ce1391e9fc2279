"""`lockfast run`: hold a lock while a command runs."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import click

from lockfast import LeaseLost, LockError, NotAcquired, TokenUnavailable
from lockfast.cli import run_process
from lockfast.cli.run_supervision import Signalled, Signals, Supervision
from lockfast.cli.store import CONTEXT, name_argument, opened, store_options, tell
from lockfast.cli.text import CLEAR_LINE, is_live_terminal, ordinal, state_of, state_since
from lockfast.core.renewal import COMMAND_START_TTL_FRACTION
from lockfast.model import printable
from lockfast.options import DEFAULT_TTL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from lockfast import Inspection, Lease, Lock, Locks

# Shows waiting users their place in line, the holder, and for how long the lock has been held. On a
# terminal this is a live line, elsewhere a line in a log.

FIRST_LOOK_SECONDS = 0.3
NEXT_LOOK_SECONDS = 1.0
FIRST_LINE_SECONDS = 2.0
"""Delay of the first line if there is no terminal, because a short wait is not worth a log line."""
NEXT_LINE_SECONDS = 600.0


@contextmanager
def waiting_reported(locks: Locks, name: str, *, is_quiet: bool) -> Iterator[None]:
    """Report on stderr who holds the lock that we wait for.

    On a terminal this is a live line, updated every second and cleared at the end. Elsewhere it is
    a separate line, repeated only rarely, because the output goes to a log or into an email from
    cron.
    """
    if is_quiet:
        yield
        return
    is_over = threading.Event()
    report_wait = _report_live if is_live_terminal() else _report_rarely
    display = threading.Thread(target=report_wait, args=(locks, name, is_over), daemon=True)
    display.start()
    try:
        yield
    finally:
        is_over.set()
        display.join()


def waiting_sentence(seen: Inspection, *, host: str, pid: int) -> str:
    """Return our place in line and the state of the lock, from an inspection."""
    ours = [one.place for one in seen.line if (one.owner.host, one.owner.pid) == (host, pid)]
    place = f"{ordinal(ours[0])} in line" if ours else "waiting"
    return f"{place} for {printable(seen.name)}; {state_of(seen)}"


def _report_live(locks: Locks, name: str, is_over: threading.Event) -> None:
    host, pid, pause, was_shown = socket.gethostname(), os.getpid(), FIRST_LOOK_SECONDS, False
    while not is_over.wait(pause):
        pause = NEXT_LOOK_SECONDS
        try:
            text = waiting_sentence(locks.inspect(name), host=host, pid=pid)
        except LockError:
            # The waiting acquire decides how long to tolerate an outage; this thread only reports
            # the outage.
            text = f"waiting for {printable(name)}; the store does not answer"
        width = shutil.get_terminal_size().columns - 1
        _write(CLEAR_LINE + text[:width])
        was_shown = True
    if was_shown:
        _write(CLEAR_LINE)


def _report_rarely(locks: Locks, name: str, is_over: threading.Event) -> None:
    pause = FIRST_LINE_SECONDS
    while not is_over.wait(pause):
        pause = NEXT_LINE_SECONDS
        try:
            state = state_since(locks.inspect(name), now=datetime.now().astimezone())
        except LockError:
            state = "and the store does not answer"  # as in `_report_live`
        if not is_over.is_set():  # we may have acquired the lock meanwhile
            tell(f"waiting for {name}, {state}")


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


EPILOG = """\b
Examples:
  lockfast run nightly-report -- ./report.sh --all
  lockfast run backup --no-wait -E 0 -- tar czf /backup.tgz /data
  lockfast run sync --quiet --timeout 60 -- ./sync.sh
  lockfast run cron-mail --no-wait --min-hold 30 -- ./mail.sh
  lockfast run deploy --timeout 60 --url redis://locks.internal -- make deploy

\b
Exit codes:
  the command's own; 128 + n if signal n ended it; 126 not executable; 127 not
  found; 75 not acquired (-E); 73 the lease was lost, and the command stopped;
  70 unknown; 69 store unavailable; 78 configuration; 2 wrong usage
"""


class RunCommand(click.Command):
    """Requires `--`, so that an option of the user's command is never taken for one of ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, and check that the command is exactly what follows `--`."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)  # shell completion parses incomplete lines
        if "--" not in args and not {"-h", "--help"} & set(args):
            ctx.fail("put -- before the command: lockfast run NAME [OPTIONS] -- COMMAND...")
        command = tuple(args[args.index("--") + 1 :]) if "--" in args else ()
        try:
            rest = super().parse_args(ctx, args)
        except click.MissingParameter:
            if not command:
                raise
            rest = []  # the command was a single word, and was taken for NAME
        if ctx.params.get("command") != command:
            ctx.fail(
                "before -- stand one NAME and options, after it the command: "
                "lockfast run NAME [OPTIONS] -- COMMAND..."
            )
        return rest

    def collect_usage_pieces(self, _ctx: click.Context) -> list[str]:
        """Return the usage line with the required `--`."""
        return ["NAME", "[OPTIONS]", "--", "COMMAND..."]


@click.command(cls=RunCommand, epilog=EPILOG, context_settings=CONTEXT)
@name_argument
@click.argument("command", nargs=-1, required=True)
@click.option(
    "--ttl",
    type=float,
    default=DEFAULT_TTL,
    show_default=True,
    metavar="SECONDS",
    help="Renewed while the command runs; if this machine dies, the lock is free after this long.",
)
@click.option(
    "--timeout",
    type=float,
    metavar="SECONDS",
    help="Wait no longer than this; without it, for ever.",
)
@click.option("--no-wait", is_flag=True, help="Give up at once when the lock is held.")
@click.option(
    "--min-hold",
    type=float,
    default=0.0,
    metavar="SECONDS",
    help="Keep the lock closed for at least this long, however fast the command was.",
)
@click.option(
    "--max-hold",
    type=float,
    metavar="SECONDS",
    help="Stop the command after this long, and exit with 73.",
)
@click.option(
    "--conflict-exit-code",
    "-E",
    type=click.IntRange(0, 255),
    default=NotAcquired.exit_code,
    show_default=True,
    metavar="CODE",
    help="Exit with this code when the lock is not acquired.",
)
@click.option(
    "--quiet",
    "-q",
    is_flag=True,
    help="Say nothing of waiting, nor that the lock was not acquired: the exit code does.",
)
@store_options
def run(
    *,
    name: str,
    command: tuple[str, ...],
    ttl: float,
    timeout: float | None,
    no_wait: bool,
    min_hold: float,
    max_hold: float | None,
    conflict_exit_code: int,
    quiet: bool,
    url: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Hold the lock NAME while COMMAND runs.

    The command gets LOCKFAST_NAME and LOCKFAST_TOKEN in its environment; pass the token to
    whatever it writes to. Signals are forwarded to it. If the lease cannot be renewed, it
    gets SIGTERM, and SIGKILL before the lease ends.
    """
    if no_wait and timeout is not None:
        raise click.UsageError("--no-wait and --timeout exclude each other")
    report = Report(name)
    child = run_process.prepare(command, name=name)
    guard = run_process.post(child.pid)
    try:
        with Signals() as signals, _opened(command, signals, url, namespace, ttl) as locks:
            lock = locks.lock(name, min_hold=min_hold, max_hold=max_hold)
            with waiting_reported(locks, name, is_quiet=quiet or as_json or no_wait):
                lease = _acquired(lock, signals, timeout=0 if no_wait else timeout)
            signals.hold_back()
            report.begin(lease)
            supervision = Supervision(
                child, lease=lease, guard=guard, signals=signals, is_quiet=as_json
            )
            report.exit_code = supervision.run(token=report.token)
            _release(lease, report, supervision)
    except NotAcquired as error:
        report.fail(error, exit_code=conflict_exit_code)
        # With -E 0 a conflict is not a failure. Print nothing, because cron sends an email with
        # whatever a job prints.
        report.is_quiet = quiet or conflict_exit_code == 0
    except LockError as error:
        report.fail(error)
    except Signalled as signalled:
        report.exit_code = 128 + signalled.number
    finally:
        child.dismiss()
        guard.dismiss()
    report.tell(as_json=as_json)
    sys.exit(report.exit_code)


def _acquired(lock: Lock, signals: Signals, *, timeout: float | None) -> Lease:
    try:
        lease = lock.acquire(timeout=timeout, cancel=signals)
    except NotAcquired:
        signals.raise_again()
        raise
    signals.raise_again()
    if lease.remaining < lease.ttl * COMMAND_START_TTL_FRACTION:
        # A lock handed over by another client's release may start with only part of its ttl. The
        # command must start with the whole ttl, or it would soon be stopped as if nobody renewed
        # the lease.
        lease.renew()
    return lease


def _opened(
    command: tuple[str, ...], signals: Signals, url: str | None, namespace: str | None, ttl: float
) -> AbstractContextManager[Locks]:
    # The ttl is set on the client, because in some stores a lock cannot have a ttl of its own. The
    # label contains only the program's name, because the arguments may contain a secret.
    label = os.path.basename(command[0])  # noqa: PTH119 - a word to show, not a path
    return opened(url, namespace=namespace, label=label, on_event=signals.ring, ttl=ttl)


def _release(lease: Lease, report: Report, supervision: Supervision) -> None:
    try:
        lease.release()
    except LeaseLost as loss:
        report.fail(loss)
    except LockError as error:
        # The lock was held from the beginning of the command to its end, so the exit code stays the
        # command's own.
        report.message = f"the lock is not released and ends by its ttl: {error}"
    if supervision.loss is not None:
        report.fail(supervision.loss)
    elif supervision.was_stopped:
        report.exit_code = LeaseLost.exit_code


@dataclass(slots=True)
class Report:
    """The outcome of a run, for --json and for the exit code."""

    name: str
    token: int | None = None
    waited: float = 0.0
    held: float | None = None
    exit_code: int = 0
    error: str | None = None
    message: str | None = None
    started: float = field(default_factory=time.monotonic, repr=False)
    is_quiet: bool = field(default=False, repr=False)
    """Whether to print no message, because the exit code is enough."""

    def begin(self, lease: Lease) -> None:
        """Record that the lock was acquired."""
        self.waited = time.monotonic() - self.started
        with suppress(TokenUnavailable):
            self.token = lease.token

    def fail(self, error: LockError, *, exit_code: int | None = None) -> None:
        """Record a Lockfast error, and its exit code unless another one is given."""
        self.error, self.message = type(error).__name__, str(error)
        self.exit_code = error.exit_code if exit_code is None else exit_code

    def tell(self, *, as_json: bool) -> None:
        """Report on stderr what the exit code does not say; stdout belongs to the command."""
        passed = time.monotonic() - self.started
        if as_json:
            hidden = ("started", "is_quiet")
            fields = {one: getattr(self, one) for one in self.__slots__ if one not in hidden}
            fields["held"] = None if self.token is None else passed - self.waited
            print(json.dumps(fields), file=sys.stderr)
        elif self.message is not None and not self.is_quiet:
            tell(self.message)
