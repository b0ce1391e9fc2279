"""Which backend a URL means: the one place that knows them all, and imports them late."""

from __future__ import annotations

import importlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, unquote

from holdfast.core.locating import split
from holdfast.core.naming import checked_namespace
from holdfast.errors import ConfigurationError
from holdfast.options import checked_keywords

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class _Kind:
    """A backend: its module, its class (as the sync flavour calls it), how a URL is read."""

    module: str
    name: str
    arguments: Callable[[SplitResult, str], dict[str, Any]]
    example: str


def _memory(url: SplitResult, namespace: str) -> dict[str, Any]:
    # Clients that share a store by name are still kept apart by their namespaces.
    name = url.netloc + url.path
    chosen = f"{namespace}/{name}" if name else ""
    return {"name": chosen, "location": masked(f"memory://{chosen}")}


def _sqlite(url: SplitResult, namespace: str) -> dict[str, Any]:
    from holdfast.backends.sqlite.filesystem import default_path, is_container

    if url.netloc:
        raise ConfigurationError(
            "sqlite:// takes no host: write sqlite:///absolute/path.db or sqlite:relative.db"
        )
    path = _named_path(url)
    if path is not None:
        return {"path": path, "namespace": namespace}
    chosen = default_path()
    # Once per client, since the first question after a surprise is "which file?".
    log = logging.getLogger("holdfast")
    reach = "excludes only processes of this user on this machine"
    if is_container():
        log.warning("embedded locks in a container: %s %s and in this container", chosen, reach)
    else:
        log.info("embedded locks: %s %s", chosen, reach)
    return {"path": chosen, "namespace": namespace, "create_directory": True}


def _named_path(url: SplitResult) -> Path | None:
    path = unquote(url.path)
    if not path or path == "/":
        return None
    # Four slashes are meant as three: in POSIX "//tmp" is a path of its own kind.
    return Path("/" + path.lstrip("/") if path.startswith("/") else path).absolute()


def _redis(url: SplitResult, namespace: str) -> dict[str, Any]:
    plain = f"{url.scheme}://{url.netloc}{url.path}"
    return {"url": plain, "location": masked(plain), "namespace": namespace}


def _zookeeper(url: SplitResult, namespace: str) -> dict[str, Any]:
    plain = f"{url.scheme}://{url.netloc}{url.path}"
    return {"url": plain, "location": masked(plain), "namespace": namespace}


_KINDS = {
    "memory": _Kind("memory", "MemoryBackend", _memory, "memory://"),
    "redis": _Kind("redis", "RedisBackend", _redis, "redis://host:6379/0"),
    "rediss": _Kind("redis", "RedisBackend", _redis, "rediss://host:6379/0"),
    "unix": _Kind("redis", "RedisBackend", _redis, "unix:///path/to/redis.sock"),
    "redis+sentinel": _Kind(
        "redis", "RedisBackend", _redis, "redis+sentinel://host1,host2,host3/mymaster"
    ),
    "rediss+sentinel": _Kind(
        "redis", "RedisBackend", _redis, "rediss+sentinel://host1,host2,host3/mymaster"
    ),
    "redis+cluster": _Kind("redis", "RedisBackend", _redis, "redis+cluster://host1,host2"),
    "rediss+cluster": _Kind("redis", "RedisBackend", _redis, "rediss+cluster://host1,host2"),
    "sqlite": _Kind("sqlite", "SqliteBackend", _sqlite, "sqlite:///path/to/locks.db"),
    "zookeeper": _Kind(
        "zookeeper", "ZooKeeperBackend", _zookeeper, "zookeeper://host1,host2,host3/path"
    ),
}


def open_backend(
    url: str | None, *, flavour: str, namespace: str, clock: Clock, options: dict[str, object]
) -> Any:  # noqa: ANN401 - of either flavour
    """Return the backend that the URL names; None is the embedded default. No I/O yet."""
    parts = _split("sqlite://" if url is None else url)
    kind = _KINDS.get(parts.scheme)
    if kind is None:
        raise ConfigurationError(
            f"unknown scheme {parts.scheme!r} in {masked(url or '')!r}; accepted: "
            + ", ".join(sorted(one.example for one in _KINDS.values()))
        )
    backend = backend_class(parts.scheme, flavour=flavour)
    in_url = dict(parse_qsl(parts.query, keep_blank_values=True))
    checked_keywords({**in_url, **options}, accepted=backend.options, what=f"{parts.scheme}://")
    arguments = kind.arguments(parts, checked_namespace(namespace))
    return backend(clock=clock, **arguments, **{**in_url, **options})


def adopt_client(
    client: object, *, flavour: str, namespace: str, clock: Clock, options: dict[str, object]
) -> Any:  # noqa: ANN401 - of either flavour
    """Return the backend of a store that a client of another library is connected to."""
    modules = [one.__module__ for one in type(client).__mro__]
    roots = {module.partition(".")[0] for module in modules}
    name = f"{type(client).__module__}.{type(client).__qualname__}"
    if "fakeredis" in roots:
        raise ConfigurationError(
            f"{name} is no store that others see; for tests use Locks('memory://name')"
        )
    if "kazoo" in roots:
        checked_keywords(options, accepted=(), what=name)
        backend = backend_class("zookeeper", flavour=flavour)
        return backend.from_client(client, clock=clock, namespace=checked_namespace(namespace))
    if not roots & {"redis", "valkey"}:
        raise ConfigurationError(
            f"no backend is known for {name}; accepted: clients of redis-py and valkey-py "
            "(Redis, RedisCluster, and what Sentinel.master_for returns), and KazooClient"
        )
    is_asyncio = any("asyncio" in module.split(".") for module in modules)
    if is_asyncio != (flavour == "_async"):
        kind, other = ("an asyncio", "AsyncLocks") if is_asyncio else ("a sync", "Locks")
        raise ConfigurationError(
            f"{name} is {kind} client; give it to holdfast.{other}.from_client"
        )
    checked_keywords(options, accepted={"durability"}, what=name)
    backend = backend_class("redis", flavour=flavour)
    return backend.from_client(
        client, clock=clock, namespace=checked_namespace(namespace), **options
    )


def backend_class(scheme: str, *, flavour: str) -> Any:  # noqa: ANN401 - as above
    """Return the class behind a scheme, importing its module now."""
    kind = _KINDS[scheme]
    try:
        module = importlib.import_module(f"holdfast.backends.{kind.module}.{flavour}.backend")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{scheme}:// needs a driver that is not installed ({error.name}): "
            f"pip install 'holdfast[{kind.module}]'"
        ) from error
    return getattr(module, ("Async" if flavour == "_async" else "") + kind.name)


def schemes() -> tuple[str, ...]:
    """Return every scheme that is known."""
    return tuple(_KINDS)


def missing_file(url: str) -> Path | None:
    """Return the file that the URL names, if it names one that is not there.

    Opening would make it: whoever only looks would take a mistyped path for an idle store.
    """
    parts = _split(url)
    path = _named_path(parts) if parts.scheme == "sqlite" else None
    is_missing = path is not None and path.parent.is_dir() and not path.exists()
    return path if is_missing else None


def masked(url: str) -> str:
    """Return the URL without what may be secret, for errors, logs and reports.

    Read by hand: a password with a slash or a hash in it moves the parts that a parser
    sees, and one of them would be shown. So all before the last @ goes, and all values
    after a question mark.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
    _, at, place = rest.rpartition("@")
    place, question, query = place.partition("?")
    names = [one.partition("=")[0] for one in query.split("&") if one]
    hidden = "***@" if at else ""
    return f"{scheme}{separator}{hidden}{place}{question}" + "&".join(f"{one}=***" for one in names)


def _split(url: str) -> SplitResult:
    if not isinstance(url, str):
        raise TypeError(f"a URL is a str, not {type(url).__name__}")
    try:
        return split(url)
    except ValueError as error:
        # Its own words quote the login.
        reason = "it is no valid URL" if "netloc" in str(error) else str(error)
        raise ConfigurationError(f"the URL {masked(url)!r} cannot be read: {reason}") from None
