"""Opens the store for a command, and reports an error as one sentence."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lockfast import ConfigurationError, LockError, Locks, TokenQuality, urls
from lockfast.model import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockfast.backends._sync.backend import Backend
    from lockfast.runtime.clock import Clock

# The options that several commands share, defined once.

F = TypeVar("F", bound="Callable[..., object]")

COMPLETION_TIMEOUT_SECONDS, COMPLETION_NAMES = 1.0, 500
"""Timeout for shell completion, in seconds, and the maximum number of names it offers."""

CONTEXT: dict[str, object] = {"help_option_names": ["-h", "--help"], "max_content_width": 80}


def names_in_use(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the lock names for shell completion; none if the store does not answer.

    This runs while the user is typing, so it gives up soon and never reports an error.
    """
    logging.disable()  # a warning would appear in the middle of the line being typed
    url, namespace = ctx.params.get("url"), ctx.params.get("namespace")
    try:
        with opened(
            url, namespace=namespace, must_exist=True, request_timeout=COMPLETION_TIMEOUT_SECONDS
        ) as locks:
            names = (one.name for one in locks.survey(incomplete))
            return list(islice(filter(str.isprintable, names), COMPLETION_NAMES))
    except (LockError, OSError):
        return []


class _SelectingOption(click.Option):
    """An option that selects the store; only `lockfast.urls` reads its environment variable."""

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


@contextmanager
def opened(
    url: str | None,
    *,
    namespace: str | None,
    allow_in_process: bool = False,
    must_exist: bool = False,
    **options: Any,  # noqa: ANN401 - the options of Locks
) -> Iterator[Locks]:
    """Open a client for the store, and close it afterwards.

    With `must_exist`, a file that the URL names is not created; if it does not exist, this raises
    ConfigurationError.
    """
    place = urls.resolved_url(url)
    _refuse_without_scheme(place)
    if must_exist and (missing := urls.missing_file(place)) is not None:
        raise ConfigurationError(
            f"there is no file {missing}, so nothing was ever locked there; correct the path"
        )
    with Locks(place, namespace=namespace, **options) as locks:
        is_alone = locks.capabilities.token_quality is TokenQuality.PROCESS
        if is_alone and not allow_in_process:
            raise ConfigurationError(
                "this store lives inside one process, so a command shares it with nobody: "
                "leave --url out for the embedded file, or name a server"
            )
        yield locks


@contextmanager
def opened_backend(url: str | None, *, namespace: str | None, clock: Clock) -> Iterator[Backend]:
    """Open the backend itself, for operations that the client does not offer; then close it."""
    place = urls.resolved_url(url)
    _refuse_without_scheme(place)
    backend: Backend = urls.open_backend(
        place, flavour="_sync", namespace=namespace, clock=clock, options={}
    )
    try:
        yield backend
    finally:
        backend.close()


def _refuse_without_scheme(url: str) -> None:
    if ":" not in url:
        raise ConfigurationError(
            "the URL has no scheme: write redis://HOST, sqlite:///PATH/locks.db or the like"
        )


@contextmanager
def told(*, as_json: bool) -> Iterator[None]:
    """Report a Lockfast error as a sentence, and end the command with its exit code."""
    try:
        yield
    except LockError as error:
        tell_error(error, as_json=as_json)
        sys.exit(error.exit_code)


def tell_error(error: LockError, *, as_json: bool) -> None:
    """Write the error to stderr, as a sentence or as JSON."""
    if as_json:
        report = {
            "error": type(error).__name__,
            "message": str(error),
            "name": error.name,
            "exit_code": error.exit_code,
        }
        print(json.dumps(report), file=sys.stderr)
    else:
        tell(str(error))


def tell(sentence: str) -> None:
    """Write one sentence to stderr."""
    print(f"lockfast: {printable(sentence)}", file=sys.stderr)


def route_log() -> None:
    """Show the library's warnings on a terminal, and keep a pipe quiet.

    Log records of lock events are left out, because the command itself reports what happens to a
    lease.
    """
    logger = logging.getLogger("lockfast")
    logger.propagate = False
    if not sys.stderr.isatty():
        logger.addHandler(logging.NullHandler())
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("lockfast: %(message)s"))
    handler.addFilter(lambda record: not hasattr(record, "lockfast"))
    handler.setLevel(logging.WARNING)
    logger.addHandler(handler)
