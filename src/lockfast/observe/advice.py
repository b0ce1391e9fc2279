"""Advice on a pattern of names, with the figures behind it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from lockfast.core.renewal import OUTAGE_TTL_FRACTION
from lockfast.observe.figures import duration
from lockfast.options import DEFAULT_REQUEST_TIMEOUT

if TYPE_CHECKING:
    from lockfast.observe.figures import Busiest, DurationSummary, Figures

LEASES_ENOUGH: Final = 30
"""Minimum number of holds for advice, because fewer holds do not predict the next one."""
USUAL_HOLDS: Final = (3, 5)
"""Range for the ttl of a lease without renewal, as multiples of the mean hold."""

Level: TypeAlias = Literal["ok", "note", "warning"]


class AdviceKind(enum.StrEnum):
    """What the advice is about."""

    FINE = "fine"
    TOO_FEW = "too_few"
    TTL_LONG = "ttl_longer_than_needed"
    TTL_SHORT = "ttl_too_short"
    HOLD_EXCEEDS = "hold_exceeds_ttl"
    SHARD = "shard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One observation, what to do about it, and the figures behind both.

    `ttl` is the ttl that the figures call for; None if the advice is not about the ttl. `shards` is
    the number of shards to split the busiest name into; None if the advice is not about splitting.
    """

    kind: AdviceKind
    level: Level
    message: str
    remedy: str
    figures: Figures
    ttl: float | None = None
    shards: int | None = None

    @property
    def pattern(self) -> str:
        """The pattern of names that the advice is about."""
        return self.figures.pattern

    def __str__(self) -> str:
        fix = f". To fix it: {self.remedy}" if self.remedy else ""
        return f"{self.pattern}: {self.message}{fix}"


# Advice in words: what was found, with the figures, and what to do.


def message(kind: AdviceKind, figures: Figures) -> str:
    """Return what was found, with its figures."""
    return _MESSAGES[kind](figures)


def remedy(kind: AdviceKind, figures: Figures, *, ttl: float | None, shards: int | None) -> str:
    """Return what to do; an empty string if all is well."""
    if kind is AdviceKind.SHARD:
        return _split(figures, shards or 2)
    return _REMEDIES[kind](figures, ttl or figures.ttl)


# -- what was found --------------------------------------------------------------------


def _fine(figures: Figures) -> str:
    fits = f"ttl={figures.ttl:g} fits" if figures.ttl else "its ttl cannot be seen in the store"
    return f"{fits}: {_holds(figures)}{_renewals(figures)}"


def _too_few(figures: Figures) -> str:
    return (
        f"{_counted(figures.ended, 'hold')} seen in {duration(figures.seconds)}, "
        f"and fewer than {LEASES_ENOUGH} say nothing about the next one"
    )


def _ttl_long(figures: Figures) -> str:
    felt = ""
    if figures.waited_for_dead_holder:
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
    AdviceKind.FINE: _fine,
    AdviceKind.TOO_FEW: _too_few,
    AdviceKind.TTL_LONG: _ttl_long,
    AdviceKind.TTL_SHORT: _ttl_short,
    AdviceKind.HOLD_EXCEEDS: _hold_exceeds,
    AdviceKind.SHARD: _shard,
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
        f"ttl={ttl:g}, which rides out {duration(ttl * OUTAGE_TTL_FRACTION)} of a store that is "
        f"away (ttl={figures.ttl:g}: {duration(figures.ttl * OUTAGE_TTL_FRACTION)}){unmeasured}"
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
    AdviceKind.FINE: _nothing,
    AdviceKind.TOO_FEW: _look_longer,
    AdviceKind.TTL_LONG: _shorten,
    AdviceKind.TTL_SHORT: _lengthen,
    AdviceKind.HOLD_EXCEEDS: _renew,
}


# -- parts -----------------------------------------------------------------------------


def _holds(figures: Figures) -> str:
    at_most = "at most " if figures.source == "looks" else ""
    return f"{_counted(figures.holds.count, 'hold')}, {at_most}{_spread(figures.holds)}"


def _spread(spread: DurationSummary) -> str:
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


# Pure functions that judge a ttl and a line by these figures, as an expert would.
#
# The right ttl follows from the purpose of the lease. A renewed lease lives as long as its holder
# renews it, however long the work takes. Its ttl only determines how soon other claims are granted
# after the holder has died. The ttl has to outlast whatever may delay a renewal, such as a pause of
# the process or a store that answers late. Without renewal, the ttl has to outlast the work itself.
# The rule of thumb is then 3 to 5 times the mean hold, and more than the longest hold that was
# seen.

CERTAIN_FAILURES: Final = 3
"""After this number of failures, more are certain to follow, however few holds were seen."""
RENEWED_TTL_MIN_SECONDS: Final = 3 * DEFAULT_REQUEST_TIMEOUT
"""Minimum ttl of a renewed lease, in seconds: it should outlast three unanswered requests."""
DELAY_MULTIPLE: Final = 6
"""Ttl of a renewed lease, as a multiple of the longest delay that was seen. When a renewal is due,
two thirds of this ttl are left, which is four times the longest delay.
"""
LONGEST_HOLD_MULTIPLE: Final = 1.5
"""Without renewal: the ttl as a multiple of the longest hold that was seen."""
TTL_MIN_SECONDS: Final = 1.0
"""Without renewal: minimum ttl in seconds, however short the work is, since a process may pause."""
TOO_LONG_MULTIPLE: Final = 2.0
"""A ttl above this multiple of the needed ttl is longer than needed."""
MANY_AHEAD: Final = 3.0
"""If each waiter has at least this many holds ahead, waiting costs more than holding."""
MOSTLY_FRACTION: Final = 0.5
ADVISED_SHARDS_MAX: Final = 64
STEPS: Final = (1, 1.5, 2, 3, 5, 6, 8, 10)


def advice_on(figures: Figures) -> tuple[Advice, ...]:
    """Return the advice, starting with any advice on the ttl.

    If there is no advice, a single entry says that all is well, or that too few holds were seen.
    """
    found = [one for one in (_on_ttl(figures), _on_line(figures)) if one is not None]
    if found:
        return tuple(found)
    is_enough = figures.ended >= LEASES_ENOUGH
    kind = AdviceKind.FINE if is_enough else AdviceKind.TOO_FEW
    level: Level = "ok" if is_enough else "note"
    return (_found(kind, level, figures, ttl=figures.ttl if is_enough else None),)


def _found(
    kind: AdviceKind,
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
    if expired >= CERTAIN_FAILURES or (expired and figures.ended + expired >= LEASES_ENOUGH):
        ttl = rounded_up(max(needed, figures.ttl * TOO_LONG_MULTIPLE))
        return _found(AdviceKind.TTL_SHORT, "warning", figures, ttl=ttl)
    if figures.ended < LEASES_ENOUGH:
        return None
    if figures.ttl < needed and figures.at_risk:
        return _found(AdviceKind.TTL_SHORT, "note", figures, ttl=needed)
    return _too_long(figures, needed)


def needed_with_renewal(figures: Figures) -> float:
    """Return a ttl that outlasts the delays that were seen, and three unanswered requests."""
    late = figures.latest_renewal or 0.0
    return rounded_up(max(RENEWED_TTL_MIN_SECONDS, late * DELAY_MULTIPLE))


# -- leases without renewal ------------------------------------------------------------


def _on_unrenewed(figures: Figures) -> Advice | None:
    exceeded = figures.exceeded
    needed = needed_without_renewal(figures)
    if exceeded >= CERTAIN_FAILURES or (exceeded and figures.ended >= LEASES_ENOUGH):
        ttl = rounded_up(max(needed, figures.ttl * TOO_LONG_MULTIPLE))
        return _found(AdviceKind.HOLD_EXCEEDS, "warning", figures, ttl=ttl)
    if figures.ended < LEASES_ENOUGH:
        return None
    fewest, most = (figures.holds.mean * times for times in USUAL_HOLDS)
    if figures.ttl < max(fewest, figures.holds.longest * 1.1):
        return _found(AdviceKind.TTL_SHORT, "note", figures, ttl=needed)
    return _too_long(figures, max(needed, rounded_up(most)))


def needed_without_renewal(figures: Figures) -> float:
    """Return the ttl by the rule of thumb.

    A hold that outlasted its ttl counts as one ttl, because its real length is not known, only that
    it was longer.
    """
    if not figures.ended:
        return figures.ttl
    total = figures.holds.mean * figures.holds.count + figures.exceeded * figures.ttl
    mean = total / figures.ended
    usual = mean * sum(USUAL_HOLDS) / 2
    return rounded_up(max(TTL_MIN_SECONDS, usual, figures.holds.longest * LONGEST_HOLD_MULTIPLE))


# -- both ------------------------------------------------------------------------------


def _too_long(figures: Figures, needed: float) -> Advice | None:
    if figures.ttl <= needed * TOO_LONG_MULTIPLE:
        return None
    is_felt = figures.waited_for_dead_holder or figures.ttl >= needed * 10
    level: Level = "warning" if is_felt else "note"
    return _found(AdviceKind.TTL_LONG, level, figures, ttl=needed)


def _on_line(figures: Figures) -> Advice | None:
    busiest = figures.busiest
    if busiest is None or figures.kind != "lock" or not is_crowded(busiest):
        return None
    ahead = busiest.holds_ahead
    level: Level = "warning" if ahead >= MANY_AHEAD**2 else "note"
    return _found(AdviceKind.SHARD, level, figures, shards=shards_for(ahead))


def is_crowded(busiest: Busiest) -> bool:
    """Return whether most acquires had to wait, and for more than one or two holds each.

    A wait for a single hold is explained by the length of that hold, so the hold has to become
    shorter. If many claims wait for short holds, only splitting the name helps.
    """
    return (
        busiest.acquired >= LEASES_ENOUGH
        and busiest.stood_in_line >= busiest.acquired * MOSTLY_FRACTION
        and busiest.holds_ahead >= MANY_AHEAD
    )


def shards_for(ahead: float) -> int:
    """Return how many shards to split a name into, so that hardly any claim waits."""
    shards = 2
    while shards <= ahead and shards < ADVISED_SHARDS_MAX:
        shards *= 2
    return shards


def rounded_up(seconds: float) -> float:
    """Return the seconds, rounded up to a convenient number."""
    unit = 0.01
    while unit * 10 < seconds:
        unit *= 10
    return next(round(unit * step, 3) for step in STEPS if unit * step >= seconds * (1 - 1e-9))
