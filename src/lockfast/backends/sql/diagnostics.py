"""Findings about a server's clock, which decides when leases end. Nothing here does I/O."""

from __future__ import annotations

from lockfast.model import Finding

CLOCK_SKEW_SECONDS = 1.0


def clock_ahead(theirs: float, *, before: float, after: float) -> float:
    """Return by how much the server's clock lies outside the interval in which it was read."""
    return min(0.0, theirs - before) + max(0.0, theirs - after)


def clock_finding(ahead: float) -> Finding:
    """Return the finding for a clock that is at least `ahead` seconds ahead of ours."""
    if abs(ahead) <= CLOCK_SKEW_SECONDS:
        return Finding.ok("clock", "the server's clock agrees with ours")
    return Finding.warning(
        "clock",
        f"the server's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} ours: "
        "leases end by it, so putting it right by a jump forward ends them early, and a jump back "
        "keeps names closed",
        "let both run ntp; put a clock right slowly, not by a jump",
    )
