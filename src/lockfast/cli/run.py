"""`lockfast run`: hold a lock while a command runs."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from lockfast import LeaseLost, LockError, NotAcquired, TokenUnavailable
from lockfast.cli import command as commands
from lockfast.cli import guard as guards
from lockfast.cli.options import CONTEXT, name_argument, store_options
from lockfast.cli.signals import Signalled, Signals
from lockfast.cli.store import opened, tell
from lockfast.cli.supervising import Supervision
from lockfast.cli.waiting import told_of_waiting
from lockfast.options import DEFAULT_TTL

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lockfast import Lease, Lock, Locks

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
    """Insists on `--`, so that no option of the command is ever taken for one of ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, after a look at where the command begins."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)  # a shell completes what is not whole yet
        if "--" not in args and not {"-h", "--help"} & set(args):
            ctx.fail("put -- before the command: lockfast run NAME [OPTIONS] -- COMMAND...")
        command = tuple(args[args.index("--") + 1 :]) if "--" in args else ()
        try:
            rest = super().parse_args(ctx, args)
        except click.MissingParameter:
            if not command:
                raise
            rest = []  # the command was one word, and taken for the NAME
        if ctx.params.get("command") != command:
            ctx.fail(
                "before -- stand one NAME and options, after it the command: "
                "lockfast run NAME [OPTIONS] -- COMMAND..."
            )
        return rest

    def collect_usage_pieces(self, _ctx: click.Context) -> list[str]:
        """Return the usage with the `--` that it needs."""
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
    child = commands.prepare(command, name=name)
    guard = guards.post(child.pid)
    try:
        with Signals() as signals, _opened(command, signals, url, namespace, ttl) as locks:
            lock = locks.lock(name, min_hold=min_hold, max_hold=max_hold)
            with told_of_waiting(locks, name, is_quiet=quiet or as_json or no_wait):
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
        # By -E 0 it is no failure: cron would send a mail for every line.
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
    if lease.remaining < lease.ttl / 2:
        # Handed over by another's release, it may begin with a part of its ttl: the command
        # begins with all of it, or it would soon be taken for one that nobody renews.
        lease.renew()
    return lease


def _opened(
    command: tuple[str, ...], signals: Signals, url: str | None, namespace: str | None, ttl: float
) -> AbstractContextManager[Locks]:
    # The ttl is the client's: there are stores where no lock can have one of its own.
    # The program's name and no more: its arguments may hold a secret.
    label = os.path.basename(command[0])  # noqa: PTH119 - a word to show, not a path
    return opened(url, namespace=namespace, label=label, on_event=signals.ring, ttl=ttl)


def _release(lease: Lease, report: Report, supervision: Supervision) -> None:
    try:
        lease.release()
    except LeaseLost as loss:
        report.fail(loss)
    except LockError as error:
        # The command ran under the lock from beginning to end, so its own exit code stands.
        report.message = f"the lock is not released and ends by its ttl: {error}"
    if supervision.loss is not None:
        report.fail(supervision.loss)
    elif supervision.was_stopped:
        report.exit_code = LeaseLost.exit_code


@dataclass(slots=True)
class Report:
    """What became of a run, for --json and for the exit code."""

    name: str
    token: int | None = None
    waited: float = 0.0
    held: float | None = None
    exit_code: int = 0
    error: str | None = None
    message: str | None = None
    started: float = field(default_factory=time.monotonic, repr=False)
    is_quiet: bool = field(default=False, repr=False)
    """Whether the exit code says it all."""

    def begin(self, lease: Lease) -> None:
        """Note that the lock is ours."""
        self.waited = time.monotonic() - self.started
        with suppress(TokenUnavailable):
            self.token = lease.token

    def fail(self, error: LockError, *, exit_code: int | None = None) -> None:
        """Note an error of ours; it decides the exit code."""
        self.error, self.message = type(error).__name__, str(error)
        self.exit_code = error.exit_code if exit_code is None else exit_code

    def tell(self, *, as_json: bool) -> None:
        """Say on stderr what the exit code alone does not; stdout belongs to the command."""
        passed = time.monotonic() - self.started
        if as_json:
            unsaid = ("started", "is_quiet")
            fields = {one: getattr(self, one) for one in self.__slots__ if one not in unsaid}
            fields["held"] = None if self.token is None else passed - self.waited
            print(json.dumps(fields), file=sys.stderr)
        elif self.message is not None and not self.is_quiet:
            tell(self.message)
