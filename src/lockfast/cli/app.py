"""The command `lockfast`: its parts, each loaded when it is called for."""

from __future__ import annotations

import importlib
import sys
from io import TextIOWrapper

import click

import lockfast
from lockfast.cli.elsewhere import unavailable
from lockfast.cli.options import CONTEXT
from lockfast.cli.store import route_log
from lockfast.options import closest

EPILOG = """\b
Examples:
  lockfast run nightly-report -- ./report.sh
  lockfast ls
  lockfast show nightly-report
  lockfast doctor
  lockfast advise
  lockfast challenge --start redis
  lockfast demo

\b
Exit codes, the same for every command:
   1  the answer is no: unknown name, nothing to break or drop, unhappy
      doctor or demo, a challenge that found something
   2  wrong usage
  69  the store is not available
  70  unknown: a request was sent and not answered; a challenge that
      showed too little
  73  the lease was lost while the command ran
  75  not acquired: somebody else holds the lock
  78  configuration: a URL, a value or a file that cannot be used
"""

COMMANDS = {
    "run": "lockfast.cli.run:run",
    "ls": "lockfast.cli.ls:ls",
    "show": "lockfast.cli.show:show",
    "break": "lockfast.cli.break_:break_",
    "doctor": "lockfast.cli.doctor:doctor",
    "advise": "lockfast.cli.advise:advise",
    "init": "lockfast.cli.init:init",
    "challenge": "lockfast.cli.challenge.command:challenge",
    "demo": "lockfast.cli.demo.command:demo",
}


class LateCommands(click.Group):
    """Imports a command when it is used: `run` in cron should not wait for rich."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the commands in the order of the help."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, or None for an unknown one."""
        if cmd_name not in COMMANDS:
            return None
        if (stand_in := unavailable(cmd_name)) is not None:
            return stand_in
        module, _, name = COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), name)
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called for, or say which one may have been meant."""
        alike = [] if args[0] in COMMANDS else closest(args[0], COMMANDS)
        if alike and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, alike))}?")
        return super().resolve_command(ctx, args)


@click.group(cls=LateCommands, epilog=EPILOG, context_settings=CONTEXT)
@click.version_option(lockfast.__version__, message="lockfast %(version)s")
def app() -> None:
    """Locks for several processes or machines: a lease and a fencing token.

    Without --url or LOCKFAST_URL the locks live in an embedded file, which excludes only
    processes of this user on this machine.
    """


def main() -> int:
    """Run the command line; return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A name may hold what the terminal's encoding lacks: show it escaped, never fail.
            stream.reconfigure(errors="backslashreplace")
    route_log()
    app.main(prog_name="lockfast")
    return 0
