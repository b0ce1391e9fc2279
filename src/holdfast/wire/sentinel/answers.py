"""What the Sentinels' answers mean, in both flavours; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import BackendUnavailable, ConfigurationError, LockError
from holdfast.wire import refusals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.wire.places import Place


def no_master(place: Place, answers: Sequence[dict[str, Any] | BaseException]) -> LockError:
    """Return the error when no Sentinel names a master that it believes alive.

    `answers` are the masters that each Sentinel knows, or why it did not say.
    """
    known = [one for one in answers if isinstance(one, dict)]
    failures = [one for one in answers if not isinstance(one, dict)]
    if any(place.service in one for one in known):
        return BackendUnavailable(
            f"{place.where}: the Sentinels see no living master {place.service!r} at the moment"
        )
    if known:
        names = sorted({str(name) for one in known for name in one})
        return ConfigurationError(
            f"{place.where}: the Sentinels know no master {place.service!r}; "
            f"they know: {', '.join(names) or 'none'}"
        )
    for failure in failures:
        error = refusals.unreachable(failure, where=f"a Sentinel of {place.where}")
        if isinstance(error, ConfigurationError):
            return error
    return BackendUnavailable(
        f"{place.where}: no Sentinel can be reached: {failures[0] if failures else 'none is named'}"
    )


def is_master(greeting: object) -> bool:
    """Whether the server called itself a master when it was greeted; unsaid counts as yes."""
    said = greeting if isinstance(greeting, dict) else {}
    return said.get(b"role", said.get("role")) in (None, b"master", "master")


def not_master(where: str) -> BackendUnavailable:
    """Return the error when the Sentinels name a server that is a replica: they are behind."""
    return BackendUnavailable(f"{where}: the master became a replica; a failover is going on")
