"""Which stores can be started for a challenge, and what is missing where one cannot."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from lockfast.challenge.deployments.given import Given
from lockfast.challenge.servers.starting import CannotStart
from lockfast.errors import pip_install
from lockfast.urls import declared

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from lockfast.challenge.fault import Deployment, Fault

_BACKENDS = {
    "redis": "redis",
    "sentinel": "redis",
    "cluster": "redis",
    "redlock": "redlock",
    "postgresql": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
    "zookeeper": "zookeeper",
    "etcd": "etcd",
    "memcached": "memcached",
    "sqlite": "sqlite",
}
"""By which backend its clients come: the driver of that also asks the servers."""

STORES = tuple(_BACKENDS)
"""What `--start` takes. Each is a module of this room, and its class is called like it."""


_SCHEMES = {
    "rediss": "redis",
    "unix": "redis",
    "redis+sentinel": "sentinel",
    "rediss+sentinel": "sentinel",
    "redis+cluster": "cluster",
    "rediss+cluster": "cluster",
    "redlocks": "redlock",
    "postgres": "postgresql",
    "etcds": "etcd",
}
"""Which store a URL names, where that is not its scheme."""

NOT_ALLOWED = "it would strike servers that others may use, and nobody said that it may"


def own_servers(store: str, *, ttl: float) -> AbstractContextManager[Deployment]:
    """Return the deployment of a store, which has servers in its block; leases will be `ttl` long.

    Raises CannotStart, here or at the beginning of the block, with what to install.
    """
    if store not in _BACKENDS:
        raise CannotStart(f"there are no servers of {store!r} to start: {', '.join(STORES)}")
    return cast("Callable[..., AbstractContextManager[Deployment]]", _kind(store))(ttl=ttl)


def given(url: str, *, ttl: float, may_break: bool = False) -> AbstractContextManager[Deployment]:
    """Return the deployment at a URL, which is neither started nor stopped.

    Unless it `may_break`, no run makes a fault that others who use it would notice.
    """
    del ttl
    scheme = url.partition(":")[0]
    store = _SCHEMES.get(scheme, scheme)
    if store not in _BACKENDS:
        raise CannotStart(
            f"a challenge of {scheme}:// is not known; one of these is: {', '.join(STORES)}"
        )
    documented = getattr(_kind(store), "documented", {})
    faults: Sequence[Fault] = ()
    if _BACKENDS[store] == "redis":
        asked = importlib.import_module("lockfast.challenge.deployments.asked")
        lacks = "" if may_break else NOT_ALLOWED
        faults = asked.redis_faults(url, store=store, lacks=lacks)
    return Given(url, store=store, documented=documented, faults=faults)


def _kind(store: str) -> type:
    try:
        module = importlib.import_module(f"lockfast.challenge.deployments.{store}")
    except ImportError as error:
        extra = declared(_BACKENDS[store]).extra
        words = str(error).partition("\n")[0].rstrip(".")
        raise CannotStart(
            f"a challenge of {store} needs a driver that cannot be loaded ({words}): "
            f"{pip_install(extra or 'all')}"
        ) from error
    return cast("type", getattr(module, store.capitalize()))
