"""The options that several commands share, said once."""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import click

from lockfast import LockError, urls

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")

SOON, MOST = 1.0, 500
"""How long a shell's completion may wait for the store, and how many names it is offered."""

CONTEXT: dict[str, object] = {"help_option_names": ["-h", "--help"], "max_content_width": 80}


def names_in_use(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of locks that a shell may offer; nothing where the store has no answer.

    Asked in the middle of somebody's typing: it is given up soon, and never tells an error.
    """
    from lockfast.cli.store import opened  # noqa: PLC0415 - the help needs no store

    logging.disable()  # a warning would stand in the middle of the line that is typed
    url, namespace = ctx.params.get("url"), ctx.params.get("namespace")
    try:
        with opened(url, namespace=namespace, must_exist=True, request_timeout=SOON) as locks:
            names = (one.name for one in locks.survey(incomplete))
            return list(islice(filter(str.isprintable, names), MOST))
    except (LockError, OSError):
        return []


class _SelectingOption(click.Option):
    """Shows its environment variable in the help, and leaves reading it to `lockfast.urls`."""

    def resolve_envvar_value(self, ctx: click.Context) -> None:  # noqa: ARG002 - click's signature
        return None


def name_argument(function: F) -> F:
    """Add NAME, the name of a lock."""
    return click.argument("name", metavar="NAME", shell_complete=names_in_use)(function)


def store_options(function: F) -> F:
    """Add --url, --namespace and --json, which every command has."""
    json = click.option(
        "--json", "as_json", is_flag=True, help="Answer in JSON; errors on stderr, in JSON too."
    )
    namespace = click.option(
        "--namespace",
        cls=_SelectingOption,
        envvar=urls.NAMESPACE_VARIABLE,
        show_envvar=True,
        metavar="WORD",
        help="Which application's locks, where several share a store.",
    )
    url = click.option(
        "--url",
        cls=_SelectingOption,
        envvar=urls.VARIABLE,
        show_envvar=True,
        metavar="URL",
        help="Where the locks are; without it, the embedded file of this user.",
    )
    return url(namespace(json(function)))
