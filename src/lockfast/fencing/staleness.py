"""What a guard says when it refuses, in one form for all resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.errors import ConfigurationError, StaleToken

if TYPE_CHECKING:
    from lockfast.core.sequencing import Sequencer


def stale(shown: Sequencer, seen: int, *, what: str) -> StaleToken:
    """Return the error of a write that came after a later holder's; nothing was written."""
    return StaleToken(
        f"{what} has seen token {seen} of a later holder, and refuses token {shown.token} of "
        f"{shown.name!r}: that lease is over",
        name=shown.name,
        token=shown.token,
        seen=seen,
    )


def inexact(mark: int, token: int, *, what: str, column: str) -> ConfigurationError:
    """Return the error of a column that keeps another number than the token it was given."""
    return ConfigurationError(
        f"{what} has {mark} in its column {column!r}, where {token} was written: that type rounds "
        "tokens, so it would accept a stale one; make it a BIGINT"
    )


def whole_mark(found: Any, *, what: str) -> int:  # noqa: ANN401 - whatever was stored there
    """Return the mark of a resource; what is no whole number was written by somebody else."""
    try:
        mark = int(found)
    except (TypeError, ValueError, OverflowError):
        mark = None
    if mark is None or mark < 0 or not (isinstance(found, str | bytes) or mark == found):
        raise ConfigurationError(
            f"{what} has {found!r} where the largest token belongs: nobody else may write there"
        )
    return mark
