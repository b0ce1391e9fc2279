"""Whether a write behind the lock was overwritten by somebody who had not read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.challenge.outcome import Finding

if TYPE_CHECKING:
    from lockfast.challenge.outcome import Write
    from lockfast.challenge.recorded import Recorded


def lost_updates(recorded: Recorded) -> list[Finding]:
    """Return the lost updates: faults where tokens are checked, and documented where not.

    Without that check the best of locks loses some: a holder may be frozen between the moment it
    was told that it may write and the write. Behind the check none is forgiven.
    """
    return [
        Finding(
            "lost update",
            write.at,
            _sentence(write, is_guarded=recorded.is_guarded),
            clients=(write.client,),
            is_documented=not recorded.is_guarded,
            example=tuple(
                event
                for event in recorded.events
                if (event.client, event.hold, event.act) == (write.client, write.hold, "acquire")
            )
            if recorded.is_guarded
            else (),
        )
        for write in recorded.writes
        if write.is_accepted and write.is_lost
    ]


def _sentence(write: Write, *, is_guarded: bool) -> str:
    token = "" if write.token is None else f" with token {write.token}"
    said = f"client {write.client} overwrote at {write.at:.3f}{token} what it had not read"
    if is_guarded:
        return f"{said}, though the resource checks tokens"
    return f"{said}, as documented: this resource checks no token"
