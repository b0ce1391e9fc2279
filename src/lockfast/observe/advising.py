"""What a person would say of a ttl and of a line, seeing these figures: pure.

What the ttl of a lease has to be follows from what it is for. A renewed lease lives as long as
its holder renews it, however long the work takes: its ttl only says after how long others go on
when the holder has died. It has to outlast what may keep a renewal back: pauses of the process,
and a store that answers late. Without renewal the ttl has to outlast the work itself; there the
rule of thumb holds, 3 to 5 times the mean hold, and more than the longest that was seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lockfast.observe.advice import ENOUGH, USUAL_HOLDS, Advice, Kind
from lockfast.observe.sentences import message, remedy
from lockfast.options import DEFAULT_REQUEST_TIMEOUT

if TYPE_CHECKING:
    from lockfast.observe.advice import Level
    from lockfast.observe.figures import Busiest, Figures

SURELY: Final = 3
"""What has gone wrong this often will again, however few there were."""
REQUESTS: Final = 3 * DEFAULT_REQUEST_TIMEOUT
"""A renewed lease should outlast three requests that are not answered."""
DELAYS: Final = 6
"""A renewed lease has two thirds of its ttl left when a renewal is due: four times the longest
delay that was seen."""
SPARE: Final = 1.5
"""Without renewal: so many times the longest hold that was seen."""
SHORTEST: Final = 1.0
"""Without renewal: no less, however short the work is, since a process may stand still."""
TOO_MUCH: Final = 2.0
"""A ttl is longer than needed if it is more than so many times what is."""
MANY_AHEAD: Final = 3.0
"""From so many holds ahead of each waiter on, the line costs more than the hold."""
MOSTLY: Final = 0.5
MOST_SHARDS: Final = 64
STEPS: Final = (1, 1.5, 2, 3, 5, 6, 8, 10)


def advice_on(figures: Figures) -> tuple[Advice, ...]:
    """Return what can be said, the ttl first; one that says so if it is nothing, or all is well."""
    found = [one for one in (_on_ttl(figures), _on_line(figures)) if one is not None]
    if found:
        return tuple(found)
    is_enough = figures.ended >= ENOUGH
    kind = Kind.FINE if is_enough else Kind.TOO_FEW
    level: Level = "ok" if is_enough else "note"
    return (_found(kind, level, figures, ttl=figures.ttl if is_enough else None),)


def _found(
    kind: Kind,
    level: Level,
    figures: Figures,
    *,
    ttl: float | None = None,
    shards: int | None = None,
) -> Advice:
    return Advice(
        kind=kind,
        level=level,
        message=message(kind, figures),
        remedy=remedy(kind, figures, ttl=ttl, shards=shards),
        figures=figures,
        ttl=ttl,
        shards=shards,
    )


def _on_ttl(figures: Figures) -> Advice | None:
    if not figures.ttl:
        return None
    return _on_renewed(figures) if figures.renews else _on_unrenewed(figures)


# -- with renewal ----------------------------------------------------------------------


def _on_renewed(figures: Figures) -> Advice | None:
    needed = needed_with_renewal(figures)
    expired = figures.lost("expired")
    if expired >= SURELY or (expired and figures.ended + expired >= ENOUGH):
        ttl = rounded_up(max(needed, figures.ttl * TOO_MUCH))
        return _found(Kind.TTL_SHORT, "warning", figures, ttl=ttl)
    if figures.ended < ENOUGH:
        return None
    if figures.ttl < needed and figures.at_risk:
        return _found(Kind.TTL_SHORT, "note", figures, ttl=needed)
    return _too_long(figures, needed)


def needed_with_renewal(figures: Figures) -> float:
    """Return the ttl that outlasts the delays that were seen, and three requests."""
    late = figures.latest_renewal or 0.0
    return rounded_up(max(REQUESTS, late * DELAYS))


# -- without ---------------------------------------------------------------------------


def _on_unrenewed(figures: Figures) -> Advice | None:
    exceeded = figures.exceeded
    needed = needed_without_renewal(figures)
    if exceeded >= SURELY or (exceeded and figures.ended >= ENOUGH):
        ttl = rounded_up(max(needed, figures.ttl * TOO_MUCH))
        return _found(Kind.HOLD_EXCEEDS, "warning", figures, ttl=ttl)
    if figures.ended < ENOUGH:
        return None
    fewest, most = (figures.holds.mean * times for times in USUAL_HOLDS)
    if figures.ttl < max(fewest, figures.holds.longest * 1.1):
        return _found(Kind.TTL_SHORT, "note", figures, ttl=needed)
    return _too_long(figures, max(needed, rounded_up(most)))


def needed_without_renewal(figures: Figures) -> float:
    """Return the ttl by the rule of thumb: of what was too long, at least the ttl is known."""
    if not figures.ended:
        return figures.ttl
    total = figures.holds.mean * figures.holds.count + figures.exceeded * figures.ttl
    mean = total / figures.ended
    usual = mean * sum(USUAL_HOLDS) / 2
    return rounded_up(max(SHORTEST, usual, figures.holds.longest * SPARE))


# -- both ------------------------------------------------------------------------------


def _too_long(figures: Figures, needed: float) -> Advice | None:
    if figures.ttl <= needed * TOO_MUCH:
        return None
    is_felt = figures.has_waited_for_the_dead or figures.ttl >= needed * 10
    level: Level = "warning" if is_felt else "note"
    return _found(Kind.TTL_LONG, level, figures, ttl=needed)


def _on_line(figures: Figures) -> Advice | None:
    busiest = figures.busiest
    if busiest is None or figures.kind != "lock" or not is_crowded(busiest):
        return None
    ahead = busiest.holds_ahead
    level: Level = "warning" if ahead >= MANY_AHEAD**2 else "note"
    return _found(Kind.SHARD, level, figures, shards=shards_for(ahead))


def is_crowded(busiest: Busiest) -> bool:
    """Whether most had to wait, and each for more holds than one or two.

    A wait as long as a hold is explained by that hold, which has to become shorter. Where many
    stand in line for short holds, only more doors help.
    """
    return (
        busiest.acquired >= ENOUGH
        and busiest.stood_in_line >= busiest.acquired * MOSTLY
        and busiest.holds_ahead >= MANY_AHEAD
    )


def shards_for(ahead: float) -> int:
    """Return into how many shards to split a name, so that hardly anybody waits."""
    shards = 2
    while shards <= ahead and shards < MOST_SHARDS:
        shards *= 2
    return shards


def rounded_up(seconds: float) -> float:
    """Return a time that a person would write down, at least that long."""
    unit = 0.01
    while unit * 10 < seconds:
        unit *= 10
    return next(round(unit * step, 3) for step in STEPS if unit * step >= seconds * (1 - 1e-9))
