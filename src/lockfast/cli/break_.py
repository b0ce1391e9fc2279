"""`lockfast break NAME`: an operator ends another client's lease."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from lockfast.cli.json_output import holder_fields, write_json
from lockfast.cli.output import plain, screen
from lockfast.cli.store import CONTEXT, name_argument, opened, store_options, tell, told
from lockfast.cli.text import state_of
from lockfast.model import printable

if TYPE_CHECKING:
    from lockfast import Holder, Inspection, Locks

EPILOG = """\b
Examples:
  lockfast break nightly-report
  lockfast break nightly-report --token 1763280000000000 --yes
  lockfast break nightly-report --yes --json

\b
Exit codes:
  0 broken; 1 nobody held it (by that token), or you said no
"""


@click.command("break", epilog=EPILOG, context_settings=CONTEXT)
@name_argument
@click.option(
    "--token",
    type=int,
    metavar="TOKEN",
    help="Break only the lease with this token; a successor is left alone.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@store_options
def break_(
    *,
    name: str,
    token: int | None,
    yes: bool,
    url: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Force-release NAME while it is held.

    The broken holder keeps running until its next renewal, up to a third of its ttl. Only a
    resource that checks the token stops it sooner. The next token is larger in any case.
    If you are asked to confirm, only the leases that you were shown are broken.
    """
    if not yes and not (sys.stdin.isatty() and not as_json):
        raise click.UsageError("there is nobody here to ask: add --yes if you mean it")
    with told(as_json=as_json), opened(url, namespace=namespace, must_exist=True) as locks:
        tokens = [token] if yes else _confirmed_tokens(locks, name, token)
        broken = [holder for one in tokens for holder in locks.break_(name, token=one)]
        if as_json:
            fields = [holder_fields(one) for one in broken]
            write_json({"store": locks.location, "name": name, "broken": fields})
        elif broken:
            _print(name, broken)
        else:
            tell(_nothing(locks.inspect(name), token))
        if not broken:
            sys.exit(1)


def _confirmed_tokens(locks: Locks, name: str, token: int | None) -> list[int | None]:
    """Return the tokens that the operator confirmed; later holders are not included."""
    seen = locks.inspect(name)
    shown = tuple(one for one in seen.holders if token in (None, one.token))
    if not shown:
        tell(_nothing(seen, token))
        sys.exit(1)
    question = f"{printable(name)} is {state_of(replace(seen, holders=shown))}. Break it?"
    if not click.confirm(question):
        sys.exit(1)
    return list(dict.fromkeys(one.token for one in shown))


def _nothing(seen: Inspection, token: int | None) -> str:
    by = "" if token is None else f" by token {token}"
    now = f"; it is {state_of(seen)}" if seen.is_in_use else ""
    return f"nobody holds {seen.name!r}{by}: there was nothing to break{now}"


def _print(name: str, broken: list[Holder]) -> None:
    for holder in broken:
        token = "" if holder.token is None else f", token {holder.token}"
        screen().print(plain(f"{name}: broke the lease of {holder.owner}{token}"))
