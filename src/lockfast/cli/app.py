"""The `lockfast` command: its subcommands, each imported when it is used."""

from __future__ import annotations

import importlib
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING

import click

import lockfast
from lockfast import ConfigurationError
from lockfast.cli.store import CONTEXT, route_log, tell
from lockfast.errors import pip_install
from lockfast.options import closest
from lockfast.platforms import here

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Commands that do not work on some platforms, each with a sentence that says why, and what to do
# instead.

SENTENCES = {
    ("run", "Windows"): "lockfast run ends a command and all that it started when the lease is "
    "lost, for which Windows has no process groups; take the lock in a Python program instead",
    ("demo", "Windows"): "lockfast demo freezes processes, which Windows has no signal for; "
    "play it on Linux or macOS",
    ("challenge", "Windows"): "lockfast challenge needs Linux, whose processes it freezes and "
    "whose servers it starts; a store that is reached from here can be challenged from there",
}
SENTENCES["challenge", "macOS"] = SENTENCES["challenge", "Windows"]


def unavailable(name: str) -> click.Command | None:
    """Return a stand-in for a command that is not available here; None for an available command."""
    if sentence := SENTENCES.get((name, here.NAME)):
        return _stand_in(name, sentence, reason=f"Not on {here.NAME}")
    return _unusable_plug_in(name) if name in EXTRAS else None


def _unusable_plug_in(name: str) -> click.Command | None:
    """Return a stand-in for a plug-in that is not installed, or not of our version."""
    plug_in, install = _plug_ins().get(name), pip_install(EXTRAS[name])
    if plug_in is None:
        sentence = f"lockfast {name} is a package of its own: {install}"
        return _stand_in(name, sentence, reason="Not installed")
    # It uses more than our public names, so another version may do anything.
    if plug_in.dist is not None and plug_in.dist.version != lockfast.__version__:
        sentence = (
            f"{plug_in.dist.name} {plug_in.dist.version} does not fit lockfast "
            f"{lockfast.__version__}: {install}"
        )
        return _stand_in(name, sentence, reason="Of another version")
    return None


def _stand_in(name: str, sentence: str, *, reason: str) -> click.Command:
    def refuse() -> None:
        tell(sentence)
        sys.exit(ConfigurationError.exit_code)

    return click.Command(
        name,
        callback=refuse,
        help=f"{reason}: {sentence}.",
        short_help=f"{reason}.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


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
    "challenge": "",  # provided by a plug-in
    "demo": "lockfast.cli.demo.command:demo",
}

EXTRAS = {"challenge": "challenge"}
"""Commands of other distributions, and the extra that installs each."""


def _plug_ins() -> dict[str, EntryPoint]:
    """Return the commands that other distributions register, by name, without importing them."""
    # The import takes 15 of the 180 ms that any other command needs to start.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return {one.name: one for one in entry_points(group="lockfast.commands")}


class LateCommands(click.Group):
    """Imports a command only when it is used, so that `run` in cron need not import rich."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the commands in the order in which the help lists them."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, or None for an unknown one."""
        if cmd_name not in COMMANDS:
            return None
        if (stand_in := unavailable(cmd_name)) is not None:
            return stand_in
        if cmd_name in EXTRAS:
            try:
                command = _plug_ins()[cmd_name].load()
            except ImportError as error:
                # Every help text and completion comes through here, and must not fail for it.
                broken = f"lockfast {cmd_name} is incomplete ({error}): install it again"
                return _stand_in(cmd_name, broken, reason="Incomplete")
        else:
            module, _, name = COMMANDS[cmd_name].partition(":")
            command = getattr(importlib.import_module(module), name)
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the requested command, or fail and suggest a similar one."""
        alike = [] if args[0] in COMMANDS else closest(args[0], COMMANDS)
        if alike and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, alike))}?")
        return super().resolve_command(ctx, args)


@click.group(cls=LateCommands, epilog=EPILOG, context_settings=CONTEXT)
@click.version_option(lockfast.__version__, message="lockfast %(version)s")
def app() -> None:
    """Locks across processes or machines, with leases and fencing tokens.

    Without --url or LOCKFAST_URL the locks live in an embedded file, which excludes only
    processes of this user on this machine.
    """


def main() -> int:
    """Run the command line; return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A name may contain characters that the terminal's encoding lacks. Escape these
            # characters instead of failing.
            stream.reconfigure(errors="backslashreplace")
    route_log()
    app.main(prog_name="lockfast")
    return 0
