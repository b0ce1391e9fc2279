"""`holdfast break NAME`: an operator ends somebody else's lease."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli.listing import holder_fields
from holdfast.cli.options import CONTEXT, name_argument, store_options
from holdfast.cli.screen import plain, screen, write_json
from holdfast.cli.store import opened, tell, told
from holdfast.cli.wording import held_by
from holdfast.model import printable

if TYPE_CHECKING:
    from holdfast import Holder, Locks

EPILOG = """\b
Examples:
  holdfast break nightly-report
  holdfast break nightly-report --yes --json

\b
Exit codes:
  0 broken; 1 nobody held it, or you said no
"""


@click.command("break", epilog=EPILOG, context_settings=CONTEXT)
@name_argument
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@store_options
def break_(*, name: str, yes: bool, url: str | None, namespace: str, as_json: bool) -> None:
    """Free NAME although somebody holds it.

    The broken holder runs on until its next renewal, up to a third of its ttl: only a
    resource that looks at the token stops it sooner. The next token is larger in any case.
    """
    if not yes and not (sys.stdin.isatty() and not as_json):
        raise click.UsageError("there is nobody here to ask: add --yes if you mean it")
    with told(as_json=as_json), opened(url, namespace=namespace, must_exist=True) as locks:
        if not yes:
            _ask(locks, name)
        broken = locks.break_(name)
        if as_json:
            fields = [holder_fields(one) for one in broken]
            write_json({"store": locks.location, "name": name, "broken": fields})
        else:
            _print(name, broken)
        if not broken:
            sys.exit(1)


def _ask(locks: Locks, name: str) -> None:
    holders = locks.inspect(name).holders
    if not holders:
        tell(f"nobody holds {name!r} at {locks.location}")
        sys.exit(1)
    question = f"{printable(name)} is {held_by(holders)}. Break it?"
    if not click.confirm(question):
        sys.exit(1)


def _print(name: str, broken: tuple[Holder, ...]) -> None:
    if not broken:
        tell(f"nobody holds {name!r}: there was nothing to break")
        return
    for holder in broken:
        token = "" if holder.token is None else f", token {holder.token}"
        screen().print(plain(f"{name}: broke the lease of {holder.owner}{token}"))
