"""`lockfast init URL`: creates the tables in which a store keeps its locks, or drops them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from lockfast.cli.json_output import write_json
from lockfast.cli.output import plain, screen
from lockfast.cli.store import CONTEXT, opened_backend, store_options, tell, told
from lockfast.model import Schema
from lockfast.options import DEFAULT_REQUEST_TIMEOUT
from lockfast.runtime.clock import Clock

if TYPE_CHECKING:
    from lockfast.backends._sync.backend import Backend

EPILOG = """\b
Examples:
  lockfast init postgresql://admin@db.internal/app
  lockfast init --dry-run postgresql://db.internal/app > migration.sql
  lockfast init --drop --yes postgresql://admin@db.internal/app

\b
Exit codes:
  0 the tables are there, or none is needed; 1 --drop found none, or you said
  no; 78 this user may not make them, or a table of that name is another's
"""


@click.command(epilog=EPILOG, context_settings=CONTEXT)
@click.argument("place", metavar="[URL]", required=False)
@click.option("--dry-run", is_flag=True, help="Print the statements, and change nothing.")
@click.option("--drop", is_flag=True, help="Drop the tables instead, with every lock in them.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask before --drop.")
@store_options
@click.pass_context
def init(
    context: click.Context,
    *,
    place: str | None,
    dry_run: bool,
    drop: bool,
    yes: bool,
    url: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Create the tables that the store at URL needs.

    The first use creates them too, if its user is allowed to. Run this command if another
    user or a migration should create them. Existing tables are left as they are, so it may
    be run any number of times. All namespaces are in the same tables.
    """
    if place and context.get_parameter_source("url") is ParameterSource.COMMANDLINE:
        raise click.UsageError("give one URL: as the argument, or by --url")
    clock = Clock()
    with (
        told(as_json=as_json),
        opened_backend(place or url, namespace=namespace, clock=clock) as backend,
    ):
        schema = backend.schema() or Schema((), (), ())
        has_changed = False
        if schema.tables and not dry_run:
            if drop and not yes:
                _ask(backend.location, schema, as_json=as_json)
            act = backend.drop_schema if drop else backend.make_schema
            has_changed = act(deadline=clock.now() + DEFAULT_REQUEST_TIMEOUT)
        if as_json:
            _write(backend, schema, drop=drop, has_changed=has_changed)
        elif not schema.tables:
            tell(f"{backend.location} needs no tables: there is nothing to do")
        elif dry_run:
            for statement in schema.dropped_by if drop else schema.made_by:
                # The statement is not wrapped to the terminal's width, so that it can be copied.
                print(f"{statement};")
        else:
            _print(schema, drop=drop, has_changed=has_changed)
        if drop and schema.tables and not dry_run and not has_changed:
            sys.exit(1)


def _ask(where: str, schema: Schema, *, as_json: bool) -> None:
    if not sys.stdin.isatty() or as_json:
        raise click.UsageError("there is nobody here to ask: add --yes if you mean it")
    question = (
        f"{where}: drop {' and '.join(schema.tables)}, of all namespaces? Whoever holds a lock "
        "there loses it, and tokens may start anew."
    )
    if not click.confirm(question):
        sys.exit(1)


def _write(backend: Backend, schema: Schema, *, drop: bool, has_changed: bool) -> None:
    statements = schema.dropped_by if drop else schema.made_by
    write_json(
        {
            "store": backend.location,
            "tables": schema.tables,
            "statements": statements,
            "changed": has_changed,
        }
    )


def _print(schema: Schema, *, drop: bool, has_changed: bool) -> None:
    tables = " and ".join(schema.tables)
    if drop:
        said = f"dropped {tables}" if has_changed else f"there was no {tables} to drop"
    else:
        said = f"made {tables}" if has_changed else f"{tables} are there already"
    if drop and not has_changed:
        tell(said)
    else:
        screen().print(plain(said))
