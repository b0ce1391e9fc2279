"""Advice in words: what was found, the figures it rests on, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.observe.advice import ENOUGH, USUAL_HOLDS, Kind
from lockfast.observe.durations import duration

if TYPE_CHECKING:
    from lockfast.observe.figures import Figures
    from lockfast.observe.spans import Spread

RIDES_OUT = 2 / 3
"""The part of a ttl for which a store may be away before a renewed lease is lost."""


def message(kind: Kind, figures: Figures) -> str:
    """Return what was found, with its figures."""
    return _MESSAGES[kind](figures)


def remedy(kind: Kind, figures: Figures, *, ttl: float | None, shards: int | None) -> str:
    """Return what to do; nothing where all is well."""
    if kind is Kind.SHARD:
        return _split(figures, shards or 2)
    return _REMEDIES[kind](figures, ttl or figures.ttl)


# -- what was found --------------------------------------------------------------------


def _fine(figures: Figures) -> str:
    fits = f"ttl={figures.ttl:g} fits" if figures.ttl else "its ttl cannot be seen in the store"
    return f"{fits}: {_holds(figures)}{_renewals(figures)}"


def _too_few(figures: Figures) -> str:
    return (
        f"{_counted(figures.ended, 'hold')} seen in {duration(figures.seconds)}, "
        f"and fewer than {ENOUGH} say nothing about the next one"
    )


def _ttl_long(figures: Figures) -> str:
    felt = ""
    if figures.has_waited_for_the_dead:
        felt = f"; somebody waited {duration(figures.waits.longest)}, which no hold explains"
    return (
        f"ttl={figures.ttl:g} is longer than recovery needs: so long a holder that died keeps "
        f"others out. {_sentence(_holds(figures))}{_renewals(figures)}{felt}"
    )


def _ttl_short(figures: Figures) -> str:
    if not figures.renews:
        longest, share = figures.holds.longest, figures.holds.longest / figures.ttl
        return (
            f"ttl={figures.ttl:g} is close to what the work takes, and nothing renews it: the "
            f"longest hold was {duration(longest)}, {share:.0%} of it. {_sentence(_holds(figures))}"
        )
    expired = figures.lost("expired")
    lost = f"{_counted(expired, 'lease')} expired although renewed" if expired else ""
    risk = f"{figures.at_risk} times one was at risk" if figures.at_risk else ""
    what = ", ".join(filter(None, (lost, risk)))
    return (
        f"ttl={figures.ttl:g} is too short for what keeps renewals back: {what}. "
        f"{_sentence(_holds(figures))}{_renewals(figures)}"
    )


def _hold_exceeds(figures: Figures) -> str:
    exceeded, ended = figures.exceeded, figures.ended
    at_most = "at most " if figures.source == "looks" else ""
    return (
        f"{at_most}{exceeded / ended:.0%} of holds ({exceeded} of {ended}) went on beyond "
        f"ttl={figures.ttl:g}, and nothing renews it: what they did from then on, they did "
        f"without the lock. The others: {_holds(figures)}"
    )


def _shard(figures: Figures) -> str:
    busiest = figures.busiest
    if busiest is None:
        return ""
    timeouts = f"; {_counted(figures.timeouts, 'wait')} timed out" if figures.timeouts else ""
    if figures.source == "looks":
        return (
            f"{busiest.name!r} was held at {busiest.in_use:.0%} of all looks, with "
            f"{busiest.line:.0f} in line on average, and {_counted(busiest.acquired, 'holder')} "
            "took turns: the line costs the time, not the hold"
        )
    share = busiest.stood_in_line / busiest.acquired
    return (
        f"{busiest.name!r}: {share:.0%} of {busiest.acquired} acquires had to wait, "
        f"{duration(busiest.mean_wait)} on average for holds of {duration(busiest.mean_hold)}: "
        f"{busiest.holds_ahead:.0f} holds ahead of each. The line costs the time, not the hold"
        f"{timeouts}"
    )


_MESSAGES = {
    Kind.FINE: _fine,
    Kind.TOO_FEW: _too_few,
    Kind.TTL_LONG: _ttl_long,
    Kind.TTL_SHORT: _ttl_short,
    Kind.HOLD_EXCEEDS: _hold_exceeds,
    Kind.SHARD: _shard,
}


# -- what to do ------------------------------------------------------------------------


def _nothing(_figures: Figures, _ttl: float) -> str:
    return ""


def _look_longer(_figures: Figures, _ttl: float) -> str:
    return "watch it for longer"


def _shorten(figures: Figures, ttl: float) -> str:
    if not figures.renews:
        fewest, most = USUAL_HOLDS
        return (
            f"ttl={ttl:g}: {fewest} to {most} times the mean hold, and more than the longest that "
            "was seen"
        )
    unmeasured = "" if figures.renewals else "; pauses of the process were not measured"
    return (
        f"ttl={ttl:g}, which rides out {duration(ttl * RIDES_OUT)} of a store that is away "
        f"(ttl={figures.ttl:g}: {duration(figures.ttl * RIDES_OUT)}){unmeasured}"
    )


def _lengthen(figures: Figures, ttl: float) -> str:
    more = "" if figures.renews else ", or let it be renewed (renew=True, the default)"
    return f"ttl={ttl:g}{more}"


def _renew(_figures: Figures, ttl: float) -> str:
    return (
        "let it be renewed (renew=True, the default); if it must not be, at least "
        f"ttl={ttl:g}, and lease.check() before the step that counts"
    )


def _split(figures: Figures, shards: int) -> str:
    busiest = figures.busiest
    name = "" if busiest is None else busiest.name
    return (
        f"split it: locks.sharded({name!r}, shards={shards}) where any part will do, "
        f"locks.striped({name!r}, key) where the work has a key"
    )


_REMEDIES = {
    Kind.FINE: _nothing,
    Kind.TOO_FEW: _look_longer,
    Kind.TTL_LONG: _shorten,
    Kind.TTL_SHORT: _lengthen,
    Kind.HOLD_EXCEEDS: _renew,
}


# -- parts -----------------------------------------------------------------------------


def _holds(figures: Figures) -> str:
    at_most = "at most " if figures.source == "looks" else ""
    return f"{_counted(figures.holds.count, 'hold')}, {at_most}{_spread(figures.holds)}"


def _spread(spread: Spread) -> str:
    return (
        f"{duration(spread.mean)} on average, 99 % within {duration(spread.p99)}, "
        f"the longest {duration(spread.longest)}"
    )


def _renewals(figures: Figures) -> str:
    if not figures.renews:
        return ""
    late = figures.latest_renewal
    if late is None:
        return "; no renewal was due"
    return f"; {_counted(figures.renewals, 'renewal')}, at worst {duration(late)} late"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
