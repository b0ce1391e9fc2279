"""The options that several commands share, said once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 80}


def name_argument(function: F) -> F:
    """Add NAME, the name of a lock."""
    return click.argument("name", metavar="NAME")(function)


def store_options(function: F) -> F:
    """Add --url, --namespace and --json, which every command has."""
    json = click.option(
        "--json", "as_json", is_flag=True, help="Answer in JSON; errors on stderr, in JSON too."
    )
    namespace = click.option(
        "--namespace",
        envvar="HOLDFAST_NAMESPACE",
        show_envvar=True,
        metavar="WORD",
        default="holdfast",
        help="Which application's locks, where several share a store.",
    )
    url = click.option(
        "--url",
        envvar="HOLDFAST_URL",
        show_envvar=True,
        metavar="URL",
        help="Where the locks are; without it, the embedded file of this user.",
    )
    return url(namespace(json(function)))
