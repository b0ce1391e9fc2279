"""What a report says in words; the page and the terminal say the same."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.challenge.history import Event
    from lockfast.challenge.outcome import Finding, Outcome, Setting
    from lockfast.challenge.report.figures import CostOfKind, Figures

NOT_FIXED = (
    "The seed fixes the order, the kind and the length of the faults. It cannot fix how the "
    "clients interleave, so another run may find it later, or something else."
)
NO_PROOF = (
    "Valid means that this run showed nothing wrong. It is no proof: a longer run, other faults or "
    "another seed may still show something."
)


def headline(outcome: Outcome) -> str:
    """Return what it comes to, in a sentence."""
    more = f"; the run was cut short by {outcome.cut_short}" if outcome.cut_short else ""
    return _verdict(outcome) + more


def _verdict(outcome: Outcome) -> str:
    wrong = [one for one in outcome.findings if not one.is_documented]
    ran = seconds(outcome.ended - outcome.began)
    if outcome.verdict == "invalid":
        first = min(wrong, key=lambda one: one.at)
        after = seconds(first.at - outcome.began)
        return f"{many(len(wrong), 'finding')}; the first after {after}: {first.kind}"
    if outcome.verdict == "unknown":
        return f"{outcome.shows_nothing} in {ran}, so nothing was shown"
    strikes = many(len(outcome.strikes), "fault")
    return f"nothing wrong in {ran}, {many(outcome.grants, 'grant')} and {strikes}"


def facts(setting: Setting) -> list[tuple[str, str]]:
    """Return what was run."""
    return [
        ("store", setting.store),
        ("lock", setting.lock),
        ("workload", setting.workload),
        ("clients", str(setting.clients)),
        ("ttl", seconds(setting.ttl)),
        ("time", seconds(setting.seconds)),
        ("seed", str(setting.seed)),
        ("faults", some(setting.faults)),
    ]


def counted(figures: Figures) -> list[tuple[str, str]]:
    """Return the figures that matter for every run, and of the others those that are not 0."""
    shown = [
        ("grants", f"{figures.grants:,}"),
        ("hand-overs", f"{figures.hand_overs_per_second:.1f} per second"),
        ("median wait", seconds(figures.median_wait)),
        ("longest wait", seconds(figures.longest_wait)),
    ]
    others = [
        ("refused", figures.refused, ""),
        ("never answered", figures.unanswered, ""),
        ("told to stop", figures.told_to_stop, ""),
        ("writes", figures.writes, ""),
        ("writes turned away", figures.turned_away, " by the token check"),
        ("lost updates", figures.lost_updates, ""),
        ("unfenced overlap", figures.unfenced_overlaps, ", as documented"),
    ]
    return shown + [(what, f"{count:,}{more}") for what, count, more in others if count]


MOST_KINDS = 8

COSTS = ("fault", "strikes", "grants", "unavailable", "recovers in", "at most")


def costs(one: CostOfKind) -> tuple[str, ...]:
    """Return the row of a kind of fault, under COSTS."""
    return (
        one.kind,
        str(one.strikes),
        f"{one.grants:,}",
        seconds(one.unavailable),
        "never" if one.recovered is None else seconds(one.recovered),
        "never" if one.recovered_last is None else seconds(one.recovered_last),
    )


def told(event: Event, *, zero: float) -> tuple[str, ...]:
    """Return an event as a row: when, who, what."""
    what = "asks" if event.phase == "invoked" else event.phase
    more = [f"token {event.token}"] if event.token is not None else []
    more += [event.reason] if event.reason else []
    said = f"{event.act} {what}" + (f" ({', '.join(more)})" if more else "")
    return f"{event.at - zero:.3f} s", f"client {event.client}", said


def without_a_turn(outcome: Outcome) -> tuple[str, ...]:
    """Return the kinds of fault that were to strike, and for which the time was too short."""
    struck = {one.kind for one in outcome.strikes}
    return tuple(
        kind
        for kind in outcome.setting.faults
        if kind not in struck and kind not in outcome.not_made
    )


def numbered(outcome: Outcome) -> list[tuple[int, Finding]]:
    """Return the findings with their numbers: first what is wrong, then what is documented."""
    in_order = sorted(outcome.findings, key=lambda one: (one.is_documented, one.at))
    return list(enumerate(in_order, 1))


def message(finding: Finding, outcome: Outcome) -> str:
    """Return what it says, with times since the run began.

    The checker knows no beginning: it speaks in the clock that all clients share, by numbers of
    three digits after the point.
    """

    def since(number: re.Match[str]) -> str:
        at = float(number[0])
        is_time = outcome.began <= at <= outcome.ended
        return f"{at - outcome.began:.3f}" if is_time else number[0]

    return re.sub(r"\b\d+\.\d{3}\b", since, finding.message)


def too_short(outcome: Outcome) -> str:
    """Return which kinds of fault had no turn and how long it would take; empty if all had one."""
    left = without_a_turn(outcome)
    if not left:
        return ""
    struck = len({one.kind for one in outcome.strikes})
    said = f"{len(left)} of {many(len(left) + struck, 'kind')} had no turn"
    if struck:
        enough = outcome.setting.seconds * (len(left) + struck) / struck
        said += f"; about --time {enough:.0f} would give each one"
    return f"{said}: {some(left)}"


def some(kinds: Sequence[str]) -> str:
    """Return them, or of many the first ones and how many more."""
    shown = kinds if len(kinds) <= MOST_KINDS else kinds[: MOST_KINDS - 1]
    more = len(kinds) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "") if kinds else "none"


def again(setting: Setting, *, where: str = "", all_faults: bool = False) -> str:
    """Return the command that runs the same seed again.

    `where` is a URL, if it was one; with `all_faults` nobody named them.
    """
    words = ["lockfast", "challenge"]
    same = ["--seed", str(setting.seed), "--time", f"{setting.seconds:g}"]
    if setting.lock != "lockfast":  # it has a schedule of its own
        return shlex.join([*words, "--lock", setting.lock, *same])
    words += [where] if where else ["--start", setting.store]
    words += [*same, "--clients", str(setting.clients), "--ttl", f"{setting.ttl:g}"]
    words += ["--workload", setting.workload]
    if setting.faults and not all_faults:
        words += ["--faults", ",".join(setting.faults)]
    return shlex.join(words)


def seconds(span: float) -> str:
    """Return a time span with as many digits as matter."""
    if span < 1:
        return f"{span * 1000:.0f} ms"
    return f"{span:.1f} s" if span < 10 else f"{span:,.0f} s"  # noqa: PLR2004 - two digits


def many(count: int, what: str) -> str:
    """Return how many of it."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")
