"""`lockfast show NAME`: shows who holds one lock, and the line of waiting claims."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from lockfast.cli.json_output import as_fields, write_json
from lockfast.cli.output import details, plain, screen
from lockfast.cli.store import CONTEXT, name_argument, opened, store_options, tell, told
from lockfast.cli.text import kind
from lockfast.observe.figures import duration
from lockfast.options import closest

if TYPE_CHECKING:
    from lockfast import Inspection, Locks

EPILOG = """\b
Examples:
  lockfast show nightly-report
  lockfast show order:1 --url redis://locks.internal --json

\b
Exit codes:
  0 the name is in use, or was; 1 the store does not know it
"""


@click.command(epilog=EPILOG, context_settings=CONTEXT)
@name_argument
@store_options
def show(*, name: str, url: str | None, namespace: str | None, as_json: bool) -> None:
    """Show who holds NAME, its token, and who waits for how long.

    A name that nobody holds may still be closed, because of --min-hold or after a failure. The
    output then shows for how long, and who held it last.
    """
    with told(as_json=as_json), opened(url, namespace=namespace, must_exist=True) as locks:
        seen = locks.inspect(name)
        is_known = seen.is_in_use or seen.last_token is not None
        if as_json:
            write_json({"store": locks.location, **as_fields(seen)})
        elif is_known:
            _print(locks, seen)
        else:
            tell(_unknown(locks, name))
        if not is_known:
            sys.exit(1)


def _print(locks: Locks, seen: Inspection) -> None:
    console = screen()
    if not seen.is_in_use:
        console.print(plain(f"{seen.name}: free; the last token was {seen.last_token}"))
    else:
        facts = [kind(seen.capacity)]
        if seen.closing:
            facts.append(f"closed for {duration(seen.closed_for)} more")
        if seen.line:
            facts.append(f"{len(seen.line)} waiting")
        console.print(plain(f"{seen.name}: {', '.join(facts)}", "bold"))
        console.print(details(seen))
    if console.is_terminal:
        console.print(plain(f"at {locks.location}", "dim"))


def _unknown(locks: Locks, name: str) -> str:
    """Return a helpful sentence: similar names, or where to look."""
    in_use = [one.name for one in locks.survey()]
    alike = closest(name, in_use)
    if alike:
        hint = "did you mean " + ", ".join(repr(one) for one in alike) + "?"
    elif in_use:
        hint = "`lockfast ls` lists what is in use"
    else:
        hint = "nothing is in use there; is it the store of your application (--url)?"
    return f"no lock {name!r} at {locks.location}: {hint}"
