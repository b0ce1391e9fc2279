"""What is said of a name that others hold: to a caller that gave up, and of one that waits long."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockfast.model import Held

LONG_WAIT_SECONDS = 10.0
"""A wait that has lasted this long is mentioned in the log."""

MENTION_GROWTH = 6.0
"""Each further mention comes when the wait has lasted this many times as long: after 10 s, one
minute, six minutes, and so on."""

MENTION_AT_LEAST_EVERY = 3600.0


def not_acquired(name: str, held: Held, *, waited: float) -> str:
    """Return the sentence of an acquire whose time was up."""
    has_waited = waited >= 0.05  # noqa: PLR2004
    begun = f"not acquired in {waited:.1f} s:" if has_waited else "is"
    return f"{name!r} {begun} {_facts(held)}"


def still_waiting(name: str, held: Held, *, waited: float) -> str:
    """Return the sentence of an acquire that has waited long and goes on."""
    return f"still waiting for {name!r} after {waited:.0f} s: {_facts(held)}"


def next_mention(waited: float) -> float:
    """Return how long a wait has to last before it is mentioned next."""
    if waited < LONG_WAIT_SECONDS:
        return LONG_WAIT_SECONDS
    return min(waited * MENTION_GROWTH, waited + MENTION_AT_LEAST_EVERY)


def _facts(held: Held) -> str:
    facts = []
    if held.holders:
        first = held.holders[0]
        more = f" and {len(held.holders) - 1} more" if len(held.holders) > 1 else ""
        token = "" if first.token is None else f", token {first.token}"
        facts.append(f"held by {first.owner} for {first.age:.1f} s{token}{more}")
    if held.closing:
        last = max(held.closing, key=lambda one: one.remaining)
        facts.append(f"closed for {last.remaining:.1f} s more after {last.owner}")
    facts = facts or ["held"]  # the store did not say by whom
    if held.place is not None:
        facts.append(f"number {held.place} in line")
    return "; ".join(facts)
