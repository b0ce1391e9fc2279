"""The URLs of the embedded database: which file they name, and which is meant without one."""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lockfast.backends.sqlite.filesystem import default_path, is_container
from lockfast.core.declaring import Declaration
from lockfast.errors import ConfigurationError
from lockfast.platforms import here

if TYPE_CHECKING:
    from urllib.parse import SplitResult

_log = logging.getLogger("lockfast")

REACH = "excludes only processes of this user on this machine"


def file_or_default(url: SplitResult, namespace: str) -> dict[str, Any]:
    """Return the file that is opened, and say which one if the URL does not."""
    if url.netloc:
        raise ConfigurationError(
            "sqlite:// takes no host: write sqlite:///absolute/path.db or sqlite:relative.db"
        )
    path = named_file(url)
    if path is not None:
        return {"path": path, "namespace": namespace}
    chosen = default_path()
    # For each client, since the first question after a surprise is "which file?".
    _log.info("embedded locks: %s %s", chosen, REACH)
    if is_container():
        warn_of_container(chosen)
    return {"path": chosen, "namespace": namespace, "create_directory": True}


@functools.cache
def warn_of_container(chosen: Path) -> None:
    """Warn once in a process: a program that makes a client per request has read it then."""
    _log.warning("embedded locks in a container: %s %s and in this container", chosen, REACH)


def named_file(url: SplitResult) -> Path | None:
    """Return the file that the URL names; None means the default."""
    path = unquote(url.path)
    if not path or path == "/":
        return None
    return Path(here.path_of_url(path)).absolute()


DECLARATION = Declaration(
    backend="SqliteBackend",
    schemes={"sqlite": "sqlite:///path/to/locks.db"},
    arguments=file_or_default,
    named_file=named_file,
)
