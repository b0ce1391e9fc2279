"""Wording of the report, and the fields of `--json`."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lockfast_challenge.report.figures import figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast_challenge.history import HistoryEvent
    from lockfast_challenge.outcome import Outcome, RunFinding, Setting
    from lockfast_challenge.report.figures import CostOfKind, RunFigures


NOT_FIXED = (
    "The seed fixes the order, the kind and the length of the faults. It cannot fix how the "
    "clients interleave, so another run may find it later, or something else."
)
NO_PROOF = (
    "Valid means that this run showed nothing wrong. It is no proof: a longer run, other faults or "
    "another seed may still show something."
)


def headline(outcome: Outcome) -> str:
    """Return the outcome in one sentence."""
    more = f"; the run was cut short by {outcome.cut_short}" if outcome.cut_short else ""
    return _verdict(outcome) + more


def _verdict(outcome: Outcome) -> str:
    wrong = [one for one in outcome.findings if not one.is_documented]
    ran = seconds(outcome.ended - outcome.began)
    if outcome.verdict == "invalid":
        first = min(wrong, key=lambda one: one.at)
        after = seconds(first.at - outcome.began)
        return f"{many(len(wrong), 'finding')}; the first after {after}: {first.kind}"
    if outcome.shows_nothing:
        return f"{outcome.shows_nothing} in {ran}, so nothing was shown"
    return f"nothing wrong in {ran}: {coverage(outcome)}, {many(outcome.grants, 'grant')}"


def coverage(outcome: Outcome) -> str:
    """Return how many of the kinds of fault that can be made here met somebody."""
    possible = outcome.possible
    if not possible:
        return "no fault struck"
    met = len(possible) - len(set(possible) & set(outcome.never_struck))
    kinds = many(len(possible), "kind")
    return f"{met} of {kinds} of fault possible on {outcome.setting.store} struck"


def facts(setting: Setting) -> list[tuple[str, str]]:
    """Return the settings of the run, each with its label."""
    return [
        ("store", setting.store),
        ("lock", setting.lock),
        ("workload", ", ".join(dict.fromkeys(setting.workloads)) or setting.workload),
        ("names", str(setting.names)),
        ("clients", f"{setting.clients} for each name"),
        ("ttl", seconds(setting.ttl)),
        ("time", seconds(setting.seconds)),
        ("seed", str(setting.seed)),
    ]


def counted(figures: RunFigures) -> list[tuple[str, str]]:
    """Return the figures that are shown for every run, and all other figures that are not 0."""
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
    """Return the table row of a kind of fault, with the columns of COSTS."""
    return (
        one.kind,
        str(one.strikes),
        f"{one.grants:,}",
        seconds(one.unavailable),
        "never" if one.recovered is None else seconds(one.recovered),
        "never" if one.recovered_last is None else seconds(one.recovered_last),
    )


def told(event: HistoryEvent, *, zero: float) -> tuple[str, ...]:
    """Return an event as a table row: the time, the client and what happened."""
    what = "asks" if event.phase == "invoked" else event.phase
    more = [f"token {event.token}"] if event.token is not None else []
    more += [event.reason] if event.reason else []
    said = f"{event.act} {what}" + (f" ({', '.join(more)})" if more else "")
    return f"{event.at - zero:.3f} s", f"client {event.client}", said


def unmet(outcome: Outcome) -> tuple[str, ...]:
    """Return the kinds of fault that can be made here, and that met nobody in this run."""
    return tuple(kind for kind in outcome.never_struck if kind not in outcome.not_made)


def numbered(outcome: Outcome) -> list[tuple[int, RunFinding]]:
    """Return the findings with their numbers; documented findings come last."""
    in_order = sorted(outcome.findings, key=lambda one: (one.is_documented, one.at))
    return list(enumerate(in_order, 1))


def message(finding: RunFinding, outcome: Outcome) -> str:
    """Return the finding's message, with times since the run began.

    The checker does not know when the run began, so it writes times on the clock that all clients
    share, as numbers with three decimals.
    """

    def since(number: re.Match[str]) -> str:
        at = float(number[0])
        is_time = outcome.began <= at <= outcome.ended
        return f"{at - outcome.began:.3f}" if is_time else number[0]

    return re.sub(r"\b\d+\.\d{3}\b", since, finding.message)


def too_short(outcome: Outcome) -> str:
    """Return a sentence on the kinds of fault that met nobody; empty if each of them did."""
    left = unmet(outcome)
    if not left:
        return ""
    kinds = many(len(outcome.possible), "kind")
    return f"{len(left)} of {kinds} met nobody; a longer --time gives them more turns: {some(left)}"


def some(kinds: Sequence[str]) -> str:
    """Return the kinds as a list in words; if there are many, only the first ones and a count."""
    shown = kinds if len(kinds) <= MOST_KINDS else kinds[: MOST_KINDS - 1]
    more = len(kinds) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "") if kinds else "none"


def again(setting: Setting, *, where: str = "", all_faults: bool = False) -> str:
    """Return the command that runs the same seed again.

    `where` is the URL, if the run had one. With `all_faults`, the command names no faults.
    """
    words = ["lockfast", "challenge"]
    same = ["--seed", str(setting.seed), "--time", f"{setting.seconds:g}"]
    if ":" in setting.lock:  # a class of the user's
        words += ["--lock", setting.lock]
    elif setting.lock != "lockfast":  # a broken lock has a schedule of its own
        return shlex.join([*words, "--lock", setting.lock, *same])
    words += [where] if where else ["--start", setting.store]
    words += [*same, "--names", str(setting.names), "--clients", str(setting.clients)]
    words += ["--ttl", f"{setting.ttl:g}"]
    if not setting.workloads:
        words += ["--workload", setting.workload]
    if setting.faults and not all_faults:
        words += ["--faults", ",".join(setting.faults)]
    return shlex.join(words)


def seconds(span: float) -> str:
    """Return a time span as text, with only the digits that matter."""
    if span < 1:
        return f"{span * 1000:.0f} ms"
    return f"{span:.1f} s" if span < 10 else f"{span:,.0f} s"  # noqa: PLR2004 - two digits


def many(count: int, what: str) -> str:
    """Return the count with its noun, in the plural where needed."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")


# The report for programs: the output of `--json`.


def fields(outcome: Outcome, *, command: str = "") -> dict[str, Any]:
    """Return everything except the history; times are seconds since the run began."""
    counted = figures(outcome)
    numbers = asdict(counted)
    del numbers["costs"]
    return {
        "verdict": outcome.verdict,
        "summary": headline(outcome),
        "cut_short": outcome.cut_short,
        "setting": asdict(outcome.setting),
        "figures": numbers,
        "faults": [asdict(one) for one in counted.by_kind],
        "coverage": {"possible": len(outcome.possible), "unmet": list(unmet(outcome))},
        "not_made": outcome.not_made,
        "findings": [_finding(one, outcome) for _, one in numbered(outcome)],
        "again": command or again(outcome.setting),
        "note": NOT_FIXED,
    }


def _finding(one: RunFinding, outcome: Outcome) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "at": _since(one.at, outcome),
        "message": message(one, outcome),
        "clients": list(one.clients),
        "documented": one.is_documented,
        "events": [_event(event, outcome) for event in one.example],
    }


def _event(event: HistoryEvent, outcome: Outcome) -> dict[str, Any]:
    times = {"at": _since(event.at, outcome)}
    if event.deadline is not None:
        times["deadline"] = _since(event.deadline, outcome)
    return asdict(event) | times


def _since(at: float, outcome: Outcome) -> float:
    return round(at - outcome.began, 6)
