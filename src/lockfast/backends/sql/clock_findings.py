"""What there is to say of a server's clock, by which leases end; pure."""

from __future__ import annotations

from lockfast.model import Finding

CLOCKS_APART = 1.0


def ahead(theirs: float, *, before: float, after: float) -> float:
    """Return by how much the server's clock is outside of the time that asking it took."""
    return min(0.0, theirs - before) + max(0.0, theirs - after)


def clock(ahead: float) -> Finding:
    """Tell whether it agrees with ours, which it is ahead of by so many seconds at least."""
    if abs(ahead) <= CLOCKS_APART:
        return Finding("ok", "clock", "the server's clock agrees with ours")
    return Finding(
        "warning",
        "clock",
        f"the server's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} ours: "
        "leases end by it, so putting it right by a jump forward ends them early, and a jump back "
        "keeps names closed",
        "let both run ntp; put a clock right slowly, not by a jump",
    )
