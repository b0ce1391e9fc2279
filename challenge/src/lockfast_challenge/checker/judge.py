"""Judges a recorded run: makes every check, and returns all findings."""

from __future__ import annotations

import signal
from collections import defaultdict
from dataclasses import replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from lockfast_challenge.checker.exclusion import exclusion_findings
from lockfast_challenge.checker.progress import passed_over, stalls
from lockfast_challenge.history import NotAHistory, begun_since, operations
from lockfast_challenge.outcome import RunFinding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lockfast_challenge.history import HistoryOperation
    from lockfast_challenge.outcome import Exit, Recorded, Write


# Client processes that ended in a way that the run did not cause.


def crashes(recorded: Recorded) -> list[RunFinding]:
    """Return a finding for each process that failed, hung or ended without a request to end.

    Processes that were killed on purpose are left out.
    """
    return [
        RunFinding(
            "crash",
            one.at,
            f"client {one.client} {_exit_sentence(one)}",
            clients=(one.client,),
        )
        for one in recorded.exits
        if not one.was_killed and (one.returncode or not one.was_asked)
    ]


def _exit_sentence(one: Exit) -> str:
    if one.hung_for:
        return f"did not end in {one.hung_for:.0f} s after it was told to, and was killed"
    return f"ended with {_named(one.returncode)}, which nobody caused"


def _named(returncode: int) -> str:
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"


# Things that were not cleaned up: names still held, descriptors and threads not released.

LEAK_LEAST = 8
"""The least growth of a count from one quarter of a client's turns to the next that is a leak."""
LEAK_TURNS = 16
"""A leak adds at least one in this many turns."""


def left_behind(recorded: Recorded) -> list[RunFinding]:
    """Return findings for names that are held after all clients have ended, and for leaks."""
    at = max(
        [
            *(event.at for event in recorded.events),
            *(one.at for one in recorded.exits),
            *(strike.ended for strike in recorded.strikes),
        ],
        default=0.0,
    )
    return [
        *(
            RunFinding("left behind", at, f"still held at the end: {name}")
            for name in recorded.left
        ),
        *(finding for one in recorded.exits for finding in _process_leaks(one)),
    ]


def _process_leaks(one: Exit) -> Iterator[RunFinding]:
    for index, (what, counted) in enumerate(
        (("descriptors", one.descriptors), ("threads", one.threads))
    ):
        if counted is None:
            continue
        before, after = counted
        quarters = [(least[index], most[index]) for least, most in one.in_use]
        if _grows(quarters, turns=one.turns):
            figures = ", ".join(f"{least} to {most}" for least, most in quarters)
            yield _finding(one, f"{before} {what}, and then {figures} in the quarters of its turns")
        if after > before:
            yield _finding(one, f"{before} {what}, and {after} after it was closed")


def _grows(quarters: Sequence[tuple[int, int]], *, turns: int) -> bool:
    """Return whether a count goes on growing with use, as a leak in each operation makes it.

    `quarters` are its least and its largest value in each quarter of the turns. A client may open
    any number of connections and keep them, and may lose them in a fault and open them again. So
    the count must grow from each quarter to the next, and never come down again.
    """
    growth = max(LEAK_LEAST, turns / 4 / LEAK_TURNS)
    return bool(quarters) and all(
        least >= most_before and least - least_before >= growth
        for (least_before, most_before), (least, _) in pairwise(quarters)
    )


def _finding(one: Exit, figures: str) -> RunFinding:
    message = f"before its client was opened, {one.client} had {figures}"
    return RunFinding("left behind", one.at, message, clients=(one.client,))


# Writes behind the lock that overwrote a value that the writing client had not read.


def lost_updates(recorded: Recorded) -> list[RunFinding]:
    """Return the lost updates: undocumented faults if tokens are checked, documented otherwise.

    Without the token check even the best lock loses some updates, because a holder may be frozen
    between its last check of the lease and its write. With the token check, no lost update is
    excused.
    """
    return [
        RunFinding(
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


# The latest part of a run, which is judged while the run continues. It is cut so that nothing in it
# looks incomplete.


def recent(recorded: Recorded, *, since: float, longest: float) -> Recorded:
    """Return the part from `since` on, with operations that began up to `longest` seconds earlier.

    Such operations may have lasted until `since`. Quiet stretches are cut off at `since`, because a
    hold whose beginning is left out would look like a stretch in which nobody was inside.
    """
    return replace(
        recorded,
        events=begun_since(recorded.events, since - longest),
        writes=[one for one in recorded.writes if one.at >= since],
        quiets=[(max(start, since), end) for start, end in recorded.quiets if end > since],
    )


# Leases that ended while they were held and no fault struck.
#
# A holder that learns of its loss in time does no harm. But if a client loses every lease after a
# ttl, nothing renews its leases: its background work died, or never gets to run. A single lease may
# be lost at any time, because the machine may have paused for a moment.

LOST_IN_A_ROW = 3
"""Number of leases that a client must lose in a row for a finding."""


def not_renewed(recorded: Recorded, done: Sequence[HistoryOperation]) -> Iterator[RunFinding]:
    """Yield a finding for each client that lost several leases in a row for lack of renewal."""
    if not recorded.is_renewed:
        return
    for client, holds in _by_client(done).items():
        ends = [end for hold in holds if (end := _end_of(hold, recorded)) is not None]
        for was_lost, row in groupby(ends, key=lambda end: end[0]):
            times = [at for _, at in row]
            if was_lost and len(times) >= LOST_IN_A_ROW:
                yield RunFinding(
                    "stall",
                    times[0],
                    f"client {client} lost {len(times)} leases in a row from {times[0]:.3f} on, "
                    "though nothing struck: nothing renews them",
                    clients=(client,),
                )


def _by_client(done: Iterable[HistoryOperation]) -> dict[str, list[list[HistoryOperation]]]:
    """Return the operations of each granted hold, by client and in order."""
    found: defaultdict[str, dict[int, list[HistoryOperation]]] = defaultdict(dict)
    for one in done:
        if one.act == "acquire" and one.is_ok:
            found[one.client][one.hold] = [one]
        elif one.hold in found[one.client]:
            found[one.client][one.hold].append(one)
    return {client: list(holds.values()) for client, holds in found.items()}


def _end_of(hold: Sequence[HistoryOperation], recorded: Recorded) -> tuple[bool, float] | None:
    """Return whether the hold was lost, and when; None if the hold proves nothing about renewal.

    A hold proves something only if no fault struck while it lasted. A hold that was not lost must
    also have outlived the ttl of its grant.
    """
    granted = hold[0].answered
    checks = [one for one in hold if one.act == "check" and one.answered is not None]
    if granted is None or not checks:
        return None
    last = checks[-1]
    if not any(start <= hold[0].invoked and last.invoked <= end for start, end in recorded.quiets):
        return None
    if not last.is_ok:
        return True, last.invoked
    return (False, last.invoked) if last.invoked > granted + recorded.ttl else None


# Holders that were warned too late: a lease must not count as valid after its own deadline.
#
# The lease itself states the deadline. If a check that is requested after the deadline still
# succeeds, a holder that was frozen, or whose renewals failed, may act at the same time as the next
# holder.


def warned_late(recorded: Recorded, done: Iterable[HistoryOperation]) -> list[RunFinding]:
    """Return findings for checks that succeeded though requested after the lease's own deadline."""
    found = []
    for one in done:
        if one.act != "check" or not one.is_ok or one.deadline is None:
            continue
        if one.invoked > one.deadline:
            late = one.invoked - one.deadline
            found.append(
                RunFinding(
                    "told late",
                    one.invoked,
                    f"{one.name}: client {one.client} was told at {one.invoked:.3f} that it may "
                    f"act, {late:.3f} s after the deadline of its own lease",
                    clients=(one.client,),
                    example=tuple(
                        event
                        for event in recorded.events
                        if (event.client, event.number) == (one.client, one.number)
                    ),
                )
            )
    return found


# From the recording to its findings.


def judge(recorded: Recorded) -> list[RunFinding]:
    """Return all findings in order of time, including those that the store's page documents.

    A run in which nothing happened has no findings, since this function does not check that the
    lock was used.
    """
    return sorted(
        [
            *_history_findings(recorded),
            *lost_updates(recorded),
            *left_behind(recorded),
            *crashes(recorded),
        ],
        key=lambda finding: finding.at,
    )


def _history_findings(recorded: Recorded) -> list[RunFinding]:
    try:
        done = operations(recorded.events)
    except NotAHistory as error:
        # A client or its diary is at fault, so no conclusion from this history would be valid.
        at = recorded.events[0].at if recorded.events else 0.0
        return [RunFinding("not a history", at, f"{error}; nothing else of it was judged")]
    return [
        *exclusion_findings(recorded, done),
        *warned_late(recorded, done),
        *stalls(recorded, done),
        *passed_over(recorded, done),
        *not_renewed(recorded, done),
    ]
