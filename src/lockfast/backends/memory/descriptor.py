"""The URLs of the store inside this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.core.descriptor import StoreDescriptor, masked

if TYPE_CHECKING:
    from urllib.parse import SplitResult


def named_store(url: SplitResult, namespace: str) -> dict[str, Any]:
    """Return the arguments for the store in the URL; plain `memory://` is a new, private store."""
    # Clients that share a store by name are still kept apart by their namespaces.
    name = url.netloc + url.path
    chosen = f"{namespace}/{name}" if name else ""
    return {"name": chosen, "location": masked(f"memory://{chosen}")}


DESCRIPTOR = StoreDescriptor(
    backend="MemoryBackend",
    schemes={"memory": "memory://"},
    arguments=named_store,
)
