"""Opening the store for a command, and saying what went wrong in one sentence."""

from __future__ import annotations

import json
import logging
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lockfast import ConfigurationError, LockError, Locks, TokenQuality, urls
from lockfast.model import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockfast._sync.backend import Backend
    from lockfast.runtime.clock import Clock


@contextmanager
def opened(
    url: str | None,
    *,
    namespace: str | None,
    alone_is_fine: bool = False,
    must_exist: bool = False,
    **options: Any,  # noqa: ANN401 - those of Locks
) -> Iterator[Locks]:
    """Give the store's client, and close it afterwards.

    A store that must exist is not made where a URL names none.
    """
    place = urls.resolved_url(url)
    _refuse_without_scheme(place)
    if must_exist and (missing := urls.missing_file(place)) is not None:
        raise ConfigurationError(
            f"there is no file {missing}, so nothing was ever locked there; correct the path"
        )
    with Locks(place, namespace=namespace, **options) as locks:
        is_alone = locks.capabilities.token_quality is TokenQuality.PROCESS
        if is_alone and not alone_is_fine:
            raise ConfigurationError(
                "this store lives inside one process, so a command shares it with nobody: "
                "leave --url out for the embedded file, or name a server"
            )
        yield locks


@contextmanager
def opened_backend(url: str | None, *, namespace: str | None, clock: Clock) -> Iterator[Backend]:
    """Give the store itself, for what is no client's matter, and close it afterwards."""
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
    """Say an error of Lockfast's as a sentence, and end the command with its exit code."""
    try:
        yield
    except LockError as error:
        tell_error(error, as_json=as_json)
        sys.exit(error.exit_code)


def tell_error(error: LockError, *, as_json: bool) -> None:
    """Write the error to stderr, for people or for programs."""
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

    What happens to a lease is told by the command itself, in its own words.
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
