"""Where a claim stands with the one session that asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from holdfast.model import Claim

R = TypeVar("R")


@dataclass(slots=True)
class Standing(Generic[R]):
    """A claim for which a lock was asked for on a session, and not yet given back.

    There is one at most for each key. The server would count a second one, and after one
    release the lock would still be there.
    """

    claim: Claim
    since: float
    asking: R
    """The request for the lock; whoever repeats it waits for the same answer."""
    is_held: bool = False
    leaving: R | None = None
    """The request that gives it back, once there is one."""
