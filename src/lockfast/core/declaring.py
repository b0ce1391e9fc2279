"""What a store says of itself before its driver is needed: its URLs, and whose clients it adopts.

Each room of `lockfast.backends` has it in `declaration.py`, which imports no driver: to say what
is accepted, all of them are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lockfast.core.locating import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from urllib.parse import SplitResult


def place_of_server(url: SplitResult, namespace: str) -> dict[str, Any]:
    """Return what a backend that connects to a server is made with: the URL but for its query."""
    plain = f"{url.scheme}://{url.netloc}{url.path}"
    return {"url": plain, "location": masked(plain), "namespace": namespace}


def is_of_asyncio(kind: type) -> bool:
    """Whether a class, or what it inherits from, stands in a package called asyncio."""
    return any("asyncio" in one.__module__.split(".") for one in kind.__mro__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignClients:
    """The clients of other libraries that a store adopts, known by where their classes stand."""

    packages: frozenset[str]
    """Their roots. A class that inherits from one of theirs is taken for theirs."""
    listed_as: str
    """How the refusal of a stranger lists them."""
    options: frozenset[str] = frozenset()
    """What may be given beside such a client; all else it knows itself."""
    is_asyncio: Callable[[type], bool] | None = None
    """Which flavour a class belongs to; None where both flavours take it."""
    is_ours: Callable[[Any], bool] | None = None
    """Whether a client leads to this store; None where its package leads to no other."""
    objection: Callable[[Any], str | None] | None = None
    """Why one that leads to this store is refused all the same; None where none is."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Packages whose classes only look like theirs, each with the reason."""

    def objection_to(self, client: object) -> str | None:
        """Say why what looks like one of them is refused, or None where it is not."""
        if self.objection is not None and self.includes(client):
            return self.objection(client)
        return next((self.refused[one] for one in _roots(client) if one in self.refused), None)

    def includes(self, client: object) -> bool:
        """Whether it is one of them."""
        if self.packages.isdisjoint(_roots(client)):
            return False
        return self.is_ours is None or self.is_ours(client)


def _roots(client: object) -> list[str]:
    return [one.__module__.partition(".")[0] for one in type(client).__mro__]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One store, as `lockfast.urls` has to know it."""

    backend: str
    """Its class in `_sync/backend.py`; the twin in `_async` is called the same after `Async`."""
    schemes: Mapping[str, str]
    """Each scheme with a URL that shows how it is written."""
    also_called: Mapping[str, str] = field(default_factory=dict)
    """Schemes by which others know such a store, each with the one of ours that is meant."""
    arguments: Callable[[SplitResult, str], dict[str, Any]] = place_of_server
    """What the backend is made with, from the URL and the namespace; its options come beside."""
    named_file: Callable[[SplitResult], Path | None] | None = None
    """Which file a URL names, if any; None where opening one makes no file."""
    extra: str | None = None
    """The extra of Lockfast that installs its driver; None where it needs none."""
    driver_needs: str = ""
    """What its driver needs besides, said where it is installed and cannot be loaded."""
    clients: tuple[ForeignClients, ...] = ()
    """Whose clients it adopts."""
    together: ForeignClients | None = None
    """Of whose clients several are one store together, each with a server of its own."""
    removed: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Options with a value that older versions accepted, each with what to use instead."""
    factory_options: frozenset[str] | None = None
    """What may be given beside a function that connects; None where none is accepted."""
