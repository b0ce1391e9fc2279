"""The URLs of the store inside this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.core.declaring import Declaration
from lockfast.core.locating import masked

if TYPE_CHECKING:
    from urllib.parse import SplitResult


def named_store(url: SplitResult, namespace: str) -> dict[str, Any]:
    """Return which store of this process is meant; `memory://` alone is one of its own."""
    # Clients that share a store by name are still kept apart by their namespaces.
    name = url.netloc + url.path
    chosen = f"{namespace}/{name}" if name else ""
    return {"name": chosen, "location": masked(f"memory://{chosen}")}


DECLARATION = Declaration(
    backend="MemoryBackend",
    schemes={"memory": "memory://"},
    arguments=named_store,
)
