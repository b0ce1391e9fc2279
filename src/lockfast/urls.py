"""Select the backend for a URL or a client; only this module has a list of all stores.

Backends are imported only when needed. Each store declares which URLs and clients are its own, in
the `descriptor.py` of its package.

The URL and the namespace together select the lock. Only this module resolves them, for the library
and for the command line. If two modules read the environment, two programs with the same settings
could use different locks, and nobody would notice.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl

from lockfast.core.descriptor import masked, split
from lockfast.core.naming import checked_namespace
from lockfast.core.server_options import server_options
from lockfast.errors import ConfigurationError, pip_install
from lockfast.options import checked_keywords, closest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from lockfast.core.descriptor import ForeignClients, StoreDescriptor
    from lockfast.runtime.clock import Clock

_log = logging.getLogger("lockfast")

STORES = (
    "etcd",
    "memcached",
    "memory",
    "mysql",
    "postgresql",
    "redis",
    "redlock",
    "sqlite",
    "zookeeper",
)
"""The stores. Each store has a package of this name in `lockfast.backends`."""

EMBEDDED = "sqlite://"
"""The URL of the embedded default store, a file of the current user."""
VARIABLE = "LOCKFAST_URL"
"""The environment variable for the URL of a client that is created without a URL."""
NAMESPACE_VARIABLE = "LOCKFAST_NAMESPACE"
"""The environment variable for the namespace of a client that is created without a namespace."""
DEFAULT_NAMESPACE = "lockfast"


def resolved_url(url: str | None) -> str:
    """Return the given URL, or else the URL in the environment, or else the embedded default."""
    return url if url is not None else os.environ.get(VARIABLE) or EMBEDDED


def resolved_namespace(namespace: str | None) -> str:
    """Return the namespace: given, from the environment, or the default; raise if it is invalid."""
    if namespace is not None:
        return checked_namespace(namespace)
    from_environment = os.environ.get(NAMESPACE_VARIABLE)
    if not from_environment:
        return DEFAULT_NAMESPACE
    try:
        chosen = checked_namespace(from_environment)
    except ConfigurationError as error:
        # The program's source does not contain the value, so the error says where to look.
        raise ConfigurationError(f"{NAMESPACE_VARIABLE}: {error}") from error
    _log.info("locks in the namespace %s, as %s says", chosen, NAMESPACE_VARIABLE)
    return chosen


def open_backend(
    url: str | None,
    *,
    flavour: str,
    namespace: str | None,
    clock: Clock,
    options: dict[str, object],
) -> Any:  # noqa: ANN401 - a backend of either flavour
    """Return the backend that the URL names; no I/O yet.

    None means the URL in the environment, or the embedded default if the environment has no URL.
    """
    place = resolved_url(url)
    chosen = resolved_namespace(namespace)
    if url is not None or not os.environ.get(VARIABLE):
        return _open(place, flavour, chosen, clock, options)
    try:
        backend = _open(place, flavour, chosen, clock, options)
    except ConfigurationError as error:
        # The program's source does not contain the value, so the error says where to look.
        raise ConfigurationError(f"{VARIABLE}: {error}") from error
    _log.info("locks at %s, as %s says", backend.location, VARIABLE)
    return backend


def _open(url: str, flavour: str, namespace: str, clock: Clock, options: dict[str, object]) -> Any:  # noqa: ANN401 - as above
    parts = _split(url)
    room = _store_of(parts.scheme)
    if room is None:
        raise _unknown_scheme(parts.scheme, masked(url))
    in_url = dict(parse_qsl(parts.query, keep_blank_values=True))
    what = f"{parts.scheme}://"
    _refuse_removed({**in_url, **options}, room, what=what)
    backend = _imported(room, flavour=flavour, needed_by=what)
    where = masked(parts._replace(query="").geturl())
    # Read the options of each source before merging them, so that an option in the code overrides
    # the URL under every name that it has.
    given: dict[str, Any] = {}
    for source in (in_url, options):
        given |= server_options(source, accepted=backend.options, what=what, where=where)
    arguments = declared(room).arguments(parts, namespace)
    return backend(clock=clock, **arguments, **given)


def adopt_client(
    client: object,
    *,
    flavour: str,
    namespace: str | None,
    clock: Clock,
    options: dict[str, object],
) -> Any:  # noqa: ANN401 - a backend of either flavour
    """Return the backend for the store that another library's client is connected to."""
    name = _name_of(client)
    room, clients = _adopter(client, name)
    _check_flavour(client, clients, flavour=flavour, way="from_client")
    checked_keywords(options, accepted=clients.options, what=name)
    backend = _imported(room, flavour=flavour, needed_by=name)
    return backend.from_client(
        client, clock=clock, namespace=resolved_namespace(namespace), **options
    )


def open_by_factory(
    connect: Callable[[], object],
    *,
    backend: str,
    flavour: str,
    namespace: str | None,
    clock: Clock,
    options: dict[str, object],
) -> Any:  # noqa: ANN401 - a backend of either flavour
    """Return the backend for a scheme, on connections that a function makes. No I/O yet."""
    if not callable(connect):
        raise TypeError(f"a factory is a function that connects, not {type(connect).__name__}")
    room = _store_of(backend)
    accepted = None if room is None else declared(room).factory_options
    if room is None or accepted is None:
        known = (one for one in schemes() if _takes_factory(one))
        raise ConfigurationError(
            f"backend={backend!r} takes no factory; accepted: {', '.join(sorted(known))}"
        )
    checked_keywords(options, accepted=accepted, what="from_factory()")
    found = _imported(room, flavour=flavour, needed_by=f"backend={backend!r}")
    return found.from_factory(
        connect, clock=clock, namespace=resolved_namespace(namespace), **options
    )


def _takes_factory(scheme: str) -> bool:
    room = _store_of(scheme)
    return room is not None and declared(room).factory_options is not None


def adopt_clients(
    clients: Sequence[object],
    *,
    flavour: str,
    namespace: str | None,
    clock: Clock,
    options: dict[str, object],
) -> Any:  # noqa: ANN401 - a backend of either flavour
    """Return the backend for a store that consists of the servers of several foreign clients."""
    if not isinstance(clients, list | tuple) or not clients:
        raise TypeError("from_clients takes a list of clients, one for each node")
    for client in clients:
        _, kind = _adopter_together(client)
        _check_flavour(client, kind, flavour=flavour, way="from_clients")
    room, kind = _adopter_together(clients[0])
    name = _name_of(clients[0])
    checked_keywords(options, accepted=kind.options, what=name)
    backend = _imported(room, flavour=flavour, needed_by=name)
    return backend.from_clients(
        clients, clock=clock, namespace=resolved_namespace(namespace), **options
    )


def backend_class(scheme: str, *, flavour: str) -> Any:  # noqa: ANN401 - either flavour's
    """Return the class behind a known scheme, importing its module now."""
    room = _store_of(scheme)
    if room is None:
        raise KeyError(scheme)
    return _imported(room, flavour=flavour, needed_by=f"{scheme}://")


def schemes() -> tuple[str, ...]:
    """Return every known scheme."""
    return tuple(scheme for room in STORES for scheme in declared(room).schemes)


def missing_file(url: str) -> Path | None:
    """Return the file that the URL names, if it does not exist.

    Opening the store would create the file. A read-only command would then mistake a mistyped path
    for an idle store.
    """
    parts = _split(url)
    room = _store_of(parts.scheme)
    named_file = declared(room).named_file if room else None
    path = named_file(parts) if named_file else None
    try:
        is_missing = path is not None and path.parent.is_dir() and not path.exists()
    except PermissionError:
        return None  # another user's directory; opening the store reports the error
    return path if is_missing else None


@functools.cache
def declared(room: str) -> StoreDescriptor:
    """Return a store's descriptor, without importing its driver."""
    module = importlib.import_module(f"lockfast.backends.{room}.descriptor")
    found: StoreDescriptor = module.DESCRIPTOR
    return found


def _store_of(scheme: str) -> str | None:
    # If a store has the same name as the scheme, try it first, so that no other descriptor has to
    # be imported.
    rooms = (scheme, *STORES) if scheme in STORES else STORES
    for room in rooms:
        if scheme in declared(room).schemes:
            return room
    return None


def _unknown_scheme(scheme: str, url: str) -> ConfigurationError:
    """Return the error for an unknown scheme, with the URL that was probably meant, if any."""
    sentence = f"unknown scheme {scheme!r} in {url!r}; "
    for room in STORES:
        if (ours := declared(room).scheme_aliases.get(scheme)) is not None:
            return ConfigurationError(f"{sentence}write {ours}{url[len(scheme) :]}")
    # A SQLAlchemy scheme names the store and a driver, so the error lists only that store's
    # examples.
    if (meant := _store_of(scheme.partition("+")[0])) is not None:
        return ConfigurationError(
            f"{sentence}accepted: {', '.join(declared(meant).schemes.values())}"
        )
    examples = {one: shown for room in STORES for one, shown in declared(room).schemes.items()}
    place = re.fullmatch(r"(?P<host>[\w.-]+):(?P<port>\d+)(/.*)?", url)
    at_port = [
        one for one, shown in examples.items() if place and f":{place['port']}/" in f"{shown}/"
    ]
    if at_port:
        sentence += f"a host has its store before it: {at_port[0]}://{place and place[0]}; "
    elif place:
        sentence += f"a host has its store before it, as in redis://{place[0]}; "
    elif "://" not in url and url:
        sentence += f"a file is written sqlite:{'//' if url.startswith('/') else ''}{url}; "
    elif suggestions := closest(scheme, examples):
        sentence += f"did you mean {examples[suggestions[0]]}? "
    return ConfigurationError(
        f"{sentence}accepted: {', '.join(f'{one}://' for one in sorted(examples))}, "
        f"as in {examples['sqlite']}"
    )


def _name_of(client: object) -> str:
    return f"{type(client).__module__}.{type(client).__qualname__}"


def _check_flavour(client: object, clients: ForeignClients, *, flavour: str, way: str) -> None:
    if clients.is_asyncio is None:
        return
    name = _name_of(client)
    is_asyncio = clients.is_asyncio(type(client))
    if is_asyncio != (flavour == "_async"):
        kind, other = ("an asyncio", "AsyncLocks") if is_asyncio else ("a sync", "Locks")
        raise ConfigurationError(f"{name} is {kind} client; give it to lockfast.{other}.{way}")


def _adopter_together(client: object) -> tuple[str, ForeignClients]:
    name = _name_of(client)
    known = [(room, one) for room in STORES if (one := declared(room).together) is not None]
    for room, clients in known:
        if (objection := clients.objection_to(client)) is not None:
            raise ConfigurationError(f"{name} {objection}")
        if clients.includes(client):
            return room, clients
    raise ConfigurationError(
        f"no backend is known for several of {name}; accepted: "
        + ", ".join(clients.listed_as for _, clients in known)
    )


def _adopter(client: object, name: str) -> tuple[str, ForeignClients]:
    known = [(room, clients) for room in STORES for clients in declared(room).clients]
    for room, clients in known:
        if (objection := clients.objection_to(client)) is not None:
            raise ConfigurationError(f"{name} {objection}")
        if clients.includes(client):
            return room, clients
    *others, last = (clients.listed_as for _, clients in known)
    raise ConfigurationError(
        f"no backend is known for {name}; accepted: {', '.join(others)}, and {last}"
    )


def _refuse_removed(given: Mapping[str, object], room: str, *, what: str) -> None:
    """Raise for an option that older versions had, and say what to use instead."""
    for (option, value), instead in declared(room).removed.items():
        if given.get(option) == value:
            raise ConfigurationError(f"{what} no longer has {option}={value}: {instead}")


def _imported(room: str, *, flavour: str, needed_by: str) -> Any:  # noqa: ANN401 - as above
    store = declared(room)
    try:
        module = importlib.import_module(f"lockfast.backends.{room}.{flavour}.backend")
    except ModuleNotFoundError as error:
        if store.extra is None:
            raise ConfigurationError(
                f"{needed_by} needs {error.name}, which this Python was built without"
            ) from error
        raise ConfigurationError(
            f"{needed_by} needs a driver that is not installed ({error.name}): "
            f"{pip_install(store.extra)}"
        ) from error
    except ImportError as error:
        if not store.driver_needs:
            raise
        # Without libpq, psycopg lists each attempt and its failure, on several lines. Keep the
        # first line.
        words = str(error).partition("\n")[0].rstrip(".")
        raise ConfigurationError(
            f"{needed_by} has a driver that cannot be loaded ({words}); {store.driver_needs}"
        ) from error
    return getattr(module, ("Async" if flavour == "_async" else "") + store.backend)


def _split(url: str) -> SplitResult:
    if not isinstance(url, str):
        raise TypeError(_not_a_url(url))
    try:
        return split(url)
    except ConfigurationError:
        raise
    except ValueError as error:
        # urllib's message about an invalid netloc quotes the login, so it is replaced.
        reason = "it is no valid URL" if "netloc" in str(error) else str(error)
        raise ConfigurationError(f"the URL {masked(url)!r} cannot be read: {reason}") from None


def _not_a_url(given: object) -> str:
    sentence = f"a URL is a str, not {type(given).__name__}"
    if isinstance(given, os.PathLike):
        return f"{sentence}; of a file it is sqlite://{os.path.abspath(given)}"  # noqa: PTH100
    ways = "Locks.from_client(...) or AsyncLocks.from_client(...)"
    return f"{sentence}; a client that you have goes to {ways}"
